"""Loss functions, and the criterions of summarisers and content selectors, which compute their weighted sum.

The functions compute losses for coverage, word labels, sentence labels, sentence selection and a closed-book decoder
from model outputs. The criterion ``summarization_nll`` itself computes the negative log-likelihood, label smoothing and
the loss of a supervised switch. :class:`LossChecker` rejects non-finite losses, and :func:`convert_logged_tensors`
converts logged tensors to numbers.

The criterions ``selection_nll`` and ``extractor_nll`` train content selectors by maximum likelihood: the first on
labels that mark words or sentences, the second on labels that list sentences in the order of the summary. A criterion
for models that select words or sentences must set ``trains_selectors = True``. It must set ``reads_labels = True`` if
it learns from the labels created by etads-labels, and ``reads_labels = False`` if it does not use labels.
"""

import logging
import math
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.nan_detector import NanDetector
from fairseq.utils import get_perplexity
from omegaconf import II
from torch import Tensor, nn

from ..data.labels import EDGES, compute_roc_auc, find_best_f1_threshold
from ..kernels.linear import widen_to_float32
from ..layers.attention_probe import FIGURES, observe_attention
from ..layers.decoder_output import DecoderOutput, WordRequest, get_decoder_capabilities, unwrap_model
from ..layers.pointer import LogVocab, PointerOutput, WordLogProbs
from ..platform.command_options import NOT_NEGATIVE, PROBABILITY, SIZE, Bounds, check_option_values, option
from ..text.words import SENTENCE_MARK
from ..vocabulary.output import CandidateWords, OutputVocabulary

LARGEST_LOSS = 1e20
"""Largest valid loss. A larger loss means that the probability of the target word is 0."""

logger = logging.getLogger(__name__)


class NonFiniteLossError(RuntimeError):
    """Exception raised if the loss of a training pair is infinite or not a number."""


def coverage_loss(attention: Tensor, real: Tensor) -> Tensor:
    """Compute the coverage loss Σ_j min(a_tj, c_tj) of See et al. 2017, equation 12.

    The coverage vector c_t is the sum of the attention distributions at all previous decoding steps.

    Args:
        attention: attention weights, shape (B, T, S). Each row sums to 1.
        real: boolean mask of the summary tokens, shape (B, T), False at padding. Summaries can be padded on either
            side.

    Returns:
        The coverage losses, shape (B, T), in at least float32. They are 0 at padding and at the first word of each
        summary.
    """
    attention = widen_to_float32(attention) * real[:, :, None]
    before = attention.cumsum(dim=1) - attention
    return torch.minimum(attention, before).sum(dim=2)


def compute_binary_label_losses(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Compute the negative log-likelihood of binary labels. The result has shape (B, U) and at least float32 precision.

    Args:
        logits: logits of label 1, shape (B, U), for U words or sentences.
        labels: binary labels, shape (B, U).
        real: boolean mask, shape (B, U). The loss is 0 where the mask is False.
    """
    logits = widen_to_float32(logits).masked_fill(~real, 0)
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits).clamp(min=0), reduction="none")
    return losses.masked_fill(~real, 0)


def compute_mean_label_loss(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Compute the mean of the label losses over the sentences of each document, shape (B,) (Hsu et al. 2018).

    See :func:`compute_binary_label_losses` for the arguments.
    """
    return compute_binary_label_losses(logits, labels, real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


def compute_closed_book_loss(logits: Tensor, target: Tensor, pad: int, unk: int) -> Tensor:
    """Compute the negative log-likelihood of each target word.

    The result has shape (N, T) and at least float32 precision. It is 0 at padding.

    Args:
        logits: logits of the V words in the vocabulary, shape (N, T, V).
        target: dictionary ids of the target words, shape (N, T). Words outside the vocabulary are replaced with
            ``unk``.
        pad, unk: dictionary ids of the padding symbol and the unknown word.
    """
    words = target.masked_fill(target >= logits.shape[2], unk)
    return F.cross_entropy(widen_to_float32(logits).transpose(1, 2), words, ignore_index=pad, reduction="none")


def check_losses_are_finite(loss: Tensor, sample: Dict[str, Any], skip_overflow: bool = False) -> bool:
    """Check that the losses of the target words (N, T) are finite and below LARGEST_LOSS.

    With ``skip_overflow``, non-finite losses only cause a warning. The optimiser must then skip the update and reduce
    the loss scale. If all updates overflow, the scale soon reaches fairseq's --min-loss-scale, and training stops.

    Returns whether the optimiser must skip the update.

    Raises:
        NonFiniteLossError: a loss is not finite or is too large. The message names the pairs of the batch ``sample``.
    """
    loss = loss.detach()
    if loss.sum().abs() < LARGEST_LOSS:  # False for NaN
        return False
    overflow = ~loss.isfinite()
    rows = (overflow | (loss.abs() >= LARGEST_LOSS)).any(dim=1).nonzero().flatten().tolist()
    ids = sample["id"].tolist() if "id" in sample else range(len(loss))
    which = ", ".join(str(ids[row]) for row in rows[:20]) + (", …" if len(rows) > 20 else "")
    which = which or "their sum overflows"
    what = f"the loss of {len(rows)} of {len(loss)} pairs is not finite (numbers in the data set, from 0: {which}). "
    if skip_overflow and overflow.any() and not (loss.masked_fill(overflow, 0).abs() >= LARGEST_LOSS).any():
        logger.warning(f"{what}The update is skipped, and the loss scale is lowered")
        return True
    raise NonFiniteLossError(
        f"{what}The last checkpoint is from before this update. Start again from it with a lower --lr, a longer "
        "--warmup-updates or a lower --clip-norm; instead of --fp16, try --bf16; if the same pairs are reported again, "
        "look at their text"
    )


class LossChecker:
    """Apply :func:`check_losses_are_finite` to the losses of each update without waiting for a GPU.

    On a CPU, losses are checked immediately. On a GPU, such a check would have to wait for the loss between the forward
    and the backward pass. An invalid loss is therefore replaced with NaN, so that the gradient also becomes NaN.
    fairseq waits for the gradient in any case, and skips the update. The error is then raised.
    """

    def __init__(self) -> None:
        self._unchecked: List[Tuple[Tensor, Dict[str, Any]]] = []

    def compute_loss_factor(self, loss: Tensor, sample: Dict[str, Any], model: nn.Module, skip_overflow: bool) -> Any:
        """Return a factor for the total of a batch's losses (N, T): NaN if a loss is not finite, and 1 otherwise.

        ``model`` has no distributed wrappers. For the other arguments, see :func:`check_losses_are_finite`. On a GPU,
        a later call may raise its error.
        """
        loss = loss.detach()
        hooks = (getattr(hook, "__self__", None) for hook in model._forward_hooks.values())
        # fairseq may be repeating an update to find the cause of a non-finite gradient
        if loss.is_cpu or not model.training or any(isinstance(hook, NanDetector) for hook in hooks):
            return math.nan if check_losses_are_finite(loss, sample, skip_overflow) else 1
        self._unchecked.append((loss, {name: sample[name] for name in ("id",) if name in sample}))
        return torch.where(loss.sum().abs() < LARGEST_LOSS, 1.0, math.nan)  # False for NaN

    def record_applied_update(self, gradient_is_finite: bool, skip_overflow: bool) -> None:
        """Record that the optimiser will apply this update. Call this method before the optimiser step.

        If the gradient is finite, all losses are finite too and need not be checked.
        """
        if gradient_is_finite:
            self._unchecked.clear()
        self.check_skipped_update(skip_overflow)

    def check_skipped_update(self, skip_overflow: bool) -> None:
        """Check the losses of the last update if it was skipped. If the update was applied, its losses are valid."""
        unchecked, self._unchecked = self._unchecked, []
        for loss, sample in unchecked:
            check_losses_are_finite(loss, sample, skip_overflow)


def convert_logged_tensors(logging_outputs: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Convert logged GPU tensors to numbers, waiting for the GPU only once.

    Without this function, fairseq would wait for each tensor separately.
    """
    outputs = [dict(output) for output in logging_outputs]
    found = [
        (output, name)
        for output in outputs
        for name, value in output.items()
        if isinstance(value, Tensor) and not value.is_cpu and value.numel() == 1
    ]
    if found:
        together = torch.stack([output[name].detach().double().flatten()[0] for output, name in found])
        for (output, name), number in zip(found, together.tolist()):
            output[name] = number
    return outputs


@dataclass
class SummarizationNLLConfig(FairseqDataclass):
    """Options of ``--criterion summarization_nll``."""

    label_smoothing: float = option(
        0.0,
        "probability mass for label smoothing, spread evenly over all words that the model can produce",
        bounds=PROBABILITY,
    )
    coverage_loss: float = option(
        0.0,
        "weight (lambda) of the coverage loss, which penalises repeated attention to the same words",
        bounds=NOT_NEGATIVE,
        excludes={
            "--decoder-layerdrop": "it skips the decoder's last layer, whose attention is needed, in some "
            "updates; choose one, or a model with --pointer"
        },
    )
    coverage_loss_start: int = option(
        0,
        "first update that includes the coverage loss; training may not converge if the loss is included from update 0",
        bounds=NOT_NEGATIVE,
        needs=("--coverage-loss",),
    )
    coverage_loss_ramp: int = option(
        0,
        "number of updates over which the weight of the coverage loss increases to its full value",
        bounds=NOT_NEGATIVE,
        needs=("--coverage-loss",),
    )
    switch_loss: float = option(
        1.0,
        "with --pointer switch, weight of the loss that trains the switch to choose between generating and copying",
        bounds=NOT_NEGATIVE,
        needs=("--pointer switch",),
    )
    extraction_loss: float = option(
        0.0,
        "weight of the loss that trains the extractor of --sentence-attention extractor on sentence "
        "labels (Hsu et al. 2018: 5)",
        bounds=NOT_NEGATIVE,
        needs=("--sentence-attention extractor",),
    )
    inconsistency_loss: float = option(
        0.0,
        "weight of the inconsistency loss, which penalises attention to words in sentences that the "
        "extractor considers improbable (Hsu et al.: 1)",
        bounds=NOT_NEGATIVE,
        needs=("--sentence-attention extractor",),
    )
    inconsistency_top: int = option(
        3,
        "number of most attended words that --inconsistency-loss considers at each decoding step",
        bounds=SIZE,
        needs=("--inconsistency-loss",),
    )
    selection_loss: float = option(
        0.0,
        "weight (lambda) of the selection loss, which compares the sentence weights of "
        "--sentence-selector with the labels from etads-labels --kind distribution (Li et al. 2018)",
        bounds=NOT_NEGATIVE,
        needs=("--sentence-selector",),
        excludes={
            "--extraction-loss": "the two losses need different labels with the same file name (etads-labels "
            "--kind distribution and extract)"
        },
    )
    closed_book_weight: float = option(
        0.0,
        "weight (gamma) of the closed-book decoder's likelihood loss; the weight of the main decoder's "
        "loss is 1 - gamma (Jiang and Bansal 2018: 2/3); requires --closed-book-decoder",
        bounds=Bounds(0, 1),
        needs=("--closed-book-decoder",),
    )
    length_normalised: bool = option(
        False,
        "average the loss over the words of each summary and then over summaries, instead of over all "
        "words, so that short summaries have the same weight as long ones (See et al. 2017)",
        excludes={"--sentence-avg": "both divide by the number of summaries; leave --sentence-avg out"},
    )
    sentence_avg: bool = II("optimization.sentence_avg")


def options_of(cfg: Any, config: Any) -> Dict[str, Any]:
    """Return the values in ``cfg`` of all options in ``config`` as keyword arguments of a criterion's constructor."""
    return {
        option.name: getattr(cfg, option.name)
        for option in fields(config)
        if option.name != "_name" and hasattr(cfg, option.name)
    }


@register_criterion("summarization_nll", dataclass=SummarizationNLLConfig)
class SummarizationNLL(FairseqCriterion):
    """Negative log-likelihood of the target summaries, for models with or without a pointer.

    The keyword arguments are the options of :class:`SummarizationNLLConfig`.

    Raises:
        ValueError: an option has an invalid value.
        NonFiniteLossError: a loss is not finite, and the optimiser does not skip updates with such losses.
    """

    def __init__(self, task: Any, **options: Any):
        super().__init__(task)
        self.options = SummarizationNLLConfig(**{"sentence_avg": False, **options})
        check_option_values(self.options, SummarizationNLLConfig)
        self.sentence_avg = self.options.sentence_avg or self.options.length_normalised
        self.unk = task.target_dictionary.unk()
        self.specials = sorted({task.target_dictionary.pad(), task.target_dictionary.bos()})
        mark = task.target_dictionary.index(SENTENCE_MARK)
        # If the dictionary has no sentence mark, ``mark`` is the id of the unknown word, which counts as a word.
        self.no_words = [*({mark} - {self.unk}), task.target_dictionary.eos(), self.padding_idx]
        self._updates = 0
        self._overflows_are_skipped = False
        self._loss_checker = LossChecker()

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> Any:
        """Build the criterion from its options, which fairseq would read from its own constructor only."""
        return cls(task, **options_of(cfg, getattr(cls, "__dataclass")))

    def set_num_updates(self, updates: int, overflows_are_skipped: bool = False) -> None:
        """Set the number of the next update. The task calls this method before each training step.

        ``overflows_are_skipped`` tells whether the optimiser scales the loss and skips updates with overflowing
        gradients.
        """
        self._updates, self._overflows_are_skipped = updates, overflows_are_skipped

    def train(self, mode: bool = True) -> "SummarizationNLL":
        """Set training or evaluation mode, and check the losses of a skipped update.

        fairseq calls this method before each update and each validation.
        """
        self._loss_checker.check_skipped_update(self._overflows_are_skipped)
        found: SummarizationNLL = super().train(mode)
        return found

    def record_applied_update(self, gradient_is_finite: bool) -> None:
        """Record that the update will be applied. The task calls this method before the optimiser step.

        ``gradient_is_finite`` tells whether fairseq has checked the gradient. With --amp, torch performs this check.
        """
        self._loss_checker.record_applied_update(gradient_is_finite, self._overflows_are_skipped)

    def get_current_coverage_weight(self) -> float:
        """Return the weight of the coverage loss in the current update."""
        options, done = self.options, self._updates - self.options.coverage_loss_start
        return options.coverage_loss * min(1.0, (done + 1) / (options.coverage_loss_ramp + 1)) if done >= 0 else 0.0

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of a batch.

        The losses for coverage, extraction, inconsistency, selection and a closed-book decoder are added only during
        training. Validation losses are therefore comparable before and after the coverage loss is enabled, and between
        models with and without these losses.

        Args:
            model: the model that is being trained or evaluated.
            sample: the batch. The optional entry "weights" contains a weight for each row, shape (N,), which is applied
                to the loss and to the logged values. If it is present, the N rows represent "nsentences" pairs and
                "ntokens" words.
            reduce: required by fairseq, but ignored.

        Returns:
            The summed loss, the sample size (number of words or summaries) by which fairseq divides the loss, and the
            values to log.
        """
        with observe_attention(model, sample["target"] != self.padding_idx) as figures:
            output = self.compute_decoder_output(model, sample["net_input"], sample["target"])
        nll, loss, real, logs = self._compute_word_losses(output, sample["target"])
        pairs, weights = sample.get("nsentences", len(real)), sample.get("weights", nll.new_ones(len(real)))
        gamma, unk = self.options.closed_book_weight, self.unk
        if gamma and output.closed_book_logits is not None:
            closed = compute_closed_book_loss(output.closed_book_logits, sample["target"], self.padding_idx, unk)
            logs["closed_book_loss"] = closed
            loss = (1 - gamma) * loss + gamma * closed
        loss = loss.masked_fill(~real, 0)
        skips = self._overflows_are_skipped and model.training
        # If a loss is not finite, the factor is NaN, so the gradient is not finite either.
        total = self._compute_weighted_sum(loss, real, weights) * self._loss_checker.compute_loss_factor(
            loss, sample, unwrap_model(model), skips
        )
        for name, (weight, values) in self._compute_additional_losses(model, sample, output, real).items():
            logs[name] = values
            if model.training and weight:
                total = total + weight * self._compute_weighted_sum(values, real, weights)
        selection = self._compute_selection_divergence(output, sample, model.training)
        if selection is not None and model.training:
            values = selection[:, None] * real
            total = total + self.options.selection_loss * self._compute_weighted_sum(values, real, weights)

        logging_output = {
            "loss": total.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": pairs,
            "sample_size": pairs if self.sentence_avg else sample["ntokens"],
            **figures.to_logging_output(),
        }
        for name, value in {"nll_loss": nll, **logs}.items():
            logging_output[name] = (value.detach().masked_fill(~real, 0) * weights[:, None]).sum()
        if selection is not None:
            logging_output["selection_loss"] = (selection.detach() * weights).sum()
        return total, logging_output["sample_size"], logging_output

    def compute_decoder_output(self, model: Any, net_input: Dict[str, Any], target: Tensor) -> DecoderOutput:
        """Run the model on its input and the target words (N, T), as dictionary ids.

        If it can compute selected log-probabilities, only those that the loss needs are requested.
        """
        request: Dict[str, Any] = {}
        if get_decoder_capabilities(unwrap_model(model)).takes_requests:
            request["request"] = WordRequest(target, self.specials if self.options.label_smoothing else None)
        return DecoderOutput.from_fairseq_output(model(**net_input, **request))

    def _compute_word_losses(
        self, output: DecoderOutput, target: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor, Dict[str, Tensor]]:
        """Compute the NLL, the smoothed loss, the mask of real words and logged values, each (N, T)."""
        # External models return logits for all known words.
        vocabulary = output.vocabulary or OutputVocabulary(output.logits.shape[2], self.unk)
        columns = vocabulary.convert_to_target_columns(target)
        nll, loss, logs = self._compute_likelihood(
            output.compute_vocabulary_log_probs(), output.pointer, columns, vocabulary.candidates
        )
        return nll, loss, columns != self.padding_idx, logs

    def _compute_additional_losses(
        self, model: Any, sample: Dict[str, Any], output: DecoderOutput, real: Tensor
    ) -> Dict[str, Tuple[float, Tensor]]:
        """Compute the losses for coverage, extraction and inconsistency: a weight and values (N, T), by logged name.

        The extraction loss of a document is assigned to each word of its summary, so that --length-normalised affects
        all losses in the same way. If a validation batch contains no labels, the extraction loss is omitted.

        Raises ValueError if a training batch contains no labels, or the model does not return attention weights.
        """
        options = self.options
        found: Dict[str, Tuple[float, Tensor]] = {}
        if options.coverage_loss:
            attention = output.attention if output.pointer is None else output.pointer.log_copy.exp()
            if attention is None:
                raise ValueError("--coverage-loss needs the decoder's attention, and this model does not return it")
            found["coverage_loss"] = self.get_current_coverage_weight(), coverage_loss(attention, real)
        if options.extraction_loss and ("labels" in sample or model.training):
            if "labels" not in sample:
                raise ValueError("--extraction-loss: the split has no labels in DATA or --labels; see etads-labels")
            assert output.sentence_attention is not None, "the task refuses --extraction-loss without an extractor"
            logits, there = output.sentence_attention.extraction
            labels = unwrap_model(model).extractor.convert_token_to_unit_values(
                sample["labels"], sample["net_input"]["src_tokens"]
            )  # (B, U)
            of_documents = compute_mean_label_loss(logits, labels, there & (labels >= 0))  # (B,)
            found["extraction_loss"] = options.extraction_loss, of_documents[:, None] * real
        if options.inconsistency_loss:
            assert output.sentence_attention is not None, "the task refuses --inconsistency-loss without an extractor"
            values = output.sentence_attention.compute_inconsistency_loss(options.inconsistency_top)
            found["inconsistency_loss"] = options.inconsistency_loss, values.masked_fill(~real, 0)
        return found

    def _compute_selection_divergence(
        self, output: DecoderOutput, sample: Dict[str, Any], is_training: bool
    ) -> Optional[Tensor]:
        """Compute the divergence (N,) between the selected sentences and the labels, or None if there are none."""
        if not self.options.selection_loss or output.selection is None:
            return None
        if "sentence_targets" in sample:
            is_word = torch.stack([sample["target"] != number for number in self.no_words]).all(dim=0)
            return output.selection.compute_divergence(sample["sentence_targets"], is_word)
        if is_training:
            raise ValueError("--selection-loss: the batch has no labels; run etads-labels --kind distribution")
        return None

    def _compute_weighted_sum(self, values: Tensor, real: Tensor, weights: Tensor) -> Tensor:
        """Sum ``values`` (N, T) by ``weights`` (N,); with --length-normalised, means over a summary's words."""
        if self.options.length_normalised:
            values = values / real.sum(dim=1, keepdim=True).clamp(min=1)
        return (values * weights[:, None]).sum()

    def _compute_likelihood(
        self,
        log_vocab: LogVocab,
        pointer: Optional[PointerOutput],
        target: Tensor,
        candidates: Optional[CandidateWords],
    ) -> Tuple[Tensor, Tensor, Dict[str, Tensor]]:
        """Compute the NLL, the smoothed loss and other logged values of the target columns, each (N, T)."""
        total, count = self._sum_producible_log_probs(log_vocab, candidates)
        if pointer is None:
            if isinstance(log_vocab, WordLogProbs):
                nll = -log_vocab.target
            else:
                nll = -log_vocab.gather(2, target[:, :, None])[:, :, 0]
            return nll, self._smooth_labels(nll, -total / count), {}
        p_gen = pointer.gate.sigmoid()
        if pointer.kind == "switch":
            word, decision, point = pointer.compute_supervised_log_probs(log_vocab, target)
            smooth = torch.where(point, -word, -total / count)  # label smoothing applies only to generated words
            loss = self._smooth_labels(-word, smooth) - self.options.switch_loss * decision
            return -(word + decision), loss, {"p_gen": p_gen, "copied": point.float()}
        log_prob, copied = pointer.compute_target_log_probs(log_vocab, target)
        smooth = log_prob
        if self.options.label_smoothing:
            total, count = pointer.sum_log_probs(log_vocab, total, count)
            smooth = total / count
        return -log_prob, self._smooth_labels(-log_prob, -smooth), {"p_gen": p_gen, "copied": copied}

    def _sum_producible_log_probs(
        self, log_vocab: LogVocab, candidates: Optional[CandidateWords]
    ) -> Tuple[Tensor, Any]:
        """Return the sums (N, T), or 0, and the number of the log-probabilities that label smoothing averages."""
        if isinstance(log_vocab, WordLogProbs):
            return log_vocab.total, log_vocab.width - len(self.specials)
        count: Any = log_vocab.shape[2] - len(self.specials)
        producible = log_vocab
        if candidates is not None and candidates.allowed is not None:
            count = candidates.allowed.sum(dim=1, keepdim=True) - len(self.specials)
            producible = log_vocab.masked_fill(~candidates.allowed[:, None], 0)
        if not self.options.label_smoothing:
            return log_vocab.new_zeros(log_vocab.shape[:2]), count
        return producible.sum(dim=2) - producible[:, :, self.specials].sum(dim=2), count

    def _smooth_labels(self, nll: Tensor, smooth: Tensor) -> Tensor:
        share = self.options.label_smoothing
        return (1 - share) * nll + share * smooth

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate logged values over batches and workers, and log means over words or summaries.

        The total loss and the negative log-likelihood are in bits.
        """

        def sum_logged_values(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        names = "ntokens", "nsentences", "sample_size", "nll_loss"
        words, summaries, size, nll = map(sum_logged_values, names)
        metrics.log_scalar("loss", sum_logged_values("loss") / size / math.log(2), size, round=3)
        metrics.log_scalar("nll_loss", nll / words / math.log(2), words, round=3)
        metrics.log_scalar("nll_per_summary", nll / summaries / math.log(2), summaries, round=2)
        metrics.log_derived("ppl", lambda meters: get_perplexity(meters["nll_loss"].avg))
        for name in ("p_gen", "copied", "coverage_loss", "extraction_loss", "inconsistency_loss", "closed_book_loss"):
            if any(name in output for output in logging_outputs):
                metrics.log_scalar(name, sum_logged_values(name) / words, words, round=3)
        if any("selection_loss" in output for output in logging_outputs):
            metrics.log_scalar("selection_loss", sum_logged_values("selection_loss") / summaries, summaries, round=3)
        for name in FIGURES:
            count = sum_logged_values(f"{name}_count")
            if count:
                metrics.log_scalar(name, sum_logged_values(name) / count, count, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


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
