"""Documents that are summarised many times, each time with other options of decoding: read once, encoded once."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..search.encoded import EncodedBatch
from .documents import Batch, batches, parts
from .summarizer import MAX_TOKENS, READ_AHEAD, Summarizer
from .summary import Summary

STATE_BYTES = 1 << 30
"""Most memory for encoder states, unless a call says something else."""


class _EncodedDocuments(NamedTuple):
    """Documents side by side, and what the model has computed of them; None if that is not kept."""

    batch: Batch
    encoded: Optional[EncodedBatch]


class Hypothesis(NamedTuple):
    """A hypothesis of a search with extractive weights.

    Attributes:
        text: of the summary. features: five numbers, of which the score is the sum, weighted by 1 and the weights of
            all features but log p: counts of words, bigrams, trigrams and reorderings over the length penalty, and
            before them all else that the score is made of.
    """

    text: str
    features: Tuple[float, ...]


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
        found = self._of_all(lambda part: self._summarizer._decode(part.batch, search, part.encoded), on_batch)
        results = {**self._without_words, **found}
        return [results[number] for number in range(len(results))]

    def n_best(self, on_batch: Optional[Callable[[int], Any]] = None, **decoding: Any) -> List[List[Hypothesis]]:
        """All that the search finds, in the order of the documents; nothing for a document without words.

        Args:
            on_batch, decoding: as for :meth:`summarize`, ``extractive_weights`` among them.
        """
        summarizer = self._summarizer
        search = summarizer._search(decoding, origins=False)
        scoring = search.generator.settings.scoring
        weights = search.generator.settings.extractive_weights[1:]

        def hypothesis_of(row: int, hypothesis: Dict[str, Any], batch: Batch) -> Hypothesis:
            counts = hypothesis["features"][1:] / scoring.divisor(len(hypothesis["tokens"]))
            score, parts = float(hypothesis["score"]), counts.tolist()
            rest = score - sum(weight * count for weight, count in zip(weights, parts))
            return Hypothesis(summarizer._summary(row, hypothesis, batch, search).text, (rest, *parts))

        def decode(part: _EncodedDocuments) -> List[List[Hypothesis]]:
            results = summarizer._search_batch(part.batch, search, part.encoded)
            return [
                [hypothesis_of(row, hypothesis, part.batch) for hypothesis in found if hypothesis["score"].isfinite()]
                for row, found in enumerate(results)
            ]

        lists = self._of_all(decode, on_batch)
        return [lists.get(number, []) for number in range(len(lists) + len(self._without_words))]

    def _of_all(self, decode: Callable[[_EncodedDocuments], Sequence[Any]], on_batch: Any) -> Dict[int, Any]:
        """What ``decode`` returns for each document that has words, by its number."""
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
        """Count what is kept of a batch; without it if there is no room."""
        size = 0 if part.encoded is None else part.encoded.bytes
        if part.encoded is None or self.state_bytes + size > self._most_bytes:
            return part._replace(encoded=None)
        self.state_bytes += size
        self.encoded_once += len(part.batch.documents)
        return part
