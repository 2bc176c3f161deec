"""Choose a candidate for each rewritten sentence so that the summary repeats least, without torch and fairseq."""

from typing import Dict, List, NamedTuple, Sequence, Tuple

MOST_SENTENCES = 14
"""Number of sentences from which each sentence has a single candidate, which limits the combinations to 16,384."""


LENGTHS = ("tokens", "words")
"""Lengths by which the score of a combination can be divided.

"tokens" includes the end symbol, which always contributes to the score. "words" excludes it, as in Chen and Bansal's
code.
"""


class Candidate(NamedTuple):
    """A candidate rewriting of a sentence.

    Attributes:
        words: tokens of the rewritten sentence without the end symbol.
        log_prob: score of the search, not divided by a length.
    """

    words: Tuple[int, ...]
    log_prob: float

    def length(self, kind: str) -> int:
        """Return the length of the candidate, measured as one of :data:`LENGTHS`."""
        return len(self.words) + (kind == "tokens")


def kept(sentences: int) -> List[int]:
    """Return how many of its best candidates each of ``sentences`` sentences keeps (Chen and Bansal's code).

    Up to five sentences keep five candidates each, six keep four, seven or eight keep three, and more keep two. With
    fifteen or more sentences, which their summaries do not reach, each sentence keeps one.
    """
    most = 5 if sentences <= 5 else {6: 4, 7: 3, 8: 3}.get(sentences, 2)
    return [most if number < MOST_SENTENCES else 1 for number in range(sentences)]


def best_combination(beams: Sequence[Sequence[Candidate]], length_kind: str = "tokens") -> List[int]:
    """Choose a candidate for each sentence (Chen and Bansal 2018, section 2.3).

    The function considers all combinations of the candidates that remain after :func:`kept`, and chooses the
    combination with the fewest repeated bigrams in the whole summary. Ties are broken by the largest score per token, Σ
    log_prob / Σ length, and then by order. A bigram that occurs n times is repeated n - 1 times. Bigrams do not cross
    sentence boundaries.

    Args:
        beams: candidates of each sentence, best first; at least one.
        length_kind: one of :data:`LENGTHS`.

    Returns:
        an index into each beam.
    """
    bits: Dict[Tuple[int, int], int] = {}  # the bit that represents each bigram
    # Each list contains one entry per combination of the sentences so far. The lists store the bigrams of a
    # combination, their number with repetitions, the score and the length.
    partial: List[Tuple[int, int, float, int, Tuple[int, ...]]] = [(0, 0, 0.0, 0, ())]
    for beam, count in zip(beams, kept(len(beams))):
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
                length + candidate.length(length_kind),
                (*places, place),
            )
            for seen, bigrams, score, length, places in partial
            for place, (occurring, more, candidate) in enumerate(described)
        ]
    # Σ (n - 1) over the distinct bigrams is the number of all bigrams minus the number of distinct bigrams
    best = min(partial, key=lambda found: (found[1] - bin(found[0]).count("1"), -found[2] / max(found[3], 1)))
    return list(best[4])
