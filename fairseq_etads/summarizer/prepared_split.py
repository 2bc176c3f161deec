"""Read the documents in a split of a run's prepared data, for summaries or for the predictions of another command."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from tqdm import tqdm

from ..data.labels import SelectionFile, make_label_file_name
from ..data.pairs import TokenValues, add_token_values_to_batch, open_selection
from ..data.preparation import PreparedPairs, WordText, convert_ids_to_tokens
from ..platform.errors import InputError
from ..training.task import SummarizationTask
from .folder.loading import LoadedExtractor
from .sentences import DocumentSentence


@dataclass(frozen=True)
class WordSelection:
    """Word probabilities of a tagger, which restrict copying (Gehrmann et al. 2018)."""

    folder: Path  # output folder of etads-select
    threshold: float = 0.15  # only words with a probability above it are copied,
    factor: float = 2.0  # with copy probabilities that are multiplied by this factor


class PreparedDocument(NamedTuple):
    """The document with index ``number`` in a prepared split, which :class:`Summarizer` accepts like a raw text."""

    split: "PreparedSplit"
    number: int

    def read_tokens(self) -> Tuple[Tuple[str, ...], int]:
        """Return the tokens that the model reads, and the number of tokens that it does not read."""
        source = self.split.pairs.src
        tokens = tuple(convert_ids_to_tokens(source[self.number], self.split.pairs.src_dict))
        return tokens, max(int(source.full_sizes[self.number]) - 1 - len(tokens), 0)

    def __str__(self) -> str:
        """Return all tokens of the document, separated by spaces."""
        return " ".join(convert_ids_to_tokens(self.split.pairs.src.dataset[self.number], self.split.pairs.src_dict))


class PreparedSplit(Sequence[PreparedDocument]):
    """The documents in a split of the prepared data, in order. Its name is, for example, "test".

    The data folder of the ``task`` contains the split. ``extractor`` has a content model that chooses sentences, or is
    None, and ``extractor_run`` is its run folder. Raises InputError if the data does not contain the split, or the
    split is damaged.
    """

    def __init__(
        self,
        task: SummarizationTask,
        name: str,
        extractor: Optional[LoadedExtractor] = None,
        extractor_run: Optional[Path] = None,
    ):
        self.name, self._task = name, task
        try:
            task.load_dataset(name)
        except FileNotFoundError as error:
            raise InputError(str(error)) from None
        self.pairs = task.dataset(name)
        self._extractor, self._extractor_run = extractor, extractor_run
        self._sentences: Optional[Tuple[PreparedPairs, SelectionFile]] = None
        self._selections: Dict[WordSelection, TokenValues] = {}

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: Any) -> Any:
        """Return a document, or a list of documents for a slice."""
        numbers = range(len(self))[number]
        return PreparedDocument(self, numbers) if isinstance(numbers, int) else [self[one] for one in numbers]

    def __iter__(self) -> Iterator[PreparedDocument]:
        return (PreparedDocument(self, number) for number in range(len(self)))

    def make_sample(self, numbers: Sequence[int], selection: Optional[WordSelection]) -> Dict[str, Any]:
        """Collate documents to a batch as fairseq-generate does. The entry "id" contains the order of the documents.

        Raises InputError if a file of the split has changed since it was opened, or the probabilities do not fit.
        """
        self._task.data_checks.check_unchanged()
        sample: Dict[str, Any] = self.pairs.collater([self.pairs[number] for number in numbers])
        if selection is not None:
            if selection not in self._selections:
                place, limit = str(selection.folder), self._task.truncate_source
                self._selections[selection] = open_selection(place, self.name, self.pairs, limit)
            add_token_values_to_batch(sample, {"selection": self._selections[selection]}, self.pairs.src_dict.pad())
        return sample

    def read_sentences(self, number: int) -> Tuple[DocumentSentence, ...]:
        """Return all sentences of a document, with the probabilities that etads-select has computed for them.

        The sentences come from the data on which the extractor was trained.
        """
        pairs, file = self.open_sentences()
        assert self._extractor is not None
        tokens = pairs.read_document(number)
        sentences = WordText.from_tokens(tokens, pairs.subwords).split_sentences()
        decode = self._extractor.loaded.tokenizer.decode
        # Sentences that the extractor did not read have no probability.
        probabilities = itertools.chain(file.read_probabilities(number, tokens), itertools.repeat(None))
        return tuple(
            DocumentSentence(decode(" ".join(words)), words, value or 0.0)
            for words, value in zip(sentences, probabilities)
        )

    def open_sentences(self) -> Tuple[PreparedPairs, SelectionFile]:
        """Return the extractor's documents and probabilities, or raise InputError if a content model has none."""
        if self._sentences is None:
            assert self._extractor is not None and self._extractor_run is not None
            task = self._extractor.loaded.task
            path = self._extractor_run / make_label_file_name("probabilities", "sentences", self.name)
            if not path.is_file():
                raise InputError(f"--choose content: there is no {path}; etads-select makes it")
            try:
                pairs = PreparedPairs(task, self.name)
            except FileNotFoundError as error:
                raise InputError(f"--choose content: {error}") from None
            file = SelectionFile(path, "--content")
            if not len(pairs) == len(file) == len(self):
                raise InputError(
                    f"--choose content: {path} covers {len(file):,} documents, and the data of its extractor "
                    f"{len(pairs):,}, but the split {self.name} has {len(self):,}"
                )
            self._sentences = pairs, file
        return self._sentences


Result = TypeVar("Result")


@torch.no_grad()
def predict(
    model: Any,
    dataset: Any,
    compute: Callable[[Dict[str, Any]], Sequence[Result]],
    max_tokens: int,
    device: torch.device,
    what: str,
) -> Iterator[Result]:
    """Yield a result for each document of a dataset, in the order of the dataset.

    Documents of similar lengths share a batch. The batches depend only on the lengths and ``max_tokens``.

    Args:
        model: the model, which is moved to ``device`` and set to evaluation mode.
        dataset: dataset of the split, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.
        compute: function that takes a batch on ``device`` and returns the result of each of its documents.
        max_tokens: maximum number of tokens in a batch, including padding. A longer document has its own batch.
        what: description of the progress bar.
    """
    model.to(device).eval()
    sizes = np.array([dataset.num_tokens(number) for number in range(len(dataset))], dtype=np.int64)
    order = np.argsort(sizes, kind="stable")
    longest = int(sizes.max(initial=0))
    waiting: Dict[int, Result] = {}
    following = 0
    with tqdm(total=len(dataset), desc=what, unit=" documents", disable=None) as bar:
        for numbers in data_utils.batch_by_size(order, dataset.num_tokens, max_tokens=max(max_tokens, longest)):
            sample = dataset.collater([dataset[number] for number in numbers])
            if device.type == "cuda":
                sample = utils.move_to_cuda(sample, device)
            waiting.update(zip(sample["id"].tolist(), compute(sample)))
            bar.update(len(numbers))
            while following in waiting:
                yield waiting.pop(following)
                following += 1
