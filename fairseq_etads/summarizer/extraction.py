"""Extractor of a model folder: score all sentences of a raw document and select the ones to summarise."""

from typing import Dict, List, NamedTuple, Tuple

import torch

from ..text.alignment import align
from ..text.picking import Picking
from ..text.words import SENTENCE_MARK
from .folder.loading import LoadedFolder
from .picked import PickedSentence, Selection


class Pick(NamedTuple):
    """The selected sentences of a document, each with its level, a value of the factor salience."""

    selection: Selection
    levels: Tuple[str, ...]


class SentencePicker:
    """Selects sentences of raw documents. Threads may share it.

    Args:
        loaded: the extractor's own folder.
        picking: settings of its selection.
    """

    def __init__(self, loaded: LoadedFolder, picking: Picking):
        self._model, self._dictionary = loaded.model, loaded.task.source_dictionary
        self._tokenizer, self._subwords = loaded.tokenizer, loaded.subwords
        self._limit = loaded.task.truncate_source
        self.picking = picking

    def pick(self, text: str, line: str) -> Pick:
        """Select sentences of a document.

        Args:
            text: the raw text.
            line: the same, cleaned, with or without sentence marks.
        """
        sentences, tokens = self._sentences(line)
        probabilities = self._probabilities(tokens)
        places = self.picking.pick(sentences, probabilities)
        words = [sentence.split() for sentence in sentences]
        spans = align(text, [word for sentence in words for word in sentence])
        found: List[PickedSentence] = []
        first = 0
        for number, sentence in enumerate(words):
            if number in places:
                known = [span for span in spans[first : first + len(sentence)] if span is not None]
                start, end = (known[0][0], known[-1][1]) if known else (None, None)
                found.append(PickedSentence(sentences[number], start, end, number, probabilities[number]))
            first += len(sentence)
        levels = tuple(self.picking.level(sentence.probability) for sentence in found)
        return Pick(Selection(tuple(found), len(sentences), len(text.split())), levels)

    def _sentences(self, line: str) -> Tuple[List[str], List[List[str]]]:
        """The sentences of a line that have tokens, as text and as tokens."""
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
        """Compute the probability of each sentence; 0 beyond the length that the extractor reads."""
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
