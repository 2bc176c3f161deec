"""Raw documents to parts, batches and ids, and ids of summaries to words. Without the dictionary's growing copy tail.

In a batch, words that the dictionary does not know get the ids behind its last one, in the order in which they occur.
The model never looks at them beyond telling them apart, and nothing has to be remembered after the batch, so memory
does not grow with the number of documents.
"""

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from ..text.alignment import Span, align, spelling
from ..text.cleaning import one_line
from ..text.words import SENTENCE_MARK
from .folder.loading import LoadedFolder

_CHARACTERS_AHEAD = 4_000_000
"""Characters of a part, about, beyond which no more documents are read ahead."""


class Document(NamedTuple):
    """A document to be summarised.

    Attributes:
        number: its place in the input. text: raw. tokens: those that are read. left_out: how many more there are.
    """

    number: int
    text: str
    tokens: Tuple[str, ...]
    left_out: int


class Batch(NamedTuple):
    """Documents, and what a model is given of them.

    Attributes:
        sample: as a fairseq dataset makes it, on the CPU.
        new_words: the words of the ids behind the source dictionary's last one.
        padding: how many places of each document's row come before its first token.
    """

    documents: List[Document]
    sample: Dict[str, Any]
    new_words: List[str]
    padding: List[int]


class TextProcessing:
    """How raw text becomes what the model reads, and what it writes becomes text.

    Args:
        loaded: the model folder.
    """

    def __init__(self, loaded: LoadedFolder):
        task = loaded.task
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.tokenizer, self.subwords = loaded.tokenizer, loaded.subwords
        self.words, self.subword_kind = loaded.config.text["words"], loaded.config.text["subwords"]
        self.limit = task.truncate_source
        self.pads_left = bool(loaded.config.task["left_pad_source"])

    def read(self, number: int, text: str) -> Document:
        """Cut a raw text into tokens, and keep as many as the model reads."""
        tokens = self._tokens(one_line(text))
        return Document(number, text, tuple(tokens[: self.limit]), max(len(tokens) - self.limit, 0))

    def _tokens(self, line: str) -> List[str]:
        line = self.tokenizer.encode(line)
        if self.subwords is not None:
            line = self.subwords.encode(line)
        tokens: List[str] = tokenize_line(line)
        return tokens

    def summary_tokens(self, text: str) -> List[str]:
        """The tokens of a summary that is given as text; sentence marks stay if the model can write them."""
        sentences = [self._tokens(one_line(part)) for part in text.replace(SENTENCE_MARK, "\n").split("\n")]
        mark = [SENTENCE_MARK] if self.target.index(SENTENCE_MARK) != self.target.unk() else []
        found: List[str] = []
        for tokens in filter(None, sentences):
            found += [*(mark if found else []), *tokens]
        return found

    def batch(self, documents: List[Document]) -> Batch:
        """Documents side by side, padded to the longest."""
        new: Dict[str, int] = {}
        known, first_new = self.source.indices, len(self.source)
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
        sample = {
            "id": torch.tensor([document.number for document in documents]),
            "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(list(map(len, rows)))},
        }
        return Batch(documents, sample, list(new), padding)

    def spell(self, ids: Tensor, batch: Batch) -> Tuple[List[int], List[str]]:
        """The tokens of a summary as text, and where each stands in ``ids`` (T,), whose start and end symbols go."""
        special = (self.target.bos(), self.target.eos(), self.target.pad())
        places = [place for place, number in enumerate(ids.tolist()) if number not in special]
        spelled = self.spell_all(ids, batch)
        return places, [spelled[place] for place in places]

    def spell_all(self, ids: Tensor, batch: Batch) -> Tuple[str, ...]:
        """All tokens of a summary (T,) as text, its start and end symbols, too."""
        first_new = len(self.source)
        return tuple(batch.new_words[n - first_new] if n >= first_new else self.target[n] for n in ids.tolist())

    def join(self, tokens: Sequence[str]) -> str:
        """The text that tokens make."""
        line = " ".join(tokens)
        if self.subwords is not None:
            line = self.subwords.decode(line)
        text: str = self.tokenizer.decode(line)
        return text

    def spans(self, document: Document) -> List[Optional[Span]]:
        """Where each token of a document stands in its raw text; None where that cannot be told."""
        return align(document.text, [self._spelling(token) for token in document.tokens])

    def _spelling(self, token: str) -> str:
        if token == SENTENCE_MARK:
            return ""
        if self.subword_kind == "gpt2":
            return str(self.subwords.decode(token)) if token.isdigit() else ""
        return spelling(token, self.words, self.subword_kind)

    def goes_on(self, token: str, following: str) -> bool:
        """Whether two neighbouring tokens belong to one word."""
        if self.subword_kind == "subword_nmt":
            return token.endswith("@@")
        if self.subword_kind == "sentencepiece":
            return not following.startswith("▁") and SENTENCE_MARK not in (token, following)
        return self.subword_kind == "gpt2" and not self._spelling(following).startswith(" ")

    def word_of(self, tokens: Sequence[str]) -> str:
        """The word that the tokens of one word make."""
        return "".join(map(self._spelling, tokens)).strip() or "".join(tokens)  # "▁" alone has no letters

    def shown(self, token: str) -> str:
        """A token without the marks of subwords; empty for the end symbol."""
        return "" if token == self.target.eos_word else self.word_of([token])


def parts(texts: Iterable[Any], read_ahead: int) -> Iterator[List[Tuple[int, Any]]]:
    """The texts with their numbers, in parts of at most ``read_ahead``; fewer long ones.

    If reading a text raises an error, the texts before it come first.
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


def batches(documents: List[Document], max_tokens: int) -> Iterator[List[Document]]:
    """The documents by length, in parts of at most ``max_tokens`` with padding; a longer one is alone."""
    batch: List[Document] = []
    for document in sorted(documents, key=lambda document: len(document.tokens)):
        if batch and (len(batch) + 1) * (len(document.tokens) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(document)
    if batch:
        yield batch
