"""Detect the kind of a dictionary's words: words, characters, or a kind of subwords."""

import os
from argparse import Namespace
from typing import Any, Dict, Optional

from fairseq import utils
from fairseq.data import Dictionary, encoders

from ..text.subwords import OPAQUE, SUBWORDS
from ..text.words import Characters
from .dictionary import known_words

SUBWORD_SHARE = 0.02
"""Share of known words with subword marks above which a dictionary is assumed to contain subwords."""
WIDE_SHARE = 0.2
"""Share of known words with characters such as Chinese above which a dictionary is assumed to contain characters."""
GPT2_SHARE = 0.9
"""Share of known words that are numbers above which a dictionary is assumed to contain GPT-2's pieces."""


def detect_subwords(dictionary: Dictionary, data: Optional[str] = None) -> str:
    """Detect the kind of subwords: "subword_nmt" or "sentencepiece" from marks, "gpt2" from numbers, or "none".

    Args:
        data: the data folder, or several as in fairseq's DATA; with a tokenizer.json next to it: "huggingface".
    """
    if _files_beside(data, "huggingface"):
        return "huggingface"
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
    if subwords in ("sentencepiece", *OPAQUE):
        return "raw"
    words = dictionary.symbols[dictionary.nspecial : known_words(dictionary)]
    if sum(bool(Characters.wide.search(word)) for word in words) > WIDE_SHARE * len(words):
        return "characters"
    return "ptb" if {"n't", "-lrb-", "-LRB-", "``"}.intersection(words) else "moses"


def opaque_pieces(kind: str, data: Optional[str]) -> Optional[Any]:
    """Create the ``--bpe`` of a kind in OPAQUE from the files next to the data folder; None if they are missing."""
    files = _files_beside(data, kind)
    return encoders.build_bpe(Namespace(bpe=kind, **files)) if files else None


def _files_beside(data: Optional[str], kind: str) -> Dict[str, str]:
    """Map the options of a kind of subwords to its files next to the data folder; empty if one is missing."""
    folder = os.path.dirname(os.path.abspath(utils.split_paths(data)[0])) if data else ""
    files = {option: os.path.join(folder, name) for option, name in SUBWORDS[kind].items()}
    return files if data and all(map(os.path.isfile, files.values())) else {}
