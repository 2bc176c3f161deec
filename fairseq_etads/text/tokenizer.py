"""The tokenizer ``--tokenizer etads``: from raw text to words and back, the same for training data and new text.

fairseq's own ``--tokenizer moses`` reads its language from ``--source-lang``, which here names a file suffix, and does
not lower-case. This one has options of its own. Subwords come after it (``--bpe subword_nmt`` or ``sentencepiece``).
"""

import re
from dataclasses import dataclass, field
from typing import Any, List

from fairseq.data.encoders import register_tokenizer
from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from .words import SENTENCE_MARK, Characters, MosesWords, RawWords, SpacedWords, TreebankWords, split_sentences

WORDS = ("moses", "ptb", "spaces", "characters", "raw")
MARKS = ("drop", "keep", "insert")
_MARK = re.compile(rf"\s*{re.escape(SENTENCE_MARK)}\s*")


@dataclass
class TextConfig(FairseqDataclass):
    """Options of ``--tokenizer etads``; etads-prepare says which ones its data needs."""

    text_words: ChoiceEnum(list(WORDS)) = field(  # type: ignore[valid-type]
        default="moses",
        metadata={
            "help": "moses: words and punctuation as Moses splits them; ptb: as the Penn Treebank and CNN/Daily Mail "
            "do; spaces: what stands between spaces, for tokenised text; characters: for Chinese; raw: for "
            "SentencePiece"
        },
    )
    text_keep_case: bool = field(default=False, metadata={"help": "do not lower-case"})
    text_language: str = field(default="en", metadata={"help": "language of Moses's rules (default: en)"})
    text_sentence_marks: ChoiceEnum(list(MARKS)) = field(  # type: ignore[valid-type]
        default="drop",
        metadata={
            "help": f"{SENTENCE_MARK} between sentences: drop it, keep it, or insert it by rules into a text that has "
            "none (for hierarchical models)"
        },
    )


@register_tokenizer("etads", dataclass=TextConfig)
class TextTokenizer:
    """White space and NULs to single spaces, lower case, words; sentence marks dropped, kept or inserted."""

    def __init__(self, cfg: Any):
        self.keep_case = cfg.text_keep_case
        self.kind = str(cfg.text_words)
        self.marks = str(cfg.text_sentence_marks)
        kinds: Any = {"ptb": TreebankWords, "spaces": SpacedWords, "raw": RawWords, "characters": Characters}
        # what is English is cut into sentences first, by the rules that etads-corpus cuts training text by: Treebank
        # rules split only the last full stop off, and Moses's those before a word that begins with a capital
        self.cut = self.marks == "insert" or self.kind == "ptb" or (self.kind == "moses" and cfg.text_language == "en")
        self.words = MosesWords(cfg.text_language) if self.kind == "moses" else kinds[self.kind]()

    def sentences(self, line: str) -> List[str]:
        """Sentences of a raw line: cut at its marks, or by rules where the words or the marks depend on them."""
        if SENTENCE_MARK in line:
            return [part for part in line.split(SENTENCE_MARK) if part.strip()]
        return split_sentences(line) if self.cut else [line]

    def encode_words(self, line: str) -> List[List[str]]:
        """Sentences of a raw line as lists: the tokens of each word between white space, joined by spaces.

        Moses, whose rules look across white space, gives one string for the whole sentence.
        """
        line = " ".join(line.replace("\0", " ").split())
        encoded = (self.words.encode(sentence, self.keep_case) for sentence in self.sentences(line))
        return [words for words in encoded if words]

    def encode(self, line: str) -> str:
        """One line of raw text -> tokens separated by spaces, without or with sentence marks between sentences."""
        sentences = [" ".join(words) for words in self.encode_words(line)]
        # SentencePiece would make a piece of its own of a space before the mark
        mark = f"{SENTENCE_MARK} " if self.kind == "raw" else f" {SENTENCE_MARK} "
        marked = self.marks == "insert" or (self.marks == "keep" and SENTENCE_MARK in line)
        return (mark if marked else " ").join(sentences)

    def decode(self, line: str) -> str:
        """Tokens -> text, without the spaces around punctuation; sentence marks stay. The case is lost."""
        sentences = [self.words.decode(part.split()) for part in _MARK.split(line)]
        return f" {SENTENCE_MARK} ".join(sentences).strip()
