"""The times at which a training validates and saves, and its end; corrections of a step that need no loop."""

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim import AMPOptimizer
from omegaconf import OmegaConf

from fairseq_etads.fairseq_fixes import trainer as loop


def config(validate=0, save=0, patience=-1, epochs=1, disabled=False, scheduler="fixed", warmup=0, freq=1, limit=0):
    return SimpleNamespace(
        optimization=SimpleNamespace(max_update=limit, stop_time_hours=0, lr=[5e-4], update_freq=[freq]),
        checkpoint=SimpleNamespace(
            save_interval=1, save_interval_updates=save, patience=patience, best_checkpoint_metric="loss"
        ),
        dataset=SimpleNamespace(
            validate_interval=epochs, validate_interval_updates=validate, validate_after_updates=0,
            disable_validation=disabled,
        ),
        lr_scheduler=SimpleNamespace(_name=scheduler, warmup_updates=warmup),
    )  # fmt: skip


@pytest.mark.parametrize(
    "per_epoch, options, validated, saved",
    [
        (20, {"validate": 6, "save": 2}, [6, 12, 18, 20, 24], [*range(2, 25, 2)]),  # patience counts validations
        (20, {"save": 5}, [5, 10, 15, 20, 24], [5, 10, 15, 20, 24]),  # as fairseq does
        (10, {"validate": -1, "save": 4}, [10, 20, 24], [4, 8, 10, 12, 16, 20, 24]),
        (100, {"validate": 7}, [7, 14, 21, 24], [7, 14, 21, 24]),  # the best checkpoint must be kept
        (10, {"validate": 3, "save": 4, "disabled": True}, [], [4, 8, 10, 12, 16, 20, 24]),
    ],
)
def test_updates_after_which_a_training_validates_and_saves(per_epoch, options, validated, saved):
    cfg, found = config(**options), ([], [])
    for update in range(1, 25):
        decided = loop.is_validation_or_saving_due(
            cfg, update, math.ceil(update / per_epoch), update % per_epoch == 0, update == 24
        )
        for place, decision in zip(found, decided):
            place.extend([update] * decision)
    assert found == (validated, saved)


@pytest.mark.parametrize(
    "limit, updates, patience, changed, trains",
    [
        (20, 19, -1, {}, True),
        (20, 20, -1, {}, False),
        (0, 99, -1, {}, True),
        (0, 9, 3, {}, True),
        (0, 9, 2, {}, False),
        (0, 0, 2, {}, True),
        (0, 9, 2, {"restore_file": "other.pt"}, True),  # a new run
        (0, 9, 2, {"reset_lr_scheduler": True}, True),
        (0, 9, 2, {"finetune_from_model": "x"}, True),
    ],
)
def test_no_update_is_made_after_the_last(limit, updates, patience, changed, trains, tmp_path):
    """Before that, two validations in a row were not better than the best one. A new run does not count them."""
    cfg, iterator = config(limit=limit, patience=patience), SimpleNamespace(dataset=None, __len__=None, epoch=1)
    (tmp_path / "checkpoint_last.pt").touch()
    resets = dict.fromkeys(("reset_optimizer", "reset_lr_scheduler", "reset_dataloader", "reset_meters"), False)
    own = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt", "finetune_from_model": None, **resets}
    vars(cfg.checkpoint).update({**own, "checkpoint_suffix": "", "continue_once": None, **changed})
    command = SimpleNamespace(should_stop_early=SimpleNamespace(best=1.0, num_runs=2))
    cfg.distributed_training = SimpleNamespace(distributed_world_size=2)
    trainer = SimpleNamespace(get_num_updates=lambda: updates, cumulative_training_time=lambda: 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "check_best_metric", lambda cfg, trainer, epoch: None)
        patch.setitem(sys.modules, "fairseq_cli.train", command)
        result = loop.train_epoch(lambda *arguments: "an epoch", cfg, trainer, object(), iterator)
    assert result == ("an epoch" if trains else ([None], True))
    assert command.should_stop_early.num_runs == (0 if trains and patience == 2 else 2)


def test_threads_that_read_batches_ahead_end_with_the_process():
    """Without the plugin, fairseq's threads would still wait for space in the queue."""
    batches = iterators.BufferedIterator(2, list(range(100)))
    assert next(batches) == 0
    assert batches._consumer.is_alive()
    loop.stop_loading_threads()
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
