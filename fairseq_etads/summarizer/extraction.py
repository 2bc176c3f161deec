"""Score the sentences of a raw document with an extractor, and select the sentences to summarise."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..search.content.candidates import SentenceChoice, choose_sentences
from ..search.content.model import ContentModel
from ..text.alignment import align_tokens
from ..text.picking import SentencePickingSettings
from ..text.words import SENTENCE_MARK
from .folder.loading import LoadedFolder
from .picked import PickedSentence, Selection


class DocumentSentence(NamedTuple):
    """A sentence of a raw document with its probability.

    Attributes:
        text: text of the sentence, with normalised white space and without invisible characters.
        words: words of the sentence, tokenised in the same way as the extractor's training text.
        probability: predicted probability that a summary uses the sentence.
        start, end: position text[start:end] of the sentence in the raw document, or None if it cannot be determined.
    """

    text: str
    words: List[str]
    probability: float
    start: Optional[int]
    end: Optional[int]


class SelectedSentences(NamedTuple):
    """Selected sentences of a document with their salience levels.

    Attributes:
        selection: the selected sentences of the document.
        levels: salience level of each selected sentence, as a value of the source factor.
        every: all sentences of the document, from which a content model chooses. Empty without a content model.
    """

    selection: Selection
    levels: Tuple[str, ...]
    every: Tuple[DocumentSentence, ...] = ()


class SentencePicker:
    """Select sentences from raw documents. Threads can share an instance.

    Args:
        loaded: loaded contents of the extractor's folder.
        picking: settings for the selection of sentences, or None if no documents are shortened.
        content: content model that chooses the sentences of a summary, or None.
    """

    def __init__(
        self, loaded: LoadedFolder, picking: Optional[SentencePickingSettings], content: Optional[ContentModel] = None
    ):
        self._model, self._dictionary = loaded.model, loaded.task.source_dictionary
        self._tokenizer, self._subwords = loaded.tokenizer, loaded.subwords
        self._limit = loaded.task.truncate_source
        self.picking, self.content = picking, content

    def pick(self, text: str, line: str) -> SelectedSentences:
        """Select the sentences of a document that the summariser will read.

        Args:
            text: raw text of the document.
            line: cleaned text as a single line, which may contain sentence marks.
        """
        assert self.picking is not None, "the summariser has rejected raw texts"
        sentences, tokens = self._split_sentences(line)
        probabilities = self._predict_probabilities(tokens)
        picked = {pick.number: pick for pick in self.picking.pick(sentences, probabilities)}
        words = [sentence.split() for sentence in sentences]
        spans = align_tokens(text, [word for sentence in words for word in sentence])
        found: List[PickedSentence] = []
        every: List[DocumentSentence] = []
        first = 0
        for number, sentence in enumerate(words):
            known = [span for span in spans[first : first + len(sentence)] if span is not None]
            start, end = (known[0][0], known[-1][1]) if known else (None, None)
            if number in picked:
                found.append(PickedSentence(sentences[number], start, end, number, probabilities[number]))
            if self.content is not None:
                own = self._split_words(sentences[number], tokens[number])
                every.append(DocumentSentence(sentences[number], own, probabilities[number], start, end))
            first += len(sentence)
        levels = tuple(pick.level for pick in picked.values())
        return SelectedSentences(Selection(tuple(found), len(sentences), len(text.split())), levels, tuple(every))

    def _split_words(self, sentence: str, tokens: List[str]) -> List[str]:
        """Return the words of a sentence without splitting them into subwords."""
        if self._subwords is None:
            return tokens
        return " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()

    def choose_sentences_with_content_model(
        self, every: Sequence[DocumentSentence], written: Sequence[str], most_words: Optional[int]
    ) -> Tuple[SentenceChoice, List[Tuple[int, str]]]:
        """Choose the sentences of a summary with the content model.

        Args:
            every: all sentences of the document.
            written: texts of the hypotheses.
            most_words: maximum number of words in the summary. If None, the limit depends on the training summaries.

        Returns:
            The choice of the content model, and a list of all sentences in the hypotheses, each paired with the index
            of its hypothesis.
        """
        assert self.content is not None, "the summariser has rejected the option"
        parts: List[Tuple[int, str]] = []
        words: List[List[str]] = []
        for number, text in enumerate(written):
            for sentence in self._tokenizer.split_into_sentences(" ".join(text.split())):
                encoded = " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()
                if encoded:
                    parts.append((number, sentence.strip()))
                    words.append(encoded)
        probabilities = [sentence.probability for sentence in every]
        return choose_sentences(
            self.content, [sentence.words for sentence in every], probabilities, words, most_words
        ), parts

    def _split_sentences(self, line: str) -> Tuple[List[str], List[List[str]]]:
        """Split a line into sentences, and return their texts and tokens. Sentences without tokens are omitted."""
        texts: List[str] = []
        tokens: List[List[str]] = []
        for sentence in self._tokenizer.split_into_sentences(line):
            encoded = " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case))
            if self._subwords is not None:
                encoded = self._subwords.encode(encoded)
            if encoded.split():
                texts.append(" ".join(sentence.split()))
                tokens.append(encoded.split())
        return texts, tokens

    @torch.no_grad()
    def _predict_probabilities(self, sentences: List[List[str]]) -> List[float]:
        """Predict the probability of each sentence. Sentences beyond the extractor's maximum length receive 0."""
        known: Dict[str, int] = self._dictionary.indices
        new: Dict[str, int] = {}
        ids: List[int] = []
        for number, sentence in enumerate(sentences):
            for token in [*([SENTENCE_MARK] if number else []), *sentence]:
                if token not in known:
                    new.setdefault(token, len(self._dictionary) + len(new))
                ids.append(known[token] if token in known else new[token])
        if not ids:
            return []
        tokens = torch.tensor([[*ids[: self._limit], self._dictionary.eos()]])
        output = self._model(tokens.to(next(self._model.parameters()).device))
        scores: List[float] = output.compute_probabilities()[0].tolist()
        return [*scores, *[0.0] * len(sentences)][: len(sentences)]
