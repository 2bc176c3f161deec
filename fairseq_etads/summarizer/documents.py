"""Convert raw documents to batches of token ids, and convert the token ids of summaries to text.

In each batch, words that are not in the dictionary receive temporary ids in the order in which they occur. These ids
are larger than all dictionary ids. They are discarded after the batch, because the model needs them only to distinguish
the words from each other. Memory use therefore does not grow with the number of documents.
"""

import functools
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from ..text.alignment import Span, align_tokens, guess_token_spelling
from ..text.cleaning import join_to_one_line
from ..text.picking import FACTOR
from ..text.subwords import OPAQUE
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import get_known_word_counts
from .extraction import DocumentSentence, SelectedSentences, SentencePicker
from .folder.loading import LoadedFolder
from .picked import Selection
from .prepared_split import PreparedDocument, WordSelection, find_padding
from .surprisal import Surprisal, TrainingSurprisals, WordFrequencies

_CHARACTERS_AHEAD = 4_000_000
"""Approximate maximum number of characters to read ahead of the search."""


class Document(NamedTuple):
    """A document to summarise, split into tokens.

    Attributes:
        number: index of the document in the input.
        text: raw text of the document.
        tokens: document tokens that the model reads.
        left_out: number of document tokens that the model does not read. With an extractor, only the tokens of
            selected sentences are counted.
        picked: sentences that an extractor selected, or None without an extractor.
        places: for each token, the index in ``picked`` of its sentence, or -1 for a sentence mark. Empty without an
            extractor.
        levels: salience level of each selected sentence.
        every: all sentences of the document. Empty without a content model.
        prepared: the document in a prepared split, whose raw text is unknown (``text`` is empty), or None.
    """

    number: int
    text: str
    tokens: Tuple[str, ...]
    left_out: int
    picked: Optional[Selection] = None
    places: Tuple[int, ...] = ()
    levels: Tuple[str, ...] = ()
    every: Tuple[DocumentSentence, ...] = ()
    prepared: Optional[PreparedDocument] = None


class Batch(NamedTuple):
    """A batch of documents with the corresponding model input.

    Attributes:
        documents: documents in the batch.
        sample: model input on the CPU, in the format of a batch from a fairseq dataset.
        new_words: words with temporary ids, which start from :attr:`DocumentTokenizer.first_new_id`.
        padding: number of padding positions before the first token of each document.
    """

    documents: List[Document]
    sample: Dict[str, Any]
    new_words: List[str]
    padding: List[int]


class DocumentTokenizer:
    """Convert raw text to model inputs, and model outputs to text.

    Args:
        loaded: the loaded contents of a model folder.

    Attributes:
        picker: object that uses the extractor in the model folder to select sentences for the model to read. If None,
            the model reads the first tokens of each document.
        mark: list that contains the sentence mark if the model can generate it. Otherwise, the list is empty.
        first_new_id: smallest temporary id for words that are missing from the source dictionary. It is larger than all
            ids in both dictionaries, because summaries contain target ids as well as temporary ids.
    """

    def __init__(self, loaded: LoadedFolder):
        task = loaded.task
        self.picker = None
        if loaded.extractor is not None:
            self.picker = SentencePicker(*loaded.extractor)
        self._factors = tuple(getattr(loaded.model, "factors", ()))
        self._levels = task.factor_dictionaries.get(FACTOR) if self._factors else None
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.first_new_id = max(len(self.source), len(self.target))
        self.mark = [SENTENCE_MARK] if self.target.index(SENTENCE_MARK) != self.target.unk() else []
        self.tokenizer, self.subwords = loaded.tokenizer, loaded.subwords
        self.words, self.subword_kind = loaded.config.text["words"], loaded.config.text["subwords"]
        self._join_to_one_line = functools.partial(join_to_one_line, language=self.tokenizer.language)
        self.limit = task.truncate_source
        percentiles = loaded.config.task.get("document_surprisal")
        self._surprisals = None
        if percentiles is not None:
            frequencies = WordFrequencies(get_known_word_counts(self.source))
            self._surprisals = TrainingSurprisals(frequencies, percentiles)
        self.pads_left = bool(loaded.config.task["left_pad_source"])

    def tokenize_document(self, number: int, text: Union[str, PreparedDocument]) -> Document:
        """Tokenise a raw text, and truncate it to the number of tokens that the model reads."""
        if isinstance(text, PreparedDocument):
            return Document(number, "", *text.read_tokens(), prepared=text)
        if self.picker is not None:
            return self._tokenize_selected_sentences(number, text, self.picker.pick(text, self._join_to_one_line(text)))
        tokens = self._tokenize_line(self._join_to_one_line(text))
        return Document(number, text, tuple(tokens[: self.limit]), max(len(tokens) - self.limit, 0))

    def measure_surprisal(self, document: Document) -> Optional[Surprisal]:
        """Measure the surprisal of a document, and compare it with the surprisals of the training documents.

        Returns None if the document is too short or if the surprisals of the training documents are unknown.
        """
        return None if self._surprisals is None else self._surprisals.measure_surprisal(document.tokens)

    def _tokenize_selected_sentences(self, number: int, text: str, pick: SelectedSentences) -> Document:
        """Tokenise the selected sentences of a document. Sentence marks are inserted if they were used in training."""
        tokens: List[str] = []
        places: List[int] = []
        for place, sentence in enumerate(pick.selection.sentences):
            found = self.tokenize_sentence(sentence.text, is_first=not place)
            if place and self.tokenizer.marks != "drop":
                tokens.append(SENTENCE_MARK)
                places.append(-1)
            tokens += found
            places += [place] * len(found)
        left_out = max(len(tokens) - self.limit, 0)
        kept = tuple(tokens[: self.limit]), left_out, pick.selection, tuple(places[: self.limit])
        return Document(number, text, *kept, pick.levels, pick.every)

    def tokenize_sentence(self, sentence: str, is_first: bool = True) -> List[str]:
        """Tokenise one sentence of a document."""
        line = " ".join(self.tokenizer.words.encode(sentence, self.tokenizer.keep_case))
        if self.subwords is not None:
            # With these kinds of subwords, a token may include the space before the word.
            line = self.subwords.encode(f" {line}" if not is_first and self.subword_kind in OPAQUE else line)
        tokens: List[str] = tokenize_line(line)
        return tokens

    def count_tokens(self, text: str) -> int:
        """Count all tokens in a raw text, including those that the model does not read."""
        return len(self._tokenize_line(self._join_to_one_line(text)))

    def _tokenize_line(self, line: str) -> List[str]:
        line = self.tokenizer.encode(line)
        if self.subwords is not None:
            line = self.subwords.encode(line)
        tokens: List[str] = tokenize_line(line)
        return tokens

    def tokenize_summary(self, text: str) -> List[str]:
        """Tokenise a summary provided by the user. Sentence marks are kept if the model can generate them."""
        sentences = [
            self._tokenize_line(self._join_to_one_line(part)) for part in text.replace(SENTENCE_MARK, "\n").split("\n")
        ]
        return self.join_with_sentence_marks(sentences)

    def join_with_sentence_marks(self, sentences: Iterable[List[str]]) -> List[str]:
        """Concatenate the tokens of several sentences. Sentence marks are inserted if the model can generate them."""
        found: List[str] = []
        for tokens in filter(None, sentences):
            found += [*(self.mark if found else []), *tokens]
        return found

    def make_batch(self, documents: List[Document], selection: Optional[WordSelection] = None) -> Batch:
        """Create a batch in which all documents are padded to the length of the longest document.

        Args:
            documents: raw documents, or documents of one prepared split, whose order can change.
            selection: word probabilities that restrict copying, for documents of a prepared split.
        """
        if documents[0].prepared is not None:
            by_number: Dict[int, List[Document]] = {}
            for document in documents:
                if document.prepared is not None:
                    by_number.setdefault(document.prepared.number, []).append(document)
            numbers = [number for number, same in by_number.items() for _ in same]
            prepared = documents[0].prepared.split.make_sample(numbers, selection)
            ordered = [by_number[number].pop() for number in prepared["id"].tolist()]
            padding = find_padding(prepared["net_input"]["src_tokens"], self.source.pad())
            return Batch(ordered, prepared, [], padding)
        new: Dict[str, int] = {}
        known, first_new = self.source.indices, self.first_new_id
        rows = []
        for document in documents:
            ids = [known.get(token, -1) for token in document.tokens]
            for place, token in enumerate(document.tokens):
                if ids[place] < 0:
                    ids[place] = first_new + new.setdefault(token, len(new))
            rows.append([*ids, self.source.eos()])
        width = max(map(len, rows))
        tokens = torch.full((len(rows), width), self.source.pad())
        padding = [width - len(row) if self.pads_left else 0 for row in rows]
        for row, ids, start in zip(tokens, rows, padding):
            row[start : start + len(ids)] = torch.tensor(ids)
        sample: Dict[str, Any] = {
            "id": torch.tensor([document.number for document in documents]),
            "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(list(map(len, rows)))},
        }
        if self._factors:
            sample["net_input"]["factors"] = self._compute_factor_values(documents, tokens, padding)
        return Batch(documents, sample, list(new), padding)

    def _compute_factor_values(self, documents: List[Document], tokens: Tensor, padding: List[int]) -> Tensor:
        """Return the salience level of each token as an id in the factor dictionary, shape (B, S, 1).

        Each token has the same level as its sentence.
        """
        words = self._levels
        assert words is not None, "the summariser has rejected other factors"
        values = torch.full_like(tokens, words.pad())
        for row, document, start in zip(values, documents, padding):
            levels = [document.levels[place] if place >= 0 else SENTENCE_MARK for place in document.places]
            ids = [*map(words.index, levels), words.eos()]
            row[start : start + len(ids)] = torch.tensor(ids)
        return values[:, :, None]

    def convert_to_tokens(self, ids: Tensor, batch: Batch) -> Tuple[List[int], List[str]]:
        """Convert the token ids of a summary (T,) to tokens without special symbols.

        Returns:
            The positions of these tokens in ``ids``, and the tokens themselves.
        """
        special = (self.target.bos(), self.target.eos(), self.target.pad())
        places = [place for place, number in enumerate(ids.tolist()) if number not in special]
        spelled = self.convert_ids_to_all_tokens(ids, batch)
        return places, [spelled[place] for place in places]

    def convert_ids_to_all_tokens(self, ids: Tensor, batch: Batch) -> Tuple[str, ...]:
        """Convert the token ids of a summary (T,) to tokens, including special symbols."""
        first_new = self.first_new_id
        return tuple(batch.new_words[n - first_new] if n >= first_new else self.target[n] for n in ids.tolist())

    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens into text."""
        line = " ".join(tokens)
        if self.subwords is not None:
            line = self.subwords.decode(line)
        text: str = self.tokenizer.decode(line)
        return text

    def find_token_spans(self, document: Document) -> List[Optional[Span]]:
        """Return the span of each token in the raw document, or None for a token with an unknown position."""
        if document.prepared is not None:
            return [None] * len(document.tokens)
        spelled = [self.spell_token(token) for token in document.tokens]
        if document.picked is None:
            return align_tokens(document.text, spelled)
        found: List[Optional[Span]] = [None] * len(spelled)
        for number, sentence in enumerate(document.picked.sentences):
            if sentence.start is None:
                continue
            tokens = [place for place, of in enumerate(document.places) if of == number]
            spans = align_tokens(document.text[sentence.start : sentence.end], [spelled[token] for token in tokens])
            for token, span in zip(tokens, spans):
                found[token] = span and (span[0] + sentence.start, span[1] + sentence.start)
        return found

    def spell_token(self, token: str) -> str:
        """Return the approximate spelling of a token in raw text."""
        if token == SENTENCE_MARK:
            return ""
        if self.subword_kind == "gpt2":
            return str(self.subwords.decode(token)) if token.isdecimal() else ""
        if self.subword_kind == "huggingface":
            return str(self.subwords.get_subword_text(token))
        return guess_token_spelling(token, self.words, self.subword_kind)

    def is_same_word(self, token: str, following: str) -> bool:
        """Return whether two adjacent tokens belong to the same word. The end symbol belongs to no word."""
        if following == self.target.eos_word:
            return False
        if self.subword_kind == "subword_nmt":
            return token.endswith("@@")
        if self.subword_kind == "sentencepiece":
            return not following.startswith("▁") and SENTENCE_MARK not in (token, following)
        if self.subword_kind == "huggingface":
            return not self.subwords.get_subword_text(following, token).startswith(" ")
        return self.subword_kind == "gpt2" and not self.spell_token(following).startswith(" ")

    def join_word_tokens(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a single word."""
        return "".join(map(self.spell_token, tokens)).strip() or "".join(tokens)  # the token "▁" contains no letters

    def remove_subword_marks(self, token: str) -> str:
        """Return a token without its subword marks, or an empty string for the end symbol."""
        return "" if token == self.target.eos_word else self.join_word_tokens([token])


def split_into_chunks(texts: Iterable[Any], read_ahead: int) -> Iterator[List[Tuple[int, Any]]]:
    """Yield lists of at most ``read_ahead`` texts with their indices. Lists of long texts are shorter.

    If an error occurs while a text is read, the preceding texts are yielded before the error is raised.
    """
    part: List[Tuple[int, Any]] = []
    characters = 0
    numbered = enumerate(texts)
    problem: Optional[Exception] = None
    while True:
        try:
            number, text = next(numbered)
        except StopIteration:
            break
        except Exception as error:
            problem = error
            break
        part.append((number, text))
        characters += len(text) if isinstance(text, str) else 0
        if len(part) == read_ahead or characters > _CHARACTERS_AHEAD:
            yield part
            part, characters = [], 0
    if part:
        yield part
    if problem is not None:
        raise problem


def make_batches(documents: List[Document], max_tokens: int) -> Iterator[List[Document]]:
    """Group documents of similar length into batches of at most ``max_tokens`` tokens, including padding.

    A document with more than ``max_tokens`` tokens forms a batch of its own. Raw documents and documents of different
    prepared splits are not mixed.
    """
    batch: List[Document] = []
    split: Any = None
    for document in sorted(documents, key=lambda document: len(document.tokens)):
        before, split = split, document.prepared and document.prepared.split
        if batch and (split is not before or (len(batch) + 1) * (len(document.tokens) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(document)
    if batch:
        yield batch
