"""The criterion for each model: every combination of relevant options."""

import itertools
from argparse import Namespace

import pytest

from fairseq_etads.training.checks import check_criterion_and_model

NAMES = ("summarization_nll", "cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss", "without_options")
"""The last one stands for a user's criterion that has no dataclass."""
TEACHES = "--criterion {} does not train the switch of --pointer switch: choose --criterion summarization_nll"
OTHERS_WORDS = (
    "--criterion {} would require --pointer soft to copy words of other documents: choose --criterion "
    "summarization_nll, which also has --label-smoothing"
)
LEFT_OUT = (
    "--criterion {} would need words that --large-vocabulary-trick leaves out: choose --criterion summarization_nll"
)
STATES = (
    "--criterion {} would treat the states of a model with --adaptive-softmax-cutoff as logits: choose --criterion "
    "adaptive_loss, or leave out the cutoffs"
)


CLUSTERS = "--adaptive-softmax-cutoff"
NO_CLUSTERS = "--criterion {} needs a model with --adaptive-softmax-cutoff: choose --criterion summarization_nll"


def expected(name, pointer, trick, adaptive):
    """The first objection, or None."""
    if name == "summarization_nll":
        return STATES if adaptive else None
    if pointer == "switch":
        return TEACHES
    if pointer == "soft" and name == "label_smoothed_cross_entropy":
        return OTHERS_WORDS
    if trick:
        return LEFT_OUT
    if name == "adaptive_loss" and not adaptive:
        return NO_CLUSTERS
    return STATES if adaptive and name != "adaptive_loss" else None


@pytest.mark.parametrize("name", NAMES)
def test_every_combination_is_taken_or_refused_in_words(name):
    for pointer, trick, adaptive in itertools.product(("none", "soft", "switch"), (False, True), (False, True)):
        has = {f"--pointer {pointer}": pointer != "none", "--large-vocabulary-trick": trick, CLUSTERS: adaptive}
        args = Namespace(criterion=name), frozenset(option for option, is_there in has.items() if is_there), None
        message = expected(name, pointer, trick, adaptive)
        if message is None:
            check_criterion_and_model(*args)
            continue
        with pytest.raises(ValueError) as error:
            check_criterion_and_model(*args)
        assert str(error.value) == message.format(name), has
