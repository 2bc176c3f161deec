"""The criterion for each model: every combination of relevant options."""

import itertools

import pytest

from fairseq_etads.training.losses import check_criterion_supports_model

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


NO_CLUSTERS = "--criterion {} needs a model with --adaptive-softmax-cutoff"


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
    for case in itertools.product(("none", "soft", "switch"), (False, True), (False, True)):
        message = expected(name, *case)
        if message is None:
            check_criterion_supports_model(name, *case)
            continue
        with pytest.raises(ValueError) as error:
            check_criterion_supports_model(name, *case)
        assert str(error.value) == message.format(name), case
