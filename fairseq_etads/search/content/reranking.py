"""Re-rank the hypotheses of a search with a content model (``--content-model``)."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...text.subwords import join_words
from ...text.words import SENTENCE_MARK
from ..hypotheses import Results
from ..terms import ActiveTerm, SearchTerm, TermBatch
from .candidates import stems
from .choosing import Expectation
from .consensus import consensus
from .model import ContentModel

CONSENSUS_WEIGHT = 0.75
"""Weight of the consensus relative to the expected ROUGE."""
_ENDS = (".", "!", "?")
"""Tokens that end a sentence in documents without sentence marks."""


def sentences_of(words: Sequence[str]) -> List[List[str]]:
    """Split the words of a document into sentences at sentence marks, or at final punctuation if it has no marks."""
    has_marks = SENTENCE_MARK in words
    found: List[List[str]] = [[]]
    for word in words:
        if word != SENTENCE_MARK:
            found[-1].append(word)
        if word == SENTENCE_MARK or (not has_marks and word in _ENDS):
            found.append([])
    return [sentence for sentence in found if sentence]


def probabilities_by_position(sentences: int) -> List[float]:
    """Return the probabilities of sentences that are used without an extractor: 1, 1/2, 1/3, …"""
    return [1 / (position + 1) for position in range(sentences)]


class Reranker(NamedTuple):
    """A re-ranker that adds expected ROUGE and consensus to the scores of hypotheses.

    Attributes:
        model: content model that was trained without an extractor (``etads-content RUN`` with a summariser's run
            folder).
        weight: weight of the expected ROUGE (:meth:`Expectation.rouge`) relative to the score. The consensus
            (:func:`~.consensus.consensus`) has :data:`CONSENSUS_WEIGHT` times this weight.
        subwords: kind of subwords; see :func:`~fairseq_etads.text.subwords.word_ends`.
    """

    model: ContentModel
    weight: float
    subwords: str

    def scores(
        self, document: Sequence[str], hypotheses: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> List[float]:
        """Add the weighted expected ROUGE and consensus to the score of each hypothesis of a document.

        Args:
            document: tokens that the summariser has read, without the end symbol.
            hypotheses: tokens of each hypothesis, without start and end symbols.
            scores: scores of the search. Hypotheses with an infinite score are not included in the consensus.
        """
        sentences = [stems(sentence) for sentence in sentences_of(join_words(document, self.subwords)[0])]
        items = self.model.items(sentences, probabilities_by_position(len(sentences)))
        expected = Expectation(items, self.model.length)
        words = [join_words(tokens, self.subwords)[0] for tokens in hypotheses]
        texts = [stems([word for word in one if word != SENTENCE_MARK]) for one in words]
        agreement = consensus(texts, [math.isfinite(score) for score in scores])
        return [
            score + self.weight * (expected.rouge([text]) + CONSENSUS_WEIGHT * agrees)
            for score, text, agrees in zip(scores, texts, agreement)
        ]

    def ranked(
        self, document: Sequence[str], tokens: Sequence[Sequence[str]], hypotheses: Sequence[Dict[str, Any]]
    ) -> List[Dict[str, Any]]:
        """Return the hypotheses with their new scores, best first.

        Args:
            document, tokens: see :meth:`scores`.
            hypotheses: hypotheses of the search, in the order of ``tokens``.
        """
        scores = self.scores(document, tokens, [float(one["score"]) for one in hypotheses])
        scored = [{**one, "score": one["score"].new_tensor(score)} for one, score in zip(hypotheses, scores)]
        return sorted(scored, key=lambda hypothesis: -float(hypothesis["score"]))


class ContentTerm(SearchTerm):
    """The term of ``--content-model``, which orders the finished hypotheses by their scores from a :class:`Reranker`.

    The term does not change the scores of words during the search.

    Args:
        reranker: object that computes the scores.
        source_dictionary: dictionary of the documents.
    """

    reranks = True

    def __init__(self, reranker: Reranker, source_dictionary: Any):
        self.reranker, self.source_dictionary = reranker, source_dictionary

    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        return None

    def finish(self, results: Results, batch: TermBatch) -> None:
        words = batch.dictionary
        special = {words.pad(), words.eos(), words.bos()}
        for ids, hypotheses in zip(batch.net_input["src_tokens"].tolist(), results):
            document = [self.source_dictionary[word] for word in ids if word not in special]
            texts = [[words[word] for word in one["tokens"].tolist() if word not in special] for one in hypotheses]
            hypotheses[:] = self.reranker.ranked(document, texts, hypotheses)
