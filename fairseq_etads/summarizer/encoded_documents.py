"""Read and encode documents only once, and summarise them many times with different decoding options."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..search.encoded import EncodedBatch
from .documents import Batch, batches, parts
from .summarizer import MAX_TOKENS, READ_AHEAD, Summarizer
from .summary import Summary

STATE_BYTES = 1 << 30
"""Default memory limit in bytes for encoder states."""


class _EncodedDocuments(NamedTuple):
    """A batch of documents, and the cached outputs of the model; None if they are not cached."""

    batch: Batch
    encoded: Optional[EncodedBatch]


class Hypothesis(NamedTuple):
    """A hypothesis from a search with a scoring term that counts features.

    Attributes:
        text: text of the summary.
        score: score of the hypothesis.
        features: counts of all features in the term except the first, divided by the length penalty.
    """

    text: str
    score: float
    features: Tuple[float, ...]


class EncodedDocuments:
    """Documents to summarise repeatedly, in the same batches as :meth:`Summarizer.summarize`.

    The output of the encoder, and the keys and values that the decoder projects from it, are kept on the CPU up to the
    memory limit. Further documents are encoded again in each call. The summaries are the same in both cases. Only one
    thread may use an instance.

    Args:
        texts: raw texts.
        max_tokens: source tokens per batch, padding included.
        state_bytes: memory limit of the cache; 0: no cache.

    Attributes:
        documents: number of documents with words, which the model reads.
        encoded_once: number of cached documents, known after the first call.
        state_bytes: memory of the cache.
        max_tokens: source tokens per batch.
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
        """Raise InputError if the model does not support these decoding options."""
        self._summarizer._search(decoding, origins=False)

    def summarize(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[Summary]:
        """Return summaries in the order of the documents, without the places of copied words.

        Args:
            on_batch: function called after each batch with its number of documents.
            decoding: decoding options; the folder contains the defaults.

        Raises:
            InputError: an option does not exist or has an impossible value.
        """
        search = self._summarizer._search(decoding, origins=False)
        found = self._of_all(lambda part: self._summarizer._decode(part.batch, search, part.encoded), on_batch)
        results = {**self._without_words, **found}
        return [results[number] for number in range(len(results))]

    def n_best(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[List[Hypothesis]]:
        """Return all hypotheses of the search, in the order of the documents; none for a document without words.

        A content model does not choose sentences from the hypotheses.

        Args:
            on_batch, decoding: as in :meth:`summarize`; ``decoding`` includes the option for a term with features.
        """
        summarizer = self._summarizer
        search = summarizer._search({**decoding, "choose": "none"}, origins=False)
        scoring = search.generator.settings.scoring

        def hypothesis_of(row: int, hypothesis: Dict[str, Any], batch: Batch) -> Hypothesis:
            counts = hypothesis["features"][1:] / scoring.divisor(len(hypothesis["tokens"]))
            text = summarizer._summary(row, hypothesis, batch, search).text
            return Hypothesis(text, float(hypothesis["score"]), tuple(counts.tolist()))

        def decode(part: _EncodedDocuments) -> List[List[Hypothesis]]:
            results = summarizer._search_batch(part.batch, search, part.encoded)
            return [
                [hypothesis_of(row, hypothesis, part.batch) for hypothesis in found if hypothesis["score"].isfinite()]
                for row, found in enumerate(results)
            ]

        lists = self._of_all(decode, on_batch)
        return [lists.get(number, []) for number in range(len(lists) + len(self._without_words))]

    def _of_all(self, decode: Callable[[_EncodedDocuments], Sequence[Any]], on_batch: Any) -> Dict[int, Any]:
        """Return the results of ``decode`` for each document with words, by document number."""
        results: Dict[int, Any] = {}
        for number, part in enumerate(self._batches):
            results.update(zip((document.number for document in part.batch.documents), decode(part)))
            if not self._measured:
                self._batches[number] = self._within_room(part)
            if on_batch is not None:
                on_batch(len(part.batch.documents))
        self._measured = True
        return results

    def _within_room(self, part: _EncodedDocuments) -> _EncodedDocuments:
        """Add the cache of a batch to the memory in use, or remove the cache if the limit is reached."""
        size = 0 if part.encoded is None else part.encoded.bytes
        if part.encoded is None or self.state_bytes + size > self._most_bytes:
            return part._replace(encoded=None)
        self.state_bytes += size
        self.encoded_once += len(part.batch.documents)
        return part
