"""Read summaries, split them into sentences, truncate them to a number of bytes, and detect common mistakes."""

import functools
import re
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence

from ..fairseq_fixes.deferred_imports import STATISTICS, defer_imports
from ..text import files
from ..text.words import SENTENCE_MARK, split_sentences_in_blocks

_LEFTOVERS = {
    'BPE marks ("@@")': re.compile(r"@@( |$)"),
    'SentencePiece marks ("▁")': re.compile("▁"),
    "special symbols": re.compile(r"<(pad|s|/s|unk|<unk>|bos|eos|PAD|UNK|S|BOS|EOS|SOS|sos)>"),
}
_REFERENCE_NAME = re.compile(r"(^|[^a-z])(ref|refs|reference|references|gold|target|tgt)([^a-z]|\d|$)", re.I)
_SYSTEM_NAME = re.compile(
    r"(^|[^a-z])(hyp|hyps|hypothes[ie]s|out|output|pred|preds|predictions?|generated)([^a-z]|\d|$)"
)
# These words are weaker hints, because a reference file may also have a name such as "test.target-summaries.txt".
_PERHAPS_SYSTEM_NAME = re.compile(r"summar|system|model|output", re.I)


def read_lines(path: str) -> List[str]:
    """Read a plain or compressed UTF-8 file. Returns its lines without line endings.

    Args:
        path: path of the file, or ``-`` for standard input, which can be read only once.

    Raises:
        ValueError: the file cannot be read, or a line is not valid UTF-8. The message contains the line number.
    """
    return list(files.read_lines(Path(path)))


def check_line_counts(names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raise ValueError unless all ``texts`` contain the same number of lines and at least one line.

    Args:
        names: name of each text, for the error message.
    """
    for name, lines in zip(names, texts):
        if not lines:
            raise ValueError(f"{name}: empty, so there is nothing to score")
        if len(lines) != len(texts[0]):
            raise ValueError(f"counts differ: {names[0]} has {len(texts[0])} summaries, {name} has {len(lines)}")


@functools.cache
def _make_untrained_punkt() -> Any:
    """Return a Punkt sentence splitter that does not use a trained model."""
    # nltk is imported here because the import takes a quarter of a second.
    with defer_imports(*STATISTICS):
        from nltk.tokenize.punkt import PunktSentenceTokenizer

    return PunktSentenceTokenizer()


def split_summary_into_sentences(
    text: str, sentence_mark: str = SENTENCE_MARK, split_sentences: bool = True
) -> List[str]:
    """Split a summary into sentences, and remove sentence marks, blank sentences and extra white space.

    If the summary contains ``sentence_mark``, it is split only at the marks. Otherwise, it is split with the rules of
    Punkt (see :mod:`.rouge`).

    Args:
        sentence_mark: mark between two sentences, or an empty string if there is none.
        split_sentences: whether to split the summary. If False, the whole summary is treated as one sentence.
    """
    if not split_sentences:
        parts = [text.replace(sentence_mark, " ") if sentence_mark else text]
    elif sentence_mark and sentence_mark in text:
        parts = text.split(sentence_mark)
    else:
        parts = list(split_sentences_in_blocks(_make_untrained_punkt(), text))
    # rouge-score would treat a line break as the end of a sentence.
    return [" ".join(part.split()) for part in parts if part.strip()]


def truncate_sentences(sentences: Sequence[str], limit: Optional[int]) -> List[str]:
    """Truncate a summary to ``limit`` bytes in UTF-8. The summary is not truncated if ``limit`` is None.

    As with ``ROUGE-1.5.5.pl -b`` for ROUGE-N, spaces between sentences are not counted. If the limit falls inside a
    character, the whole character is removed. This does not affect ROUGE, which would not treat the remaining bytes as
    part of a word.
    """
    if limit is None:
        return list(sentences)
    kept = []
    for sentence in sentences:
        data = sentence.encode("utf-8", "surrogatepass")
        kept.append(data[:limit].decode("utf-8", "ignore"))
        limit -= len(data)
        if limit <= 0:
            break
    return kept


def find_leftover_marks_and_symbols(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield warnings about subword marks and special symbols that should be removed from ``lines`` before scoring.

    Args:
        name: name of the text for the warning, such as the name of its file.
    """
    for what, pattern in _LEFTOVERS.items():
        found = [number for number, line in enumerate(lines, 1) if pattern.search(line)]
        if found:
            yield f"{name}: {len(found):,} of {len(lines):,} lines contain {what}, the first is line {found[0]}"


def find_swapped_hypotheses_and_references(
    hypothesis: str, references: Sequence[str], texts: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield a warning if hypotheses and references seem to be swapped.

    The hints are the file names, and symbols that occur only in the output of systems.

    Args:
        hypothesis, references: names of the hypothesis file and the reference files.
        texts: lines of these files, in which the hypotheses come first.
    """
    names = [Path(name).name for name in (hypothesis, *references)]
    like_system = _SYSTEM_NAME.search(names[0]) or _PERHAPS_SYSTEM_NAME.search(names[0])
    by_name = _REFERENCE_NAME.search(names[0]) and not like_system
    by_name = by_name or any(_SYSTEM_NAME.search(name) and not _REFERENCE_NAME.search(name) for name in names[1:])
    ours, *others = (any(True for _ in find_leftover_marks_and_symbols("", lines)) for lines in texts)
    if by_name:
        yield (
            f"judging by their names, {hypothesis} and {', '.join(references)} may be swapped: the system's output "
            "comes first"
        )
    elif any(others) and not ours:
        yield "only the references contain symbols that systems leave behind: the system's output must come first"
