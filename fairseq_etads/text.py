"""The tokenizer ``--tokenizer etads``: from raw text to words and back, the same for training data and new text.

fairseq's own ``--tokenizer moses`` reads its language from ``--source-lang``, which here names a file suffix, and does
not lower-case. This one has options of its own. Subwords come after it (``--bpe subword_nmt`` or ``sentencepiece``).
"""

from dataclasses import dataclass, field
from typing import Any

from fairseq.data.encoders import register_tokenizer
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from sacremoses import MosesDetokenizer, MosesTokenizer

WORDS = ("moses", "raw")


@dataclass
class TextConfig(FairseqDataclass):
    """Options of ``--tokenizer etads``; etads-prepare says which ones its data needs."""

    text_words: ChoiceEnum(list(WORDS)) = field(  # type: ignore[valid-type]
        default="moses",
        metadata={"help": "moses: split words and punctuation as Moses does; raw: leave them (for SentencePiece)"},
    )
    text_keep_case: bool = field(default=False, metadata={"help": "do not lower-case"})
    text_language: str = field(default="en", metadata={"help": "language of Moses's rules (default: en)"})


@register_tokenizer("etads", dataclass=TextConfig)
class TextTokenizer:
    """White space and NULs to single spaces, lower case, Moses words without escapes."""

    def __init__(self, cfg: Any):
        self.keep_case = cfg.text_keep_case
        self.moses = str(cfg.text_words) == "moses"
        if self.moses:
            self.tokenizer = MosesTokenizer(cfg.text_language)
            self.detokenizer = MosesDetokenizer(cfg.text_language)

    def encode(self, line: str) -> str:
        """One line of raw text -> tokens separated by spaces."""
        line = " ".join(line.replace("\0", " ").split())
        if not self.keep_case:
            line = line.lower()
        if self.moses and line:
            line = self.tokenizer.tokenize(line, aggressive_dash_splits=True, escape=False, return_str=True)
        return line

    def decode(self, line: str) -> str:
        """Tokens -> text, without the spaces around punctuation. The case is lost."""
        return self.detokenizer.detokenize(line.split(), unescape=False) if self.moses else line
