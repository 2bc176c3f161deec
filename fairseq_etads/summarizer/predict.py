"""Run a trained model over the documents of a prepared split, for every command that does not write summaries."""

from typing import Any, Callable, Dict, Iterator, Sequence, TypeVar

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from tqdm import tqdm

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
