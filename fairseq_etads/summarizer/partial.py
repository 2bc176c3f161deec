"""A summary while it is being written."""

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

from ..search.progress import BestSoFar, OnStep
from ..text.alignment import Span
from .documents import Batch, TextProcessing


@dataclass(frozen=True)
class PartialSummary:
    """The best summary of a document that a search has found so far. A later one need not begin with its words.

    Attributes:
        number: the document's place in the input.
        text, tokens: the summary's text and tokens, as in :class:`Summary`.
        score: the search's score, as in :class:`Summary`; for an unfinished summary, its score if it ended here.
        has_ended: whether the model has ended it. The search continues as long as a better one can follow.
        spans: characters text[start:end] of each token that was read; None where they cannot be determined.
        attention: attention to the document when the summary's last token was written: a weight for each token that was
            read. With the weight of the document's end they add up to 1. None if the summary has ended, or if the model
            has no attention.
        copying: the copy distribution of that step, likewise; None also for a model without a pointer.
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
    """Make the ``on_step`` of a search over a batch, which passes text instead of ids to the caller's ``on_step``."""

    spans: Dict[int, Tuple[Optional[Span], ...]] = {}  # the key is the row in the batch

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
