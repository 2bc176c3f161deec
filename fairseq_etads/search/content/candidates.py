"""Choose sentences of a document, and sentences written for it, by a content model."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...evaluation.rouge import Settings
from .choosing import LONGEST, Expectation, choose
from .model import ContentModel


class Candidate(NamedTuple):
    """A sentence that a summary may have.

    Attributes:
        words: its words.
        number: index of the document's sentence; None: a written one.
        written: index among the written sentences; None: one of the document's.
    """

    words: List[str]
    number: Optional[int]
    written: Optional[int]


class Choice(NamedTuple):
    """The sentences of a summary in order, and their expected ROUGE (:meth:`Expectation.rouge`)."""

    sentences: List[Candidate]
    score: float


def stems(words: Sequence[str]) -> List[str]:
    """Stems of words, as ROUGE compares them."""
    return Settings().tokenizer.tokenize(" ".join(words))


def padded(probabilities: Sequence[float], sentences: int) -> List[float]:
    """Return the probabilities of ``sentences`` sentences; missing ones are 0."""
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
        probabilities: probability of each of them from an extractor; missing ones are 0.
        written: words of further candidates, such as the sentences of all hypotheses.
        most_words: largest number of words (default: by the summaries of training).

    Returns:
        the choice; without sentences if no candidate has words.
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
    """Merge a document's sentences and written ones, each once.

    A written sentence comes after the first of the document's sentences with which it has the most different stems in
    common.

    Args:
        sentences: words of the document's sentences.
        document: the same as stems.
        written: words of the written sentences.
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
