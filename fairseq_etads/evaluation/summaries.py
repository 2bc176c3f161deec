"""Summaries as lines of text: reading, sentences, limits in bytes, and what looks wrong about them."""

import re
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

from nltk.tokenize.punkt import PunktSentenceTokenizer

from ..text import files
from ..text.words import SENTENCE_MARK

PUNKT = PunktSentenceTokenizer()  # untrained: its rules only
_LEFTOVERS = {
    'BPE marks ("@@")': re.compile(r"@@( |$)"),
    'SentencePiece marks ("▁")': re.compile("▁"),
    "special symbols": re.compile(r"<(pad|s|/s|unk|<unk>|bos|eos|PAD|UNK|S|BOS|EOS|SOS|sos)>"),
}
_REFERENCE_NAME = re.compile(r"(^|[^a-z])(ref|refs|reference|references|gold|target|tgt)([^a-z]|\d|$)", re.I)
_SYSTEM_NAME = re.compile(
    r"(^|[^a-z])(hyp|hyps|hypothes[ie]s|out|output|pred|preds|predictions?|generated)([^a-z]|\d|$)"
)
_OWN_NAME = re.compile(r"summar|system|model|output", re.I)


def read_lines(path: str) -> List[str]:
    """Lines of a UTF-8 file without their ends; only a line feed, with or without a carriage return, ends one.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8; names the line.
    """
    return list(files.read_lines(Path(path)))


def check_counts(names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raise ValueError unless all ``texts``, of which ``names`` tells, are equally long and not empty."""
    for name, lines in zip(names, texts):
        if not lines:
            raise ValueError(f"{name}: empty, nothing to score")
        if len(lines) != len(texts[0]):
            raise ValueError(f"counts differ: {names[0]} has {len(texts[0])} summaries, {name} has {len(lines)}")


def split_summary(text: str, sentence_mark: str = SENTENCE_MARK, split_sentences: bool = True) -> List[str]:
    """Sentences of one summary by the package's rules, without marks, blank sentences or extra white space.

    With an empty ``sentence_mark`` only Punkt cuts. Without ``split_sentences`` the text is one sentence.
    """
    if not split_sentences:
        parts = [text.replace(sentence_mark, " ") if sentence_mark else text]
    elif sentence_mark and sentence_mark in text:
        parts = text.split(sentence_mark)
    else:
        parts = PUNKT.tokenize(text)
    # a line break inside a sentence must not reach rouge-score, which cuts there
    return [" ".join(part.split()) for part in parts if part.strip()]


def truncate_sentences(sentences: Sequence[str], limit: Optional[int]) -> List[str]:
    """Sentences until together they have ``limit`` bytes of UTF-8, the last one cut; None keeps them all.

    As ``ROUGE-1.5.5.pl -b`` does it for ROUGE-N: the spaces between sentences are not counted. A character that the
    limit cuts in two is dropped, and is no word to ROUGE anyway.
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


def find_leftovers(name: str, lines: Sequence[str]) -> Iterator[str]:
    """A sentence for each kind of symbol that ``lines`` should not hold any more when they are scored."""
    for what, pattern in _LEFTOVERS.items():
        found = [number for number, line in enumerate(lines, 1) if pattern.search(line)]
        if found:
            yield f"{name}: {len(found):,} of {len(lines):,} lines hold {what}, the first is line {found[0]}"


def find_swap(hypothesis: str, references: Sequence[str], texts: Sequence[Sequence[str]]) -> Iterator[str]:
    """A sentence if hypotheses and references look swapped, by the names of their files or by what only systems write.

    Args:
        hypothesis, references: names of files. texts: their lines, the hypotheses first.
    """
    names = [Path(name).name for name in (hypothesis, *references)]
    by_name = _REFERENCE_NAME.search(names[0]) and not (_SYSTEM_NAME.search(names[0]) or _OWN_NAME.search(names[0]))
    by_name = by_name or any(_SYSTEM_NAME.search(name) and not _REFERENCE_NAME.search(name) for name in names[1:])
    own, *others = (any(True for _ in find_leftovers("", lines)) for lines in texts)
    if by_name:
        yield f"by their names {hypothesis} and {', '.join(references)} may be swapped: the system's output comes first"
    elif any(others) and not own:
        yield "only the references hold symbols that systems leave behind: the system's output must come first"
