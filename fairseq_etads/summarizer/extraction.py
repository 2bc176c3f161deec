"""Score all sentences of a raw document with a model folder's extractor, and select sentences to summarise."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..search.content.candidates import Choice, choose_sentences
from ..search.content.model import ContentModel
from ..text.alignment import align
from ..text.picking import Picking
from ..text.words import SENTENCE_MARK
from .folder.loading import LoadedFolder
from .picked import PickedSentence, Selection


class DocumentSentence(NamedTuple):
    """A sentence of a raw document.

    Attributes:
        text: text of the sentence, with clean white space and without invisible characters.
        words: words of the sentence, as in the training text of the extractor.
        probability: the extractor's probability that a summary uses the sentence.
        start, end: characters text[start:end] of the raw document; None where they cannot be determined.
    """

    text: str
    words: List[str]
    probability: float
    start: Optional[int]
    end: Optional[int]


class Pick(NamedTuple):
    """The selected sentences of a document.

    Attributes:
        selection: the selected sentences.
        levels: level of each selected sentence, a value of the factor salience.
        every: all sentences of the document, for a content model; empty without one.
    """

    selection: Selection
    levels: Tuple[str, ...]
    every: Tuple[DocumentSentence, ...] = ()


class SentencePicker:
    """Picker that selects sentences in raw documents. Threads may share an instance.

    Args:
        loaded: loaded folder of the extractor.
        picking: settings of the selection.
        content: content model that chooses the sentences of a summary, or None.
    """

    def __init__(self, loaded: LoadedFolder, picking: Picking, content: Optional[ContentModel] = None):
        self._model, self._dictionary = loaded.model, loaded.task.source_dictionary
        self._tokenizer, self._subwords = loaded.tokenizer, loaded.subwords
        self._limit = loaded.task.truncate_source
        self.picking, self.content = picking, content

    def pick(self, text: str, line: str) -> Pick:
        """Select sentences of a document.

        Args:
            text: raw text.
            line: cleaned text in one line, with or without sentence marks.
        """
        sentences, tokens = self._sentences(line)
        probabilities = self._probabilities(tokens)
        places = self.picking.pick(sentences, probabilities)
        words = [sentence.split() for sentence in sentences]
        spans = align(text, [word for sentence in words for word in sentence])
        found: List[PickedSentence] = []
        every: List[DocumentSentence] = []
        first = 0
        for number, sentence in enumerate(words):
            known = [span for span in spans[first : first + len(sentence)] if span is not None]
            start, end = (known[0][0], known[-1][1]) if known else (None, None)
            if number in places:
                found.append(PickedSentence(sentences[number], start, end, number, probabilities[number]))
            if self.content is not None:
                own = self._words(sentences[number], tokens[number])
                every.append(DocumentSentence(sentences[number], own, probabilities[number], start, end))
            first += len(sentence)
        levels = tuple(self.picking.level(sentence.probability) for sentence in found)
        return Pick(Selection(tuple(found), len(sentences), len(text.split())), levels, tuple(every))

    def _words(self, sentence: str, tokens: List[str]) -> List[str]:
        """Return the words of a sentence, with their subwords joined."""
        if self._subwords is None:
            return tokens
        return " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()

    def choose(
        self, every: Sequence[DocumentSentence], written: Sequence[str], most_words: Optional[int]
    ) -> Tuple[Choice, List[Tuple[int, str]]]:
        """Choose the sentences of a summary with the content model.

        Args:
            every: all sentences of the document.
            written: hypotheses as text.
            most_words: maximum number of words; None: derived from the training summaries.

        Returns:
            the choice, and each written sentence with the index of its hypothesis.
        """
        assert self.content is not None, "the summariser has rejected the option"
        parts: List[Tuple[int, str]] = []
        words: List[List[str]] = []
        for number, text in enumerate(written):
            for sentence in self._tokenizer.sentences(" ".join(text.split())):
                encoded = " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case)).split()
                if encoded:
                    parts.append((number, sentence.strip()))
                    words.append(encoded)
        probabilities = [sentence.probability for sentence in every]
        return choose_sentences(
            self.content, [sentence.words for sentence in every], probabilities, words, most_words
        ), parts

    def _sentences(self, line: str) -> Tuple[List[str], List[List[str]]]:
        """Return the sentences of a line that contain tokens, as text and as tokens."""
        texts: List[str] = []
        tokens: List[List[str]] = []
        for sentence in self._tokenizer.sentences(line):
            encoded = " ".join(self._tokenizer.words.encode(sentence, self._tokenizer.keep_case))
            if self._subwords is not None:
                encoded = self._subwords.encode(encoded)
            if encoded.split():
                texts.append(" ".join(sentence.split()))
                tokens.append(encoded.split())
        return texts, tokens

    @torch.no_grad()
    def _probabilities(self, sentences: List[List[str]]) -> List[float]:
        """Compute the probability of each sentence; sentences beyond the length that the extractor reads receive 0."""
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
        logits, real = self._model(tokens.to(next(self._model.parameters()).device))
        scores: List[float] = torch.sigmoid(logits.float()).masked_fill(~real, 0)[0].tolist()
        return [*scores, *[0.0] * len(sentences)][: len(sentences)]
