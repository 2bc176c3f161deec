"""Group subword tokens into words, and split raw text into subwords with a Hugging Face tokeniser."""

import json
import os
from typing import Any, Dict, List, Sequence, Tuple, Union

from ..platform.errors import InputError
from ..platform.optional_parts import format_install_command
from .words import SENTENCE_MARK

SUBWORDS: Dict[str, Dict[str, str]] = {
    "subword_nmt": {"bpe_codes": "codes.bpe"},
    "sentencepiece": {"sentencepiece_model": "sentencepiece.model"},
    "gpt2": {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"},
    "huggingface": {"huggingface_tokenizer": "tokenizer.json"},
}
"""Mapping from values of fairseq's --bpe to its options for files, and their names in data and model folders."""
OPAQUE = {"gpt2": "GPT-2's pieces", "huggingface": "pieces of a Hugging Face tokeniser"}
"""Kinds of subwords of raw text, which only the user's tokeniser can join into words, and their names in messages."""
UNKNOWN = "<unk>"
RESERVED = (UNKNOWN, "<s>", "</s>", "<pad>", SENTENCE_MARK)
"""Tokens with a special meaning in fairseq's dictionaries or in summaries."""
_PROBE, _CHARACTERS = "a b 𓀀", "5%é漢𓀀"
"""Text with a space, and characters of several kinds: last those that most tokenisers do not know."""


def find_word_ends(tokens: Sequence[str], subwords: str) -> List[bool]:
    """Return, for each token, whether it is the last token of a word, as all are without known subwords."""
    if subwords == "subword_nmt":
        return [not token.endswith("@@") for token in tokens]
    if subwords != "sentencepiece":
        return [True] * len(tokens)
    # A word ends before a piece that begins the next word. Each sentence mark is a separate word.
    ends = [after.startswith("▁") or SENTENCE_MARK in (token, after) for token, after in zip(tokens, tokens[1:])]
    return [*ends, True][: len(tokens)]


def join_words(tokens: Sequence[str], subwords: str) -> Tuple[List[str], List[int]]:
    """Join subword tokens of a kind (see :func:`find_word_ends`) into words.

    Returns the words and, for each token, the index of the word that contains it.
    """
    words: List[str] = []
    numbers: List[int] = []
    parts: List[str] = []
    for token, end in zip(tokens, find_word_ends(tokens, subwords)):
        parts.append(token[:-2] if subwords == "subword_nmt" and not end else token)
        numbers.append(len(words))
        if end or len(numbers) == len(tokens):  # also if the last token ends in "@@"
            word, parts = "".join(parts), []
            words.append(word.lstrip("▁") if subwords == "sentencepiece" else word)
    return words, numbers


class HuggingFaceSubwordEncoder:
    """Hugging Face tokeniser that applies no truncation, padding or dropout, and adds no special tokens to the text.

    Special tokens that occur in the text are split like other text. A piece is replaced with ``<unk>`` if it is the
    tokeniser's unknown token, contains white space, or is in RESERVED. Loading a file neither runs code nor downloads
    anything. Raises InputError without the package ``tokenizers``, and ValueError for an unsuitable file.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InputError(f"{path}: {error.name} is missing: {format_install_command('huggingface')}") from None
        try:
            with open(path, encoding="utf-8") as file:
                content = file.read()
            self._tokenizer = Tokenizer.from_str(content)
            model = json.loads(content)["model"]
            name = model.get("unk_token")
            self._unknown = model.get("unk_id") if name is None else self._tokenizer.token_to_id(name)
            self._prepare_tokenizer()
            pieces = self._tokenizer.encode(_PROBE, add_special_tokens=False).tokens
            # test characters that the tokeniser drops, without even returning a piece for unknown text
            self.lost = "".join(letter for letter in _CHARACTERS if not self.decode(self.encode(letter)).strip())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises a plain Exception or one of its own classes
            reason = " ".join(str(error).split())[:300]
            raise ValueError(f"{path}: not a usable tokenizer.json ({reason})") from None
        if spaced := [piece for piece in pieces if _contains_space(piece)]:
            raise ValueError(f"{path}: its pieces contain white space, such as {spaced[0]!r}; add a pre-tokenizer")

    def _prepare_tokenizer(self) -> None:
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        if getattr(self._tokenizer.model, "dropout", None) is not None:
            self._tokenizer.model.dropout = None

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare_tokenizer()  # pickling does not preserve all settings of a tokeniser

    def encode(self, x: str) -> str:
        """Return the pieces of a text, separated by spaces."""
        encoding = self._tokenizer.encode(x, add_special_tokens=False)
        return " ".join(
            UNKNOWN if number == self._unknown or piece in RESERVED or _contains_space(piece) else piece
            for piece, number in zip(encoding.tokens, encoding.ids)
        )

    def decode(self, x: str) -> str:
        """Join pieces, which are separated by spaces, into text."""
        decoder = self._tokenizer.decoder
        return x if decoder is None else str(decoder.decode(x.split()))

    def get_subword_text(self, piece: str, before: str = "a") -> str:
        """Return the text of ``piece`` when it follows the piece ``before``, including any space between them."""
        return self.decode(f"{before} {piece}")[len(self.decode(before)) :]


def _contains_space(piece: str) -> bool:
    """Return whether a piece is empty or contains white space, so that it cannot occur in a space-separated line."""
    return piece.split() != [piece]
