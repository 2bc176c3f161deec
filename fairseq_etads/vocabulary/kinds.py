"""Detect whether a dictionary contains words, characters or subwords, and which kind of subwords."""

import os
from argparse import Namespace
from typing import Any, Optional

from fairseq import utils
from fairseq.data import Dictionary, encoders

from ..text.words import Characters
from .dictionary import known_words

GPT2_FILES = ("encoder.json", "vocab.bpe")
"""Files with GPT-2's subwords, which etads-prepare stores next to the data folder."""
SUBWORD_SHARE = 0.02
"""Share of known words with subword marks above which a dictionary is assumed to contain subwords."""
WIDE_SHARE = 0.2
"""Share of known words with wide characters (such as Chinese) above which a dictionary is assumed to be of characters.
"""
GPT2_SHARE = 0.9
"""Share of numbers among the known words above which a dictionary is assumed to contain GPT-2's subwords."""


def detect_subwords(dictionary: Dictionary) -> str:
    """Detect the kind of subwords in a dictionary.

    Returns "subword_nmt" or "sentencepiece" if there are subword marks, "gpt2" if the words are numbers, and otherwise
    "none".
    """
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
    """Detect the kind of words in a dictionary.

    Returns a value for the option ``text_words`` of the tokeniser ``etads``.

    Args:
        subwords: the result of :func:`detect_subwords`.
    """
    if subwords in ("sentencepiece", "gpt2"):
        return "raw"
    words = dictionary.symbols[dictionary.nspecial : known_words(dictionary)]
    if sum(bool(Characters.wide.search(word)) for word in words) > WIDE_SHARE * len(words):
        return "characters"
    return "ptb" if {"n't", "-lrb-", "-LRB-", "``"}.intersection(words) else "moses"


def gpt2_pieces(data: Optional[str]) -> Optional[Any]:
    """Create fairseq's encoder for ``--bpe gpt2`` from the files next to the data folder.

    Returns None if the files are missing.
    """
    folder = os.path.dirname(os.path.abspath(utils.split_paths(data)[0])) if data else ""
    encoder, merges = (os.path.join(folder, name) for name in GPT2_FILES)
    if not (os.path.isfile(encoder) and os.path.isfile(merges)):
        return None
    return encoders.build_bpe(Namespace(bpe="gpt2", gpt2_encoder_json=encoder, gpt2_vocab_bpe=merges))
