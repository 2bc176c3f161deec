"""A summary while it is being written."""

from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple

from ..search.progress import BestSoFar, OnStep
from .documents import Batch, TextProcessing


@dataclass(frozen=True)
class PartialSummary:
    """The best summary of a document that a search has found so far. A later one need not begin with its words.

    Attributes:
        number: the document's place in the input.
        text, tokens: as of :class:`Summary`.
        score: as of :class:`Summary`; of a summary that has not ended, the score that it would have if it ended here.
        has_ended: whether the model has ended it. The search goes on as long as a better one can follow.
        attention: with which its last token was written, a weight for each token of the document that was read. They
            and the weight of the document's end add up to 1. None if the summary has ended, or if the model has none.
    """

    number: int
    text: str
    tokens: Tuple[str, ...]
    score: float
    has_ended: bool
    attention: Optional[Tuple[float, ...]]


OnPartialSummary = Callable[[PartialSummary], None]


def reporter(on_step: OnPartialSummary, batch: Batch, texts: TextProcessing) -> OnStep:
    """What to give a search over a batch, so that ``on_step`` is called with text in the place of ids."""

    def partial_summary(best: BestSoFar) -> PartialSummary:
        document, first = batch.documents[best.row], batch.padding[best.row]
        _, tokens = texts.spell(best.tokens, batch)
        attention: Optional[Tuple[float, ...]] = None
        if best.attention is not None:
            attention = tuple(best.attention[first : first + len(document.tokens)].tolist())
        has_ended = int(best.tokens[-1]) == texts.target.eos()
        return PartialSummary(document.number, texts.join(tokens), tuple(tokens), best.score, has_ended, attention)

    def report(found: List[BestSoFar]) -> None:
        for best in found:
            on_step(partial_summary(best))

    return report
