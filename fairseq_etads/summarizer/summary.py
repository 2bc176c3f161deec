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

    A word is regarded as copied if it is outside the known vocabulary, or if copying contributed more to its
    probability than generating. If the word occurs several times in the document, the place with the most copy
    attention is used.

    Attributes:
        word: word as spelled in the tokens of the summary, with subwords joined.
        first, last: indices of its first and last token in :attr:`Summary.tokens`.
        start, end: characters text[start:end] of the raw document from which it was copied; None if tokenisation has
            changed the text too much to find them.
    """

    word: str
    first: int
    last: int
    start: Optional[int]
    end: Optional[int]


@dataclass(frozen=True)
class Truncation:
    """Number of tokens in a document that the model has read, and number of further tokens.

    Attributes:
        read: number of tokens that were read.
        left_out: number of further tokens.
    """

    read: int
    left_out: int


@dataclass(frozen=True)
class Summary:
    """A summary of a document.

    Attributes:
        text: text of the summary, with "<q>" between sentences if the model has learned to write it; see
            :attr:`sentences`.
        score: score of the search: normalised log-probability minus the penalties. The score of a chosen summary is its
            expected ROUGE-1 plus twice its expected ROUGE-2, as proportions. Compare only scores of the same kind for
            the same document.
        tokens: tokens of the summary as the model wrote them.
        copied: copied words in the order of the summary, including all words of sentences chosen from the document;
            otherwise empty for a model without a pointer.
        truncation: number of tokens that were read and number of tokens that were left out.
        problem: reason why there is no summary, if the call continues after problems; otherwise empty.
        picked: sentences that the folder's extractor selected from the whole document for the model, each with its
            probability; None without an extractor.
        surprisal: surprisal of the document compared with the training documents; None for a short document, and if
            the folder does not contain their surprisals.
        chosen: sentences of the summary, if a content model has chosen them from all hypotheses and the document
            (``choose="content"``); None if the summary is the best hypothesis.
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

    # The summariser sets this attribute on the instance. It is not a field, because copies and pickles of a summary
    # contain only data.
    _make_explanation: ClassVar[Any] = None

    def explain(self) -> Explanation:
        """Explain this summary, see :meth:`Summarizer.explain`; a notebook shows the explanation as a page.

        A summary keeps its document and its summariser for this purpose. Copies and pickles of a summary do not.

        Raises:
            ValueError: this is a copy or a pickle, or there is no summary (:attr:`problem`).
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
        """Sentences of the text if the model marks them; otherwise the whole text as one sentence."""
        if self.chosen is not None:
            return tuple(sentence.text for sentence in self.chosen)
        parts = (part.strip() for part in self.text.split(SENTENCE_MARK))
        return tuple(part for part in parts if part)

    def to_dict(self) -> Dict[str, Any]:
        """Return the contents of the summary for JSON lines."""
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
