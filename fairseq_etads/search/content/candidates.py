"""Select summary sentences from a document's own and generated sentences, by a content model."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...evaluation.rouge import Settings
from .choosing import LONGEST, Expectation, choose
from .model import ContentModel


class Candidate(NamedTuple):
    """A candidate sentence for a summary.

    Attributes:
        words: words of the sentence.
        number: index among the document's sentences, or None for a generated sentence.
        written: index among the generated sentences, or None for a sentence of the document.
    """

    words: List[str]
    number: Optional[int]
    written: Optional[int]


class Choice(NamedTuple):
    """The sentences chosen for a summary, in order, and their expected ROUGE (:meth:`Expectation.rouge`)."""

    sentences: List[Candidate]
    score: float


def stems(words: Sequence[str]) -> List[str]:
    """Return the stems of words in the form that ROUGE compares."""
    return Settings().tokenizer.tokenize(" ".join(words))


def padded(probabilities: Sequence[float], sentences: int) -> List[float]:
    """Return exactly ``sentences`` probabilities. Missing probabilities are 0."""
    return [*probabilities, *[0.0] * sentences][:sentences]


def choose_sentences(
    model: ContentModel,
    sentences: Sequence[List[str]],
    probabilities: Sequence[float],
    written: Sequence[List[str]] = (),
    most_words: Optional[int] = None,
) -> Choice:
    """Choose the sentences with the largest expected ROUGE.

    Args:
        sentences: words of each sentence of the document.
        probabilities: probability of each of these sentences, from an extractor; missing probabilities are 0.
        written: words of further candidates, such as the sentences of all hypotheses.
        most_words: maximum number of words (default: :data:`LONGEST` times the mean of the training summaries).

    Returns:
        The chosen sentences, or no sentences if no candidate contains words.
    """
    document = [stems(sentence) for sentence in sentences]
    expected = Expectation(model.items(document, padded(probabilities, len(sentences))), model.length)
    candidates = merged(sentences, document, written)
    words = [stems(candidate.words) for candidate in candidates]
    chosen = choose(words, expected, most_words or LONGEST * model.length)
    return Choice([candidates[place] for place in chosen], expected.rouge([words[place] for place in chosen]))


def merged(
    sentences: Sequence[List[str]], document: Sequence[List[str]], written: Sequence[List[str]]
) -> List[Candidate]:
    """Merge the sentences of a document with generated sentences, and drop duplicate generated sentences.

    Each generated sentence is placed after the document sentence with which it shares the most distinct stems. If there
    are several such sentences, it is placed after the first one.

    Args:
        sentences: words of the document's sentences.
        document: the document's sentences, each as a list of stems.
        written: words of the generated sentences.
    """
    words = [set(sentence) for sentence in document]
    seen = {tuple(sentence) for sentence in document}
    placed: List[Tuple[int, int, Candidate]] = [
        (number, 0, Candidate(sentence, number, None)) for number, sentence in enumerate(sentences)
    ]
    for rank, sentence in enumerate(written):
        key = tuple(stems(sentence))
        if key not in seen:
            seen.add(key)
            common = set(key)
            place = max(range(len(words)), key=lambda number: (len(words[number] & common), -number), default=0)
            placed.append((place, rank + 1, Candidate(sentence, None, rank)))
    return [candidate for _, _, candidate in sorted(placed, key=lambda row: row[:2])]
