"""A dictionary with a copy tail: the words that the model learns, then every other word that a document has."""

from pathlib import Path
from typing import List

import fairseq_etads.plugin  # noqa: F401  # first: it keeps fairseq quiet

from fairseq.data import Dictionary  # isort: skip
from fairseq.tokenizer import tokenize_line  # isort: skip

from fairseq_etads.text.files import InputError, read_lines
from fairseq_etads.vocabulary.dictionary import is_padding_word

from .files import atomic_writer


def count_words(files: List[Path], jobs: int) -> Dictionary:
    """All words of the files with their counts, by fairseq's counter.

    Raises:
        InputError: a file is missing or not UTF-8.
    """
    counts = Dictionary()
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        for _ in read_lines(path):  # fairseq would say of bad UTF-8 neither where it is nor that it is there
            pass
        Dictionary.add_file_to_dictionary(str(path), counts, tokenize_line, jobs)
    return counts


def build_dictionary(train: List[Path], documents: List[Path], size: int, jobs: int, tail: bool = True) -> Dictionary:
    """The dictionary: known words by frequency, padded to a multiple of 8 entries, then the tail in alphabetical order.

    Args:
        train: files whose words are learnt. documents: files whose words can be copied besides.
        size: how many words are learnt, -1 for all; the special symbols are not counted.
        jobs: processes. tail: words that are not learnt stand behind the others.
    """
    dictionary = count_words(train, jobs)
    seen = {*dictionary.symbols, *count_words(documents, jobs).symbols}
    dictionary.finalize(nwords=size + dictionary.nspecial if size > 0 else -1)
    for word in sorted(seen.difference(dictionary.symbols)) if tail else ():
        if not is_padding_word(word):  # it would count as a known word
            dictionary.add_symbol(word, n=0)
    return dictionary


def write_dictionary(dictionary: Dictionary, path: Path) -> None:
    """Write it as fairseq does, appearing under its name only when it is complete."""
    with atomic_writer(path) as file:
        dictionary.save(file)
