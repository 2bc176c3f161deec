"""What the words of a dictionary are: words, characters, or which kind of subwords."""

import os
from argparse import Namespace
from typing import Any, Optional

from fairseq import utils
from fairseq.data import Dictionary, encoders

from ..text.words import Characters
from .dictionary import known_words

GPT2_FILES = ("encoder.json", "vocab.bpe")
"""What etads-prepare puts beside DATA for GPT-2's pieces."""
SUBWORD_SHARE = 0.02
"""A dictionary is taken for one of subwords if a larger share of its known words carries subword marks."""
WIDE_SHARE = 0.2
"""A dictionary is taken for one of characters if a larger share of its known words has characters like Chinese ones."""
GPT2_SHARE = 0.9
"""A dictionary is taken for one of GPT-2's pieces if a larger share of its known words are numbers."""


def detect_subwords(dictionary: Dictionary) -> str:
    """Which subwords a dictionary has: "subword_nmt" or "sentencepiece" by their marks, "gpt2" (numbers), or "none"."""
    words = dictionary.symbols[dictionary.nspecial : known_words(dictionary)]
    if sum(word.isdigit() for word in words) > GPT2_SHARE * len(words):
        return "gpt2"
    for name, marked in (
        ("subword_nmt", sum(word.endswith("@@") for word in words)),
        ("sentencepiece", sum(word.startswith("▁") for word in words)),
    ):
        if marked > SUBWORD_SHARE * len(words):
            return name
    return "none"


def detect_words(dictionary: Dictionary, subwords: str) -> str:
    """Of which kind a dictionary's words are: a value of ``text_words`` of the tokenizer ``etads``.

    Args:
        subwords: what :func:`detect_subwords` found.
    """
    if subwords in ("sentencepiece", "gpt2"):
        return "raw"
    words = dictionary.symbols[dictionary.nspecial : known_words(dictionary)]
    if sum(bool(Characters.wide.search(word)) for word in words) > WIDE_SHARE * len(words):
        return "characters"
    return "ptb" if {"n't", "-lrb-", "-LRB-", "``"}.intersection(words) else "moses"


def gpt2_pieces(data: Optional[str]) -> Optional[Any]:
    """fairseq's ``--bpe gpt2`` with the files beside the data directory DATA; None if they are not there."""
    folder = os.path.dirname(os.path.abspath(utils.split_paths(data)[0])) if data else ""
    encoder, merges = (os.path.join(folder, name) for name in GPT2_FILES)
    if not (os.path.isfile(encoder) and os.path.isfile(merges)):
        return None
    return encoders.build_bpe(Namespace(bpe="gpt2", gpt2_encoder_json=encoder, gpt2_vocab_bpe=merges))
