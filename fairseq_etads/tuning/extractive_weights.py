"""Tune the weights of a model folder's extractive features on n-best lists (``etads-tune --mert``).

Each round generates summaries with the current weights and adds the hypotheses to the n-best lists. Minimum-error-rate
training on these lists then determines the weights for the next round.

If one weight varies (Och 2003), the maximum score over the hypotheses of a document is an upper envelope of lines, and
the mean of a metric is a step function, whose best step is found exactly.
"""

import datetime
import functools
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tabulate import tabulate

from ..evaluation.rouge import METRICS as ROUGE_METRICS
from ..evaluation.rouge import RougeSettings, score_pairs
from ..files.outputs import write_json
from ..platform.errors import InputError
from ..summarizer.encoded_documents import Hypothesis
from ..systems.abs import FEATURES, parse_extractive_weights
from ..version import get_version
from . import MERT_ROUNDS, NBEST, STARTING_POINTS
from .study import TuningStudy, find_best, remove_markdown

_RANGE = 3.0
"""Bound for the random weights at the starting points, which are drawn uniformly between minus and plus this value.

The weight of log p is 1. With a larger bound, the search more often ends at weights that are good only on these n-best
lists: decoding with such weights finds other hypotheses.
"""
_LEAST_GAIN = 1e-9


class NBestList(NamedTuple):
    """Hypotheses of a document, which are ranked by the weighted sum of their features."""

    features: np.ndarray  # shape (n, K)
    scores: np.ndarray  # metric scores, shape (n,); higher is better


def compute_mean_score(lists: Sequence[NBestList], weights: Sequence[float]) -> float:
    """Return the mean metric score of the top hypotheses with the given weights, of equal ones the first."""
    return float(np.mean([nbest.scores[(nbest.features @ np.asarray(weights)).argmax()] for nbest in lists]))


def find_upper_envelope(slopes: Sequence[float], intercepts: Sequence[float]) -> Tuple[List[float], List[int]]:
    """Find the lines that form the upper envelope, from left to right, only the first of identical lines.

    Returns the start of each line's interval (minus infinity for the first line), and the indices of the lines.
    """
    starts: List[float] = []
    lines: List[int] = []
    for line in sorted(range(len(slopes)), key=lambda number: (slopes[number], intercepts[number], -number)):
        start = -math.inf
        while lines:
            last = lines[-1]
            if slopes[line] != slopes[last]:  # if the slopes are equal, the last line is never the highest
                start = (intercepts[last] - intercepts[line]) / (slopes[line] - slopes[last])
                if start > starts[-1]:
                    break
            lines.pop()
            starts.pop()
            start = -math.inf
        lines.append(line)
        starts.append(start)
    return starts, lines


def find_best_weight_value(lists: Sequence[NBestList], weights: Sequence[float], feature: int) -> Tuple[float, float]:
    """Find the best value of the weight of ``feature``, in the middle of the best step, or keep the present value.

    Returns the value and the mean score with it.
    """
    others = np.array(weights, dtype=float)
    others[feature] = 0.0
    changes: Dict[float, float] = {}  # position and size of each change in the sum of scores
    total = 0.0
    for nbest in lists:
        slopes, intercepts = nbest.features[:, feature].tolist(), (nbest.features @ others).tolist()
        starts, lines = find_upper_envelope(slopes, intercepts)
        total += float(nbest.scores[lines[0]])
        for place in range(1, len(lines)):
            change = float(nbest.scores[lines[place]] - nbest.scores[lines[place - 1]])
            changes[starts[place]] = changes.get(starts[place], 0.0) + change
    edges = [-math.inf, *sorted(changes), math.inf]
    best_value, best = float(weights[feature]), compute_mean_score(lists, weights) * len(lists)
    for left, right in zip(edges, edges[1:]):
        total += changes.get(left, 0.0)
        if changes and total > best + _LEAST_GAIN:  # the middle of the step, or 1 beyond its only edge
            value = right - 1.0 if math.isinf(left) else left + 1.0 if math.isinf(right) else (left + right) / 2
            best_value, best = value, total
    return best_value, best / len(lists)


def hill_climb_weights(lists: Sequence[NBestList], weights: Sequence[float]) -> Tuple[List[float], float]:
    """Change the weight with the largest gain until there is none, never the first. Returns weights and mean score."""
    found, score = list(weights), compute_mean_score(lists, weights)
    while True:
        options = [(*find_best_weight_value(lists, found, feature), feature) for feature in range(1, len(found))]
        value, best, feature = max(options, key=lambda option: option[1])
        if best <= score + _LEAST_GAIN:
            return found, score
        found[feature], score = value, best


def find_best_weights(
    lists: Sequence[NBestList], first: Sequence[float], points: int = 20, seed: int = 1
) -> Tuple[List[float], float]:
    """Run :func:`hill_climb_weights` from several starting points, and return the best weights and their mean score.

    The first of the ``points`` starting points is ``first``; the others are random and have the same first weight. If
    scores are equal, the result from the earlier starting point is returned.
    """
    numbers = random.Random(seed)
    starts = [list(first)]
    while len(starts) < points:
        starts.append([first[0], *(numbers.uniform(-_RANGE, _RANGE) for _ in first[1:])])
    return max((hill_climb_weights(lists, start) for start in starts), key=lambda found: found[1])


OPTION = "extractive_weights"
"""Name of the decoding option that is tuned."""
MERT_FILE, MERT_REPORT = "mert.journal", "mert.json"
BYTES = 75
_RECALL = "-recall75"
_DIGITS = 4


class TuningRound(NamedTuple):
    """Results of decoding with given weights."""

    number: int  # round 0 uses the weights in the model folder
    weights: List[float]  # of all features; the first weight is always 1
    decoding: Dict[str, Any]  # values of all decoding options
    lists: List[List[Tuple[str, List[float], float]]]  # text, features and metric score of hypotheses, the best first
    mean: float  # mean metric score of the best hypotheses of all documents
    seconds: float

    def score(self, metric: str) -> float:
        """Return the mean score, like :meth:`.Trial.score`. All rounds use the same metric."""
        return self.mean


@dataclass(frozen=True)
class WeightTuningResults:
    """Results of all rounds of weight tuning."""

    rounds: List[TuningRound]
    metric: str  # one of :data:`.MERT_METRICS`, which is maximised
    documents: int  # number of documents that are summarised in each round
    nbest: int  # number of hypotheses per document
    signature: str  # settings of ROUGE

    @property
    def best(self) -> TuningRound:
        """Return the first of the rounds with the highest score."""
        best: TuningRound = find_best(self.rounds, self.metric)
        return best

    def format_markdown_table(self) -> str:
        """Format the results as a table for a terminal, with the index of the best round in bold."""
        rows = [
            [f"**{r.number}**" if r is self.best else str(r.number), *(f"{w:g}" for w in r.weights), f"{r.mean:.2f}"]
            for r in self.rounds
        ]
        heads = ["round", *FEATURES, self.metric]
        return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True, colalign=["right"] * len(heads))

    def make_card_note(self, source: str) -> str:
        """Return a note about the best weights for the model card. ``source`` describes the documents."""
        return (
            f"Extractive weights chosen by etads-tune --mert on {datetime.date.today().isoformat()}: round "
            f"{self.best.number} of {len(self.rounds)}, the best by {self.metric} on {self.documents:,} documents of "
            f"`{remove_markdown(source)}`, {self.nbest} hypotheses of each: {self.best.mean:.2f}, and "
            f"{self.rounds[0].mean:.2f} with the weights before. The first score is optimistic, because "
            f"it was chosen on these documents.\n\n`{self.signature}`"
        )

    def write(self, out: Path) -> None:
        """Write the report to a folder, without the n-best lists."""
        report = {
            **{name: getattr(self, name) for name in ("metric", "signature", "documents", "nbest")},
            "best": self.best.number,
            "extractive_weights": format_weights(self.best.weights),
            "rounds": [{"weights": r.weights, "score": r.mean, "seconds": r.seconds} for r in self.rounds],
        }
        write_json(out / MERT_REPORT, report)


def format_weights(weights: Sequence[float]) -> str:
    """Format weights as the value of ``--extractive-weights``."""
    return ",".join(f"{weight:.10g}" for weight in weights)


def get_features(hypothesis: Hypothesis, weights: Sequence[float]) -> List[float]:
    """Return the feature values of a hypothesis, whose score is their sum, weighted by 1 and ``weights``.

    The first is the rest of the score. The others are the numbers of matching words, bigrams and trigrams and of
    reorderings, divided by the length penalty.
    """
    rest = hypothesis.score - sum(weight * count for weight, count in zip(weights, hypothesis.features))
    return [rest, *hypothesis.features]


def tune_weights(
    work: TuningStudy, rounds: int = MERT_ROUNDS, nbest: int = NBEST, points: int = STARTING_POINTS
) -> WeightTuningResults:
    """Tune the weights of the features, or continue an interrupted call with the same arguments.

    Round 0 uses the weights in the model folder, or otherwise log p alone. Other decoding options are the folder's.
    Tuning ends after ``rounds``, or earlier if a round would repeat earlier weights. The beam size is ``nbest``, and
    each search for weights has several starting ``points``. Raises InputError if the rounds in the folder are damaged
    or used other settings.
    """
    summarizer = work.summarizer
    present = parse_extractive_weights(summarizer.config.decoding.get(OPTION, "")) or (1.0, 0.0, 0.0, 0.0, 0.0)
    weights = format_weights(_normalise_weights(present))
    name, recall = work.metric.partition(_RECALL)[0], work.metric.endswith(_RECALL)
    rouge = RougeSettings(metrics=ROUGE_METRICS if name == "mean" else (name,), byte_limit=BYTES if recall else None)

    @functools.cache
    def score(text: str, reference: str) -> float:
        """Score a text, whose score is the same in later rounds."""
        return round(float(score_pairs([text], [[reference]], rouge)[0, :, 2 if recall else 0].mean()), 6)

    with work.open(MERT_FILE) as study:
        found, defaults = work.read_trials(TuningRound, {**summarizer.config.decoding, "beam": nbest, OPTION: weights})
        work.encoded.check_decoding_options(**defaults)
        work.check_settings(defaults, {"--starting-points": points, "way of scoring": rouge.signature(1)})

        def propose() -> Optional[Tuple[Any, List[float]]]:
            if not found:
                return study.ask(), list(parse_extractive_weights(defaults[OPTION]))
            weights = _optimise_weights(found, points, work.seed)
            return None if any(weights == before.weights for before in found) else (study.ask(), weights)

        def run(number: int, weights: List[float], on_batch: Callable[[int], Any]) -> TuningRound:
            """Decode with these weights, and score the hypotheses."""
            started = time.monotonic()
            decoding, lists = {**defaults, OPTION: format_weights(weights)}, []
            for hypotheses, (_, reference) in zip(work.encoded.search_n_best(on_batch, **decoding), work.pairs):
                texts = [" ".join(hypothesis.text.split()) for hypothesis in hypotheses]
                features = [get_features(hypothesis, weights[1:]) for hypothesis in hypotheses]
                lists.append(list(zip(texts, features, (score(text, reference) for text in texts))))
            mean = float(np.mean([nbest[0][2] if nbest else 0.0 for nbest in lists]))
            return TuningRound(number, weights, decoding, lists, mean, round(time.monotonic() - started, 3))

        work.run_trials(found, rounds, propose, run)
    signature = f"ROUGE|{rouge.signature(1)}|n:{len(work.pairs)}|v:{get_version()}"
    return WeightTuningResults(found, work.metric, len(work.pairs), nbest, signature)


def _normalise_weights(weights: Sequence[float]) -> List[float]:
    """Scale the weights so that the first is 1, and round them, so that the printed weights are those tried."""
    return [round(weight / weights[0], _DIGITS) for weight in weights]


def _optimise_weights(rounds: Sequence[TuningRound], points: int, seed: int) -> List[float]:
    """Return the weights that are best for the combined n-best lists of all rounds."""
    lists = []
    for of_document in zip(*(found.lists for found in rounds)):
        united = {text: (features, score) for nbest in of_document for text, features, score in nbest}
        if united:
            lists.append(NBestList(*(np.array(column) for column in zip(*united.values()))))
    if not lists:
        raise InputError("no document has a summary of positive probability")
    return _normalise_weights(find_best_weights(lists, find_best(rounds, "").weights, points, seed)[0])
