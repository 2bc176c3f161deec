"""Choose the summary sentences that maximise the expected ROUGE under a content model.

They are sentences of the document, and sentences that a summariser has generated.
"""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...text.subsequences import iterate_ngrams
from .features import MOST_COUNTED, Item
from .model import ContentModel, stem_words

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
    """The words and bigrams that are expected in the reference summary of a document."""

    items: Mapping[Item, float]  # probability that the reference summary contains each item
    length: float  # expected number of words in the reference summary

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
        most_words: the maximum number of words in a summary. If every candidate is longer, only the best is chosen.

    Returns:
        The indices of the chosen sentences in ascending order, none if no candidate contains words.
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
                own = words[number]
                if size + len(sentences[number]) > most_words or any(
                    number == other or len(own & words[other]) > SAME * min(len(own), len(words[other]))
                    for other in kept
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


class Candidate(NamedTuple):
    """A candidate sentence for a summary."""

    words: List[str]
    number: Optional[int]  # index of the sentence in the document, or None for a generated sentence
    written: Optional[int]  # index of the sentence among the generated sentences, or None for one of the document


class SentenceChoice(NamedTuple):
    """The chosen sentences of a summary, in order, and their expected ROUGE."""

    sentences: List[Candidate]
    score: float


def pad_probabilities(probabilities: Sequence[float], sentences: int) -> List[float]:
    """Pad or truncate a list of probabilities to the number of sentences. Missing probabilities are 0."""
    return [*probabilities, *[0.0] * sentences][:sentences]


def choose_sentences(
    model: ContentModel,
    sentences: Sequence[List[str]],
    probabilities: Sequence[float],
    written: Sequence[List[str]] = (),
    most_words: Optional[int] = None,
) -> SentenceChoice:
    """Choose the set of sentences with the highest expected ROUGE.

    Args:
        model: the content model, which predicts the content of the summary.
        sentences: the words of each sentence in the document.
        probabilities: the selection probability of each sentence in the document. Missing probabilities are 0.
        written: the words of additional candidate sentences, such as the sentences of all hypotheses.
        most_words: the maximum number of words in the summary. By default, this is :data:`LONGEST` times the mean
            length of the training summaries.

    Returns:
        The chosen sentences and their score. The list is empty if no candidate contains words.
    """
    document = model.stem_document(sentences)
    if not any(document):
        return SentenceChoice([], 0.0)
    expected = ExpectedNgrams(
        model.predict_ngram_probabilities(document, pad_probabilities(probabilities, len(sentences))), model.length
    )
    candidates = merge_sentences(sentences, document, written, model.tokens)
    words = [stem_words(candidate.words, model.tokens) for candidate in candidates]
    chosen = choose_sentence_set(words, expected, most_words or LONGEST * model.length)
    return SentenceChoice(
        [candidates[place] for place in chosen], expected.compute_expected_rouge([words[place] for place in chosen])
    )


def merge_sentences(
    sentences: Sequence[List[str]], document: Sequence[List[str]], written: Sequence[List[str]], tokens: str
) -> List[Candidate]:
    """Merge the sentences of a document with generated sentences, and drop duplicate generated sentences.

    Each generated sentence is placed after the document sentence with which it shares the most distinct stems, the
    first of them if several share the same number. ``document`` contains the stems of ``sentences``.
    """
    words = [set(sentence) for sentence in document]
    seen = {tuple(sentence) for sentence in document}
    placed: List[Tuple[int, int, Candidate]] = [
        (number, 0, Candidate(sentence, number, None)) for number, sentence in enumerate(sentences)
    ]
    for rank, sentence in enumerate(written):
        key = tuple(stem_words(sentence, tokens))
        if key not in seen:
            seen.add(key)
            common = set(key)
            place = max(range(len(words)), key=lambda number: (len(words[number] & common), -number), default=0)
            placed.append((place, rank + 1, Candidate(sentence, None, rank)))
    return [candidate for _, _, candidate in sorted(placed, key=lambda row: row[:2])]
