"""Re-rank the hypotheses of a search with a content model (``--content-model``)."""

import itertools
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..text import subsequences
from ..text.subsequences import rouge_l, rouge_n
from ..text.subwords import join_words
from ..text.words import SENTENCE_ENDS, SENTENCE_MARK
from .content_model import ContentModel, stem_words
from .hypotheses import Results
from .sentence_choosing import ExpectedNgrams
from .terms import ActiveTerm, SearchTerm, TermBatch

CONSENSUS_WEIGHT = 0.75
"""Weight of the consensus relative to the expected ROUGE."""


def split_sentences(words: Sequence[str]) -> List[List[str]]:
    """Split the words of a document into sentences at sentence marks or, without marks, at final punctuation."""
    if SENTENCE_MARK in words:
        return subsequences.split_sentences(words, SENTENCE_MARK)
    ends = [number for number, word in enumerate(words, 1) if word in set(SENTENCE_ENDS)]
    parts = (list(words[start:end]) for start, end in zip([0, *ends], [*ends, len(words)]))
    return [sentence for sentence in parts if sentence]


def make_positional_sentence_probabilities(sentences: int) -> List[float]:
    """Return sentence probabilities that depend only on positions, for use without an extractor: 1, 1/2, 1/3, …"""
    return [1 / (position + 1) for position in range(sentences)]


def compute_consensus(hypotheses: Sequence[Sequence[str]], counts: Sequence[bool]) -> List[float]:
    """Compute the mean of ROUGE-1, ROUGE-2 and ROUGE-L (F1) of each hypothesis against the others, from their stems.

    Only the hypotheses that ``counts`` are compared with. Each is treated as one sentence. The consensus, from 0 to 1,
    is 0 for a hypothesis that is not compared with any other.
    """
    totals = [0.0] * len(hypotheses)
    for one, other in itertools.combinations(range(len(hypotheses)), 2):
        if counts[one] or counts[other]:
            texts = [hypotheses[one]], [hypotheses[other]]
            score = (rouge_n(*texts, 1) + rouge_n(*texts, 2) + rouge_l(*texts)) / 3
            totals[one] += score * counts[other]
            totals[other] += score * counts[one]
    return [total / max(sum(counts) - counted, 1) for total, counted in zip(totals, counts)]


class Reranker(NamedTuple):
    """A re-ranker that adds the expected ROUGE and the consensus to the scores of hypotheses.

    Attributes:
        model: the content model, which must have been trained without an extractor (``etads-content RUN`` with a
            summariser's run folder).
        weight: the weight of the expected ROUGE (:meth:`ExpectedNgrams.compute_expected_rouge`) relative to the score
            from the search. The consensus (:func:`compute_consensus`) has :data:`CONSENSUS_WEIGHT` times
            this weight.
        subwords: the type of subwords in the tokens; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
    """

    model: ContentModel
    weight: float
    subwords: str

    def compute_scores(
        self, document: Sequence[str], hypotheses: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> List[float]:
        """Add the weighted expected ROUGE and consensus to the score of each hypothesis of a document.

        ``document`` and ``hypotheses`` are tokens without start and end symbols. Hypotheses with an infinite score are
        excluded from the consensus of the others.
        """
        sentences = self.model.stem_document(split_sentences(join_words(document, self.subwords)[0]))
        items = self.model.predict_ngram_probabilities(
            sentences, make_positional_sentence_probabilities(len(sentences))
        )
        expected = ExpectedNgrams(items, self.model.length)
        words = [join_words(tokens, self.subwords)[0] for tokens in hypotheses]
        texts = [stem_words([word for word in one if word != SENTENCE_MARK], self.model.tokens) for one in words]
        agreement = compute_consensus(texts, [math.isfinite(score) for score in scores])
        return [
            score + self.weight * (expected.compute_expected_rouge([text]) + CONSENSUS_WEIGHT * agrees)
            for score, text, agrees in zip(scores, texts, agreement)
        ]

    def rank_hypotheses(
        self, document: Sequence[str], tokens: Sequence[Sequence[str]], hypotheses: Sequence[Dict[str, Any]]
    ) -> List[Dict[str, Any]]:
        """Return the hypotheses with their new scores, sorted from best to worst; see :meth:`compute_scores`."""
        scores = self.compute_scores(document, tokens, [float(one["score"]) for one in hypotheses])
        scored = [{**one, "score": one["score"].new_tensor(score)} for one, score in zip(hypotheses, scores)]
        return sorted(scored, key=lambda hypothesis: -float(hypothesis["score"]))


class ContentTerm(SearchTerm):
    """The term for ``--content-model``, which sorts the finished hypotheses by the scores of a :class:`Reranker`.

    The term does not change the scores of words during the search.
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
            hypotheses[:] = self.reranker.rank_hypotheses(document, texts, hypotheses)
