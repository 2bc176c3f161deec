"""fairseq's ``--tokenizer etads``, which splits raw text into words and joins words into text.

Unlike fairseq's ``--tokenizer moses``, it does not take its language from ``--source-lang``, and lower-cases the text.
"""

import contextlib
import io
import re
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, Optional

from fairseq.data import encoders
from fairseq.data.encoders import register_bpe, register_tokenizer
from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ..platform.command_options import option
from ..platform.errors import InputError
from .subwords import HuggingFaceSubwordEncoder
from .words import ENDS_ANYWHERE, LANGUAGES, SENTENCE_MARK, WORD_KINDS, make_word_tokenizer, split_sentences

MARKS = ("drop", "keep", "insert")
_MARK = re.compile(rf"\s*{re.escape(SENTENCE_MARK)}\s*")


@dataclass
class TextTokenizerConfig(FairseqDataclass):
    """Options of ``--tokenizer etads``. etads-prepare prints the options that match the prepared data."""

    text_words: ChoiceEnum(list(WORD_KINDS)) = option(  # type: ignore[valid-type]
        "moses",
        "type of word tokenisation. moses: words and punctuation as split by Moses; ptb: tokens as in "
        "the Penn Treebank and CNN/Daily Mail; spaces: split at spaces, for tokenised text; characters: single "
        "characters, for Chinese; raw: unsplit text, for SentencePiece",
    )
    text_keep_case: bool = option(False, "do not lower-case the text")
    text_language: str = option("en", "language of abbreviations and of Moses's rules (default: en)")
    text_sentence_marks: ChoiceEnum(list(MARKS)) = option(  # type: ignore[valid-type]
        "drop",
        f"treatment of the mark {SENTENCE_MARK} between sentences. drop: remove existing marks; keep: "
        "keep existing marks; insert: use rules to mark the sentences of a text without marks (for hierarchical "
        "models)",
    )


@register_tokenizer("etads", dataclass=TextTokenizerConfig)
class TextTokenizer:
    """Tokeniser that converts lines of raw text to tokens, and tokens to text, by a :class:`TextTokenizerConfig`."""

    def __init__(self, cfg: Any):
        self.keep_case = cfg.text_keep_case
        self.kind = str(cfg.text_words)
        self.marks = str(cfg.text_sentence_marks)
        self.language = cfg.text_language
        # Ends of sentences affect the tokens: the Treebank rules split off a full stop only there, and the Moses rules
        # only before a capital letter. With "raw", they matter only where no spaces are between sentences, as in
        # Chinese, and with "spaces" and "characters" nowhere.
        self.splits_sentences = (
            self.marks == "insert" or self.kind == "ptb" or (self.kind == "moses" and self.language in LANGUAGES)
        )
        self.words = make_word_tokenizer(self.kind, cfg.text_language)

    def split_into_sentences(self, line: str) -> List[str]:
        """Split a raw line at its sentence marks or, without any and if it affects the tokens, by rules."""
        if SENTENCE_MARK in line:
            return [part for part in line.split(SENTENCE_MARK) if part.strip()]
        splits = self.splits_sentences or (self.kind == "raw" and any(end in line for end in ENDS_ANYWHERE))
        return split_sentences(line, self.language) if splits else [line]

    def tokenize_sentences(self, line: str) -> List[List[str]]:
        """Split a raw line, in which a sequence of white space and NUL is one space, into sentences of chunks.

        Each chunk contains the space-separated tokens of a piece of text between white space or, with Moses, of the
        whole sentence, because its rules depend on neighbouring words.
        """
        line = " ".join(line.replace("\0", " ").split())
        encoded = (self.words.encode(sentence, self.keep_case) for sentence in self.split_into_sentences(line))
        return [words for words in encoded if words]

    def encode(self, line: str) -> str:
        """Return the tokens of a raw line, separated by spaces. If requested, sentence marks separate the sentences."""
        sentences = [" ".join(words) for words in self.tokenize_sentences(line)]
        # SentencePiece would encode a space before the sentence mark as a separate piece.
        mark = f"{SENTENCE_MARK} " if self.kind == "raw" else f" {SENTENCE_MARK} "
        marked = self.marks == "insert" or (self.marks == "keep" and SENTENCE_MARK in line)
        return (mark if marked else " ").join(sentences)

    def decode(self, line: str) -> str:
        """Join tokens into text without spaces around punctuation. Sentence marks and letter case are preserved."""
        sentences = [self.words.decode(part.split()) for part in _MARK.split(line)]
        return f" {SENTENCE_MARK} ".join(sentences).strip()


@dataclass
class HuggingFaceTokenizerConfig(FairseqDataclass):
    """Options of ``--bpe huggingface``."""

    huggingface_tokenizer: str = option("???", "path of a Hugging Face tokenizer.json file")


@register_bpe("huggingface", dataclass=HuggingFaceTokenizerConfig)
def load_hugging_face_tokenizer(cfg: HuggingFaceTokenizerConfig) -> HuggingFaceSubwordEncoder:
    """Return the encoder for fairseq's ``--bpe huggingface``."""
    return HuggingFaceSubwordEncoder(cfg.huggingface_tokenizer)


def build_subword_encoder(kind: Optional[str], files: Mapping[str, Path], advice: str) -> Any:
    """Build fairseq's subword encoder of this kind, or return None without one.

    ``files`` maps fairseq's options to the files of the subword model. Raises InputError, whose message ends in
    ``advice``, if they are damaged.
    """
    if kind is None:
        return None
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return encoders.build_bpe(Namespace(bpe=kind, **{option: str(path) for option, path in files.items()}))
    except InputError:  # a required library is not installed
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, SystemExit) as error:
        reason = " ".join(said.getvalue().split()) or error  # subword-nmt prints the reason to stderr and exits
        paths = " or ".join(map(str, files.values()))
        raise InputError(f"{paths} is damaged ({reason}). {advice}") from None
