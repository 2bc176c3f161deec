"""Choose the sentences of a summary by their expected ROUGE under a content model."""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from .features import MOST_COUNTED, Item, grams

BIGRAM_WEIGHT = 2.0
"""Weight of the expected ROUGE-2 relative to ROUGE-1."""
LONGEST = 1.15
"""Largest number of words of a summary, in proportion to the mean of training."""
FEWEST_WORDS = 3
"""Sentences of fewer words are not chosen."""
SAME = 0.6
"""Two sentences that share this proportion of the shorter one's words are not chosen together."""
WIDTH = 10
"""Number of sets of sentences kept in the search."""


class Expectation(NamedTuple):
    """Expected words and bigrams of the reference of a document.

    Attributes:
        items: probability of each item.
        length: expected number of words.
    """

    items: Mapping[Item, float]
    length: float

    def rouge(self, sentences: Sequence[Sequence[str]]) -> float:
        """Expected ROUGE-1 F1 of a summary plus :data:`BIGRAM_WEIGHT` times its expected ROUGE-2 F1.

        An F1 is 2 × (expected number of common grams) / (number of its grams + expected number of the reference's).

        Args:
            sentences: stems of each sentence.
        """
        words = [word for sentence in sentences for word in sentence]
        total = 0.0
        for order, most in MOST_COUNTED.items():
            common = sum(
                self.items.get((gram, count), 0.0)
                for gram, number in Counter(grams(words, order)).items()
                for count in range(1, min(number, most) + 1)
            )
            grams_of_both = max(len(words) - order + 1, 0) + max(self.length - order + 1, 1)
            total += (BIGRAM_WEIGHT if order == 2 else 1.0) * 2 * common / grams_of_both
        return total


def choose(sentences: Sequence[Sequence[str]], expectation: Expectation, most_words: float) -> List[int]:
    """Search the set of sentences with the largest expected ROUGE, by a beam over growing sets.

    Args:
        sentences: stems of each candidate, in the order in which a summary has them.
        most_words: largest number of words of a summary. If every candidate is longer, the best single one is chosen.

    Returns:
        numbers of sentences, ascending; empty if there are no words.
    """
    words: List[Set[str]] = [set(sentence) for sentence in sentences]
    usable = [number for number, sentence in enumerate(sentences) if len(sentence) >= FEWEST_WORDS]
    usable = usable or [number for number, sentence in enumerate(sentences) if sentence]
    best: Tuple[int, ...] = ()
    best_score = 0.0
    beam: List[Tuple[int, ...]] = [()]
    while beam:
        scores: Dict[Tuple[int, ...], float] = {}
        for kept in beam:
            size = sum(len(sentences[number]) for number in kept)
            for number in usable:
                if size + len(sentences[number]) > most_words or any(_alike(words, number, other) for other in kept):
                    continue
                numbers = tuple(sorted((*kept, number)))
                if numbers not in scores:
                    scores[numbers] = expectation.rouge([sentences[one] for one in numbers])
        beam = sorted(scores, key=lambda numbers: (-scores[numbers], numbers))[:WIDTH]
        if beam and scores[beam[0]] > best_score:
            best, best_score = beam[0], scores[beam[0]]
    if not best and usable:
        return [max(usable, key=lambda number: (expectation.rouge([sentences[number]]), -number))]
    return list(best)


def _alike(words: Sequence[Set[str]], one: int, other: int) -> bool:
    """Tell whether two sentences are the same or have too many words in common."""
    common = len(words[one] & words[other])
    return one == other or common > SAME * min(len(words[one]), len(words[other]))
