"""Partial summaries that are reported while a search is running."""

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

from ..search.progress import BestHypothesis, OnStep
from ..text.alignment import Span
from .documents import Batch, DocumentTokenizer


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


def make_partial_summary_reporter(on_step: OnPartialSummary, batch: Batch, texts: DocumentTokenizer) -> OnStep:
    """Create a callback for a search that reports partial summaries as text.

    After each step, the callback converts token ids to text, and calls ``on_step`` with each partial summary.
    """

    spans: Dict[int, Tuple[Optional[Span], ...]] = {}  # the keys are row indices in the batch

    def make_partial_summary(best: BestHypothesis) -> PartialSummary:
        document, first = batch.documents[best.row], batch.padding[best.row]
        _, tokens = texts.convert_to_tokens(best.tokens, batch)
        width = len(document.tokens)
        attention, copying = (None if x is None else tuple(x[first : first + width].tolist()) for x in best.read)
        if best.row not in spans:
            spans[best.row] = tuple(texts.find_token_spans(document))
        return PartialSummary(
            number=document.number,
            text=texts.join(tokens),
            tokens=tuple(tokens),
            score=best.score,
            has_ended=int(best.tokens[-1]) == texts.target.eos(),
            spans=spans[best.row],
            attention=attention,
            copying=copying,
        )

    def report_partial_summaries(found: List[BestHypothesis]) -> None:
        for best in found:
            on_step(make_partial_summary(best))

    return report_partial_summaries
