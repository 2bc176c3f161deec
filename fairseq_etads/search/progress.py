"""Progress reports of a search: the best hypothesis so far of each document."""

from typing import Callable, List, NamedTuple, Optional

from torch import Tensor

from ..vocabulary.output import OutputVocabulary
from .hypotheses import ActiveHypotheses, Finished, take_beams


class StepAttention(NamedTuple):
    """Attention to the document at one step, and its copy distribution: (S,), or (B, beam, S) for a batch.

    Each is None if the models do not have it.
    """

    attention: Optional[Tensor] = None
    copying: Optional[Tensor] = None

    def continued(self, parents: Tensor) -> "StepAttention":
        """Take the entries of the beams ``parents`` (B, beam) that are continued, from (B, beam or 1, S)."""
        beam = parents.size(1)
        return StepAttention(*(None if x is None else take_beams(x.expand(-1, beam, -1), parents) for x in self))

    def of(self, document: int, beam: int) -> "StepAttention":
        """Take the entries of one hypothesis, from (B, beam, S)."""
        return StepAttention(*(None if x is None else x[document, beam] for x in self))


class BestSoFar(NamedTuple):
    """The best hypothesis of a document after a step, among finished and active ones.

    Attributes:
        row: the document's row in the batch.
        tokens: (t,), ids of the dictionary; the last one is the end symbol if the hypothesis has ended.
        score: score of the hypothesis; for an unfinished one, its score if it ended here.
        read: attention of its last word; empty if it has ended.
    """

    row: int
    tokens: Tensor
    score: float
    read: StepAttention


OnStep = Callable[[List[BestSoFar]], None]
"""Called after each step but the last, with the unfinished documents. Its exceptions end the search and are raised to
the caller, so it can stop a search.
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
        live: the active hypotheses after this step; B documents are left.
        scores: scores (B, beam) of the active hypotheses if they ended now; -inf in slots that are used up.
        parents: (B, beam), the beam that each active hypothesis continues.
        read: attention in this step, by the beams before it: (B, beam or 1, S).
        vocabulary: translates ids of the output to ids of the dictionary; None: they are the same.
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
