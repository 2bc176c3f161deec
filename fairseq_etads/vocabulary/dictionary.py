"""Dictionaries, which contain the known words followed by the copy tail of words that can only be copied.

Documents and summaries may share a dictionary but have different numbers of known words (:func:`limit_known_words`).
The decoder then generates only the first V words, whereas the encoder has embeddings for more words. Each word has the
same id in the encoder and the decoder.

:func:`detect_subword_type` and :func:`detect_word_type` tell which words or subwords a dictionary contains.
"""

import copy
import filecmp
import hashlib
import os
import re
import threading
from argparse import Namespace
from typing import Any, Callable, Dict, Mapping, Optional

import torch
from fairseq import utils
from fairseq.data import Dictionary, encoders
from fairseq.tokenizer import tokenize_line

from ..text.subwords import OPAQUE, SUBWORDS
from ..text.words import CharacterTokenizer

# All dictionaries share this lock, because a dictionary that contains a lock cannot be pickled or copied.
_growing = threading.Lock()
_PADDING_WORD = re.compile(r"madeupword\d{4,}")


def count_known_words(dictionary: Dictionary) -> int:
    """Return V, the number of known words, for which the model has embeddings and can compute probabilities.

    The first V entries are the special symbols, the words with a positive count, and entries such as "madeupword0000",
    with which fairseq pads the size to a multiple of 8. All other words have a count of 0 and form the *copy tail* of
    words in documents without embeddings. If all words have a count of 0, all of them are known.
    """
    known = getattr(dictionary, "known_words", None)
    if known is not None:
        return int(known)
    first = end = dictionary.nspecial
    for symbol, count in zip(dictionary.symbols[first:], dictionary.count[first:]):
        if count == 0 and not is_padding_word(symbol):
            break
        end += 1
    return end if any(dictionary.count[first:end]) else len(dictionary)


def get_known_word_counts(dictionary: Dictionary) -> Dict[str, int]:
    """Map the known words, without special symbols and padding words, to their counts in the training text."""
    first, end = dictionary.nspecial, count_known_words(dictionary)
    entries = zip(dictionary.symbols[first:end], dictionary.count[first:end])
    return {symbol: count for symbol, count in entries if not is_padding_word(symbol)}


def is_padding_word(word: str) -> bool:
    """Return whether fairseq added a word, such as "madeupword0000", only to pad a dictionary."""
    return _PADDING_WORD.fullmatch(word) is not None


def compute_fingerprint(dictionary: Dictionary) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of all known words, without the copy tail, in order."""
    words = "\n".join(dictionary.symbols[: count_known_words(dictionary)])
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def check_trained_dictionary(what: str, dictionary: Dictionary, trained: Optional[str]) -> None:
    """Raise ValueError if a checkpoint was trained with another dictionary than this one (``what``) in DATA.

    ``trained`` is the fingerprint in the checkpoint. Without one, any dictionary is accepted.
    """
    found = compute_fingerprint(dictionary)
    if trained not in (None, found):
        raise ValueError(
            f"the {what} in DATA ({len(dictionary):,} entries, fingerprint {found}) is not the one the checkpoint was "
            f"trained with ({trained}): give the data folder of the training, or create the data with its dictionary "
            "(etads-prepare --like)"
        )


def check_training_dictionaries(state: Mapping[str, Any], source: Dictionary, target: Dictionary) -> None:
    """Check the dictionaries of documents and summaries against the state of a task in a checkpoint."""
    for side, dictionary in (("source", source), ("target", target)):
        check_trained_dictionary(f"{side} dictionary", dictionary, state.get(f"{side}_dictionary"))


def check_dictionaries_share_ids(load: Callable[[str], Dictionary], first: str, other: str) -> None:
    """Raise ValueError if a word in the dictionary file ``other``, if there is one, has a different id in ``first``."""
    if not os.path.isfile(other) or filecmp.cmp(first, other, shallow=False):
        return
    words, ours = load(other).symbols, load(first).symbols
    if ours[: len(words)] != words:
        number, word = next((n, word) for n, word in enumerate(words) if [word] != ours[n : n + 1])
        raise ValueError(
            f'the data folders (DATA) "{os.path.dirname(first)}" and "{os.path.dirname(other)}" have different '
            f'dictionaries: entry {number} of {os.path.basename(other)} is "{word}" in the second folder and '
            f'"{ours[number] if number < len(ours) else "missing"}" in the first; create all folders with the same '
            "dictionaries (etads-prepare --like, or fairseq-preprocess --srcdict and --tgtdict)"
        )


def limit_known_words(dictionary: Dictionary, size: int) -> Dictionary:
    """Return a copy of a dictionary in which only the first ``size`` entries are known words.

    The copy shares its words and ids, also with words that are added later, and compares as equal.
    """
    bounded = copy.copy(dictionary)  # both dictionaries share the lists of words
    bounded.known_words = size
    return bounded


def remove_copy_tail(dictionary: Dictionary) -> Dictionary:
    """Copy the first V entries to a separate dictionary for a model. The length of the copy never changes."""
    size = count_known_words(dictionary)
    head = copy.copy(dictionary)
    head.symbols, head.count = dictionary.symbols[:size], dictionary.count[:size]
    head.indices = {symbol: number for number, symbol in enumerate(head.symbols)}
    head.known_words, head.grows = size, False
    return head


def load_checked_dictionary(load: Callable[..., Any], file: Any, *arguments: Any) -> Any:
    """Load a dictionary with ``load``, a method of a dictionary class, from a file or, as in fairseq, its name.

    Raises ValueError, which names the file and the line, if it is not a dictionary.
    """
    try:
        return load(file, *arguments)
    except OSError:
        raise
    except Exception as error:  # fairseq raises a plain Exception for a file that is not UTF-8
        place = f"{file}, line {_find_invalid_line(file)}: " if isinstance(file, str) else ""
        reason = " ".join(str(error).split()).split(". Duplicate words can")[0]
        raise ValueError(
            f"{place}not a dictionary, which must have a word and its count on each line ({reason})"
        ) from None


def _find_invalid_line(file: str) -> int:
    """Return the number of the first line that is not UTF-8, lacks a count or repeats a word."""
    words = set()
    with open(file, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            word, _, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
            readable = not any("\udc80" <= character <= "\udcff" for character in line)
            if not readable or word in words or not re.fullmatch(r"[+-]?\d{1,4000}", count):
                return number
            words.add(word)
    return len(words)


class SummarizationDictionary(Dictionary):
    """A fairseq dictionary that stores the number of known words V. Words can be added to its copy tail.

    If ``grows`` is set, a new word receives the next free id instead of the id of the unknown word. The model never
    uses ids of V or more itself, so the new word can be copied like any other word in the copy tail. Several threads
    may add words at the same time.
    """

    known_words: int
    grows = False

    @classmethod
    def load(cls, f: Any, add_special_symbols: bool = True) -> "SummarizationDictionary":
        """Load a dictionary with fairseq's method.

        Raises ValueError if the file is not a dictionary, or a word with a count follows one with the count 0.
        """
        dictionary: SummarizationDictionary = load_checked_dictionary(super().load, f, add_special_symbols)
        known = count_known_words(dictionary)
        late = next((number for number in range(known, len(dictionary)) if dictionary.count[number]), None)
        if late is not None:
            raise ValueError(
                f'dictionary: "{dictionary[late]}", which has a count, follows "{dictionary[known]}" (count 0). Words '
                "with count 0 can only be copied and must come last; sort the file by count"
            )
        dictionary.known_words = known
        return dictionary

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Return the id of a word. A new word is added first; see fairseq's ``Dictionary``."""
        with _growing:
            return int(super().add_symbol(word, n, overwrite))

    def encode_line(
        self,
        line: str,
        line_tokenizer: Any = tokenize_line,
        add_if_not_exist: bool = True,
        consumer: Any = None,
        append_eos: bool = True,
        reverse_order: bool = False,
    ) -> torch.IntTensor:
        """Return the ids of the words in a line, int32. If ``grows`` is set, unknown words are added first."""
        if self.grows and not add_if_not_exist:
            for word in line_tokenizer(line):
                if word not in self.indices:
                    self.add_symbol(word, n=0)
        return super().encode_line(line, line_tokenizer, add_if_not_exist, consumer, append_eos, reverse_order)


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
