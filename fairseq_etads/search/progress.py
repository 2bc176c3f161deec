"""What a search can report while it goes on: the best hypothesis so far of each document."""

from typing import Callable, List, NamedTuple, Optional

from torch import Tensor

from ..vocabulary.output import OutputVocabulary
from .hypotheses import Finished, Living, take_beams


class BestSoFar(NamedTuple):
    """The best hypothesis of a document after a step: of those that have ended and those that are being extended.

    Attributes:
        row: the document's row in the batch.
        tokens: (t,), ids of the dictionary; the last one is the end symbol if the hypothesis has ended.
        score: of a hypothesis that has not ended, the score that it would have if it ended here.
        attention: (S,), with which its last word was chosen; None if it has ended, or if the models return none.
    """

    row: int
    tokens: Tensor
    score: float
    attention: Optional[Tensor]


OnStep = Callable[[List[BestSoFar]], None]
"""Called after each step but the last, with the documents that are still searched for. What it raises ends the search
and is raised to the caller, so it can stop a search."""


def best_so_far(
    step: int,
    live: Living,
    done: Finished,
    scores: Tensor,
    parents: Tensor,
    attention: Optional[Tensor],
    vocabulary: Optional[OutputVocabulary],
) -> List[BestSoFar]:
    """The best hypothesis of each document after a step.

    Args:
        step: from 0.
        live: after it was extended; B documents are left.
        scores: (B, beam), of the living hypotheses as if they ended now; -inf in slots that are used up.
        parents: (B, beam), the beam that each living hypothesis continues.
        attention: (B, beam or 1, S), of this step; None if the models return none.
        vocabulary: translates ids of the output to those of the dictionary; None: they are the same.
    """
    found = []
    best_score, best = scores.max(dim=1)
    ended_score, ended = done.score[live.batch_rows].max(dim=1)
    if attention is not None:
        attention = take_beams(attention.expand(-1, live.beam, -1), parents)
    for place, row in enumerate(live.batch_rows.tolist()):
        beam, looked_at = int(best[place]), None
        if ended_score[place] >= best_score[place] and done.length[row, ended[place]]:
            tokens = done.tokens[row, ended[place], : done.length[row, ended[place]]]
        else:
            tokens = live.tokens[place, beam, 1 : step + 2]
            looked_at = None if attention is None else attention[place, beam]
        score = float(best_score[place].maximum(ended_score[place]))
        if vocabulary is not None:
            tokens = vocabulary.dictionary_ids(tokens, row)
        found.append(BestSoFar(row, tokens, score, looked_at))
    return found
