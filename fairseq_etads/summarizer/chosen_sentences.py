"""Create a summary from sentences that a content model chooses from the document and the hypotheses."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..text.alignment import Span, align_tokens
from ..text.words import SENTENCE_MARK
from .documents import Document, DocumentTokenizer
from .extraction import DocumentSentence
from .picked import ChosenSentence

GROUPS, STRENGTH = 4, 0.5
"""Maximum number of groups in diverse beam search, and strength of its diversity penalty."""


class DetokenizedHypothesis(NamedTuple):
    """A hypothesis that has been converted to text.

    Attributes:
        text: text of the hypothesis.
        tokens: tokens of the hypothesis, without the start and end symbols.
        origins: for each token, the index of the document token from which it was copied, or -1 if it was generated.
    """

    text: str
    tokens: List[str]
    origins: List[int]


class SummarySentence(NamedTuple):
    """A chosen sentence together with its tokens.

    Attributes:
        chosen: the chosen sentence with its source and position.
        tokens: tokens of the sentence.
        origins: for each token, the index in ``spans`` of the token from which it was copied, or -1 if it was
            generated.
        spans: positions in the raw document to which ``origins`` refers. If None, they are the positions of the tokens
            that the model read.
    """

    chosen: ChosenSentence
    tokens: List[str]
    origins: List[int]
    spans: Optional[List[Optional[Span]]]


def choose_group_count(beam: int) -> int:
    """Return the number of groups for diverse beam search: the largest divisor of ``beam`` up to :data:`GROUPS`."""
    return next(groups for groups in range(GROUPS, 0, -1) if beam % groups == 0)


def choose_summary_sentences(
    texts: DocumentTokenizer, document: Document, hypotheses: Sequence[DetokenizedHypothesis], most_words: Optional[int]
) -> Tuple[List[SummarySentence], float]:
    """Choose the sentences of a summary from a document and its hypotheses.

    Args:
        texts: object that converts between raw text and the tokens of the model.
        document: the document to summarise.
        hypotheses: hypotheses from the search, in descending order of score.
        most_words: maximum number of words in the summary. If None, the limit depends on the training summaries.

    Returns:
        The chosen sentences and the expected ROUGE score of the summary. The list of sentences is empty if neither the
        document nor the hypotheses contain words.
    """
    assert texts.picker is not None
    choice, parts = texts.picker.choose_sentences_with_content_model(
        document.every, [one.text for one in hypotheses], most_words
    )
    found: List[SummarySentence] = []
    for candidate in choice.sentences:
        if candidate.number is not None:
            found.append(_make_document_sentence(texts, document, candidate.number))
        elif candidate.written is not None:
            number, text = parts[candidate.written]
            earlier = [part for which, part in parts[: candidate.written] if which == number]
            found.append(_make_hypothesis_sentence(texts, hypotheses[number], text, earlier))
    return found, choice.score


def _make_document_sentence(texts: DocumentTokenizer, document: Document, number: int) -> SummarySentence:
    """Return a sentence of the document with the tokens that the model would generate for it."""
    sentence: DocumentSentence = document.every[number]
    tokens = texts.tokenize_sentence(sentence.text)
    spans: List[Optional[Span]] = [None] * len(tokens)
    if sentence.start is not None and sentence.end is not None:
        start = sentence.start
        found = align_tokens(document.text[start : sentence.end], [texts.spell_token(token) for token in tokens])
        spans = [span and (span[0] + start, span[1] + start) for span in found]
    chosen = ChosenSentence(texts.join(tokens), "document", number, sentence.start, sentence.end)
    return SummarySentence(chosen, tokens, list(range(len(tokens))), spans)


def _make_hypothesis_sentence(
    texts: DocumentTokenizer, hypothesis: DetokenizedHypothesis, text: str, earlier: Sequence[str]
) -> SummarySentence:
    """Return a sentence of a hypothesis."""
    whole = " ".join(hypothesis.text.split())
    first = 0
    for part in earlier:
        first = max(whole.find(part, first), first) + len(part)
    first = whole.find(text, first)
    spans = align_tokens(
        whole, ["" if token == SENTENCE_MARK else texts.spell_token(token) for token in hypothesis.tokens]
    )
    places = [
        place
        for place, span in enumerate(spans)
        if span is not None and hypothesis.tokens[place] != SENTENCE_MARK and first <= span[0] < first + len(text)
    ]
    chosen = ChosenSentence(text, "model")
    if first < 0 or not places:
        tokens = texts.tokenize_sentence(text)
        return SummarySentence(chosen, tokens, [-1] * len(tokens), None)
    kept = slice(places[0], places[-1] + 1)
    return SummarySentence(chosen, hypothesis.tokens[kept], hypothesis.origins[kept], None)
