"""Read and encode documents once, and summarise them several times with different decoding options."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..search.ensemble import EncodedBatch
from .documents import Batch
from .summarizer import MAX_TOKENS, Summarizer
from .summary import Summary

STATE_BYTES = 1 << 30
"""Default memory limit for cached encoder states, in bytes."""


class Hypothesis(NamedTuple):
    """A hypothesis from a search with a scoring term that counts features."""

    text: str
    score: float
    features: Tuple[float, ...]  # counts of all features except the first, divided by the length penalty


class EncodedDocuments:
    """Documents that can be summarised repeatedly, in the same batches as in :meth:`Summarizer.summarize`.

    The encoder output, and the keys and values that the decoder computes from it, are cached on the CPU up to
    ``state_bytes``. Documents that do not fit into the cache are encoded again in each call. The summaries do not
    depend on the cache. An instance must not be used by several threads at the same time.
    """

    def __init__(
        self, summarizer: Summarizer, texts: Sequence[str], max_tokens: int = MAX_TOKENS, state_bytes: int = STATE_BYTES
    ):
        self._summarizer, self._most_bytes, self.max_tokens = summarizer, state_bytes, max_tokens
        self._without_words: Dict[int, Summary] = {}
        self._batches: List[Tuple[Batch, Optional[EncodedBatch]]] = []
        for _, results, batches in summarizer.read_batches(texts, max_tokens):
            self._without_words.update(results)
            for documents in batches:
                self._batches.append((summarizer._texts.make_batch(documents), EncodedBatch() if state_bytes else None))
        self.documents = sum(len(batch.documents) for batch, _ in self._batches)  # that contain words
        self.encoded_once = self.state_bytes = 0  # documents and bytes in the cache, known after the first call
        self._measured = False

    def check_decoding_options(self, **decoding: Any) -> None:
        """Raise InputError if the model does not support these decoding options."""
        self._summarizer._get_search(decoding, origins=False)

    def summarize(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[Summary]:
        """Summarise all documents, in order, without determining which words were copied.

        ``on_batch`` is called after each batch with the number of its documents. Raises InputError if a decoding option
        does not exist or has an invalid value.
        """
        search = self._summarizer._get_search(decoding, origins=False)
        found = self._decode_all(lambda batch, encoded: self._summarizer._decode(batch, search, encoded), on_batch)
        results = {**self._without_words, **found}
        return [results[number] for number in range(len(results))]

    def search_n_best(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[List[Hypothesis]]:
        """For each document, in order, return all hypotheses that the search finds, none for a document without words.

        The decoding options must include one that adds a scoring term with features. Content models are not used.
        """
        summarizer = self._summarizer
        search = summarizer._get_search({**decoding, "choose": "none"}, origins=False)
        assert search.generator is not None, "hypotheses need a search"
        scoring = search.generator.scoring

        def make_hypothesis(row: int, hypothesis: Dict[str, Any], batch: Batch) -> Hypothesis:
            counts = hypothesis["features"][1:] / scoring.compute_length_penalty(len(hypothesis["tokens"]))
            text = summarizer._make_summary(row, hypothesis, batch, search).text
            return Hypothesis(text, float(hypothesis["score"]), tuple(counts.tolist()))

        def decode(batch: Batch, encoded: Optional[EncodedBatch]) -> List[List[Hypothesis]]:
            return [
                [make_hypothesis(row, hypothesis, batch) for hypothesis in found if hypothesis["score"].isfinite()]
                for row, found in enumerate(summarizer._search_batch(batch, search, encoded))
            ]

        lists = self._decode_all(decode, on_batch)
        return [lists.get(number, []) for number in range(len(lists) + len(self._without_words))]

    def _decode_all(self, decode: Callable[..., Sequence[Any]], on_batch: Any) -> Dict[int, Any]:
        """Call ``decode`` for each batch. Returns the result of each document with words, by its number."""
        results: Dict[int, Any] = {}
        if not self._measured:  # an interrupted call may have measured some of the batches
            self.state_bytes = self.encoded_once = 0
        for number, (batch, encoded) in enumerate(self._batches):
            results.update(zip((document.number for document in batch.documents), decode(batch, encoded)))
            if not self._measured and encoded is not None:
                if self.state_bytes + encoded.bytes > self._most_bytes:
                    self._batches[number] = (batch, None)
                else:
                    self.state_bytes += encoded.bytes
                    self.encoded_once += len(batch.documents)
            if on_batch is not None:
                on_batch(len(batch.documents))
        self._measured = True
        return results
