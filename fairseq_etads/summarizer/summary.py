"""Data classes for the results of :class:`Summarizer`. This module imports neither torch nor fairseq."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Optional, Tuple

from ..text.alignment import Span
from .explanation import ChosenSentence, Explanation, Selection, describe_choice
from .surprisal import Surprisal

if TYPE_CHECKING:
    from ..evaluation.evidence import Evidence


@dataclass(frozen=True)
class CopiedWord:
    """A summary word that the model copied from the document.

    A word is considered copied if it is not in the model's vocabulary, or if copying contributed more to its
    probability than generation. If the word occurs several times in the document, the position refers to the occurrence
    with the highest copy attention.

    Attributes:
        word: the copied word, with its subwords joined.
        first, last: indices of the word's first and last tokens in :attr:`Summary.tokens`.
        start, end: position text[start:end] of the word in the raw document. Both are None if tokenisation changed the
            text too much to determine the position.
    """

    word: str
    first: int
    last: int
    start: Optional[int]
    end: Optional[int]


@dataclass(frozen=True)
class Truncation:
    """Numbers of document tokens that the model read and did not read.

    With an extractor, only the tokens of selected sentences are counted as ``left_out``.
    """

    read: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Summary:
    """A summary of a document with its score and details.

    Attributes:
        text: text of the summary, as the model writes it. If the model was trained to mark sentences, they are
            separated by "<q>".
        score: normalised log-probability of the summary, minus penalties. If a content model chose the sentences, the
            score is the expected ROUGE-1 plus twice the expected ROUGE-2, both on a scale from 0 to 1. Scores are
            comparable only if they are of the same type and belong to the same document.
        tokens: summary tokens as the model generated them.
        copied: copied words, in the order of the summary. They include all words in sentences that were chosen from the
            document. Other words are included only if the model has a pointer.
        truncation: numbers of document tokens that the model read and did not read.
        problem: reason why the document could not be summarised, or an empty string.
        picked: sentences that the extractor in the model folder selected from the document, with their probabilities.
            None without an extractor.
        surprisal: surprisal of the document compared with the training documents. None if the document is too short, or
            if the model folder does not contain the surprisals of the training documents.
        chosen: sentences of the summary, if a content model chose them from the document and all hypotheses
            (``choose="content"``), or if a limit such as ``words`` did. None if the summary is a hypothesis of the
            model.
        sentences: sentences of the summary, with the case and spacing of the document's words.
    """

    text: str
    score: float = 0.0
    tokens: Tuple[str, ...] = ()
    copied: Tuple[CopiedWord, ...] = ()
    truncation: Truncation = Truncation()
    problem: str = ""
    picked: Optional[Selection] = None
    surprisal: Optional[Surprisal] = None
    chosen: Optional[Tuple[ChosenSentence, ...]] = None
    sentences: Tuple[str, ...] = ()

    # The summariser sets this attribute on each instance. It is not a field, so that copies and pickles of a summary
    # contain only data.
    _make_explanation: ClassVar[Any] = None
    _document: ClassVar[Optional[str]] = None

    def explain(self) -> Explanation:
        """Explain this summary (see :meth:`Summarizer.explain`). Notebooks display the explanation as an HTML page.

        For this purpose, a summary stores references to its document and to the summariser. Copied and unpickled
        summaries do not contain these references and cannot be explained.

        Raises:
            ValueError: the summary was copied or unpickled, or the document could not be summarised (see
                :attr:`problem`).
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
        return {name: value for name, value in vars(self).items() if name not in ("_make_explanation", "_document")}

    @property
    def evidence(self) -> "List[Evidence]":
        """Return the evidence for each sentence, with positions in the raw document.

        It says how directly a sentence is copied, not whether it is true. Computing it takes some milliseconds.

        Raises:
            ValueError: the summary was copied, unpickled, or made from prepared data, and has no reference to its
                document (see :func:`fairseq_etads.evaluation.evidence.find_evidence`).
        """
        if self._document is None:
            raise ValueError("this summary has no reference to its document: call find_evidence(document, sentences)")
        from ..evaluation.evidence import find_evidence  # numpy is imported here because --help does not need it

        return find_evidence(self._document, self.sentences)

    def to_dict(self) -> Dict[str, Any]:
        """Convert the summary to a dictionary of JSON types."""
        return {
            "summary": self.text,
            "sentences": list(self.sentences),
            "score": self.score if math.isfinite(self.score) else None,
            "copied": [{"word": c.word, "start": c.start, "end": c.end} for c in self.copied],
            "read": self.truncation.read,
            "left_out": self.truncation.left_out,
            **describe_choice(self),
        }


@dataclass(frozen=True)
class PartialSummary:
    """The best summary of a document that the search has found so far. Later summaries may begin with other words.

    Attributes:
        number: index of the document in the input.
        text, tokens: text and tokens of the summary, as in :class:`Summary`.
        score: score of the summary, as in :class:`Summary`. For an unfinished summary, this is the score that it would
            receive if it ended here.
        has_ended: whether the summary is complete. The search continues as long as a better summary is possible.
        spans: position text[start:end] of each token that the model read, or None for unknown positions.
        attention: attention weights of these document tokens at the decoding step that generated the last token of the
            summary. Together with the weight of the document's end symbol, they sum to 1. None if the summary is
            complete, or if the model does not return attention weights.
        copying: copy distribution over these tokens at the same step. None if the summary is complete, or if the model
            has no pointer.
    """

    number: int
    text: str
    tokens: Tuple[str, ...]
    score: float
    has_ended: bool
    spans: Tuple[Optional[Span], ...]
    attention: Optional[Tuple[float, ...]]
    copying: Optional[Tuple[float, ...]]


OnPartialSummary = Callable[[PartialSummary], None]
