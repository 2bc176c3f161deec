"""The criterion ``summarization_nll``: negative log-likelihood, label smoothing, coverage loss, supervised switch."""

import logging
import math
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.logging import metrics
from fairseq.utils import get_perplexity
from torch import Tensor

from ..kernels.precision import at_least_float32
from ..layers.capabilities import Capabilities
from ..layers.closed_book import closed_book_loss
from ..layers.extractor_losses import ExtractorLosses
from ..layers.figures import FIGURES, observe
from ..layers.pointer import LogVocab, PointerOutput, WordLogProbs
from ..layers.sentence_selector import selection_loss
from ..layers.word_likelihood import WordRequest, asking_for
from ..text.words import SENTENCE_MARK
from ..vocabulary.candidates import Candidates
from ..vocabulary.embedding import training_output_layer
from ..vocabulary.output import OutputVocabulary
from .nll_options import SummarizationNLLConfig, check_loss_options

LARGEST_LOSS = 1e20
"""A larger loss of one word means that the word has no column and so no probability."""


logger = logging.getLogger(__name__)


class NonFiniteLossError(RuntimeError):
    """The loss of a pair is infinite or not a number."""


def coverage_loss(attention: Tensor, real: Tensor) -> Tensor:
    """sum over j of min(a_tj, c_tj), with c_t the sum of earlier attention (See et al. 2017, eq. 12).

    Args:
        attention: (B, T, S), each row sums to 1. real: (B, T) bool, False at padding, on either side.

    Returns:
        (B, T), at least float32; 0 at padding and at a summary's first word.
    """
    attention = at_least_float32(attention) * real[:, :, None]
    before = attention.cumsum(dim=1) - attention
    return torch.minimum(attention, before).sum(dim=2)


@register_criterion("summarization_nll", dataclass=SummarizationNLLConfig)
class SummarizationNLL(FairseqCriterion):
    """Negative log-likelihood of the summaries, for models with and without a pointer.

    Raises:
        ValueError: an option has an impossible value.
        NonFiniteLossError: the loss of a batch is not finite, and no optimiser is there that skips such updates.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        label_smoothing: float,
        coverage_loss: float,
        coverage_loss_start: int,
        coverage_loss_ramp: int,
        switch_loss: float,
        length_normalised: bool = False,
        extraction_loss: float = 0.0,
        inconsistency_loss: float = 0.0,
        inconsistency_top: int = 3,
        selection_loss: float = 0.0,
        closed_book_weight: float = 0.0,
    ):
        super().__init__(task)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"--label-smoothing {label_smoothing}: choose a probability, at least 0 and below 1")
        for option, value in (
            ("coverage-loss", coverage_loss),
            ("coverage-loss-start", coverage_loss_start),
            ("coverage-loss-ramp", coverage_loss_ramp),
            ("switch-loss", switch_loss),
            ("extraction-loss", extraction_loss),
            ("inconsistency-loss", inconsistency_loss),
            ("selection-loss", selection_loss),
        ):
            if value < 0:
                raise ValueError(f"--{option} {value}: choose 0 or more")
        if not 0 <= closed_book_weight < 1:
            raise ValueError(f"--closed-book-weight {closed_book_weight}: choose a number, at least 0 and below 1")
        self.closed_book_weight = closed_book_weight
        self.extractor_losses = ExtractorLosses(extraction_loss, inconsistency_loss, inconsistency_top)
        self.length_normalised = length_normalised
        self.sentence_avg = sentence_avg or length_normalised
        self.label_smoothing = label_smoothing
        self.coverage_weight = coverage_loss
        self.coverage_start = coverage_loss_start
        self.coverage_ramp = coverage_loss_ramp
        self.switch_weight = switch_loss
        self.selection_weight = selection_loss
        self.unk = task.target_dictionary.unk()
        self.specials = sorted({task.target_dictionary.pad(), task.target_dictionary.bos()})
        mark = task.target_dictionary.index(SENTENCE_MARK)
        # a dictionary without sentence marks answers with the unknown word, which is a word
        self.no_words = [*({mark} - {self.unk}), task.target_dictionary.eos(), self.padding_idx]
        self._updates = 0
        self._overflows_are_skipped = False

    @classmethod
    def check_options(cls, cfg: Any, capabilities: Capabilities) -> None:
        """Check the options of a training with a model of these capabilities; see :func:`check_loss_options`."""
        check_loss_options(cfg, capabilities)

    def set_num_updates(self, updates: int, overflows_are_skipped: bool = False) -> None:
        """Tell which update comes next; called by the task before every step.

        Args:
            overflows_are_skipped: whether the optimiser scales the loss, and skips updates whose gradient overflows.
        """
        self._updates, self._overflows_are_skipped = updates, overflows_are_skipped

    def coverage_weight_now(self) -> float:
        """Weight of the coverage loss at this update."""
        if self.coverage_weight == 0 or self._updates < self.coverage_start:
            return 0.0
        done = self._updates - self.coverage_start
        return self.coverage_weight * min(1.0, (done + 1) / (self.coverage_ramp + 1))

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """The loss of a batch, the number of words or summaries to divide it by, and what to log.

        The losses of coverage, extraction, inconsistency, selection and a closed-book decoder count in training only,
        so that validation losses before and after the start of coverage compare, and those of models with and without
        the rest.

        Args:
            sample: a batch. Its "weights" (N,), if it has them, are those of its rows in the loss and in what is
                logged: N rows then stand for "nsentences" pairs and "ntokens" words.
        """
        with observe(model, sample["target"] != self.padding_idx) as figures:
            nll, loss, real, logs, extra = self._losses(model, sample["net_input"], sample["target"])
        pairs, weights = sample.get("nsentences", len(real)), sample.get("weights", nll.new_ones(len(real)))
        pointer: Optional[PointerOutput] = extra.get("pointer")

        coverage = nll.new_zeros(nll.shape)
        weight = self.coverage_weight_now()
        if self.coverage_weight:
            attention = self._attention(extra) if pointer is None else pointer.log_copy.exp()
            coverage = coverage_loss(attention, real)
        if self.closed_book_weight and "closed_book_logits" in extra:
            logits, gamma = extra["closed_book_logits"], self.closed_book_weight
            logs["closed_book_loss"] = closed_book_loss(logits, sample["target"], self.padding_idx, self.unk)
            loss = (1 - gamma) * loss + gamma * logs["closed_book_loss"]
        loss = loss.masked_fill(~real, 0)
        overflows = self._check(loss, sample, self._overflows_are_skipped and model.training)
        total = self._sum(loss, real, weights)
        if overflows:
            total = total * math.nan  # so that the gradient overflows, too
        if model.training and weight:
            total = total + weight * self._sum(coverage, real, weights)
        for name, (weight, values) in self.extractor_losses(model, sample, extra, real).items():
            logs[name] = values
            if model.training:
                total = total + weight * self._sum(values, real, weights)
        selection = selection_loss(extra, sample, self.no_words, model.training) if self.selection_weight else None
        if selection is not None and model.training:
            total = total + self.selection_weight * self._sum(selection[:, None] * real, real, weights)

        logging_output = {
            "loss": total.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": pairs,
            "sample_size": pairs if self.sentence_avg else sample["ntokens"],
            **figures.logs(),
        }
        if self.coverage_weight:
            logs["coverage_loss"] = coverage
        for name, value in {"nll_loss": nll, **logs}.items():
            logging_output[name] = (value.detach().masked_fill(~real, 0) * weights[:, None]).sum()
        if selection is not None:
            logging_output["selection_loss"] = (selection.detach() * weights).sum()
        return total, logging_output["sample_size"], logging_output

    def _losses(
        self, model: Any, net_input: Dict[str, Any], target: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor, Dict[str, Tensor], Dict[str, Any]]:
        """The losses of target words (N, T), ids of the dictionary, by one pass of the model.

        Returns:
            negative log-likelihood and smoothed loss, each (N, T); (N, T), False at padding; figures to log, each
            (N, T); what else the model returns.
        """
        request = WordRequest(target, self.specials if self.label_smoothing else None)
        with asking_for(request), training_output_layer():
            logits, extra = model(**net_input)[:2]
        if not isinstance(extra, dict):  # fairseq's older decoders return their attention, or None
            extra = {"attn": [extra]}
        # models that are not this project's have a column for every word that they know
        vocabulary: OutputVocabulary = extra.get("vocabulary") or OutputVocabulary(logits.shape[2], self.unk)
        columns = vocabulary.target_columns(target)
        pointer: Optional[PointerOutput] = extra.get("pointer")
        log_vocab: LogVocab = extra.get("word_log_probs") or F.log_softmax(at_least_float32(logits), dim=-1)
        nll, loss, logs = self._likelihood(log_vocab, pointer, columns, vocabulary.candidates)
        return nll, loss, columns != self.padding_idx, logs, extra

    def _sum(self, values: Tensor, real: Tensor, weights: Tensor) -> Tensor:
        """The sum of values (N, T), 0 at padding, each row of which has a weight (N,).

        With --length-normalised it is the sum of each summary's mean over its words.
        """
        if self.length_normalised:
            values = values / real.sum(dim=1, keepdim=True).clamp(min=1)
        return (values * weights[:, None]).sum()

    @staticmethod
    def _attention(extra: Dict[str, Any]) -> Tensor:
        """The decoder's attention (N, T, S); ValueError if it returns none."""
        attention = (extra.get("attn") or [None])[0]
        if attention is None:
            raise ValueError("--coverage-loss needs the decoder's attention, and this model does not return it")
        result: Tensor = attention
        return result

    def _likelihood(
        self, log_vocab: LogVocab, pointer: Optional[PointerOutput], target: Tensor, candidates: Optional[Candidates]
    ) -> Tuple[Tensor, Tensor, Dict[str, Tensor]]:
        """The likelihood of each target word.

        Args:
            log_vocab: log P_vocab. target: (N, T), columns. candidates: the words of the softmax, if not all V.

        Returns:
            negative log-likelihood (N, T); the smoothed loss to minimise (N, T); figures to log, each (N, T).
        """
        total, count = self._producible(log_vocab, candidates)
        if pointer is None:
            if isinstance(log_vocab, WordLogProbs):
                nll = -log_vocab.target
            else:
                nll = -log_vocab.gather(2, target[:, :, None])[:, :, 0]
            return nll, self._smoothed(nll, -total / count), {}
        p_gen = pointer.gate.sigmoid()
        if pointer.kind == "switch":
            word, decision, point = pointer.supervised_log_probs(log_vocab, target)
            smooth = torch.where(point, -word, -total / count)  # smoothing is over generated words only
            loss = self._smoothed(-word, smooth) - self.switch_weight * decision
            return -(word + decision), loss, {"p_gen": p_gen, "copied": point.float()}
        log_prob, copied = pointer.target_log_probs(log_vocab, target)
        smooth = log_prob
        if self.label_smoothing:
            total, count = pointer.sum_of_log_probs(log_vocab, total, count)
            smooth = total / count
        return -log_prob, self._smoothed(-log_prob, -smooth), {"p_gen": p_gen, "copied": copied}

    def _producible(self, log_vocab: LogVocab, candidates: Optional[Candidates]) -> Tuple[Tensor, Any]:
        """What label smoothing needs of the words that the softmax can produce.

        Returns:
            the sum of their log-probabilities (N, T), 0 without label smoothing; how many they are, one number or
            (N, 1).
        """
        if isinstance(log_vocab, WordLogProbs):
            return log_vocab.total, log_vocab.width - len(self.specials)
        count: Any = log_vocab.shape[2] - len(self.specials)
        producible = log_vocab
        if candidates is not None and candidates.allowed is not None:
            count = candidates.allowed.sum(dim=1, keepdim=True) - len(self.specials)
            producible = log_vocab.masked_fill(~candidates.allowed[:, None], 0)
        if not self.label_smoothing:
            return log_vocab.new_zeros(log_vocab.shape[:2]), count
        return producible.sum(dim=2) - producible[:, :, self.specials].sum(dim=2), count

    def _smoothed(self, nll: Tensor, smooth: Tensor) -> Tensor:
        return (1 - self.label_smoothing) * nll + self.label_smoothing * smooth

    @staticmethod
    def _check(loss: Tensor, sample: Dict[str, Any], skip_overflow: bool = False) -> bool:
        """Raise if a loss (N, T) is not finite or exceeds LARGEST_LOSS, which means that the target has no column.

        With ``skip_overflow``, losses that are not finite are only warned of, and the result is True: the optimiser is
        to skip the update. It also lowers the scale of the loss; if all updates overflow, it soon reaches fairseq's
        --min-loss-scale and stops training.
        """
        loss = loss.detach()
        if loss.sum().abs() < LARGEST_LOSS:  # False for NaN
            return False
        overflow = ~loss.isfinite()
        rows = (overflow | (loss.abs() >= LARGEST_LOSS)).any(dim=1).nonzero().flatten().tolist()
        ids = sample["id"].tolist() if "id" in sample else rows
        which = ", ".join(str(ids[row]) for row in rows[:20]) + (", …" if len(rows) > 20 else "")
        which = which or "their sum overflows"
        what = (
            f"the loss of {len(rows)} of {len(loss)} pairs is not finite (numbers in the data set, from 0: {which}). "
        )
        if skip_overflow and overflow.any() and not (loss.masked_fill(overflow, 0).abs() >= LARGEST_LOSS).any():
            logger.warning(f"{what}The update is skipped and the scale of the loss lowered")
            return True
        raise NonFiniteLossError(
            f"{what}The last checkpoint is from before this update. Start again from it with a lower --lr, a longer "
            "--warmup-updates or a lower --clip-norm; with --fp16 try --bf16; if the same pairs come up again, look at "
            "their text"
        )

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Add up the figures of all batches and workers, and log them per word and per summary; losses are in bits."""

        def total(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        words, summaries, size = total("ntokens"), total("nsentences"), total("sample_size")
        nll = total("nll_loss")
        metrics.log_scalar("loss", total("loss") / size / math.log(2), size, round=3)
        metrics.log_scalar("nll_loss", nll / words / math.log(2), words, round=3)
        metrics.log_scalar("nll_per_summary", nll / summaries / math.log(2), summaries, round=2)
        metrics.log_derived("ppl", lambda meters: get_perplexity(meters["nll_loss"].avg))
        for name in ("p_gen", "copied", "coverage_loss", "extraction_loss", "inconsistency_loss", "closed_book_loss"):
            if any(name in output for output in logging_outputs):
                metrics.log_scalar(name, total(name) / words, words, round=3)
        if any("selection_loss" in output for output in logging_outputs):
            metrics.log_scalar("selection_loss", total("selection_loss") / summaries, summaries, round=3)
        for name in FIGURES:
            count = total(f"{name}_count")
            if count:
                metrics.log_scalar(name, total(name) / count, count, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
