"""Losses that are not finite: the message names their pairs and a remedy."""

import math

import pytest
import torch
from fairseq.nan_detector import NanDetector
from helpers import NotOnCpu
from test_criterions import build, make_sample

from fairseq_etads.training.losses import (
    LARGEST_LOSS,
    LossChecker,
    NonFiniteLossError,
    check_losses_are_finite,
    convert_logged_tensors,
)


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


@pytest.fixture
def checked_later():
    """A checker, a model in training mode, and a function that passes losses of summaries of one word on a GPU."""
    checker, model = LossChecker(), torch.nn.Linear(1, 1)

    def pass_losses(losses, numbers=None):
        sample = {"target": torch.zeros(len(losses), 1)}
        if numbers is not None:
            sample["id"] = torch.tensor(numbers)
        loss = torch.tensor(losses, requires_grad=True)[:, None].as_subclass(NotOnCpu)
        return checker.compute_loss_factor(loss, sample, model, False)

    return checker, model, pass_losses


@pytest.mark.parametrize("invalid", [math.nan, math.inf, LARGEST_LOSS])
def test_a_gpu_is_not_waited_for_until_an_update_is_skipped(checked_later, invalid, monkeypatch):
    checker, _, pass_losses = checked_later
    factors = [pass_losses([1.0, invalid], [4, 6]), pass_losses([1.0, 2.0], [3, 5]), pass_losses([invalid])]
    assert not any(factor.requires_grad for factor in factors)
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    assert [str(factor.tolist()) for factor in factors] == ["nan", "1.0", "nan"]
    with pytest.raises(NonFiniteLossError, match=r"1 of 2 pairs .* from 0: 6\)"):
        checker.check_skipped_update(False)
    checker.check_skipped_update(False)  # an update is checked once


@pytest.mark.parametrize("method", ["check_skipped_update", "record_applied_update"])
def test_an_overflow_on_a_gpu_is_a_warning_if_updates_with_overflows_are_skipped(
    checked_later, method, monkeypatch, caplog
):
    checker, _, pass_losses = checked_later
    arguments = (False, True) if method == "record_applied_update" else (True,)
    pass_losses([1.0, math.inf], [4, 6])
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    with caplog.at_level("WARNING"):
        getattr(checker, method)(*arguments)
    assert "1 of 2 pairs" in caplog.text and "from 0: 6)" in caplog.text


def test_in_validation_and_while_fairseq_looks_for_the_cause_a_gpu_is_waited_for(checked_later, monkeypatch):
    _, model, pass_losses = checked_later
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    with NanDetector(model), pytest.raises(NonFiniteLossError):
        pass_losses([math.nan])
    assert pass_losses([1.0]) == 1
    model.eval()
    with pytest.raises(NonFiniteLossError):
        pass_losses([math.nan])


def test_the_criterion_checks_a_skipped_update_before_the_next_one_and_before_validation(checked_later, monkeypatch):
    _, ours = build("soft")
    ours._loss_checker, _, pass_losses = checked_later
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    for mode in (True, False):
        pass_losses([math.nan])
        with pytest.raises(NonFiniteLossError):
            ours.train(mode)
        assert ours.train(mode) is ours and ours.training == mode
    pass_losses([math.inf])
    ours.record_applied_update(True)
    pass_losses([math.inf])
    with pytest.raises(NonFiniteLossError):
        ours.record_applied_update(False)
    ours.set_num_updates(3, overflows_are_skipped=True)
    for end in (ours.train, lambda: ours.record_applied_update(False)):
        pass_losses([math.inf])
        end()


def test_logged_tensors_on_a_gpu_are_read_at_once(monkeypatch):
    reads = []
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    monkeypatch.setattr(NotOnCpu, "tolist", lambda x: reads.append(1) or torch.Tensor.tolist(x))

    def on_gpu(value):
        return torch.tensor(value).as_subclass(NotOnCpu)

    on_cpu, several = torch.tensor(5.0), on_gpu([1.0, 2.0])
    given = [
        {"loss": on_gpu(1.5), "ntokens": 7, "counts": several, "on_cpu": on_cpu},
        {"loss": on_gpu([[2**-40 + 1.0]]), "words": on_gpu(2**30 + 1)},
    ]
    before = [dict(output) for output in given]
    first, second = convert_logged_tensors(given)
    assert first == {"loss": 1.5, "ntokens": 7, "counts": several, "on_cpu": on_cpu}
    assert first["counts"] is several and first["on_cpu"] is on_cpu
    assert second == {"loss": 1.0, "words": 2**30 + 1}
    assert all(type(value) is float for value in (first["loss"], *second.values()))
    assert len(reads) == 1
    assert all(output[name] is value for output, old in zip(given, before) for name, value in old.items())
    assert convert_logged_tensors([{"ntokens": 7}, {}]) == [{"ntokens": 7}, {}] and len(reads) == 1
