"""Builds a dictionary with a copy tail: the words that the model learns, then every other word of the documents."""

from pathlib import Path
from typing import List

import fairseq_etads.plugin  # noqa: F401  # first: it keeps fairseq quiet

from fairseq.data import Dictionary  # isort: skip
from fairseq.tokenizer import tokenize_line  # isort: skip

from fairseq_etads.text.files import InputError, read_lines
from fairseq_etads.vocabulary.dictionary import is_padding_word

from .files import atomic_writer


def count_words(files: List[Path], jobs: int) -> Dictionary:
    """All words of the files with their counts, as fairseq counts them.

    Raises:
        InputError: a file is missing or not UTF-8.
    """
    counts = Dictionary()
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        for _ in read_lines(path):  # finds bad UTF-8, of which fairseq's own message would not name the place
            pass
        Dictionary.add_file_to_dictionary(str(path), counts, tokenize_line, jobs)
    return counts


def build_dictionary(train: List[Path], documents: List[Path], size: int, jobs: int, tail: bool = True) -> Dictionary:
    """Known words by frequency, padded to a multiple of 8 entries, then the copy tail in alphabetical order.

    Args:
        train: files whose most frequent words the model learns.
        documents: further files whose words can be copied.
        size: how many words are learnt, besides the special symbols; -1 for all.
        jobs: number of processes.
        tail: False leaves the copy tail out.

    Raises:
        InputError: a file is missing or not UTF-8.
    """
    dictionary = count_words(train, jobs)
    seen = {*dictionary.symbols, *count_words(documents, jobs).symbols}
    dictionary.finalize(nwords=size + dictionary.nspecial if size > 0 else -1)
    for word in sorted(seen.difference(dictionary.symbols)) if tail else ():
        if not is_padding_word(word):  # such a word would count as known
            dictionary.add_symbol(word, n=0)
    return dictionary


def write_dictionary(dictionary: Dictionary, path: Path) -> None:
    """Write the dictionary in fairseq's format; the file appears only when it is complete."""
    with atomic_writer(path) as file:
        dictionary.save(file)
