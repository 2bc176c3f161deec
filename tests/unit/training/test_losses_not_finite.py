"""Losses that are not finite: fairseq's loss scaler skips an update, or the message names their pairs and a remedy."""

import logging
import math

import pytest
import torch
from fairseq.nan_detector import NanDetector
from helpers import NotOnCpu, make_model, make_task
from omegaconf import OmegaConf
from steps import make_trainer
from test_criterions import build, criterion, make_sample

from fairseq_etads.fairseq_fixes.trainer import skips_overflowing_updates
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
    for impossible in (math.inf, 1e30, math.nan):
        with pytest.raises(NonFiniteLossError, match=r"1 of 2 pairs is not finite \(numbers .*, from 0: 8\)"):
            check_losses_are_finite(torch.tensor([[1.0, 2.0], [3.0, impossible]]), sample)
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


def test_in_validation_and_while_fairseq_looks_for_the_cause_a_gpu_is_waited_for(checked_later, monkeypatch):
    _, model, pass_losses = checked_later
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    with NanDetector(model), pytest.raises(NonFiniteLossError):
        pass_losses([math.nan])
    model.eval()
    with pytest.raises(NonFiniteLossError):
        pass_losses([math.nan])


def test_the_criterion_checks_a_skipped_update_before_the_next_one_and_before_validation(
    checked_later, monkeypatch, caplog
):
    """If the optimiser skips updates that overflow, there is only a warning."""
    _, ours = build("soft")
    ours._loss_checker, _, pass_losses = checked_later
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    ends = (lambda: ours.train(True), lambda: ours.train(False), lambda: ours.record_applied_update(False))
    for end in ends:
        pass_losses([math.nan])
        with pytest.raises(NonFiniteLossError):
            end()
        end()  # an update is checked once
    pass_losses([math.inf])
    ours.record_applied_update(True)
    ours.set_num_updates(3, overflows_are_skipped=True)
    for end in ends:
        caplog.clear()
        pass_losses([1.0, math.inf], [4, 6])
        end()
        assert "1 of 2 pairs" in caplog.text and "from 0: 6)" in caplog.text


def test_logged_tensors_on_a_gpu_are_read_at_once(monkeypatch):
    reads = []
    monkeypatch.setattr(NotOnCpu, "may_be_read", True)
    monkeypatch.setattr(NotOnCpu, "tolist", lambda x: reads.append(1) or torch.Tensor.tolist(x))

    def on_gpu(value):
        return torch.tensor(value).as_subclass(NotOnCpu)

    several = on_gpu([1.0, 2.0])
    given = [{"loss": on_gpu(1.5), "ntokens": 7, "counts": several}, {"loss": on_gpu([[1.0]]), "words": on_gpu(2**30)}]
    assert convert_logged_tensors(given) == [
        {"loss": 1.5, "ntokens": 7, "counts": several},
        {"loss": 1.0, "words": 2**30},
    ]
    assert isinstance(given[0]["loss"], NotOnCpu), "what was given is not changed"
    assert convert_logged_tensors([{"ntokens": 7}, {}]) == [{"ntokens": 7}, {}] and len(reads) == 1


def half_precision(**options):
    """fairseq's trainer of a small model, as fairseq-train --fp16 builds it, or with other options."""
    task = make_task(tail=30)

    def change(cfg):
        # fairseq's flat gradients need CUDA
        options.update(fp16_init_scale=16, min_loss_scale=1.0, fp16_no_flatten_grads=True)
        for name, value in options.items():
            setattr(cfg.common, name, value)
        cfg.optimizer = OmegaConf.create({"_name": "adam", "lr": [0.1], "use_old_adam": True})
        cfg.optimization.lr, cfg.optimization.clip_norm = [0.1], 1.0

    return make_trainer(task, make_model("etads", task, pointer="soft"), criterion(task), change)


@pytest.mark.parametrize("kind", ["fp16", "memory_efficient_fp16"])
def test_an_update_that_overflows_is_skipped_and_the_next_one_made(kind, caplog):
    trainer = half_precision(**{"fp16": True, kind: True})
    model, scaler = trainer.model, trainer.optimizer.scaler
    broken, sound = make_sample([[5, 6], [9, 9]], [[7], [5]]), make_sample([[5, 6], [7, 8]], [[7], [5]])
    with torch.no_grad():
        model.encoder.embed_tokens.weight[9] = 6e4  # a word with states beyond the range of float16
        model.encoder.layernorm_embedding = None
        model.encoder.layers[0].self_attn_layer_norm.weight.fill_(6e4)
    before = [parameter.clone() for parameter in model.parameters()]
    with caplog.at_level(logging.WARNING):
        trainer.train_step([broken])
    assert "pairs is not finite" in caplog.text and "The update is skipped" in caplog.text
    assert scaler.loss_scale == 8.0 and trainer.get_num_updates() == 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    with torch.no_grad():
        model.encoder.layers[0].self_attn_layer_norm.weight.fill_(1.0)
        model.encoder.embed_tokens.weight[9] = 0  # it may also be the decoder's; its logits are then infinite
    trainer.train_step([sound])
    assert trainer.get_num_updates() == 1
    assert not all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_a_loss_that_is_not_finite_makes_every_gradient_overflow():
    """An update that is reported as skipped must be skipped for any cause of the overflow."""
    trainer = half_precision(fp16=True)
    plain = trainer.criterion._compute_likelihood

    def infinite(*args):
        nll, loss, logs = plain(*args)
        return nll, loss + math.inf, logs  # its gradient is finite

    trainer.criterion._compute_likelihood = infinite
    trainer.train_step([make_sample()])
    assert trainer.get_num_updates() == 0


def test_without_a_scaler_it_is_reported():
    trainer = half_precision(bf16=True)
    assert not skips_overflowing_updates(trainer.optimizer)
    with torch.no_grad():
        trainer.model.decoder.layers[0].fc1.weight.fill_(math.nan)
    with pytest.raises(NonFiniteLossError, match="4 of 4 pairs"):
        trainer.train_step([make_sample()])
