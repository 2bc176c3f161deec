"""Choose the summary sentences that maximise the expected ROUGE under a content model."""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ...text.subsequences import iterate_ngrams
from .features import MOST_COUNTED, Item

BIGRAM_WEIGHT = 2.0
"""Weight of the expected ROUGE-2 relative to ROUGE-1."""
LONGEST = 1.15
"""Maximum number of words in a summary, as a multiple of the mean length of the training summaries."""
FEWEST_WORDS = 3
"""Minimum number of words in a chosen sentence."""
SAME = 0.6
"""Maximum proportion of the shorter sentence's words that two chosen sentences may have in common."""
WIDTH = 10
"""Beam size, the number of sentence sets that the search extends in each step."""
PATIENCE = 3
"""Number of steps without a better set after which the search ends, because larger sets become worse."""


class ExpectedNgrams(NamedTuple):
    """The words and bigrams that are expected in the reference summary of a document.

    Attributes:
        items: a dictionary from items to the probabilities that the reference summary contains them.
        length: the expected number of words in the reference summary.
    """

    items: Mapping[Item, float]
    length: float

    def compute_expected_rouge(self, sentences: Sequence[Sequence[str]]) -> float:
        """Return the expected ROUGE-1 F1 of a summary plus :data:`BIGRAM_WEIGHT` times the expected ROUGE-2 F1.

        F1 is estimated as 2 × (expected number of common grams) / (number of grams in the summary + expected number of
        grams in the reference).

        Args:
            sentences: the stems of each sentence in the summary.
        """
        words = [word for sentence in sentences for word in sentence]
        total = 0.0
        for order, most in MOST_COUNTED.items():
            common = sum(
                self.items.get((gram, count), 0.0)
                for gram, number in Counter(iterate_ngrams(words, order)).items()
                for count in range(1, min(number, most) + 1)
            )
            grams_of_both = max(len(words) - order + 1, 0) + max(self.length - order + 1, 1)
            total += (BIGRAM_WEIGHT if order == 2 else 1.0) * 2 * common / grams_of_both
        return total


def choose_sentence_set(
    sentences: Sequence[Sequence[str]], expectation: ExpectedNgrams, most_words: float
) -> List[int]:
    """Choose the set of sentences with the highest expected ROUGE, using beam search over sets of increasing size.

    Args:
        sentences: the stems of each candidate sentence, in the order in which candidates appear in a summary.
        expectation: the expected content of the reference summary.
        most_words: the maximum number of words in a summary. If every candidate is longer, only the best candidate is
            chosen.

    Returns:
        The indices of the chosen sentences in ascending order. The list is empty if no candidate contains words.
    """
    words: List[Set[str]] = [set(sentence) for sentence in sentences]
    usable = [number for number, sentence in enumerate(sentences) if len(sentence) >= FEWEST_WORDS]
    usable = usable or [number for number, sentence in enumerate(sentences) if sentence]
    best: Tuple[int, ...] = ()
    best_score = 0.0
    beam: List[Tuple[int, ...]] = [()]
    while beam and len(beam[0]) < len(best) + PATIENCE:
        scores: Dict[Tuple[int, ...], float] = {}
        for kept in beam:
            size = sum(len(sentences[number]) for number in kept)
            for number in usable:
                if size + len(sentences[number]) > most_words or any(
                    _are_similar_sentences(words, number, other) for other in kept
                ):
                    continue
                numbers = tuple(sorted((*kept, number)))
                if numbers not in scores:
                    scores[numbers] = expectation.compute_expected_rouge([sentences[one] for one in numbers])
        beam = sorted(scores, key=lambda numbers: (-scores[numbers], numbers))[:WIDTH]
        if beam and scores[beam[0]] > best_score:
            best, best_score = beam[0], scores[beam[0]]
    if not best and usable:
        return [max(usable, key=lambda number: (expectation.compute_expected_rouge([sentences[number]]), -number))]
    return list(best)


def _are_similar_sentences(words: Sequence[Set[str]], one: int, other: int) -> bool:
    """Return whether two sentences are identical or have too many words in common."""
    common = len(words[one] & words[other])
    return one == other or common > SAME * min(len(words[one]), len(words[other]))
