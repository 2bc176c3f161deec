"""Read summaries, split them into sentences, and truncate them to a number of bytes."""

import functools
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

from ..platform.deferred_imports import defer_statistics
from ..text.input_records import read_texts
from ..text.records import TARGET
from ..text.words import SENTENCE_MARK, replace_sentence_marks, split_sentences_in_blocks

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
