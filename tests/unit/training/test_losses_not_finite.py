"""Losses that are not finite: the message names their pairs and a remedy."""

import math

import pytest
import torch
from test_criterions import build, make_sample

from fairseq_etads.training.losses import LARGEST_LOSS, NonFiniteLossError, check_losses_are_finite


def test_a_loss_that_is_not_finite_names_the_pairs_and_stops():
    model, ours = build("soft")
    with torch.no_grad():
        model.encoder.embed_tokens.weight[9] = float("nan")
    sample = make_sample([[5, 6], [9, 9]], [[7], [5]])
    for impossible in (float("inf"), 1e30):
        with pytest.raises(NonFiniteLossError, match=r"from 0: 8\)"):
            check_losses_are_finite(torch.tensor([[1.0, 2.0], [3.0, impossible]]), sample)
    loss = torch.tensor([[1.0, 2.0], [3.0, float("nan")]])
    with pytest.raises(NonFiniteLossError, match=r"1 of 2 pairs is not finite \(numbers .*, from 0: 8\)"):
        check_losses_are_finite(loss, sample)
    with pytest.raises(NonFiniteLossError, match=r"2 of 2 pairs is not finite \(numbers .*, from 0: 7, 8\).*--lr"):
        ours(model, sample)


def refusal(loss, sample):
    with pytest.raises(NonFiniteLossError) as error:
        check_losses_are_finite(loss, sample)
    return str(error.value)


def test_the_refusal_of_a_loss_names_at_most_twenty_pairs_and_says_what_to_do():
    nothing = torch.full((21, 1), math.nan)
    numbers = {"id": torch.arange(21) + 100}
    twenty = ", ".join(str(number) for number in range(100, 120))
    advice = (
        "The last checkpoint is from before this update. Start again from it with a lower --lr, a longer "
        "--warmup-updates or a lower --clip-norm; instead of --fp16, try --bf16; if the same pairs are reported "
        "again, look at "
        "their text"
    )
    start = "the loss of {0} of {0} pairs is not finite (numbers in the data set, from 0: {1}). "
    assert refusal(nothing, numbers) == start.format(21, twenty + ", …") + advice
    assert refusal(nothing[:20], numbers) == start.format(20, twenty) + advice
    assert refusal(nothing[:2], {}) == start.format(2, "0, 1") + advice
    assert "0 of 2 pairs is not finite (numbers in the data set, from 0: their sum overflows). " in refusal(
        torch.full((2, 1), 0.6 * LARGEST_LOSS), numbers
    )
    limit = torch.full((1, 1), LARGEST_LOSS, dtype=torch.float64)
    assert "1 of 1 pairs" in refusal(limit, numbers)
    check_losses_are_finite(limit * 0.99, numbers)
