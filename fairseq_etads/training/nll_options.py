"""Options of the criterion ``summarization_nll``, and which criterions go with which models."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ..layers.capabilities import Capabilities
from ..platform.option_checks import given_options

LABELLED = ("selection_nll", "extractor_nll")
"""Those that learn nothing but labels."""
SELECTING = (*LABELLED, "extractor_rl")
"""Those of models that select words or sentences."""


@dataclass
class SummarizationNLLConfig(FairseqDataclass):
    """Options of ``--criterion summarization_nll``."""

    label_smoothing: float = field(
        default=0.0, metadata={"help": "probability mass spread evenly over all words that can be produced"}
    )
    coverage_loss: float = field(
        default=0.0,
        metadata={"help": "weight (lambda) of the coverage loss, which penalises attending to the same words again"},
    )
    coverage_loss_start: int = field(
        default=0,
        metadata={
            "needs": ("--coverage-loss",),
            "help": "first update with the coverage loss; from update 0, training may not converge",
        },
    )
    coverage_loss_ramp: int = field(
        default=0,
        metadata={
            "needs": ("--coverage-loss",),
            "help": "number of updates over which the coverage loss then grows to its full weight",
        },
    )
    switch_loss: float = field(
        default=1.0,
        metadata={
            "needs": ("--pointer switch",),
            "help": "weight of the decision between generating and pointing (--pointer switch)",
        },
    )
    extraction_loss: float = field(
        default=0.0,
        metadata={
            "needs": ("--sentence-attention extractor",),
            "help": "weight of the loss of the extractor of --sentence-attention on the labels of sentences "
            "(Hsu et al. 2018: 5)",
        },
    )
    inconsistency_loss: float = field(
        default=0.0,
        metadata={
            "needs": ("--sentence-attention extractor",),
            "help": "weight of the loss of attending to words of sentences that this extractor finds unlikely (Hsu et "
            "al.: 1)",
        },
    )
    inconsistency_top: int = field(
        default=3,
        metadata={
            "needs": ("--inconsistency-loss",),
            "help": "how many words, the most attended to, --inconsistency-loss looks at",
        },
    )
    selection_loss: float = field(
        default=0.0,
        metadata={
            "needs": ("--sentence-selector",),
            "help": "with --sentence-selector, weight (lambda) of the selection loss, which compares the weights of "
            "sentences with the labels of etads-labels --kind distribution (Li et al. 2018)",
        },
    )
    closed_book_weight: float = field(
        default=0.0,
        metadata={
            "needs": ("--closed-book-decoder",),
            "help": "share (gamma) of the likelihood of --closed-book-decoder in the loss; the other decoder's has the "
            "rest, 1 - gamma (Jiang and Bansal 2018: 2/3)",
        },
    )
    length_normalised: bool = field(
        default=False,
        metadata={
            "help": "minimise the mean over summaries of the mean over a summary's words, instead of the mean over all "
            "words, so that short summaries count as much as long ones (See et al. 2017)"
        },
    )
    sentence_avg: bool = II("optimization.sentence_avg")


def check_loss_options(cfg: Any, capabilities: Capabilities) -> None:
    """Raise ValueError for options of the loss that exclude one another, or that the model makes impossible.

    Args:
        cfg: the criterion's options. capabilities: of the model.
    """
    given = given_options(cfg, SummarizationNLLConfig)
    if "selection_loss" in given and "extraction_loss" in given:
        raise ValueError(
            "--selection-loss and --extraction-loss exclude one another: they learn from two kinds of labels, which "
            "have one file name (etads-labels --kind distribution, and extract)"
        )
    if "length_normalised" in given and cfg.sentence_avg:
        raise ValueError("--sentence-avg has no effect with --length-normalised, which also divides by summaries")
    if "coverage_loss" in given and "--pointer" not in capabilities and "--decoder-layerdrop" in capabilities:
        raise ValueError(
            "--coverage-loss needs the attention of the decoder's last layer, which --decoder-layerdrop leaves out of "
            "some updates: choose one, or a model with --pointer"
        )


def check_criterion(name: str, pointer: str, large_vocabulary_trick: bool, adaptive_softmax: bool) -> None:
    """Raise ValueError if a criterion does not go with a model.

    Args:
        name: of --criterion. pointer: the model's --pointer. large_vocabulary_trick: whether its softmax runs over
            candidates. adaptive_softmax: whether its words are in clusters (--adaptive-softmax-cutoff).
    """
    # a criterion with these options computes likelihoods of copied words, and of candidates
    ours = issubclass(CRITERION_DATACLASS_REGISTRY.get(name, object), SummarizationNLLConfig)
    if pointer == "switch" and not ours:
        raise ValueError(
            f"--criterion {name} does not teach --pointer switch to decide: choose --criterion summarization_nll"
        )
    if pointer != "none" and name.startswith("label_smoothed"):
        raise ValueError(
            f"--criterion {name} would ask --pointer {pointer} for words that other documents have: "
            "choose --criterion summarization_nll, which has --label-smoothing too"
        )
    if large_vocabulary_trick and not ours:
        raise ValueError(
            f"--criterion {name} would ask for words that --large-vocabulary-trick leaves out: choose "
            "--criterion summarization_nll"
        )
    if name == "adaptive_loss" and not adaptive_softmax:
        raise ValueError("--criterion adaptive_loss needs a model with --adaptive-softmax-cutoff")
    if adaptive_softmax and name != "adaptive_loss":
        raise ValueError(
            f"--criterion {name} would take the states of a model with --adaptive-softmax-cutoff for logits: choose "
            "--criterion adaptive_loss, or leave out the cutoffs"
        )


def options_of(cfg: Any, config: Any) -> Dict[str, Any]:
    """The values in ``cfg`` of all options of the dataclass ``config``, for a criterion's constructor.

    fairseq's own ``build_criterion`` finds only those that the constructor itself names, and not the inherited ones.
    """
    return {option.name: cfg[option.name] for option in fields(config) if option.name != "_name"}
