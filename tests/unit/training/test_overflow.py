"""Losses that overflow in training: handled by fairseq's loss scaler if there is one, otherwise reported."""

import logging
import math

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from helpers import make_model, make_task
from omegaconf import OmegaConf
from test_criterions import criterion, make_sample

from fairseq_etads.fairseq_fixes.training_step import skips_overflowing_updates
from fairseq_etads.training.losses import NonFiniteLossError

OPTIMIZERS = {"plain": FP16Optimizer, "memory-efficient": MemoryEfficientFP16Optimizer}


def half_precision(kind, bf16=False, scale=16):
    """Task, model and fairseq's optimiser, as fairseq-train --fp16 or --bf16 builds them."""
    task = make_task(tail=30)
    model = make_model("etads", task, pointer="soft").to(torch.bfloat16 if bf16 else torch.float16).train()
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.common.bf16, cfg.common.fp16_init_scale, cfg.common.min_loss_scale = bf16, scale, 1.0
    cfg.optimization.update_freq = [1]
    cfg.common.fp16_no_flatten_grads = True  # fairseq's flat ones need CUDA
    adam = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "use_old_adam": True, "fp16_adam_stats": False, "tpu": False}
    cfg.optimizer = OmegaConf.create({"_name": "adam", "lr": [0.1], "weight_decay": 0.0, **adam})
    return task, model, OPTIMIZERS[kind].build_optimizer(cfg, list(model.parameters()))


def update(task, model, ours, optimizer, sample, number=0):
    """Make one update like fairseq's trainer; True if it was skipped."""
    optimizer.zero_grad()
    task.train_step(sample, model, ours, optimizer, number)
    try:
        optimizer.clip_grad_norm(1.0)
    except OverflowError:
        return True
    optimizer.step()
    return False


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_update_that_overflows_is_skipped_and_the_next_one_made(kind, caplog):
    task, model, optimizer = half_precision(kind)
    ours = criterion(task)
    broken, sound = make_sample([[5, 6], [9, 9]], [[7], [5]]), make_sample([[5, 6], [7, 8]], [[7], [5]])
    with torch.no_grad():
        model.encoder.embed_tokens.weight[9] = 6e4  # a word with states beyond the range of float16
        model.encoder.layernorm_embedding = None
        model.encoder.layers[0].self_attn_layer_norm.weight.fill_(6e4)
    before = [parameter.clone() for parameter in model.parameters()]
    with caplog.at_level(logging.WARNING):
        assert update(task, model, ours, optimizer, broken)
    assert "pairs is not finite" in caplog.text and "The update is skipped" in caplog.text
    assert optimizer.scaler.loss_scale == 8.0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    with torch.no_grad():
        model.encoder.layers[0].self_attn_layer_norm.weight.fill_(1.0)
        model.encoder.embed_tokens.weight[9] = 0  # it may also be the decoder's; its logits are then infinite
    assert not update(task, model, ours, optimizer, sound)
    assert not all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_a_loss_that_is_not_finite_makes_every_gradient_overflow():
    """An update that is reported as skipped must be skipped for any cause of the overflow."""
    task, model, optimizer = half_precision("plain")
    ours, plain = criterion(task), criterion(task)._compute_likelihood

    def infinite(*args):
        nll, loss, logs = plain(*args)
        return nll, loss + math.inf, logs  # its gradient is finite

    ours._compute_likelihood = infinite
    assert update(task, model, ours, optimizer, make_sample())


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_without_a_scaler_it_is_reported(kind):
    task, model, optimizer = half_precision(kind, bf16=True)
    assert not skips_overflowing_updates(optimizer)
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight.fill_(math.nan)
    with pytest.raises(NonFiniteLossError, match="4 of 4 pairs"):
        update(task, model, criterion(task), optimizer, make_sample())


def test_without_a_gpu_the_scaler_of_amp_is_not_counted_on():
    """torch disables it. Training used to announce that the update is skipped, and failed with an AttributeError."""
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.optimizer = OmegaConf.create({"_name": "sgd", "lr": [0.1], "momentum": 0.0, "weight_decay": 0.0})
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = AMPOptimizer.build_optimizer(cfg, [weight])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)  # also on a machine with a GPU
    assert not skips_overflowing_updates(optimizer)
    weight.grad = torch.tensor([4.0])
    assert optimizer.clip_grad_norm(2.0).item() == 4 and weight.grad.item() == pytest.approx(2, rel=1e-4)
    optimizer._grad_scaler = torch.amp.GradScaler("cpu")
    assert skips_overflowing_updates(optimizer)
