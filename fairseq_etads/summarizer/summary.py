"""What a summariser returns."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple

from ..text.words import SENTENCE_MARK
from . import Explanation
from .picked import Selection


@dataclass(frozen=True)
class CopiedWord:
    """A word of a summary that the model copied from its document.

    A word counts as copied if it is outside the known vocabulary, or if the model gave it more probability by copying
    than by generating. Of several places of the word, the one with the most copy attention counts.

    Attributes:
        word: as the summary's tokens spell it, subwords joined.
        first, last: the places of its first and last token in :attr:`Summary.tokens`.
        start, end: the characters text[start:end] of the raw document from which it was copied; None if they cannot be
            told, because the tokenizer has changed the text beyond recognition.
    """

    word: str
    first: int
    last: int
    start: Optional[int]
    end: Optional[int]


@dataclass(frozen=True)
class Truncation:
    """How much of a document the model has read.

    Attributes:
        read, left_out: numbers of tokens.
    """

    read: int
    left_out: int


@dataclass(frozen=True)
class Summary:
    """A summary of one document.

    Attributes:
        text: with "<q>" between sentences, if the model learnt to write that; see :attr:`sentences`.
        score: by which the search chose it: log-probability, normalised and less the penalties. Compare the scores of
            one document only.
        tokens: as the model wrote them.
        copied: the words that were copied, in the order of the summary; empty for a model without a pointer.
        truncation: how much of the document was read.
        problem: why there is no summary, if the call asked to go on in such a case; otherwise empty.
        picked: the sentences that the folder's extractor picked of the whole document, which the model then read, each
            with its probability; None of a folder without an extractor.
    """

    text: str
    score: float
    tokens: Tuple[str, ...]
    copied: Tuple[CopiedWord, ...]
    truncation: Truncation
    problem: str = ""
    picked: Optional[Selection] = None

    # set on the instance by the summarizer; no field, because copies and pickles of a summary are data alone
    _make_explanation: ClassVar[Any] = None

    def explain(self) -> Explanation:
        """Why the model wrote this, see :meth:`Summarizer.explain`; a notebook shows it as a page.

        A summary keeps its document and its summarizer for this. Copies and pickles of a summary are without them.

        Raises:
            ValueError: this is such a copy, or there is no summary (:attr:`problem`).
        """
        if self.problem:
            raise ValueError(f"there is no summary to explain: {self.problem}")
        if self._make_explanation is None:
            raise ValueError(
                "this is a copy of a summary, which does not know its summarizer and its document: "
                "call summarizer.explain(document, summary=summary.text)"
            )
        explanation: Explanation = self._make_explanation()
        return explanation

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_make_explanation"}

    @property
    def sentences(self) -> Tuple[str, ...]:
        """The sentences of the text, if the model marks them; otherwise the text as one."""
        parts = (part.strip() for part in self.text.split(SENTENCE_MARK))
        return tuple(part for part in parts if part)

    def to_dict(self) -> Dict[str, Any]:
        """What JSON lines hold of it."""
        return {
            "summary": self.text,
            "score": self.score if math.isfinite(self.score) else None,
            "copied": [{"word": c.word, "start": c.start, "end": c.end} for c in self.copied],
            "read": self.truncation.read,
            "left_out": self.truncation.left_out,
            **({} if self.picked is None else {"picked": self.picked.to_dict()}),
        }
