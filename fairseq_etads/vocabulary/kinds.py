"""Detect the kind of a dictionary's words: words, characters, or a kind of subwords."""

import os
from argparse import Namespace
from typing import Any, Optional

from fairseq import utils
from fairseq.data import Dictionary, encoders

from ..text.words import Characters
from .dictionary import known_words

GPT2_FILES = ("encoder.json", "vocab.bpe")
"""Files of GPT-2's pieces that etads-prepare stores next to the data folder."""
SUBWORD_SHARE = 0.02
"""Share of known words with subword marks above which a dictionary is assumed to contain subwords."""
WIDE_SHARE = 0.2
"""Share of known words with characters such as Chinese above which a dictionary is assumed to contain characters."""
GPT2_SHARE = 0.9
"""Share of known words that are numbers above which a dictionary is assumed to contain GPT-2's pieces."""


def detect_subwords(dictionary: Dictionary) -> str:
    """Detect the kind of subwords: "subword_nmt" or "sentencepiece" from marks, "gpt2" from numbers, or "none"."""
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
    """Detect the kind of a dictionary's words, as a value of the option ``text_words`` of the tokeniser ``etads``.

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
    """Create fairseq's ``--bpe gpt2`` from the files next to the data folder; None if they are missing."""
    folder = os.path.dirname(os.path.abspath(utils.split_paths(data)[0])) if data else ""
    encoder, merges = (os.path.join(folder, name) for name in GPT2_FILES)
    if not (os.path.isfile(encoder) and os.path.isfile(merges)):
        return None
    return encoders.build_bpe(Namespace(bpe="gpt2", gpt2_encoder_json=encoder, gpt2_vocab_bpe=merges))
