"""Choose a candidate for each rewritten sentence, so that the summary contains as few repetitions as possible.

This module requires neither torch nor fairseq.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

MOST_SENTENCES = 14
"""Number of sentences of a summary with several candidates, so that there are at most 16,384 combinations."""
LENGTHS = ("tokens", "words")
"""Lengths by which a combination's score is divided: with its end symbols, or without, as in Chen and Bansal's code."""


class RewriteCandidate(NamedTuple):
    """A candidate for the rewritten form of a sentence.

    Attributes:
        words: vocabulary ids of the rewritten sentence, without the end symbol.
        log_prob: log-probability from the search, which is not normalised by length.
    """

    words: Tuple[int, ...]
    log_prob: float

    def get_length(self, kind: str) -> int:
        """Return the length of the candidate. ``kind`` is one of :data:`LENGTHS`."""
        return len(self.words) + (kind == "tokens")


def compute_candidate_limit(sentences: int) -> List[int]:
    """Return the number of candidates to consider for each sentence of a summary, as in Chen and Bansal's code.

    It is five for at most five ``sentences``, four for six, three for seven or eight, and two for more. From the
    fifteenth sentence on, only one candidate is considered. Chen and Bansal's summaries are never that long.
    """
    most = 5 if sentences <= 5 else {6: 4, 7: 3, 8: 3}.get(sentences, 2)
    return [most if number < MOST_SENTENCES else 1 for number in range(sentences)]


def choose_least_repetitive_candidates(
    beams: Sequence[Sequence[RewriteCandidate]], length_kind: str = "tokens"
) -> List[int]:
    """Choose a candidate for each sentence of a summary (Chen and Bansal 2018, section 2.3), and return their indices.

    Of all combinations of the best candidates (:func:`compute_candidate_limit`), the function chooses that with the
    fewest repeated bigrams in the whole summary. Ties are resolved by the highest score per token, Σ log_prob / Σ
    length, and then by order. A bigram that occurs n times counts as n - 1 repetitions. Bigrams do not cross sentence
    boundaries.

    Args:
        beams: candidates for each sentence, at least one, in order of decreasing quality.
        length_kind: way of measuring the length, one of the strings in :data:`LENGTHS`.
    """
    bits: Dict[Tuple[int, int], int] = {}  # index of the bit that represents each bigram
    # One entry for each way of choosing a candidate for every sentence processed so far: the bit set of distinct
    # bigrams, the total number of bigrams, the score, the length, and the indices of the chosen candidates.
    partial: List[Tuple[int, int, float, int, Tuple[int, ...]]] = [(0, 0, 0.0, 0, ())]
    for beam, count in zip(beams, compute_candidate_limit(len(beams))):
        described = []
        for candidate in beam[:count]:
            occurring = 0
            for bigram in zip(candidate.words, candidate.words[1:]):
                occurring |= 1 << bits.setdefault(bigram, len(bits))
            described.append((occurring, max(len(candidate.words) - 1, 0), candidate))
        partial = [
            (
                seen | occurring,
                bigrams + more,
                score + candidate.log_prob,
                length + candidate.get_length(length_kind),
                (*places, place),
            )
            for seen, bigrams, score, length, places in partial
            for place, (occurring, more, candidate) in enumerate(described)
        ]
    # Summed over the distinct bigrams, n - 1 equals the total number of bigrams minus the number of distinct bigrams.
    best = min(partial, key=lambda found: (found[1] - bin(found[0]).count("1"), -found[2] / max(found[3], 1)))
    return list(best[4])
