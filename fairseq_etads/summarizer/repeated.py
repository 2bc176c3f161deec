"""Documents that are summarised many times, each time with other options of decoding: read once, encoded once."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..search.encoded import EncodedBatch
from .batching import batches, parts
from .documents import Batch
from .summarizer import MAX_TOKENS, READ_AHEAD, Summarizer
from .summary import Summary

STATE_BYTES = 1 << 30
"""Most memory for encoder states, unless a call says something else."""


class _EncodedDocuments(NamedTuple):
    """Documents side by side, and what the model has computed of them; None if that is not kept."""

    batch: Batch
    encoded: Optional[EncodedBatch]


class RepeatedDocuments:
    """Summarises the same documents again and again, in the batches in which :meth:`Summarizer.summarize` would.

    The encoder's output is kept on the CPU, with the keys and values that the decoder projects from it, as long as
    there is room; the other documents are encoded again in each call. Summaries are the same either way. For a single
    thread.

    Args:
        texts: raw text. max_tokens: source tokens in a batch, padding included.
        state_bytes: most memory for what is kept; 0: keep nothing.

    Attributes:
        documents: how many have words, so that the model reads them. encoded_once: how many of them are kept, which is
            known after the first call. state_bytes: the memory that they take. max_tokens: as given.
    """

    def __init__(
        self,
        summarizer: Summarizer,
        texts: Sequence[str],
        max_tokens: int = MAX_TOKENS,
        state_bytes: int = STATE_BYTES,
    ):
        self._summarizer, self._most_bytes, self.max_tokens = summarizer, state_bytes, max_tokens
        self._without_words: Dict[int, Summary] = {}
        self._batches = list(self._read(texts, max_tokens))
        self.documents = sum(len(part.batch.documents) for part in self._batches)
        self.encoded_once = self.state_bytes = 0
        self._measured = False

    def _read(self, texts: Sequence[str], max_tokens: int) -> Iterator[_EncodedDocuments]:
        summarizer = self._summarizer
        for part in parts(texts, READ_AHEAD):
            read = [summarizer._read(number, text, self._without_words, keep=False) for number, text in part]
            for together in batches([document for document in read if document is not None], max_tokens):
                yield _EncodedDocuments(summarizer._texts.batch(together), EncodedBatch() if self._most_bytes else None)

    def check(self, **decoding: Any) -> None:
        """Raise InputError if the model cannot be searched with these options of decoding."""
        self._summarizer._search(decoding, origins=False)

    def summarize(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[Summary]:
        """Summaries in the order of the documents, without the places of copied words.

        Args:
            on_batch: called after each batch with its number of documents.
            decoding: options of decoding; the folder has the defaults.

        Raises:
            InputError: an option does not exist or has an impossible value.
        """
        search = self._summarizer._search(decoding, origins=False)
        results = dict(self._without_words)
        for number, (batch, encoded) in enumerate(self._batches):
            found = self._summarizer._decode(batch, search, encoded)
            results.update(zip((document.number for document in batch.documents), found))
            if not self._measured:
                self._batches[number] = self._within_room(self._batches[number])
            if on_batch is not None:
                on_batch(len(batch.documents))
        self._measured = True
        return [results[number] for number in range(len(results))]

    def _within_room(self, part: _EncodedDocuments) -> _EncodedDocuments:
        """Count what is kept of a batch; without it if there is no room."""
        size = 0 if part.encoded is None else part.encoded.bytes
        if part.encoded is None or self.state_bytes + size > self._most_bytes:
            return part._replace(encoded=None)
        self.state_bytes += size
        self.encoded_once += len(part.batch.documents)
        return part
