"""Detect whether a dictionary contains words, characters or subwords, and the type of words or subwords."""

import os
from argparse import Namespace
from typing import Any, Dict, Optional

from fairseq import utils
from fairseq.data import Dictionary, encoders

from ..text.subwords import OPAQUE, SUBWORDS
from ..text.words import CharacterTokenizer
from .dictionary import count_known_words

SUBWORD_SHARE = 0.02
"""Minimum proportion of known words with subword marks for which a dictionary is assumed to contain subwords."""
WIDE_SHARE = 0.2
"""Minimum proportion of words with wide characters, such as Chinese, for which words are assumed to be characters."""
GPT2_SHARE = 0.9
"""Minimum proportion of numbers among the known words for which a dictionary is assumed to contain GPT-2 subwords."""


def detect_subword_type(dictionary: Dictionary, data: Optional[str] = None) -> str:
    """Detect the type of subwords in a dictionary of the data folder ``data``, if there is one.

    Returns "huggingface" if a tokenizer.json exists next to the (first) data folder, "subword_nmt" or "sentencepiece"
    if the words have subword marks, "gpt2" if the words are numbers, and otherwise "none".
    """
    if _find_subword_files(data, "huggingface"):
        return "huggingface"
    words = dictionary.symbols[dictionary.nspecial : count_known_words(dictionary)]
    if sum(word.isdigit() for word in words) > GPT2_SHARE * len(words):
        return "gpt2"
    for name, marked in (
        ("subword_nmt", sum(word.endswith("@@") for word in words)),
        ("sentencepiece", sum(word.startswith("▁") for word in words)),
    ):
        if marked > SUBWORD_SHARE * len(words):
            return name
    return "none"


def detect_word_type(dictionary: Dictionary, subwords: str) -> str:
    """Detect the type of words (``--text-words``) in a dictionary, given its type of subwords."""
    if subwords in ("sentencepiece", *OPAQUE):
        return "raw"
    words = dictionary.symbols[dictionary.nspecial : count_known_words(dictionary)]
    if sum(bool(CharacterTokenizer.wide.search(word)) for word in words) > WIDE_SHARE * len(words):
        return "characters"
    return "ptb" if {"n't", "-lrb-", "-LRB-", "``"}.intersection(words) else "moses"


def make_fairseq_subword_encoder(kind: str, data: Optional[str]) -> Optional[Any]:
    """Create fairseq's encoder for subwords in OPAQUE (``--bpe``) from files next to the data, or None without them."""
    files = _find_subword_files(data, kind)
    return encoders.build_bpe(Namespace(bpe=kind, **files)) if files else None


def _find_subword_files(data: Optional[str], kind: str) -> Dict[str, str]:
    """Map fairseq's options to the paths of subword files next to the data folder, if none is missing."""
    folder = os.path.dirname(os.path.abspath(utils.split_paths(data)[0])) if data else ""
    files = {option: os.path.join(folder, name) for option, name in SUBWORDS[kind].items()}
    return files if data and all(map(os.path.isfile, files.values())) else {}
