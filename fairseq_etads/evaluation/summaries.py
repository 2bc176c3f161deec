"""Read summaries, split them into sentences, truncate them to a number of bytes, and warn about what looks wrong.

Warnings concern marks of other tools, uncounted letters, glued sentences, and swapped files.
"""

import functools
import re
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence, Union

from ..platform.optional_parts import defer_statistics
from ..text import documents
from ..text.records import TARGET, read_texts
from ..text.words import SENTENCE_MARK, has_uncounted_letters, replace_sentence_marks, split_sentences_in_blocks

SentenceMark = Union[str, Sequence[str]]
"""A mark between two sentences, or several marks. :data:`SENTENCE_MARK` is also one, unless this is an empty string."""


def read_lines(path: str, column: str = "", side: int = TARGET) -> List[str]:
    """Read the summaries (or, with ``side`` SOURCE, the documents) in a plain or compressed UTF-8 file.

    Args:
        path: file with one text per line, or table, or folder or pattern of files with one text each, in the order of
            their names, or ``-`` for standard input, which can be read only once.
        column: name of the column of a table, or an empty string to find it.

    Returns:
        The lines without line endings, or the values of the column or the files, in which lines and listed sentences
        are separated by :data:`SENTENCE_MARK`.

    Raises:
        ValueError: the file cannot be read, or a line is not valid UTF-8. The message contains the line number.
    """
    return [text.replace("\n", f" {SENTENCE_MARK} ") for text in read_texts(Path(path), side, column)]


def check_line_counts(names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raise ValueError, with the names of texts, unless all have the same number of lines, and at least one."""
    for name, lines in zip(names, texts):
        if not lines:
            raise ValueError(f"{name}: empty, so there is nothing to score")
        if len(lines) != len(texts[0]):
            raise ValueError(
                f"counts differ: {names[0]} has {len(texts[0])} summaries, {name} has {len(lines)} "
                "(etads-summarize --lines summarises every line)"
            )


@functools.cache
def _make_untrained_punkt() -> Any:
    """Return a Punkt sentence splitter that does not use a trained model."""
    # nltk is imported here because the import takes a quarter of a second.
    with defer_statistics():
        from nltk.tokenize.punkt import PunktSentenceTokenizer

    return PunktSentenceTokenizer()


def unify_sentence_marks(text: str, sentence_mark: SentenceMark) -> str:
    """Replace each mark with :data:`SENTENCE_MARK`. An empty mark replaces nothing."""
    return replace_sentence_marks(text, [sentence_mark] if isinstance(sentence_mark, str) else sentence_mark)


def split_summary_into_sentences(
    text: str, sentence_mark: SentenceMark = SENTENCE_MARK, split_sentences: bool = True
) -> List[str]:
    """Split a summary into sentences, and remove sentence marks, blank sentences and extra white space.

    If the summary contains a sentence mark, one or several, it is split only at the marks. Otherwise, it is split with
    the rules of Punkt (see :mod:`.rouge`). Without ``split_sentences``, the whole summary is one sentence.
    """
    text = unify_sentence_marks(text, sentence_mark)
    if not split_sentences:
        parts = [text.replace(SENTENCE_MARK, " ") if sentence_mark else text]
    elif sentence_mark and SENTENCE_MARK in text:
        parts = text.split(SENTENCE_MARK)
    else:
        parts = list(split_sentences_in_blocks(_make_untrained_punkt(), text))
    # rouge-score would treat a line break as the end of a sentence.
    return [" ".join(part.split()) for part in parts if part.strip()]


def truncate_sentences(sentences: Sequence[str], limit: Optional[int]) -> List[str]:
    """Truncate a summary to ``limit`` bytes in UTF-8, or not at all if ``limit`` is None.

    As with ``ROUGE-1.5.5.pl -b`` for ROUGE-N, spaces between sentences are not counted. A character on the limit is
    removed, which does not affect ROUGE: the remaining bytes would not be part of a word.
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


_GLUED = re.compile(r"(?<=\s)[.!?](?=[^\W\d_])|(?<=[^\W\d_A-Z])[.!?](?=[A-Z])")
"""End of a sentence without a space before the next one, as in "word .Next" or "word.Next"."""
_REFERENCE_NAME = re.compile(r"(^|[^a-z])(ref|refs|reference|references|gold|target|tgt)([^a-z]|\d|$)", re.I)
_SYSTEM_NAME = re.compile(
    r"(^|[^a-z])(hyp|hyps|hypothes[ie]s|out|output|pred|preds|predictions?|generated)([^a-z]|\d|$)"
)
# These words are weaker hints, because a reference file may also have a name such as "test.target-summaries.txt".
_PERHAPS_SYSTEM_NAME = re.compile(r"summar|system|model|output", re.I)


def find_text_warnings(
    name: str, lines: Sequence[str], sentence_mark: SentenceMark = SENTENCE_MARK, tokens: str = "words"
) -> Iterator[str]:
    """Yield warnings about marks, HTML, glued sentences and letters in ``lines`` that a score would treat wrongly.

    Args:
        name: name of the text for the warning, such as the name of its file.
        sentence_mark: mark or marks between two sentences, which are not reported.
        tokens: kind of words that ROUGE counts, a key of :data:`~fairseq_etads.text.words.TOKENS`.
    """
    texts = [unify_sentence_marks(line, sentence_mark) for line in lines]
    counts = [documents.count_suspicious_content(text) for text in texts]
    for kind in (*documents.ADVICE, documents.HTML_TAGS, documents.HTML_ENTITIES):
        found = [number for number, marks in enumerate(counts, 1) if marks[kind]]
        advice = "; --sentence-mark MARK splits the text there" if kind == documents.SENTENCE_MARKS else ""
        if found:
            where = f"{len(found):,} of {len(lines):,} lines contain {kind}, the first is line {found[0]}"
            yield f"{name}: {where}{advice}"
    uncounted = sum(has_uncounted_letters(text, tokens) for text in texts)
    if uncounted:
        yield (
            f"{name}: {uncounted:,} of {len(lines):,} lines have letters that ROUGE does not count; --tokens words "
            "counts them"
        )
    glued = sum(bool(_GLUED.search(text)) for text in texts)
    if 2 * glued > len(lines):
        yield (
            f"{name}: in {glued:,} of {len(lines):,} lines, no space follows the end of a sentence, as in "
            '"word .Next"; ROUGE-L treats such sentences as one'
        )


def find_swapped_hypotheses_and_references(
    hypothesis: str, references: Sequence[str], texts: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield a warning if hypotheses and references, given by their files and lines, seem to be swapped.

    The hints are the file names, and symbols that occur only in the output of systems.
    """
    names = [Path(name).name for name in (hypothesis, *references)]
    like_system = _SYSTEM_NAME.search(names[0]) or _PERHAPS_SYSTEM_NAME.search(names[0])
    by_name = _REFERENCE_NAME.search(names[0]) and not like_system
    by_name = by_name or any(_SYSTEM_NAME.search(name) and not _REFERENCE_NAME.search(name) for name in names[1:])
    counts = [[documents.count_marks(line) for line in lines] for lines in texts]
    pieces = documents.SUBWORD_MARKS, documents.SPECIAL_SYMBOLS
    ours, *others = (any(marks[kind] for marks in lines for kind in pieces) for lines in counts)
    if by_name:
        yield (
            f"judging by their names, {hypothesis} and {', '.join(references)} may be swapped: the system's output "
            "comes first"
        )
    elif any(map(_REFERENCE_NAME.search, names[1:])) and not all(map(_REFERENCE_NAME.search, names[1:])):
        unlike = [path for path, name in zip(references, names[1:]) if not _REFERENCE_NAME.search(name)]
        yield (
            f"judging by their names, {', '.join(unlike)} may not be references, but count as such: etads-rouge REF "
            "--system NAME=FILE compares several systems"
        )
    elif any(others) and not ours:
        yield "only the references contain symbols that systems leave behind: the system's output must come first"
