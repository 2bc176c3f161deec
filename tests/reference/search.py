"""Beam search and its penalties; the choice of hypotheses by consensus, and of sentences."""

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .parts import lcs


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


def best_possible_score(log_prob, cost, lengths, alpha, beta, length_kind, weight, coverage_kind, source_length):
    """The bound of docs/decoding.md, the best score of an unfinished hypothesis that may end with a length."""
    best = max(log_prob / length_penalty(length, alpha, beta, length_kind) for length in lengths)
    if coverage_kind == "summary":
        return best - cost
    spent_evenly = [max(lengths) / source_length] * source_length
    return best - coverage_penalty(spent_evenly, weight, "wu")


def _rouge_n(one, other, order):
    first = [tuple(one[start : start + order]) for start in range(len(one) - order + 1)]
    second = [tuple(other[start : start + order]) for start in range(len(other) - order + 1)]
    size, left, common = len(first) + len(second), list(second), 0
    for gram in first:
        if gram in left:
            left.remove(gram)
            common += 1
    return 2 * common / size if size else 0.0


def _rouge_l(one, other):
    size = len(one) + len(other)
    return 2 * lcs(one, other) / size if size else 0.0


def consensus(hypotheses, counts):
    """Mean of ROUGE-1, ROUGE-2 and ROUGE-L of each hypothesis against the others that count."""
    means = []
    for number, one in enumerate(hypotheses):
        scores = []
        for place, other in enumerate(hypotheses):
            if place != number and counts[place]:
                scores.append((_rouge_n(one, other, 1) + _rouge_n(one, other, 2) + _rouge_l(one, other)) / 3)
        means.append(sum(scores) / len(scores) if scores else 0.0)
    return means


def expected_rouge(sentences, items, length):
    """Expected ROUGE-1 plus twice the expected ROUGE-2 of a summary, without bigrams across sentences."""
    words = sum(map(len, sentences))
    total = 0.0
    for order, most, weight in ((1, 4, 1), (2, 1, 2)):
        seen, common = {}, 0.0
        for sentence in sentences:
            for start in range(len(sentence) - order + 1):
                gram = tuple(sentence[start : start + order])
                seen[gram] = seen.get(gram, 0) + 1
                if seen[gram] <= most:
                    common += items.get((gram, seen[gram]), 0.0)
        total += weight * 2 * common / (max(words - order + 1, 0) + max(length - order + 1, 1))
    return total


def readability(chosen, texts, stems):
    """Three quarters of predicted coherence and one of relevance of chosen sentences, minus 1.5 for each flaw."""
    openers, pronouns = {"he", "she", "but"}, {"he", "she"}  # those that the test draws
    flaws = 0.0
    for rank, number in enumerate(chosen):
        words = texts[number].rstrip(".").split()
        follows = number == 0 or (rank > 0 and chosen[rank - 1] == number - 1)
        if not follows and words[0] in openers:
            flaws += 1.5 if rank == 0 else 1
        elif not follows and pronouns & set(words[:5]):
            flaws += 0.5
        flaws += (number > 0 and "i" in words and "said" not in words) + 1.5 * ("pictured" in words)
        joins = any(
            one.islower() and word == "The" and two.islower() for one, word, two in zip(words, words[1:], words[2:])
        )
        flaws += 1.5 * (joins or not texts[number].endswith(".")) + (len(words) < 6)
        for other in chosen[:rank]:
            one, two = ({stem for stem in stems[place] if len(stem) > 3} for place in (number, other))
            flaws += 3 * max(0.0, len(one & two) / max(1, min(len(one), len(two))) - 0.35)
    size = len(chosen)
    steps = [after - before == 1 for before, after in zip(chosen, chosen[1:])]
    neighbours = sum(steps) / len(steps) if steps else 1
    log_words = math.log(1 + sum(len(stems[number]) for number in chosen))
    short = sum(len(stems[number]) < 6 for number in chosen) / size
    depth = sum(math.log(1 + number) for number in chosen) / size
    first = float(chosen[0] == 0)
    # the constants include a share of 1 of copied words and of sentences in order
    coherence = -0.424 + 0.230 + 0.586 + 0.327 + 0.519 * neighbours - 0.354 * size + 0.896 * log_words + 0.053 * first
    relevance = -0.354 + 0.115 + 0.428 + 0.302 + 0.088 * neighbours - 0.072 * size + 0.961 * log_words - 0.113 * first
    coherence += -1.170 * short - 0.132 * depth
    relevance += -0.660 * short - 0.390 * depth
    return 0.75 * coherence + 0.25 * relevance - 1.5 * flaws
