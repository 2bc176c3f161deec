"""The scores of hypotheses: length and coverage penalties, and an upper bound for unfinished hypotheses.

    score(Y) = log P(Y) / lp(Y) - cp(Y)

As in fairseq, |Y| is the number of words including the end symbol, so an empty summary has the length 1. The coverage
is the sum of the decoder's attention weights over these |Y| steps.
"""

import math
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, Optional, Tuple, TypeVar, Union

import torch
from torch import Tensor

from ..platform.option_checks import join_choices
from .options import (
    BY_SETTING,
    COVERAGE_KINDS,
    LENGTH_KINDS,
    LENGTH_PENALTY_BETA,
    DecodingOptions,
    FairseqOptions,
    format_value_error,
)

Number = TypeVar("Number", int, float, Tensor)


def check_option_choice(option: str, value: str, choices: Tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``, or raise a ValueError that lists the choices of the option."""
    if value not in choices:
        raise ValueError(f'{option} "{value}": choose {join_choices(choices)}')
    return value


def check_options(settings: Any) -> None:
    """Raise ValueError if a field of a settings dataclass has an invalid value."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name in BY_SETTING:
            # a tuple has already been parsed from text and needs no further check
            problem = "" if isinstance(value, tuple) else format_value_error(BY_SETTING[field.name], value)
        else:
            is_right = field.type not in (bool, int) or (
                isinstance(value, Integral) and isinstance(value, bool) == (field.type is bool)
            )
            kind = "True or False" if field.type is bool else "a whole number"
            problem = "" if is_right else f"--{field.name.replace('_', '-')} {value!r}: choose {kind}"
        if problem:
            raise ValueError(problem)


def length_penalty(length: Number, alpha: float, beta: float = LENGTH_PENALTY_BETA, kind: str = "wu") -> Number:
    """Compute the length penalty lp(Y), by which log P(Y) is divided.

    Args:
        length: the length |Y| including the end symbol, at least 1, as a number or a tensor of any shape.
        alpha: the strength of the penalty. With 0, log P(Y) is not normalised.
        beta: the constant beta, which is used only by the kind "wu".
        kind: "wu" for ((beta + |Y|) / (beta + 1))^alpha (Wu et al. 2016, equation 14), or "avg" for |Y|^alpha
            (fairseq).

    Raises:
        ValueError: the kind is unknown.
    """
    if check_option_choice("length penalty type", kind, LENGTH_KINDS) == "avg":
        return length**alpha
    return ((beta + length) / (beta + 1)) ** alpha


def coverage_penalty(
    coverage: Tensor, weight: float, kind: str = "summary", padding_mask: Optional[Tensor] = None
) -> Tensor:
    """Compute the coverage penalty cp(Y), which is subtracted from the normalised log-probability.

    If the weight is not negative, the penalty is not negative either.

    Args:
        coverage: the coverage c_j (…, S), which is the sum of the attention weights of source token j over all steps of
            the hypothesis. The weights before any gate are used.
        weight: the weight w of the penalty.
        kind: "summary" for w Σ_j (max(c_j, 1) - 1), which penalises attending to the same words repeatedly, or "wu" for
            -w Σ_j log(min(c_j, 1)), which penalises words that receive little attention (Wu et al. 2016, equation 14).
        padding_mask: the padding mask (B, S) for a coverage (B, …, S), True at padding, or None if there is no padding.
            Padding has no penalty.

    Returns:
        The penalties (…). With "wu", a token without any attention costs 87 w instead of infinity, because the
        logarithm of the smallest normal float32 number is -87.

    Raises:
        ValueError: the kind is unknown.
    """
    if check_option_choice("coverage penalty type", kind, COVERAGE_KINDS) == "summary":
        cost = (coverage - 1).clamp(min=0)
    else:
        cost = -torch.log(coverage.clamp(min=torch.finfo(torch.float32).tiny, max=1))
    if padding_mask is not None:
        batch, length = padding_mask.shape
        cost = cost.masked_fill(padding_mask.view(batch, *(1,) * (cost.dim() - 2), length), 0.0)
    return weight * cost.sum(-1)


@dataclass(frozen=True)
class HypothesisScorer:
    """The function that computes the scores of hypotheses.

    The fields of this class are decoding options that are declared in :mod:`.options`.

    Attributes:
        len_penalty: alpha, the exponent of the length penalty (``--lenpen``). With 0, scores are not normalised.
        normalize_scores: whether to divide log P by the length penalty (False with ``--unnormalized``).
        length_penalty_type, length_penalty_beta: the arguments ``kind`` and ``beta`` of :func:`length_penalty`.
        coverage_penalty, coverage_penalty_type: the arguments ``weight`` and ``kind`` of :func:`coverage_penalty`. A
            weight of 0 disables the penalty.
        stepwise_coverage_penalty: whether to subtract the coverage cost not only from the final score but also when
            extensions are selected.

    Raises:
        ValueError: the kind of a penalty is unknown, or a number is out of range.
    """

    len_penalty: float = FairseqOptions.lenpen
    normalize_scores: bool = not FairseqOptions.unnormalized
    length_penalty_type: str = DecodingOptions.length_penalty_type
    length_penalty_beta: float = DecodingOptions.length_penalty_beta
    coverage_penalty: float = DecodingOptions.coverage_penalty
    coverage_penalty_type: str = DecodingOptions.coverage_penalty_type
    stepwise_coverage_penalty: bool = DecodingOptions.stepwise_coverage_penalty

    def __post_init__(self) -> None:
        check_options(self)
        if self.stepwise_coverage_penalty and not self.coverage_penalty:
            raise ValueError("--stepwise-coverage-penalty needs a weight: also set --coverage-penalty")

    @property
    def differs_from_fairseq(self) -> bool:
        """Return whether scores are computed differently from fairseq."""
        return self.coverage_penalty > 0 or self.length_penalty_type != "avg"

    def compute_length_penalty(self, length: int) -> float:
        """Compute the length penalty lp for the length |Y| = ``length``."""
        if not self.normalize_scores:
            return 1.0
        return float(length_penalty(length, self.len_penalty, self.length_penalty_beta, self.length_penalty_type))

    def compute_length_penalties(self, lengths: Tensor) -> Tensor:
        """Compute the length penalty lp in float64 for each length |Y| in ``lengths`` (B,)."""
        lengths = lengths.double()
        if not self.normalize_scores:
            return torch.ones_like(lengths)
        return length_penalty(lengths, self.len_penalty, self.length_penalty_beta, self.length_penalty_type)

    def compute_coverage_cost(self, coverage: Optional[Tensor], padding_mask: Optional[Tensor]) -> Optional[Tensor]:
        """Compute the coverage cost cp (B, beam) from the coverage (B, beam, S).

        Returns None without a coverage penalty.
        """
        if coverage is None or not self.coverage_penalty:
            return None
        return coverage_penalty(coverage, self.coverage_penalty, self.coverage_penalty_type, padding_mask)

    def compute_final_scores(self, log_probs: Tensor, length: int, cost: Optional[Tensor]) -> Tensor:
        """Compute the scores (…) of hypotheses from log-probabilities (…), their length and coverage costs (…)."""
        scores = log_probs / self.compute_length_penalty(length)
        return scores if cost is None else scores - cost

    def compute_upper_bound(
        self,
        log_probs: Tensor,
        shortest: int,
        longest: Union[int, Tensor],
        cost: Optional[Tensor],
        source_lengths: Optional[Tensor],
        gain: float = 0.0,
    ) -> Tensor:
        """Compute an upper bound (B, beam) for the scores of unfinished hypotheses.

        Args:
            log_probs: the log-probabilities (B, beam) of the words so far.
            shortest, longest: the lower and upper bounds for the final length |Y|. ``longest`` may be a tensor (B,)
                with one bound per document.
            cost: the coverage cost cp (B, beam) of the words so far, or None without a coverage penalty.
            source_lengths: the numbers of source tokens (B,) without padding, which are required for a coverage penalty
                of the kind "wu".
            gain: an upper bound for the increase of log P in each remaining step, which is 0 unless a negative
                --unkpen rewards the unknown word or a term of the search increases log P.

        Without a gain, log P can only decrease. lp is monotonic in the length, so log P / lp is largest for the
        shortest or the longest summary. The "summary" cost can only increase, because the coverage can only increase.
        The "wu" cost can decrease, but it has a lower bound, because the attention weights of each step sum to 1: by
        Jensen's inequality, the logarithms of S numbers that sum to n add up to at most S log(n / S).
        """
        if isinstance(longest, Tensor):
            largest: Any = self.compute_length_penalties(longest).to(log_probs.dtype)[:, None]  # (B, 1)
            steps: Any = longest[:, None] - shortest + 1
        else:
            largest, steps = self.compute_length_penalty(longest), longest - shortest + 1
        best = log_probs + gain * steps
        if gain == math.inf:
            best = best.masked_fill(log_probs.eq(-math.inf), -math.inf)  # otherwise the bound would be NaN
        best = torch.maximum(best / self.compute_length_penalty(shortest), best / largest)
        if cost is None:
            return best
        if self.coverage_penalty_type == "summary":
            return best - cost
        assert source_lengths is not None
        least = source_lengths * (source_lengths / longest).log() * self.coverage_penalty  # (B,)
        return best - least.clamp(min=0).unsqueeze(1)

    def describe_formula(self) -> str:
        """Return the formula of the score as a string for the log."""
        name = {"avg": "|Y|^{a:g}", "wu": "(({b:g}+|Y|)/{c:g})^{a:g}"}[self.length_penalty_type]
        text = name.format(a=self.len_penalty, b=self.length_penalty_beta, c=self.length_penalty_beta + 1)
        text = f"log P / {text}" if self.normalize_scores and not math.isclose(self.len_penalty, 0.0) else "log P"
        if self.coverage_penalty:
            how = "at every step" if self.stepwise_coverage_penalty else "at the end"
            text += f" - {self.coverage_penalty:g} x {self.coverage_penalty_type} coverage, {how}"
        return text
