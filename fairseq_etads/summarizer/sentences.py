"""Choose sentences: those of a document that the summariser reads, and those of which a summary consists."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data.data_utils import collate_tokens

from ..search.lengths import NO_LIMITS, SummaryLimits
from ..search.options import DecodingOptions
from ..search.sentence_choosing import SentenceChoice, choose_sentences, pad_probabilities
from ..text.documents import split_raw_document
from ..text.words import CLOSERS, SENTENCE_ENDS, SENTENCE_MARK
from .explanation import ChosenSentence, PickedSentence, Selection
from .folder.loading import LoadedExtractor
from .summary import align_tokens

_ENDS = tuple(SENTENCE_ENDS + CLOSERS)
GROUPS, STRENGTH = 4, 0.5
"""Maximum number of groups in diverse beam search, and strength of its diversity penalty."""


def number_tokens(tokens: Iterable[str], known: Dict[str, int], first_new: int, new: Dict[str, int]) -> List[int]:
    """Return the ids of tokens. Unknown tokens receive ids from ``first_new`` on, and are added to ``new``."""
    return [known[token] if token in known else first_new + new.setdefault(token, len(new)) for token in tokens]


class DocumentSentence(NamedTuple):
    """A sentence of a document with its probability."""

    text: str  # with normalised white space and without invisible characters
    words: List[str]  # tokenised in the same way as the extractor's training text
    probability: float  # that a summary uses the sentence; 0 until the extractor has rated it
    start: Optional[int] = None  # position text[start:end] in the raw document, or None if it cannot be determined
    end: Optional[int] = None
    tokens: Sequence[str] = ()  # that the extractor reads


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
        """Select the sentences of a raw text that the summariser will read.

        ``line`` is the cleaned text as a single line, which may contain sentence marks. Returns the selected sentences,
        the salience level of each, and all sentences, from which a content model chooses, or none without one.
        """
        assert self.picking is not None, "the summariser has rejected raw texts"
        (every,) = self.rate([self.split(text, line)])
        picked = self.picking.pick([one.text for one in every], [one.probability for one in every])
        found = tuple(
            PickedSentence(one.text, one.start, one.end, pick.number, one.probability)
            for pick in picked
            for one in (every[pick.number],)
        )
        levels = tuple(pick.level for pick in picked)
        return Selection(found, len(every), len(text.split())), levels, every if self.content is not None else ()

    def split(self, text: str, line: str) -> Tuple[DocumentSentence, ...]:
        """Split a document into its sentences that have tokens, without rating them. See :meth:`pick` for arguments."""
        found: List[DocumentSentence] = []
        end = 0
        for sentence in self._tokenizer.split_into_sentences(line):
            tokens = words = self._split_words(sentence)
            if self._subwords is not None:
                tokens = self._subwords.encode(" ".join(words)).split()
            if not tokens:
                continue
            sentence = " ".join(sentence.split())
            found.append(DocumentSentence(sentence, words, 0.0, tokens=tokens))
            start = text.find(sentence, end)
            if start >= 0 and not text[end:start].strip():  # else it was cleaned, or its white space is another
                end = start + len(sentence)
                found[-1] = found[-1]._replace(start=start, end=end)
        if any(one.start is None for one in found):
            spans = iter(align_tokens(text, [word for one in found for word in one.text.split()]))
            for number, one in enumerate(found):
                known = [span for _, span in zip(one.text.split(), spans) if span is not None]
                first, last = (known[0][0], known[-1][1]) if known else (None, None)
                found[number] = one._replace(start=first, end=last)
        return tuple(found)

    @torch.no_grad()
    def rate(self, documents: Sequence[Sequence[DocumentSentence]]) -> List[Tuple[DocumentSentence, ...]]:
        """Predict the probability of each sentence. Sentences beyond the extractor's maximum length receive 0."""
        rows = []
        for sentences in documents:
            marked = [token for one in sentences for token in (SENTENCE_MARK, *one.tokens)][1:]
            ids = number_tokens(marked, self._dictionary.indices, len(self._dictionary), {})
            rows.append(torch.tensor([*ids[: self._limit], self._dictionary.eos()]))
        tokens = collate_tokens(rows, self._dictionary.pad())
        scores = self._model(tokens.to(next(self._model.parameters()).device)).compute_probabilities().tolist()
        return [
            tuple(one._replace(probability=p) for one, p in zip(each, pad_probabilities(found, len(each))))
            for each, found in zip(documents, scores)
        ]

    def choose(
        self,
        every: Sequence[DocumentSentence],
        written: Sequence[str],
        options: DecodingOptions,
        limits: SummaryLimits = NO_LIMITS,
    ) -> Tuple[SentenceChoice, List[Tuple[int, str]]]:
        """Choose the sentences of a summary with the content model.

        ``every`` contains all sentences of the document, ``written`` the texts of the hypotheses, and ``limits`` the
        user's limits. Returns the choice, and each sentence in the hypotheses with the index of its hypothesis.
        """
        assert self.content is not None, "the summariser has rejected the option"
        split = _split_hypotheses(self._tokenizer, written, limits.are_set)
        found = [(number, text, self._split_words(text)) for number, one in enumerate(split) for text in one]
        parts = [(number, text) for number, text, encoded in found if encoded]
        choice = choose_sentences(
            self.content,
            [sentence.words for sentence in every],
            [sentence.probability for sentence in every],
            [encoded for _, _, encoded in found if encoded],
            options.choose_words or None,
            [sentence.text for sentence in every],
            options.readability if options.choose == "extract" else 0.0,  # rated only without hypotheses
            limits,
            [text for _, text in parts],
        )
        return choice, parts

    def _split_words(self, sentence: str) -> List[str]:
        """Return the words of a sentence without splitting them into subwords."""
        return " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()


class GeneratedTokens(NamedTuple):
    """Tokens that a model generated for a summary."""

    tokens: Tuple[str, ...]  # including special symbols; the last one is the end symbol
    replaced: Dict[int, Tuple[str, int]]  # index of a replaced token: replacement word, index of its document token


class DetokenizedHypothesis(NamedTuple):
    """A hypothesis that has been converted to text."""

    text: str
    tokens: List[str]  # without the start and end symbols
    origins: List[int]  # index of the document token from which each token was copied, or -1 if it was generated
    written: GeneratedTokens


class SummarySentence(NamedTuple):
    """A chosen sentence together with its tokens."""

    chosen: ChosenSentence
    tokens: List[str]
    origins: List[int]  # index of the token from which each token was copied, or -1 if it was generated: in the
    # chosen sentence of the document or, if the model has written it, among the tokens that the model read


def choose_group_count(beam: int) -> int:
    """Return the number of groups for diverse beam search: the largest divisor of ``beam`` up to :data:`GROUPS`."""
    return next(groups for groups in range(GROUPS, 0, -1) if beam % groups == 0)


def choose_summary_sentences(
    texts: Any,
    document: Any,
    hypotheses: Sequence[DetokenizedHypothesis],
    options: DecodingOptions,
    limits: SummaryLimits = NO_LIMITS,
) -> Tuple[List[SummarySentence], float]:
    """Choose the sentences of a summary from a :class:`Document` and its hypotheses, in descending order of score.

    Returns the sentences and the expected ROUGE score of the summary. There are no sentences if neither the document
    nor the hypotheses contain words. ``texts`` is the :class:`DocumentTokenizer`. With ``--choose extract``, the
    sentences are spelled as in the document rather than by the model's tokens. Raises LimitError if no sentences are
    within limits.
    """
    assert texts.picker is not None
    choice, parts = texts.picker.choose(document.every, [one.text for one in hypotheses], options, limits)
    found: List[SummarySentence] = []
    for candidate in choice.sentences:
        if candidate.number is not None:
            sentence = document.every[candidate.number]
            found.append(_make_document_sentence(texts, sentence, candidate.number, options.choose == "extract"))
        elif candidate.written is not None:
            number, text = parts[candidate.written]
            earlier = [part for which, part in parts[: candidate.written] if which == number]
            found.append(_make_hypothesis_sentence(texts, hypotheses[number], text, earlier))
    return found, choice.score


def choose_within_limits(
    texts: Any, document: Any, hypotheses: Sequence[DetokenizedHypothesis], limits: SummaryLimits
) -> Optional[List[SummarySentence]]:
    """Choose sentences of the hypotheses, from the best to the worst, that are within the limits of the user.

    Returns None if the best hypothesis as a whole is. Raises LimitError if no sentences are within the limits.
    """
    written = _split_hypotheses(texts.tokenizer, [one.text for one in hypotheses], only_complete=True)
    every = document.every
    if limits.texts and not every:
        sentences = split_raw_document(document.text, texts.tokenizer.language)
        every = [DocumentSentence(sentence, [], 0.0) for sentence in sentences]
    chosen = limits.choose_among(written, [sentence.text for sentence in every] if limits.texts else [])
    (whole,) = _split_hypotheses(texts.tokenizer, [hypotheses[0].text], only_complete=False)
    if written[0] == whole and chosen == [(0, place) for place in range(len(whole))]:
        return None
    return [
        _make_document_sentence(texts, every[place], place, keeps_spelling=False)
        if number == len(written)
        else _make_hypothesis_sentence(texts, hypotheses[number], written[number][place], written[number][:place])
        for number, place in chosen
    ]


def _split_hypotheses(tokenizer: Any, texts: Sequence[str], only_complete: bool) -> List[List[str]]:
    """Split hypotheses into sentences, without those that the maximum length cut if ``only_complete``."""
    found = [[one.strip() for one in tokenizer.split_into_sentences(" ".join(text.split()))] for text in texts]
    if only_complete and any(sentence.endswith(_ENDS) for sentences in found for sentence in sentences):
        return [[sentence for sentence in sentences if sentence.endswith(_ENDS)] for sentences in found]
    return found


def _make_document_sentence(
    texts: Any, sentence: DocumentSentence, number: int, keeps_spelling: bool
) -> SummarySentence:
    """Return a sentence of the document with the tokens that the model would generate for it."""
    tokens = texts.tokenize_sentence(sentence.text)
    text = sentence.text if keeps_spelling else texts.join(tokens)
    chosen = ChosenSentence(text, "document", number, sentence.start, sentence.end)
    return SummarySentence(chosen, tokens, list(range(len(tokens))))


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
        return SummarySentence(chosen, tokens, [-1] * len(tokens))
    kept = slice(places[0], places[-1] + 1)
    return SummarySentence(chosen, hypothesis.tokens[kept], hypothesis.origins[kept])
