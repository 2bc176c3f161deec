"""Beam search and its penalties."""

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple


def length_penalty(length: int, alpha: float, beta: float, kind: str) -> float:
    """Wu et al. 2016, equation 14, and fairseq's."""
    return float(length) ** alpha if kind == "avg" else ((beta + length) / (beta + 1)) ** alpha


def coverage_penalty(coverage: Sequence[float], weight: float, kind: str) -> float:
    """One hypothesis; coverage of the real source tokens."""
    total = 0.0
    for c in coverage:
        total += max(c, 1.0) - 1.0 if kind == "summary" else -math.log(max(min(c, 1.0), 1.2e-38))
    return weight * total


def repeats(words: Sequence[int], size: int) -> bool:
    """Tell whether an n-gram occurs twice in a text."""
    grams = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return len(grams) > len(set(grams))


def beam_search(
    predict: Callable[[List[int]], Any],
    beam: int,
    longest: int,
    eos: int,
    pad: int,
    shortest: int = 1,
    alpha: float = 1.0,
    beta: float = 5.0,
    length_kind: str = "avg",
    weight: float = 0.0,
    coverage_kind: str = "summary",
    stepwise: bool = False,
    block: int = 0,
    history: Optional[List[Tuple[List[float], List[Tuple[float, float]]]]] = None,
) -> List[Tuple[List[int], float, float]]:
    """Beam search over one document that never stops early: (tokens, log P, score), best first.

    ``predict(words)`` returns the log-probabilities of the next token and the attention to each source token, and
    optionally a set of tokens that are allowed only if no others are. Each step appends to ``history`` the scores of
    finished hypotheses, and log P and coverage cost of unfinished ones.
    """
    living: List[Tuple[List[int], float, List[float]]] = [([], 0.0, [])]
    finished = []
    for step in range(longest + 1):
        candidates = []
        for words, log_prob, coverage in living:
            log_probs, attention, *rest = predict(words)
            coverage = [a + b for a, b in zip(coverage or [0.0] * len(attention), attention)]
            cost = coverage_penalty(coverage, weight, coverage_kind) if weight else 0.0
            own = []
            for token, value in enumerate(log_probs):
                if token == pad or (token == eos and step < shortest) or (token != eos and step == longest):
                    continue
                if value == -math.inf:
                    continue
                if block and token != eos and repeats([*words, token], block) and not repeats(words, block):
                    continue
                rank = log_prob + value - (cost if stepwise else 0.0)
                own.append((rank, words, token, log_prob + value, coverage, cost))
            last_resort = rest[0] if rest else set()
            candidates += [c for c in own if c[2] not in last_resort] or own
        candidates.sort(key=lambda candidate: -candidate[0])
        living = []
        for place, (_, words, token, log_prob, coverage, cost) in enumerate(candidates[: 2 * beam]):
            if token == eos and place < beam:
                score = log_prob / length_penalty(step + 1, alpha, beta, length_kind) - cost
                finished.append(([*words, eos], log_prob, score))
            elif token != eos and len(living) < beam:
                living.append(([*words, token], log_prob, coverage))
        if history is not None:
            costs = [coverage_penalty(coverage, weight, coverage_kind) if weight else 0.0 for _, _, coverage in living]
            unfinished = [(log_prob, cost) for (_, log_prob, _), cost in zip(living, costs)]
            history.append(([score for _, _, score in finished], unfinished))
    return sorted(finished, key=lambda hypothesis: -hypothesis[2])


def best_possible_score(
    log_prob: float,
    cost: float,
    lengths: Sequence[int],
    alpha: float,
    beta: float,
    length_kind: str,
    weight: float,
    coverage_kind: str,
    source_length: int,
) -> float:
    """The bound of docs/decoding.md, the best score of an unfinished hypothesis that may end with a length."""
    best = max(log_prob / length_penalty(length, alpha, beta, length_kind) for length in lengths)
    if coverage_kind == "summary":
        return best - cost
    spent_evenly = [max(lengths) / source_length] * source_length
    return best - coverage_penalty(spent_evenly, weight, "wu")
