"""fairseq's trainer: an epoch is resumed by another number of workers, when a training validates, saves and ends, and
steps with AMP.
"""

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

BATCHES = 11


class Documents(torch.utils.data.Dataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, number):
        return number


def batches(workers=1, rank=0, kind=loop.ResumableBatches, **options):
    sampler = [[number] for number in range(BATCHES)]
    return kind(Documents(), list, sampler, num_shards=workers, shard_id=rank, **options)


def read(epoch, chunk=1, updates=math.inf):
    """Documents that a worker has read after some updates, or until the end, in the order of fairseq's loop."""
    groups, found = iterators.GroupedIterator(epoch, chunk), []
    while groups.has_next() and updates > 0:
        found += [batch[0] for batch in next(groups) if batch]
        updates -= 1
    return found


def all_read(workers, state=None, chunk=1, updates=math.inf):
    """Documents that all workers have read in an epoch, and the state that the first worker saves."""
    found, saved = [], None
    for rank in range(workers):
        part = batches(workers, rank)
        if state is not None:
            part.load_state_dict(state)
        found += read(part.next_epoch_itr(), chunk, updates)
        saved = saved or part.state_dict()
        assert updates < math.inf or part.end_of_epoch()
    return found, saved


@pytest.mark.parametrize("first", [(1, 1, 3), (1, 2, 2), (2, 1, 2), (2, 2, 1), (3, 1, 2)])
@pytest.mark.parametrize("then", [(1, 1), (1, 4), (2, 3), (3, 1), (4, 2)])
def test_another_number_of_workers_reads_what_is_left_of_an_epoch(first, then):
    """fairseq counted one worker's batches for every worker: some were read twice, or none was left."""
    workers, chunk, updates = first
    before, state = all_read(workers, None, chunk, updates)
    state["is_shared_out_again"] = then[1] != chunk  # as Trainer.load_checkpoint's wrapper sets it
    after, state = all_read(then[0], state, then[1])
    assert sorted(before + after) == list(range(BATCHES))
    assert state["epoch"] == 2 and state["iterations_in_epoch"] == 0


def test_it_can_be_resumed_once_more():
    found, state = all_read(2, None, 1, 1)
    for workers, updates, read_so_far in ((3, 1, 5), (3, 1, 8), (1, math.inf, 0)):
        more, state = all_read(workers, state, 1, updates)
        found += more
        assert state.get("batches_read", 0) == read_so_far
    assert sorted(found) == list(range(BATCHES))


def test_the_same_workers_continue_as_fairseq_does_and_later_epochs_are_shared_out_whole():
    state = all_read(2, None, 2, 1)[1]
    assert not state["is_shared_out_again"]
    resumed, plain = batches(2), batches(2, kind=loop.ResumableBatches.__mro__[1])
    for part in (resumed, plain):
        part.load_state_dict(state)
    assert read(resumed.next_epoch_itr(), 2) == read(plain.next_epoch_itr(), 2)
    part = batches(2, 1)
    part.load_state_dict(all_read(1, None, 1, 3)[1])
    read(part.next_epoch_itr())
    assert part.next_epoch_idx == 2
    assert read(part.next_epoch_itr()) == read(batches(2, 1, epoch=2).next_epoch_itr())


@pytest.mark.parametrize("reuse", [True, False])
def test_batches_are_shuffled_after_the_epochs_of_the_curriculum(reuse):
    """fairseq kept the order of the first epoch for all later ones, because it keeps the data loader."""
    part = batches(reuse_dataloader=reuse)
    orders = [read(part.next_epoch_itr(shuffle=epoch > 2)) for epoch in (1, 2, 3, 4)]
    assert orders[0] == orders[1] == list(range(BATCHES))
    again = batches(epoch=3)
    assert orders[2] == read(again.next_epoch_itr(shuffle=True)) != orders[0]
    assert orders[3] not in (orders[0], orders[2])


def config(validate=0, save=0, patience=-1, disabled=False, limit=0):
    checks = {"validate_interval": 1, "validate_interval_updates": validate, "validate_after_updates": 0}
    return SimpleNamespace(
        optimization=SimpleNamespace(max_update=limit, stop_time_hours=0),
        checkpoint=SimpleNamespace(save_interval=1, save_interval_updates=save, patience=patience),
        dataset=SimpleNamespace(**checks, disable_validation=disabled),
    )


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
        (0, 9, 3, {}, True),
        (0, 9, 2, {}, False),
        (0, 0, 2, {}, True),
        (0, 9, 2, {"restore_file": "other.pt"}, True),  # a new run
        (0, 9, 2, {"reset_lr_scheduler": True}, True),
    ],
)
def test_no_update_is_made_after_the_last(limit, updates, patience, changed, trains, tmp_path):
    """Before that, two validations in a row were not better than the best one. A new run does not count them."""
    cfg, iterator = config(limit=limit, patience=patience), SimpleNamespace(dataset=None, __len__=None, epoch=1)
    (tmp_path / "checkpoint_last.pt").touch()
    resets = dict.fromkeys(("reset_optimizer", "reset_lr_scheduler", "reset_dataloader", "reset_meters"), False)
    own = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt", **resets}
    absent = {"checkpoint_suffix": "", "continue_once": None, "finetune_from_model": None}
    vars(cfg.checkpoint).update({**own, **absent, **changed})
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


def amp(weight, **scaler):
    """fairseq's optimiser for --amp, with plain gradient descent."""
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.optimizer = OmegaConf.create({"_name": "sgd", "lr": [0.5], "momentum": 0.0, "weight_decay": 0.0})
    optimizer = AMPOptimizer.build_optimizer(cfg, [weight])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", **scaler)
    return optimizer


def test_a_step_with_amp_divides_gradients_by_the_scale_once():
    """fairseq divides them twice, so that SGD hardly moves."""
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = amp(weight, init_scale=1024.0)
    assert loop.skips_overflowing_updates(optimizer)
    optimizer.backward((3 * weight).sum())
    assert optimizer.clip_grad_norm(0.0).item() == 3
    optimizer.step()
    assert weight.item() == 1 - 0.5 * 3


def test_without_a_gpu_the_scaler_of_amp_is_not_counted_on():
    """torch disables it. Training used to announce that the update is skipped, and failed with an AttributeError."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = amp(weight, enabled=False)  # also on a machine with a GPU
    assert not loop.skips_overflowing_updates(optimizer)
    weight.grad = torch.tensor([4.0])
    assert optimizer.clip_grad_norm(2.0).item() == 4 and weight.grad.item() == pytest.approx(2, rel=1e-4)
