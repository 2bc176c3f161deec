"""A summary while it is being written."""

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

from ..search.progress import BestSoFar, OnStep
from ..text.alignment import Span
from .documents import Batch, TextProcessing


@dataclass(frozen=True)
class PartialSummary:
    """The best summary that the search has found so far for a document. Later summaries may begin with other words.

    Attributes:
        number: position of the document in the input.
        text, tokens: text and tokens of the summary, as in :class:`Summary`.
        score: score of the search, as in :class:`Summary`; for an unfinished summary, its score if it ended here.
        has_ended: whether the model has ended the summary. The search continues while a better summary is possible.
        spans: characters text[start:end] of each token that was read; None where they cannot be determined.
        attention: attention to the document when the last token of the summary was written, as a weight for each token
            that was read. Together with the weight of the document's end symbol, these weights add up to 1. None if the
            summary has ended, or if the model has no attention.
        copying: copy distribution at that step, in the same form; also None for a model without a pointer.
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


def reporter(on_step: OnPartialSummary, batch: Batch, texts: TextProcessing) -> OnStep:
    """Return the ``on_step`` of a search over a batch, which passes text instead of ids to the given ``on_step``."""

    spans: Dict[int, Tuple[Optional[Span], ...]] = {}  # keys are rows in the batch

    def partial_summary(best: BestSoFar) -> PartialSummary:
        document, first = batch.documents[best.row], batch.padding[best.row]
        _, tokens = texts.spell(best.tokens, batch)
        width = len(document.tokens)
        attention, copying = (None if x is None else tuple(x[first : first + width].tolist()) for x in best.read)
        if best.row not in spans:
            spans[best.row] = tuple(texts.spans(document))
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

    def report(found: List[BestSoFar]) -> None:
        for best in found:
            on_step(partial_summary(best))

    return report
