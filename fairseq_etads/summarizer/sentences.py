"""Choose sentences: those of a document that the summariser reads, and those of which a summary consists."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..search.content.sentence_choosing import SentenceChoice, choose_sentences, pad_probabilities
from ..text.alignment import Span, align_tokens
from ..text.words import SENTENCE_MARK
from .explanation import ChosenSentence, PickedSentence, Selection
from .folder.loading import LoadedExtractor

GROUPS, STRENGTH = 4, 0.5
"""Maximum number of groups in diverse beam search, and strength of its diversity penalty."""


def number_tokens(tokens: Iterable[str], known: Dict[str, int], first_new: int, new: Dict[str, int]) -> List[int]:
    """Return the ids of tokens. Unknown tokens receive ids from ``first_new`` on, and are added to ``new``."""
    return [known[token] if token in known else first_new + new.setdefault(token, len(new)) for token in tokens]


class DocumentSentence(NamedTuple):
    """A sentence of a document with its probability."""

    text: str  # with normalised white space and without invisible characters
    words: List[str]  # tokenised in the same way as the extractor's training text
    probability: float  # that a summary uses the sentence
    start: Optional[int] = None  # position text[start:end] in the raw document, or None if it cannot be determined
    end: Optional[int] = None


class SentencePicker:
    """Select sentences from raw documents, and the sentences of summaries. Threads can share an instance.

    Attributes:
        picking: settings for the selection of sentences, or None if no documents are shortened.
        content: content model that chooses the sentences of a summary, or None.
    """

    def __init__(self, extractor: LoadedExtractor):
        loaded, self.picking, self.content = extractor
        self._model, self._dictionary = loaded.model, loaded.task.source_dictionary
        self._tokenizer, self._subwords = loaded.tokenizer, loaded.subwords
        self._limit = loaded.task.truncate_source

    def pick(self, text: str, line: str) -> Tuple[Selection, Tuple[str, ...], Tuple[DocumentSentence, ...]]:
        """Select the sentences of a document that the summariser will read.

        Args:
            text: raw text of the document.
            line: cleaned text as a single line, which may contain sentence marks.

        Returns:
            The selected sentences, the salience level of each of them, and all sentences of the document, from which a
            content model chooses. The last tuple is empty without a content model.
        """
        assert self.picking is not None, "the summariser has rejected raw texts"
        sentences, tokens = self._split_sentences(line)
        probabilities = self._predict_probabilities(tokens)
        picked = {pick.number: pick for pick in self.picking.pick(sentences, probabilities)}
        spans = iter(align_tokens(text, [word for sentence in sentences for word in sentence.split()]))
        found: List[PickedSentence] = []
        every: List[DocumentSentence] = []
        for number, (sentence, probability) in enumerate(zip(sentences, probabilities)):
            known = [span for _, span in zip(sentence.split(), spans) if span is not None]
            start, end = (known[0][0], known[-1][1]) if known else (None, None)
            if number in picked:
                found.append(PickedSentence(sentence, start, end, number, probability))
            if self.content is not None:
                words = tokens[number] if self._subwords is None else self._split_words(sentence)
                every.append(DocumentSentence(sentence, words, probability, start, end))
        levels = tuple(pick.level for pick in picked.values())
        return Selection(tuple(found), len(sentences), len(text.split())), levels, tuple(every)

    def choose(
        self, every: Sequence[DocumentSentence], written: Sequence[str], most_words: Optional[int]
    ) -> Tuple[SentenceChoice, List[Tuple[int, str]]]:
        """Choose the sentences of a summary with the content model.

        Args:
            every: all sentences of the document.
            written: texts of the hypotheses.
            most_words: maximum number of words in the summary. If None, the limit depends on the training summaries.

        Returns:
            The choice, and all sentences in the hypotheses, each with the index of its hypothesis.
        """
        assert self.content is not None, "the summariser has rejected the option"
        parts: List[Tuple[int, str]] = []
        words: List[List[str]] = []
        for number, text in enumerate(written):
            for sentence in self._tokenizer.split_into_sentences(" ".join(text.split())):
                encoded = self._split_words(sentence)
                if encoded:
                    parts.append((number, sentence.strip()))
                    words.append(encoded)
        document = [sentence.words for sentence in every], [sentence.probability for sentence in every]
        return choose_sentences(self.content, *document, words, most_words), parts

    def _split_words(self, sentence: str) -> List[str]:
        """Return the words of a sentence without splitting them into subwords."""
        return " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()

    def _split_sentences(self, line: str) -> Tuple[List[str], List[List[str]]]:
        """Split a line into sentences, and return their texts and tokens. Sentences without tokens are omitted."""
        texts: List[str] = []
        tokens: List[List[str]] = []
        for sentence in self._tokenizer.split_into_sentences(line):
            found = self._split_words(sentence)
            if self._subwords is not None:
                found = self._subwords.encode(" ".join(found)).split()
            if found:
                texts.append(" ".join(sentence.split()))
                tokens.append(found)
        return texts, tokens

    @torch.no_grad()
    def _predict_probabilities(self, sentences: List[List[str]]) -> List[float]:
        """Predict the probability of each sentence. Sentences beyond the extractor's maximum length receive 0."""
        marked = [token for n, tokens in enumerate(sentences) for token in [*([SENTENCE_MARK] if n else []), *tokens]]
        ids = number_tokens(marked, self._dictionary.indices, len(self._dictionary), {})
        if not ids:
            return []
        tokens = torch.tensor([[*ids[: self._limit], self._dictionary.eos()]])
        output = self._model(tokens.to(next(self._model.parameters()).device))
        scores: List[float] = output.compute_probabilities()[0].tolist()
        return pad_probabilities(scores, len(sentences))


class DetokenizedHypothesis(NamedTuple):
    """A hypothesis that has been converted to text."""

    text: str
    tokens: List[str]  # without the start and end symbols
    origins: List[int]  # index of the document token from which each token was copied, or -1 if it was generated


class SummarySentence(NamedTuple):
    """A chosen sentence together with its tokens."""

    chosen: ChosenSentence
    tokens: List[str]
    origins: List[int]  # index in ``spans`` of the token from which each token was copied, or -1 if it was generated
    spans: Optional[List[Optional[Span]]]  # in the raw document; None for those of the tokens that the model read


def choose_group_count(beam: int) -> int:
    """Return the number of groups for diverse beam search: the largest divisor of ``beam`` up to :data:`GROUPS`."""
    return next(groups for groups in range(GROUPS, 0, -1) if beam % groups == 0)


def choose_summary_sentences(
    texts: Any,
    document: Any,
    hypotheses: Sequence[DetokenizedHypothesis],
    most_words: Optional[int],
) -> Tuple[List[SummarySentence], float]:
    """Choose the sentences of a summary from a :class:`Document` and its hypotheses, in descending order of score.

    Returns the sentences and the expected ROUGE score of the summary. There are no sentences if neither the document
    nor the hypotheses contain words. ``texts`` is the :class:`DocumentTokenizer`, and ``most_words`` is as in
    :meth:`SentencePicker.choose`.
    """
    assert texts.picker is not None
    choice, parts = texts.picker.choose(document.every, [one.text for one in hypotheses], most_words)
    found: List[SummarySentence] = []
    for candidate in choice.sentences:
        if candidate.number is not None:
            found.append(_make_document_sentence(texts, document, candidate.number))
        elif candidate.written is not None:
            number, text = parts[candidate.written]
            earlier = [part for which, part in parts[: candidate.written] if which == number]
            found.append(_make_hypothesis_sentence(texts, hypotheses[number], text, earlier))
    return found, choice.score


def _make_document_sentence(texts: Any, document: Any, number: int) -> SummarySentence:
    """Return a sentence of the document with the tokens that the model would generate for it."""
    sentence = document.every[number]
    tokens = texts.tokenize_sentence(sentence.text)
    spans = texts.align(document.text, tokens, sentence.start, sentence.end)
    chosen = ChosenSentence(texts.join(tokens), "document", number, sentence.start, sentence.end)
    return SummarySentence(chosen, tokens, list(range(len(tokens))), spans)


def _make_hypothesis_sentence(
    texts: Any, hypothesis: DetokenizedHypothesis, text: str, earlier: Sequence[str]
) -> SummarySentence:
    """Return a sentence of a hypothesis."""
    whole = " ".join(hypothesis.text.split())
    first = 0
    for part in earlier:
        first = max(whole.find(part, first), first) + len(part)
    first = whole.find(text, first)
    places = [
        place
        for place, span in enumerate(align_tokens(whole, list(map(texts.spell_token, hypothesis.tokens))))
        if span is not None and hypothesis.tokens[place] != SENTENCE_MARK and first <= span[0] < first + len(text)
    ]
    chosen = ChosenSentence(text, "model")
    if first < 0 or not places:
        tokens = texts.tokenize_sentence(text)
        return SummarySentence(chosen, tokens, [-1] * len(tokens), None)
    kept = slice(places[0], places[-1] + 1)
    return SummarySentence(chosen, hypothesis.tokens[kept], hypothesis.origins[kept], None)
