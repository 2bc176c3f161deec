"""The criterions ``selection_nll`` and ``extractor_nll``, which train content selectors by maximum likelihood.

``selection_nll`` expects labels that mark words or sentences. ``extractor_nll`` expects labels that list sentences in
the order of the summary.

A criterion for models that select words or sentences must set ``trains_selectors = True``. It must set ``reads_labels =
True`` if it learns from the labels created by etads-labels, and ``reads_labels = False`` if it does not use labels.
"""

import math
from typing import Any, Dict, List, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..data.labels import EDGES, compute_roc_auc, find_best_f1_threshold
from ..layers.decoder_output import unwrap_model
from .losses import compute_binary_label_losses, compute_mean_label_loss


@register_criterion("selection_nll", dataclass=FairseqDataclass)  # without options
class SelectionNLL(FairseqCriterion):
    """Negative log-likelihood of binary labels of words or sentences.

    The loss is averaged over words. For sentences, it is averaged first over the sentences of each document and then
    over documents. The criterion logs the loss in bits. It also logs four values that are computed over all words or
    sentences: the area under the ROC curve ("auc"), the highest F1 score ("f1"), the threshold for this score
    ("f1_threshold"), and the proportion of words or sentences with label 1 ("positive").
    """

    trains_selectors = True
    reads_labels = True

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Return the summed loss, the number of words or documents by which fairseq divides it, and values to log."""
        if "labels" not in sample:
            raise ValueError("--criterion selection_nll: the split has no labels in DATA or --labels; see etads-labels")
        tokens = sample["net_input"]["src_tokens"]
        logits, real = model(**sample["net_input"])
        labels = model.convert_token_to_unit_values(sample["labels"], tokens).to(logits)  # (B, U)
        real = real & (labels >= 0)
        if model.unit == "sentences":
            loss, size = compute_mean_label_loss(logits, labels, real).sum(), len(logits)
        else:
            loss, size = compute_binary_label_losses(logits, labels, real).sum(), int(real.sum())
        counts = {"ntokens": sample["ntokens"], "nsentences": len(logits), "sample_size": size}
        histogram = count_labels_in_bins(logits.detach(), labels, real)
        return loss, size, {"loss": float(loss.detach()), **counts, "histogram": histogram}

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate the logged values over batches and workers. The loss is logged in bits."""
        # In fairseq-validate, a worker that has no batches left logs nothing.
        logging_outputs = [output for output in logging_outputs if "histogram" in output]
        size = max(sum(output["sample_size"] for output in logging_outputs), 1)
        loss = sum(output["loss"] for output in logging_outputs) / size / math.log(2)
        metrics.log_scalar("loss", loss, size, round=4)
        counts = sum((output["histogram"] for output in logging_outputs), torch.zeros(2, len(EDGES) + 1).double())
        metrics.log_scalar("_selection", counts)
        for name, compute in (
            ("auc", compute_roc_auc),
            ("f1", lambda counts: find_best_f1_threshold(counts)[0]),
            ("f1_threshold", lambda counts: find_best_f1_threshold(counts)[1]),
            ("positive", lambda counts: float(counts[1].sum() / max(float(counts.sum()), 1))),
        ):
            metrics.log_derived(name, lambda meters, compute=compute: round(compute(meters["_selection"].sum), 4))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return False, because one of the logged values is a histogram."""
        return False


def count_labels_in_bins(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Count the words or sentences in each logit bin (``EDGES``), separately for label 0 and label 1.

    Logits and labels are (B, U), and the mask ``real`` (B, U) is False for elements to ignore. The counts (2, bins),
    float64, are on the CPU, so that they can be stored in a checkpoint.
    """
    bins = torch.bucketize(logits[real].float().cpu(), torch.tensor(EDGES))
    rows = labels[real].cpu().round().long() * (len(EDGES) + 1)
    return torch.bincount(rows + bins, minlength=2 * (len(EDGES) + 1)).double().view(2, -1)


@register_criterion("extractor_nll", dataclass=FairseqDataclass)
class ExtractorNLL(FairseqCriterion):
    """Mean negative log-likelihood of the document sentences that match the summary sentences, in summary order.

    The criterion does not train the model to stop or to select each sentence only once. It logs the loss in bits, and
    the proportion of steps at which the correct sentence has the highest probability ("accuracy").
    """

    trains_selectors = True
    reads_labels = True

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Return the summed loss of a batch, the number of steps by which fairseq divides it, and values to log."""
        if "labels" not in sample:
            raise ValueError("--criterion extractor_nll: the split has no labels in DATA or --labels; see etads-labels")
        labels = drop_truncated_sentence_labels(sample["labels"], unwrap_model(model).max_sentences)  # (B, T)
        logits, _ = model(**sample["net_input"], chosen=labels)
        loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-1, reduction="sum")
        steps = int((labels >= 0).sum())
        counts = {"ntokens": sample["ntokens"], "nsentences": len(labels), "sample_size": steps, "steps": steps}
        right = ((logits.argmax(dim=2) == labels) & (labels >= 0)).sum()
        return loss, steps, {"loss": loss.detach(), **counts, "right": right}

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate the logged values over batches and workers. The loss is logged in bits."""

        def total(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        size, steps = total("sample_size"), total("steps")
        metrics.log_scalar("loss", total("loss") / max(size, 1) / math.log(2), size, round=4)
        metrics.log_scalar("accuracy", total("right") / max(steps, 1), steps, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def drop_truncated_sentence_labels(labels: Tensor, most: int) -> Tensor:
    """Remove all sentence indices that are ``most`` or larger. The rows (B, T) are padded on the right with -1."""
    kept = (labels >= 0) & (labels < most)
    order = (~kept).int().argsort(dim=1, stable=True)  # move the remaining sentences to the front, in the same order
    return labels.masked_fill(~kept, -1).gather(1, order)
