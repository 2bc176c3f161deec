"""Select summary sentences with a content model, from a document's sentences and from generated sentences."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from .model import ContentModel, stem_words
from .sentence_choosing import LONGEST, ExpectedNgrams, choose_sentence_set


class Candidate(NamedTuple):
    """A candidate sentence for a summary.

    Attributes:
        words: the words of the sentence.
        number: the index of the sentence in the document, or None for a generated sentence.
        written: the index of the sentence among the generated sentences, or None for a sentence of the document.
    """

    words: List[str]
    number: Optional[int]
    written: Optional[int]


class SentenceChoice(NamedTuple):
    """The chosen sentences of a summary, in order, and their expected ROUGE.

    Expected ROUGE is described in :meth:`ExpectedNgrams.compute_expected_rouge`.
    """

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

    Each generated sentence is placed after the document sentence with which it shares the most distinct stems. If
    several document sentences share the same number of stems, it is placed after the first of them.

    Args:
        sentences: the words of each sentence in the document.
        document: the stems of each sentence in the document.
        written: the words of each generated sentence.
        tokens: the kind of words that are compared, a key of :data:`~fairseq_etads.text.counted_words.TOKENS`.
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
