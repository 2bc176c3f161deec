"""Warnings about files of summaries: marks, uncounted letters, glued sentences, and swapped files."""

import re
from pathlib import Path
from typing import Iterator, Sequence

from ..text import documents
from ..text.counted_words import has_uncounted_letters
from .summaries import SENTENCE_MARK, SentenceMark, unify_sentence_marks

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
        tokens: kind of words that ROUGE counts, a key of :data:`~fairseq_etads.text.counted_words.TOKENS`.
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
