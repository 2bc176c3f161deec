"""Load pretrained word vectors from files."""

import logging
from typing import Optional

import torch
from fairseq.data import Dictionary
from torch import nn

logger = logging.getLogger(__name__)


def load_word_vectors(path: Optional[str], dictionary: Dictionary, table: nn.Embedding, option: str) -> None:
    """Copy the word vectors in a file to an embedding table. Rows of other words remain unchanged.

    Args:
        path: the path of a file in word2vec's text format, or None to copy nothing. The file may begin with a line
            "COUNT WIDTH". Each other line contains a word and its vector. If a word occurs more than once, its last
            vector is used.
        dictionary: the dictionary that maps words to rows of the table.
        table: the embedding table.
        option: the option that specified the path, for messages.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file has a different format, its vectors do not have the width of the table, or it contains no
            word of the dictionary.
    """
    if path is None:
        return
    width = table.embedding_dim
    found = set()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                word, *values = line.rstrip("\r\n ").split(" ")
                if number == 1 and len(values) == 1:
                    continue  # this line is the header, and a wrong width is detected in the next line
                if len(values) != width:
                    raise ValueError(f"{option} {path}: line {number} has {len(values)} numbers instead of {width}")
                place = dictionary.indices.get(word)
                if place is None or place == dictionary.pad():
                    continue
                vector = torch.tensor([float(value) for value in values])
                if not torch.isfinite(vector).all():
                    raise ValueError(f"{option} {path}: line {number} contains a number that is not finite")
                table.weight.data[place] = vector
                found.add(place)
    except FileNotFoundError:
        raise FileNotFoundError(f'{option} "{path}": no such file') from None
    except ValueError as error:
        if option in str(error):
            raise
        raise ValueError(f"{option} {path}: line {number} is not a word and its numbers ({error})") from None
    if not found:
        raise ValueError(f"{option} {path}: contains none of the {len(dictionary):,} words of the dictionary")
    logger.info(f"{option}: vectors for {len(found):,} of {len(dictionary):,} words")
