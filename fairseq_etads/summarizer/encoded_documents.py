"""Read and encode documents once, and summarise them several times with different decoding options."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..search.encoder_cache import EncodedBatch
from .documents import Batch, make_batches, split_into_chunks
from .summarizer import MAX_TOKENS, READ_AHEAD, Summarizer
from .summary import Summary

STATE_BYTES = 1 << 30
"""Default memory limit for cached encoder states, in bytes."""


class _DocumentBatch(NamedTuple):
    """A batch of documents, and its encoder output, which is None if it is not cached."""

    batch: Batch
    encoded: Optional[EncodedBatch]


class Hypothesis(NamedTuple):
    """A hypothesis from a search with a scoring term that counts features.

    Attributes:
        text: text of the summary.
        score: score of the hypothesis in the search.
        features: counts of all features except the first, divided by the length penalty.
    """

    text: str
    score: float
    features: Tuple[float, ...]


class EncodedDocuments:
    """Documents that can be summarised repeatedly, in the same batches as in :meth:`Summarizer.summarize`.

    The encoder output, and the keys and values that the decoder computes from it, are cached on the CPU up to a memory
    limit. Documents that do not fit into the cache are encoded again in each call. The summaries do not depend on the
    cache. An instance must not be used by several threads at the same time.

    Args:
        summarizer: summariser that generates the summaries.
        texts: raw texts of the documents.
        max_tokens: maximum number of source tokens per batch, including padding.
        state_bytes: memory limit of the cache, in bytes. 0 disables the cache.

    Attributes:
        documents: number of documents that contain words.
        encoded_once: number of documents in the cache, which is known after the first call.
        state_bytes: memory used by the cache, in bytes.
        max_tokens: maximum number of source tokens per batch, including padding.
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
        self._batches = list(self._read_batches(texts, max_tokens))
        self.documents = sum(len(part.batch.documents) for part in self._batches)
        self.encoded_once = self.state_bytes = 0
        self._measured = False

    def _read_batches(self, texts: Sequence[str], max_tokens: int) -> Iterator[_DocumentBatch]:
        summarizer = self._summarizer
        for part in split_into_chunks(texts, READ_AHEAD):
            read = [summarizer._read_document(number, text, self._without_words, keep=False) for number, text in part]
            for together in make_batches([document for document in read if document is not None], max_tokens):
                yield _DocumentBatch(
                    summarizer._texts.make_batch(together), EncodedBatch() if self._most_bytes else None
                )

    def check_decoding_options(self, **decoding: Any) -> None:
        """Raise InputError if the model does not support these decoding options."""
        self._summarizer._get_search(decoding, origins=False)

    def summarize(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[Summary]:
        """Summarise all documents without determining which words were copied.

        Args:
            on_batch: function that is called after each batch with the number of documents in the batch.
            decoding: decoding options. Their default values are stored in the model folder.

        Returns:
            A list of summaries, in the order of the documents.

        Raises:
            InputError: a decoding option does not exist or has an invalid value.
        """
        search = self._summarizer._get_search(decoding, origins=False)
        found = self._decode_all(lambda part: self._summarizer._decode(part.batch, search, part.encoded), on_batch)
        results = {**self._without_words, **found}
        return [results[number] for number in range(len(results))]

    def search_n_best(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[List[Hypothesis]]:
        """For each document, in order, return a list of all hypotheses that the search finds.

        The list is empty for a document without words. Content models are not used.

        Args:
            on_batch: function that is called after each batch with the number of documents in the batch.
            decoding: decoding options. They must include an option that adds a scoring term with features.
        """
        summarizer = self._summarizer
        search = summarizer._get_search({**decoding, "choose": "none"}, origins=False)
        scoring = search.generator.scoring

        def make_hypothesis(row: int, hypothesis: Dict[str, Any], batch: Batch) -> Hypothesis:
            counts = hypothesis["features"][1:] / scoring.compute_length_penalty(len(hypothesis["tokens"]))
            text = summarizer._make_summary(row, hypothesis, batch, search).text
            return Hypothesis(text, float(hypothesis["score"]), tuple(counts.tolist()))

        def decode(part: _DocumentBatch) -> List[List[Hypothesis]]:
            results = summarizer._search_batch(part.batch, search, part.encoded)
            return [
                [make_hypothesis(row, hypothesis, part.batch) for hypothesis in found if hypothesis["score"].isfinite()]
                for row, found in enumerate(results)
            ]

        lists = self._decode_all(decode, on_batch)
        return [lists.get(number, []) for number in range(len(lists) + len(self._without_words))]

    def _decode_all(self, decode: Callable[[_DocumentBatch], Sequence[Any]], on_batch: Any) -> Dict[int, Any]:
        """Call ``decode`` for each batch.

        Returns a dictionary that maps the index of each non-empty document to its result.
        """
        results: Dict[int, Any] = {}
        if not self._measured:  # an interrupted call may have measured some of the batches
            self.state_bytes = self.encoded_once = 0
        for number, part in enumerate(self._batches):
            results.update(zip((document.number for document in part.batch.documents), decode(part)))
            if not self._measured:
                self._batches[number] = self._enforce_cache_limit(part)
            if on_batch is not None:
                on_batch(len(part.batch.documents))
        self._measured = True
        return results

    def _enforce_cache_limit(self, part: _DocumentBatch) -> _DocumentBatch:
        """Keep the encoder output of a batch if it fits into the cache. Otherwise, delete it."""
        size = 0 if part.encoded is None else part.encoded.bytes
        if part.encoded is None or self.state_bytes + size > self._most_bytes:
            return part._replace(encoded=None)
        self.state_bytes += size
        self.encoded_once += len(part.batch.documents)
        return part
