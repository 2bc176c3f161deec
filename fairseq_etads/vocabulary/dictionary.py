"""The dictionary: first the words that the model knows, then the copy tail, words that it can only copy.

Documents and summaries may have one dictionary and yet a bound each (:func:`with_known_words`): the decoder generates
the first V words, the encoder has vectors for these and for more, and a word has the same id on both sides.
"""

import copy
import hashlib
import re
import threading
from typing import Any, Callable, Mapping

import torch
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from torch import Tensor

_growing = threading.Lock()  # of all dictionaries, because one of its own could be neither pickled nor copied
_PADDING_WORD = re.compile(r"madeupword\d{4,}")


def known_words(dictionary: Dictionary) -> int:
    """V, the number of entries that the model embeds and, on the summaries' side, generates; they are the first V.

    They are the special symbols, the words with a count, and the "madeupword0000" with which fairseq pads the size to a
    multiple of 8. Whatever follows has count 0: the *copy tail*, words of documents of which the model knows the
    spelling alone. A dictionary in which no word has a count is taken whole.
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


def is_padding_word(word: str) -> bool:
    """Whether a word is one of those with which fairseq pads a dictionary ("madeupword0000")."""
    return _PADDING_WORD.fullmatch(word) is not None


def fingerprint(dictionary: Dictionary) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the known words, in order; the copy tail does not count."""
    words = "\n".join(dictionary.symbols[: known_words(dictionary)])
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def check_trained_with(state: Mapping[str, Any], source: Dictionary, target: Dictionary) -> None:
    """Raise ValueError if a checkpoint was trained with other dictionaries than these, which are DATA's.

    Args:
        state: of the checkpoint's task; one that has no fingerprint of a dictionary may have been trained with any.
    """
    for side, dictionary in (("source", source), ("target", target)):
        trained, found = state.get(f"{side}_dictionary"), fingerprint(dictionary)
        if trained not in (None, found):
            raise ValueError(
                f"the {side} dictionary in DATA ({len(dictionary):,} entries, fingerprint {found}) is not the one the "
                f"checkpoint was trained with ({trained}): give the data directory with which it was trained, or make "
                "the data with its dictionary (etads-prepare --like)"
            )


def with_known_words(dictionary: Dictionary, size: int) -> Dictionary:
    """The same words under the same ids, of which only the first ``size`` are known; both dictionaries grow together.

    The two compare as equal, because fairseq compares words and ids.
    """
    bounded = copy.copy(dictionary)  # shares the lists of words
    bounded.known_words = size
    return bounded


def without_tail(dictionary: Dictionary) -> Dictionary:
    """The first V entries as a dictionary of their own, which models are given: its ``len()`` is V, and stays so."""
    size = known_words(dictionary)
    head = copy.copy(dictionary)
    head.symbols, head.count = dictionary.symbols[:size], dictionary.count[:size]
    head.indices = {symbol: number for number, symbol in enumerate(head.symbols)}
    head.known_words, head.grows = size, False
    return head


def load_checked(load: Callable[..., Any], file: Any, *arguments: Any) -> Any:
    """What fairseq's ``load`` makes of a dictionary file; ``file`` is its name or, as for fairseq, an open file.

    Raises:
        ValueError: it is no dictionary; names file and line, which fairseq does not.
    """
    try:
        return load(file, *arguments)
    except OSError:
        raise
    except Exception as error:  # fairseq raises plain Exception for what is not UTF-8
        place = f"{file}, line {_first_bad_line(file)}: " if isinstance(file, str) else ""
        reason = " ".join(str(error).split()).split(". Duplicate words can")[0]
        raise ValueError(f"{place}not a dictionary, which has a word and its count in each line ({reason})") from None


def _first_bad_line(file: str) -> int:
    """The number of the first line of a dictionary file that is not UTF-8, has no count or has a word again."""
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
    """fairseq's dictionary, which also remembers V when it is loaded, and whose copy tail can grow.

    With ``grows`` set, a word that is met for the first time gets the next free id instead of the unknown word's. The
    model never looks past V, so the new word can be copied like any other of the tail. Several threads may add words.
    """

    known_words: int
    grows = False

    @classmethod
    def load(cls, f: Any, add_special_symbols: bool = True) -> "SummarizationDictionary":
        """As fairseq's.

        Raises:
            ValueError: the file is no dictionary (names file and line); or a word with a count stands behind one
                without, so that it would not be learnt.
        """
        dictionary: SummarizationDictionary = load_checked(super().load, f, add_special_symbols)
        known = known_words(dictionary)
        late = next((number for number in range(known, len(dictionary)) if dictionary.count[number]), None)
        if late is not None:
            raise ValueError(
                f'dictionary: "{dictionary[late]}", which has a count, stands behind "{dictionary[known]}" '
                "(count 0). Words with count 0 are only copied and must come last: sort the file by count"
            )
        dictionary.known_words = known
        return dictionary

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """The id of a word, which is added if it is new; see fairseq's ``Dictionary``."""
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
        """Ids (int32) of a line's words; see fairseq's ``Dictionary``. Unknown words are added if it ``grows``."""
        if self.grows and not add_if_not_exist:
            for word in line_tokenizer(line):
                if word not in self.indices:
                    self.add_symbol(word, n=0)
        return super().encode_line(line, line_tokenizer, add_if_not_exist, consumer, append_eos, reverse_order)


def hide_unknown_words(tokens: Tensor, known_words: int, unk: int) -> Tensor:
    """``tokens`` (any shape, ids) with every id from V = ``known_words`` on replaced by the unknown word's."""
    return tokens.masked_fill(tokens >= known_words, unk)
