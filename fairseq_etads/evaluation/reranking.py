"""The best combination of one rewritten sentence each: the one that repeats least. Without torch and fairseq."""

from typing import Dict, List, NamedTuple, Sequence, Tuple

MOST_EXACT = 8
"""So many sentences have more than two candidates each."""
MOST_SENTENCES = 14
"""From here on sentences have one candidate, so that there are 16,384 combinations at most."""


LENGTHS = ("tokens", "words")
"""Lengths that the score of a combination is divided by: tokens include the end symbol, which the score includes in any
case; words do not, as in Chen and Bansal's code."""


class Candidate(NamedTuple):
    """A way to write a sentence.

    Attributes:
        words: its tokens without the end symbol. log_prob: its score, not divided by a length.
    """

    words: Tuple[int, ...]
    log_prob: float

    def length(self, kind: str) -> int:
        """Its length, as one of :data:`LENGTHS` counts it."""
        return len(self.words) + (kind == "tokens")


def kept(sentences: int) -> List[int]:
    """How many candidates each of so many sentences keeps, the best of its beam (Chen and Bansal's code).

    Five of up to five sentences, four of six, three of seven or eight, two beyond. From the fifteenth sentence on,
    which their summaries do not have, it is one.
    """
    most = 5 if sentences <= 5 else {6: 4, 7: 3, 8: 3}.get(sentences, 2)
    return [most if number < MOST_SENTENCES else 1 for number in range(sentences)]


def best_combination(beams: Sequence[Sequence[Candidate]], length_kind: str = "tokens") -> List[int]:
    """Which candidate of each sentence to take (Chen and Bansal 2018, section 2.3).

    Of all combinations of the candidates that :func:`kept` leaves, that with the fewest repeated bigrams in the whole
    summary; of several the one with the largest score per token, Σ log_prob / Σ length; of these the first. A bigram
    that occurs n times is repeated n - 1 times. Bigrams do not reach across sentences.

    Args:
        beams: of each sentence its candidates, best first; at least one.
        length_kind: one of :data:`LENGTHS`.

    Returns:
        a place in each beam.
    """
    bits: Dict[Tuple[int, int], int] = {}  # a bigram -> the bit that stands for it
    # of the combinations of the sentences so far: bigrams that occur, how many with their repetitions, scores, lengths
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
    # Σ (n - 1) over the bigrams that occur is how many there are, less how many different ones
    best = min(partial, key=lambda found: (found[1] - bin(found[0]).count("1"), -found[2] / max(found[3], 1)))
    return list(best[4])
