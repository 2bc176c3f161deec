"""Corrections of fairseq's training step that need no training."""

import torch
from fairseq.data import iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim import AMPOptimizer
from omegaconf import OmegaConf

from fairseq_etads.fairseq_fixes import training_step


def test_threads_that_read_batches_ahead_end_with_the_process():
    """Without the plugin, fairseq's threads would still wait for space in the queue."""
    batches = iterators.BufferedIterator(2, list(range(100)))
    assert next(batches) == 0
    assert batches._consumer.is_alive()
    training_step.stop_loading_threads()
    assert not batches._consumer.is_alive()


def test_a_step_with_amp_divides_gradients_by_the_scale_once():
    """fairseq divides them twice, so that SGD hardly moves."""
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.optimizer = OmegaConf.create({"_name": "sgd", "lr": [0.5], "momentum": 0.0, "weight_decay": 0.0})
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = AMPOptimizer.build_optimizer(cfg, [weight])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.backward((3 * weight).sum())
    assert optimizer.clip_grad_norm(0.0).item() == 3
    optimizer.step()
    assert weight.item() == 1 - 0.5 * 3
