"""Results of a summariser."""

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple

from ..text.words import SENTENCE_MARK
from . import Explanation
from .picked import ChosenSentence, Selection
from .surprisal import Surprisal


@dataclass(frozen=True)
class CopiedWord:
    """A word of a summary that the model copied from its document.

    A word counts as copied if it is outside the known vocabulary, or if copying gave it more probability than
    generating. If the word has several places, the one with the most copy attention counts.

    Attributes:
        word: the word in the spelling of the summary's tokens, with joined subwords.
        first, last: the places of its first and last token in :attr:`Summary.tokens`.
        start, end: the characters text[start:end] of the raw document from which it was copied; None if tokenisation
            has changed the text too much to find them.
    """

    word: str
    first: int
    last: int
    start: Optional[int]
    end: Optional[int]


@dataclass(frozen=True)
class Truncation:
    """Numbers of tokens of a document that the model has read and that it has left out.

    Attributes:
        read, left_out: number of tokens that were read, and of further tokens.
    """

    read: int
    left_out: int


@dataclass(frozen=True)
class Summary:
    """A summary of one document.

    Attributes:
        text: the text, with "<q>" between sentences if the model has learned to write it; see :attr:`sentences`.
        score: the search's score: log-probability, normalised and less the penalties. Of a chosen summary: its expected
            ROUGE-1 and twice its expected ROUGE-2, as proportions. Only compare scores of one kind, and for the same
            document.
        tokens: tokens of the summary in the form in which the model wrote them.
        copied: the words that were copied, in the order of the summary, with all words of chosen sentences of the
            document; otherwise empty for a model without a pointer.
        truncation: numbers of tokens that were read and left out.
        problem: reason why there is no summary, if the call asked to continue in this case; otherwise empty.
        picked: the sentences that the folder's extractor selected from the whole document for the model, each with its
            probability; None without an extractor.
        surprisal: surprisal of the document compared with the training documents; None for a short document, and for
            a folder that does not have their surprisals.
        chosen: the sentences of the summary, if a content model has chosen them from all hypotheses and the document
            (``choose="content"``); None: the summary is the best hypothesis.
    """

    text: str
    score: float
    tokens: Tuple[str, ...]
    copied: Tuple[CopiedWord, ...]
    truncation: Truncation
    problem: str = ""
    picked: Optional[Selection] = None
    surprisal: Optional[Surprisal] = None
    chosen: Optional[Tuple[ChosenSentence, ...]] = None

    # The summariser sets this on the instance. It is not a field, because copies and pickles of a summary are only
    # data.
    _make_explanation: ClassVar[Any] = None

    def explain(self) -> Explanation:
        """Explain this summary, see :meth:`Summarizer.explain`; a notebook shows the explanation as a page.

        A summary keeps its document and its summariser for this. Copies and pickles of a summary do not have them.

        Raises:
            ValueError: this is such a copy, or there is no summary (:attr:`problem`).
        """
        if self.problem:
            raise ValueError(f"there is no summary to explain: {self.problem}")
        if self._make_explanation is None:
            raise ValueError(
                "this copy of a summary has no reference to its summariser and document: call "
                "summarizer.explain(document, summary=summary.text)"
            )
        explanation: Explanation = self._make_explanation()
        return explanation

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_make_explanation"}

    @property
    def sentences(self) -> Tuple[str, ...]:
        """Sentences of the text, if the model marks them; otherwise the text as one."""
        if self.chosen is not None:
            return tuple(sentence.text for sentence in self.chosen)
        parts = (part.strip() for part in self.text.split(SENTENCE_MARK))
        return tuple(part for part in parts if part)

    def to_dict(self) -> Dict[str, Any]:
        """Content for JSON lines."""
        return {
            "summary": self.text,
            "score": self.score if math.isfinite(self.score) else None,
            "copied": [{"word": c.word, "start": c.start, "end": c.end} for c in self.copied],
            "read": self.truncation.read,
            "left_out": self.truncation.left_out,
            **({} if self.picked is None else {"picked": self.picked.to_dict()}),
            **({} if self.surprisal is None else {"surprisal": self.surprisal.to_dict()}),
            **({} if self.chosen is None else {"chosen": [asdict(sentence) for sentence in self.chosen]}),
        }
