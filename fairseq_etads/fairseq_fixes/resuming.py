"""Resumed training: the position in the epoch with any number of workers, and state that fairseq does not restore."""

import logging
import math
from typing import Any, Dict, List, Optional
from unittest import mock

from fairseq import checkpoint_utils
from fairseq.data import iterators
from fairseq.trainer import Trainer

from . import Original, replaces, training_loop

logger = logging.getLogger(__name__)


class ResumableBatches(iterators.EpochBatchIterator):
    """Version of fairseq's batch iterator that can resume with a different number of workers or --update-freq.

    fairseq stores the number of batches that each worker has read.
    """

    _resumed_epoch = 0
    """Epoch in which training was resumed and its remaining batches were shared out again, or 0."""
    _read_before = 0
    """Total number of batches that all workers had read in this epoch before."""

    @property
    def iterations_in_epoch(self) -> int:
        """Number of batches that each worker has read in the current epoch."""
        return int(super().iterations_in_epoch) + math.ceil(self._batches_before_resuming / self.num_shards)

    @property
    def _batches_before_resuming(self) -> int:
        return self._read_before if self._resumed_epoch == self.epoch else 0

    def state_dict(self) -> Dict[str, Any]:
        """Return the state of fairseq's iterator, and the total number of batches that all workers have read."""
        state: Dict[str, Any] = super().state_dict()
        if state["iterations_in_epoch"]:
            here = int(super().iterations_in_epoch)
            read = self._batches_before_resuming + here * self.num_shards
            state.update(batches_read=read, batches=len(self.frozen_batches), workers=self.num_shards)
            state["is_shared_out_again"] = bool(self._batches_before_resuming)
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restore the position in the epoch from a checkpoint."""
        self._resumed_epoch = 0
        read, workers = state_dict.get("batches_read"), state_dict.get("workers")
        if not state_dict.get("iterations_in_epoch") or read is None:
            return super().load_state_dict(state_dict)
        if workers == self.num_shards and not state_dict.get("is_shared_out_again"):
            return super().load_state_dict(state_dict)
        self.epoch = self._resumed_epoch = state_dict["epoch"]
        self._read_before = read
        logger.info(f"{self.num_shards} workers share the rest of epoch {self.epoch}")
        self._next_epoch_itr = self._get_iterator_for_epoch(self.epoch, shuffle=state_dict.get("shuffle", True))

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> List[Any]:
        """Return this worker's batches in an epoch. After resuming, return its batches in the rest of the epoch."""
        if self._resumed_epoch != epoch:
            return list(super().ordered_batches(epoch, fix_batches_to_gpus, shuffle))
        with mock.patch.multiple(self, num_shards=1, shard_id=0):
            every = super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)
        return list(iterators.ShardedIterator(every[self._read_before :], self.num_shards, self.shard_id, []))

    def _get_iterator_for_epoch(self, epoch: int, shuffle: bool, *arguments: Any, **options: Any) -> Any:
        if self.reuse_dataloader and self.dataloader is not None:  # fairseq does not update a sampler that is reused
            self.epoch_batch_sampler.shuffle = shuffle
        return super()._get_iterator_for_epoch(epoch, shuffle, *arguments, **options)


iterators.EpochBatchIterator = ResumableBatches


def _get_saved_option(state: Dict[str, Any], group: str, name: str) -> Any:
    """Return the value of an option in a checkpoint, or None. Groups without a dataclass are namespaces."""
    options: Any = (state.get("cfg") or {}).get(group)
    return options.get(name) if hasattr(options, "get") else getattr(options, name, None)


def adapt_checkpoint(trainer: Any, state: Dict[str, Any], path: str, keeps_scheduler: bool) -> None:
    """Adapt a checkpoint, in place, to the options of this training, before it is sent to other workers.

    ``keeps_scheduler`` states whether the trainer also loads the state of the optimiser and the scheduler.
    """
    if hasattr(trainer.task, "check_checkpoint_dictionaries"):
        trainer.task.check_checkpoint_dictionaries(state.get("task_state") or {}, path)
    cfg, extra = trainer.cfg, state["extra_state"]
    position = extra.get("train_iterator") or {}
    epoch = position.get("epoch", 1)
    workers = _get_saved_option(state, "distributed_training", "distributed_world_size")
    if position.get("iterations_in_epoch") and workers is not None:
        position.setdefault("workers", workers)
        position.setdefault("batches_read", position["iterations_in_epoch"] * position["workers"])
        before, now = _get_saved_option(state, "optimization", "update_freq"), cfg.optimization.update_freq
        if before and before[min(epoch, len(before)) - 1] != now[min(epoch, len(now)) - 1]:
            position["is_shared_out_again"] = True
    if cfg.ema.store_ema and "ema" not in extra:  # fairseq deletes the weights before it reads them
        extra["ema"] = dict(state["model"])
    for name in ("best_checkpoint_metric", "maximize_best_checkpoint_metric"):
        if _get_saved_option(state, "checkpoint", name) not in (None, getattr(cfg.checkpoint, name, None)):
            extra.pop("best", None)  # the best value of another metric
            extra.pop("patience", None)
    scheduler = getattr(cfg.lr_scheduler, "_name", None)
    if keeps_scheduler and _get_saved_option(state, "lr_scheduler", "_name") not in (None, scheduler):
        state["optimizer_history"][-1]["lr_scheduler_state"] = trainer.lr_scheduler.state_dict()
    # fairseq saves the checkpoint at the end of an epoch before it passes the result to the scheduler.
    ends_epoch = not position.get("iterations_in_epoch") and epoch > 1
    if keeps_scheduler and ends_epoch and scheduler == "reduce_lr_on_plateau" and extra.get("val_loss") is not None:
        extra["missing_result"] = (epoch - 1, extra["val_loss"])


@replaces(Trainer, "load_checkpoint")
def load_adapted_checkpoint(
    original: Original,
    trainer: Any,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    optimizer_overrides: Optional[Dict[str, Any]] = None,
    **options: Any,
) -> Any:
    """Load a checkpoint after :func:`adapt_checkpoint`, and restore state that fairseq's trainer ignores."""
    read = checkpoint_utils.load_checkpoint_to_cpu

    def read_adapted_checkpoint(path: str, *args: Any, **kwargs: Any) -> Any:
        state = read(path, *args, **kwargs)
        keeps_optimizer = not reset_optimizer and state.get("last_optimizer_state") is not None
        adapt_checkpoint(trainer, state, path, keeps_optimizer and not reset_lr_scheduler)
        return state

    with mock.patch.object(checkpoint_utils, "load_checkpoint_to_cpu", read_adapted_checkpoint):
        extra_state = original(trainer, filename, reset_optimizer, reset_lr_scheduler, optimizer_overrides, **options)
    if extra_state and "missing_result" in extra_state:
        rate = trainer.get_lr()
        trainer.lr_step(*extra_state.pop("missing_result"))
        if "lr" in (optimizer_overrides or {}):
            trainer.optimizer.set_lr(rate)
    if extra_state and trainer.cfg.ema.store_ema:  # fairseq would count the updates from 0 again
        trainer.ema.update_freq_counter = trainer.get_num_updates() % trainer.cfg.ema.ema_update_freq
    return extra_state


@replaces(Trainer, "save_checkpoint")
def save_patience(original: Original, trainer: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
    """Save a checkpoint with the counter of --patience, and whether a signal prevented a validation."""
    counter: Any = getattr(training_loop.get_command(), "should_stop_early", None)
    if hasattr(counter, "best"):
        extra_state = {**extra_state, "patience": {"best": counter.best, "num_runs": counter.num_runs}}
    if getattr(trainer, "validation_is_due", False):
        extra_state = {**extra_state, "validation_is_due": True}
    return original(trainer, filename, extra_state)


@replaces(checkpoint_utils, "load_checkpoint")
def restore_patience(original: Original, cfg: Any, trainer: Any, **arguments: Any) -> Any:
    """Load the checkpoint of a training, restore the counter of --patience, and run a validation that was prevented."""
    extra_state, epoch_itr = original(cfg, trainer, **arguments)
    counter, state = getattr(training_loop.get_command(), "should_stop_early", None), extra_state or {}
    # fairseq keeps the best score unless the optimiser or the meters are reset, as by --finetune-from-model.
    has_best = getattr(checkpoint_utils.save_checkpoint, "best", None) == state.get("best")
    if counter is not None and "patience" in state and has_best:
        vars(counter).update(state["patience"])
    # The number of updates is 0 if a new training run starts from the checkpoint.
    if state.get("validation_is_due") and trainer.get_num_updates() and not trainer.cfg.dataset.disable_validation:
        training_loop.validate_after_resuming(trainer, state["train_iterator"])
    return extra_state, epoch_itr
