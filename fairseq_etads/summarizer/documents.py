"""Convert documents to batches of token ids, and convert the token ids of summaries to text.

In each batch, words that are not in the dictionary receive temporary ids in the order in which they occur. These ids
are larger than all dictionary ids. They are discarded after the batch, because the model needs them only to distinguish
the words from each other. Memory use therefore does not grow with the number of documents.
"""

import functools
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from ..data.labels import SALIENCE
from ..text.documents import join_to_one_line
from ..text.subwords import OPAQUE, find_word_ends
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import get_known_word_counts
from .explanation import ChosenSentence, Selection
from .folder.config import BUNDLED, list_bundled_models
from .folder.loading import LoadedFolder, load_tokenisation
from .prepared_split import PreparedDocument, WordSelection
from .sentences import DocumentSentence, SentencePicker, number_tokens
from .summary import DocumentSpelling, Span, Truncation, align_tokens, guess_token_spelling
from .surprisal import Surprisal, TrainingSurprisals, WordFrequencies

_CHARACTERS_AHEAD = 4_000_000
"""Approximate maximum number of characters to read ahead of the search."""


SHOWN = {SENTENCE_MARK: "·", "``": '"', "''": '"', "`": "'"}
"""Mapping from marks of tokenised text to what people see instead."""


class Document(NamedTuple):
    """A document to summarise, split into tokens."""

    number: int  # index in the input
    text: str  # raw text, or an empty string for a document of a prepared split
    tokens: Tuple[str, ...]  # that the model reads
    left_out: int  # number of tokens that the model does not read, with an extractor in the selected sentences
    picked: Optional[Selection] = None  # sentences that an extractor selected
    places: Tuple[int, ...] = ()  # for each token, the index in ``picked`` of its sentence, or -1 for a sentence mark
    levels: Tuple[str, ...] = ()  # salience level of each selected sentence
    every: Tuple[DocumentSentence, ...] = ()  # all sentences, for a content model
    prepared: Optional[PreparedDocument] = None  # the document in a prepared split

    @property
    def is_whole(self) -> bool:
        """Whether an extractor alone reads the document, all of its sentences."""
        return self.picked is None and bool(self.every)

    @property
    def truncation(self) -> Truncation:
        """Numbers of tokens that the model reads and does not read."""
        return Truncation(len(self.tokens), self.left_out)


class Batch(NamedTuple):
    """A batch of documents with the corresponding model input."""

    documents: List[Document]
    sample: Dict[str, Any]  # model input on the CPU, in the format of a batch from a fairseq dataset
    new_words: List[str]  # with temporary ids, which start from :attr:`DocumentTokenizer.first_new_id`
    padding: List[int]  # number of padding positions before the first token of each document


def _get_training_surprisals(loaded: LoadedFolder) -> Optional[TrainingSurprisals]:
    percentiles = loaded.config.task.get("document_surprisal")
    if percentiles is None:
        return None
    return TrainingSurprisals(WordFrequencies(get_known_word_counts(loaded.task.source_dictionary)), percentiles)


class DocumentTokenizer:
    """Convert raw text to model inputs, and model outputs to text."""

    def __init__(self, loaded: LoadedFolder):
        task = loaded.task
        # selects sentences for the model to read; without it, the model reads the first tokens of each document
        self.picker = None if loaded.extractor is None else SentencePicker(loaded.extractor)
        has_factors = bool(getattr(loaded.model, "factors", ()))
        self._levels = task.factor_dictionaries.get(SALIENCE) if has_factors else None
        self.source, self.target = task.source_dictionary, task.target_dictionary
        # The temporary ids are larger than all ids in both dictionaries, because summaries contain target ids as well.
        self.first_new_id = max(len(self.source), len(self.target))
        # the sentence mark, if the model can generate it
        self.mark = [SENTENCE_MARK] if self.target.index(SENTENCE_MARK) != self.target.unk() else []
        self.tokenizer, self.subwords = loaded.tokenizer, loaded.subwords
        self.words, self.subword_kind = loaded.config.text["words"], loaded.config.text["subwords"]
        self.limit = task.truncate_source
        self._surprisals = _get_training_surprisals(loaded)
        # An extractor reads whole documents, and knows other words.
        self._surprisals_of_whole = self._surprisals
        if loaded.extractor is not None:
            self._surprisals_of_whole = _get_training_surprisals(loaded.extractor.loaded) or self._surprisals
        self.pads_left = bool(loaded.config.task["left_pad_source"])

    def tokenize_document(self, number: int, text: Union[str, PreparedDocument], extracts: bool = False) -> Document:
        """Tokenise a document, and truncate it to the number of tokens that the model reads.

        With an extractor, a raw text is reduced to the selected sentences. Sentence marks are inserted between them if
        they were used in training. If ``extracts``, only the extractor will read the text, all of it.
        """
        if isinstance(text, PreparedDocument):
            return Document(number, "", *text.read_tokens(), prepared=text)
        if self.picker is None:
            tokens = self.tokenize(text)
            return Document(number, text, tuple(tokens[: self.limit]), max(len(tokens) - self.limit, 0))
        line = join_to_one_line(text, self.tokenizer.language)
        if extracts:
            every = self.picker.split(text, line)
            return Document(number, text, tuple(token for one in every for token in one.tokens), 0, every=every)
        selection, levels, every = self.picker.pick(text, line)
        tokens, places = [], []
        for place, sentence in enumerate(selection.sentences):
            found = self.tokenize_sentence(sentence.text, is_first=not place)
            if place and self.tokenizer.marks != "drop":
                tokens.append(SENTENCE_MARK)
                places.append(-1)
            tokens += found
            places += [place] * len(found)
        kept, left_out = tuple(tokens[: self.limit]), max(len(tokens) - self.limit, 0)
        return Document(number, text, kept, left_out, selection, tuple(places[: self.limit]), levels, every)

    def measure_surprisal(self, document: Document) -> Optional[Surprisal]:
        """Measure the surprisal of a document, and compare it with the surprisals of the training documents.

        Returns None if the document is too short or if the surprisals of the training documents are unknown.
        """
        surprisals = self._surprisals_of_whole if document.is_whole else self._surprisals
        return None if surprisals is None else surprisals.measure_surprisal(document.tokens)

    def tokenize_sentence(self, sentence: str, is_first: bool = True) -> List[str]:
        """Tokenise one sentence of a document."""
        line = " ".join(self.tokenizer.words.encode(sentence, self.tokenizer.keep_case))
        if self.subwords is not None:
            # With these kinds of subwords, a token may include the space before the word.
            line = self.subwords.encode(f" {line}" if not is_first and self.subword_kind in OPAQUE else line)
        tokens: List[str] = tokenize_line(line)
        return tokens

    def tokenize(self, text: str) -> List[str]:
        """Tokenise a raw text, with the tokens that the model does not read."""
        line = self.tokenizer.encode(join_to_one_line(text, self.tokenizer.language))
        tokens: List[str] = tokenize_line(line if self.subwords is None else self.subwords.encode(line))
        return tokens

    def tokenize_summary(self, text: str) -> List[str]:
        """Tokenise a summary provided by the user. Sentence marks are kept if the model can generate them."""
        return self.join_with_sentence_marks(map(self.tokenize, text.replace(SENTENCE_MARK, "\n").split("\n")))

    def join_with_sentence_marks(self, sentences: Iterable[List[str]]) -> List[str]:
        """Concatenate the tokens of several sentences. Sentence marks are inserted if the model can generate them."""
        found: List[str] = []
        for tokens in filter(None, sentences):
            found += [*(self.mark if found else []), *tokens]
        return found

    def make_batch(self, documents: List[Document], selection: Optional[WordSelection] = None) -> Batch:
        """Create a batch in which all documents are padded to the length of the longest document.

        The documents are raw texts, or belong to one prepared split. Their order can change, and ``selection`` can
        restrict copying from them.
        """
        if documents[0].prepared is not None:
            prepared = sorted(
                (document.prepared.number, n) for n, document in enumerate(documents) if document.prepared
            )
            sample = documents[0].prepared.split.make_sample([number for number, _ in prepared], selection)
            rows = sorted(range(len(documents)), key=sample["id"].tolist().__getitem__)
            ordered = [documents[n] for _, (_, n) in sorted(zip(rows, prepared))]
            is_token = sample["net_input"]["src_tokens"].ne(self.source.pad())
            return Batch(ordered, sample, [], is_token.int().argmax(dim=1).tolist())
        new: Dict[str, int] = {}
        end = [self.source.eos()]
        ids = [number_tokens(each.tokens, self.source.indices, self.first_new_id, new) + end for each in documents]
        tokens, lengths = self._collate(ids, self.source), list(map(len, ids))
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)}
        if self._levels is not None:  # the level of each token is that of its sentence, as a factor (B, S, 1)
            levels = [
                [SENTENCE_MARK if place < 0 else each.levels[place] for place in each.places] for each in documents
            ]
            values = [[*map(self._levels.index, row), self._levels.eos()] for row in levels]
            net_input["factors"] = self._collate(values, self._levels)[:, :, None]
        padding = [tokens.size(1) - length if self.pads_left else 0 for length in lengths]
        numbers = torch.tensor([document.number for document in documents])
        return Batch(documents, {"id": numbers, "net_input": net_input}, list(new), padding)

    def _collate(self, ids: List[List[int]], dictionary: Any) -> Tensor:
        """Pad rows of ids to the same length. Returns a tensor (B, S)."""
        found: Tensor = collate_tokens(list(map(torch.tensor, ids)), dictionary.pad(), left_pad=self.pads_left)
        return found

    def convert_to_tokens(self, ids: Tensor, batch: Batch) -> Tuple[Tuple[str, ...], List[int]]:
        """Return the tokens of a summary's ids (T,), and the positions of those that are no special symbols."""
        special, first_new = (self.target.bos(), self.target.eos(), self.target.pad()), self.first_new_id
        numbers = ids.tolist()
        tokens = tuple(batch.new_words[n - first_new] if n >= first_new else self.target[n] for n in numbers)
        return tokens, [place for place, number in enumerate(numbers) if number not in special]

    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens into text."""
        line = " ".join(tokens)
        text: str = self.tokenizer.decode(line if self.subwords is None else self.subwords.decode(line))
        return text

    def make_readable(
        self, document: Document, text: str, chosen: Optional[Sequence[ChosenSentence]]
    ) -> Tuple[str, ...]:
        """Return the sentences of a summary with the case and spacing of the document's words."""
        split = self.tokenizer.split_into_sentences(text) if chosen is None else [one.text for one in chosen]
        sentences = [" ".join(one.split()) for one in split if one.strip()]
        if document.prepared is not None or not sentences:  # there is no raw text
            return tuple(sentences)
        spelling = DocumentSpelling(document.text, capitalises=not self.tokenizer.keep_case)
        if chosen is None or not document.every:
            return tuple(map(spelling.restore, sentences))
        return tuple(
            spelling.restore(one.text) if one.number is None else document.every[one.number].text for one in chosen
        )

    def find_token_spans(self, document: Document) -> List[Optional[Span]]:
        """Return the span of each token in the raw document, or None for a token with an unknown position."""
        found: List[Optional[Span]] = [None] * len(document.tokens)
        if document.prepared is not None:
            return found
        if document.picked is None:
            return self.align(document.text, document.tokens, 0, None)
        for number, sentence in enumerate(document.picked.sentences):
            tokens = [place for place, of in enumerate(document.places) if of == number]
            spelled = [document.tokens[token] for token in tokens]
            for token, span in zip(tokens, self.align(document.text, spelled, sentence.start, sentence.end)):
                found[token] = span
        return found

    def align(self, text: str, tokens: Sequence[str], start: Optional[int], end: Optional[int]) -> List[Optional[Span]]:
        """Return the span in ``text`` of each token of text[start:end], or None for unknown positions."""
        if start is None:
            return [None] * len(tokens)
        spans = align_tokens(text[start:end], list(map(self.spell_token, tokens)))
        return [span and (span[0] + start, span[1] + start) for span in spans]

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
        if self.subword_kind in ("subword_nmt", "sentencepiece"):
            return not find_word_ends([token, following], self.subword_kind)[0]
        if self.subword_kind == "huggingface":
            return not self.subwords.get_subword_text(following, token).startswith(" ")
        return self.subword_kind == "gpt2" and not self.spell_token(following).startswith(" ")

    def join_word_tokens(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a single word. The end symbol becomes an empty string."""
        if list(tokens) == [self.target.eos_word]:
            return ""
        if len(tokens) == 1 and tokens[0] in SHOWN:
            return SHOWN[tokens[0]]
        return "".join(map(self.spell_token, tokens)).strip() or "".join(tokens)  # the token "▁" contains no letters


@functools.cache
def _make_bundled_tokenizer(name: str) -> DocumentTokenizer:
    return DocumentTokenizer(load_tokenisation(BUNDLED / name))


def find_fitting_model(text: str, folder: Path) -> str:
    """Return the name of the bundled model whose training documents are most like a raw text.

    The model in ``folder`` is left out. Returns an empty string if the text is unlike the training documents of every
    other model. The first tokens are measured, even if a model has an extractor.
    """
    others = {name: _make_bundled_tokenizer(name) for name in list_bundled_models() if BUNDLED / name != folder}
    found = {}
    for name, texts in others.items():
        surprisal = texts.measure_surprisal(texts.tokenize_document(0, text))
        if surprisal is not None and not surprisal.is_unusual:
            found[name] = surprisal.percentile
    return min(found, key=found.__getitem__, default="")


def split_into_chunks(texts: Iterable[Any], read_ahead: int) -> Iterator[List[Tuple[int, Any]]]:
    """Yield lists of at most ``read_ahead`` texts with their indices. Lists of long texts are shorter.

    If an error occurs while a text is read, the preceding texts are yielded before the error is raised.
    """
    part: List[Tuple[int, Any]] = []
    characters = 0
    try:
        for number, text in enumerate(texts):
            part.append((number, text))
            characters += len(text) if isinstance(text, str) else 0
            if len(part) == read_ahead or characters > _CHARACTERS_AHEAD:
                yield part
                part, characters = [], 0
    except Exception:
        if part:
            yield part
        raise
    if part:
        yield part


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
