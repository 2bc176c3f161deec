"""Progress reports, which contain the best hypothesis so far for each document in a search."""

from typing import Callable, List, NamedTuple, Optional

from torch import Tensor

from ..vocabulary.output import OutputVocabulary
from .hypotheses import ActiveHypotheses, FinishedHypotheses, gather_beams


class StepAttention(NamedTuple):
    """The attention weights and the copy distribution of one step.

    Each tensor has the shape (S,), or (B, beam, S) for a batch. A field is None if the models do not return its value.
    """

    attention: Optional[Tensor] = None
    copying: Optional[Tensor] = None

    def gather_parents(self, parents: Tensor) -> "StepAttention":
        """Gather the rows at the beam indices ``parents`` (B, beam) from tensors (B, beam, S) or (B, 1, S)."""
        beam = parents.size(1)
        return StepAttention(*(None if x is None else gather_beams(x.expand(-1, beam, -1), parents) for x in self))

    def select_hypothesis(self, document: int, beam: int) -> "StepAttention":
        """Return the rows (S,) of one hypothesis from tensors (B, beam, S)."""
        return StepAttention(*(None if x is None else x[document, beam] for x in self))


class BestHypothesis(NamedTuple):
    """The best finished or active hypothesis of a document after a step.

    Attributes:
        row: the row of the document in the batch.
        tokens: the dictionary ids of the hypothesis (t,), including the end symbol if the hypothesis has ended.
        score: the score of the hypothesis. An active hypothesis is scored as if it ended after this step.
        read: the attention weights and the copy distribution of the last word. The fields are None if the hypothesis
            has ended.
    """

    row: int
    tokens: Tensor
    score: float
    read: StepAttention


OnStep = Callable[[List[BestHypothesis]], None]
"""A function that is called with the best hypothesis of each unfinished document after each step except the last.

If the function raises an exception, the search stops and the caller receives the exception.
"""


def find_best_hypotheses(
    step: int,
    live: ActiveHypotheses,
    done: FinishedHypotheses,
    scores: Tensor,
    parents: Tensor,
    read: StepAttention,
    vocabulary: Optional[OutputVocabulary],
) -> List[BestHypothesis]:
    """Find the best hypothesis of each document after a step.

    Args:
        step: the step index, starting from 0.
        live: the active hypotheses of the B remaining documents after this step.
        done: the finished hypotheses.
        scores: the scores (B, beam) of the active hypotheses as if they ended now, and -inf in slots of finished
            hypotheses.
        parents: the index (B, beam) of the beam that each active hypothesis continues.
        read: the attention weights and the copy distribution (B, beam, S) or (B, 1, S) of this step, before reordering.
        vocabulary: the vocabulary that converts search ids to dictionary ids, or None if both are the same.
    """
    found = []
    best_score, best = scores.max(dim=1)
    ended_score, ended = done.score[live.batch_rows].max(dim=1)
    read = read.gather_parents(parents)
    for place, row in enumerate(live.batch_rows.tolist()):
        beam, last_read = int(best[place]), StepAttention()
        if ended_score[place] >= best_score[place] and done.length[row, ended[place]]:
            tokens = done.tokens[row, ended[place], : done.length[row, ended[place]]]
        else:
            tokens = live.tokens[place, beam, 1 : step + 2]
            last_read = read.select_hypothesis(place, beam)
        score = float(best_score[place].maximum(ended_score[place]))
        if vocabulary is not None:
            tokens = vocabulary.convert_to_dictionary_ids(tokens, row)
        found.append(BestHypothesis(row, tokens, score, last_read))
    return found
