"""Progress reports of a search: the best hypothesis of each document so far."""

from typing import Callable, List, NamedTuple, Optional

from torch import Tensor

from ..vocabulary.output import OutputVocabulary
from .hypotheses import ActiveHypotheses, Finished, take_beams


class StepAttention(NamedTuple):
    """Attention to the document and copy distribution at one step: (S,), or (B, beam, S) for a batch.

    A field is None if the models do not return its value.
    """

    attention: Optional[Tensor] = None
    copying: Optional[Tensor] = None

    def continued(self, parents: Tensor) -> "StepAttention":
        """Select the entries of the continued beams ``parents`` (B, beam) from tensors (B, beam or 1, S)."""
        beam = parents.size(1)
        return StepAttention(*(None if x is None else take_beams(x.expand(-1, beam, -1), parents) for x in self))

    def of(self, document: int, beam: int) -> "StepAttention":
        """Select the entries of one hypothesis from tensors (B, beam, S)."""
        return StepAttention(*(None if x is None else x[document, beam] for x in self))


class BestSoFar(NamedTuple):
    """The best hypothesis of a document after a step, finished or active.

    Attributes:
        row: the document's row in the batch.
        tokens: (t,), ids of the dictionary. The last one is the end symbol if the hypothesis has ended.
        score: score of the hypothesis. An active hypothesis is scored as if it ended here.
        read: attention of the last word; empty if the hypothesis has ended.
    """

    row: int
    tokens: Tensor
    score: float
    read: StepAttention


OnStep = Callable[[List[BestSoFar]], None]
"""Function called after each step except the last, with the unfinished documents. Its exceptions end the search and are
passed to the caller, so the function can stop a search.
"""


def best_so_far(
    step: int,
    live: ActiveHypotheses,
    done: Finished,
    scores: Tensor,
    parents: Tensor,
    read: StepAttention,
    vocabulary: Optional[OutputVocabulary],
) -> List[BestSoFar]:
    """Find the best hypothesis of each document after a step.

    Args:
        step: number of the step, from 0.
        live: active hypotheses of the B remaining documents after this step.
        scores: scores (B, beam) of the active hypotheses as if they ended now; -inf in used-up slots.
        parents: (B, beam), the beam that each active hypothesis continues.
        read: attention in this step, (B, beam or 1, S), for the beams before the step.
        vocabulary: translates search ids to ids of the dictionary; None if they are the same.
    """
    found = []
    best_score, best = scores.max(dim=1)
    ended_score, ended = done.score[live.batch_rows].max(dim=1)
    read = read.continued(parents)
    for place, row in enumerate(live.batch_rows.tolist()):
        beam, last_read = int(best[place]), StepAttention()
        if ended_score[place] >= best_score[place] and done.length[row, ended[place]]:
            tokens = done.tokens[row, ended[place], : done.length[row, ended[place]]]
        else:
            tokens = live.tokens[place, beam, 1 : step + 2]
            last_read = read.of(place, beam)
        score = float(best_score[place].maximum(ended_score[place]))
        if vocabulary is not None:
            tokens = vocabulary.dictionary_ids(tokens, row)
        found.append(BestSoFar(row, tokens, score, last_read))
    return found
