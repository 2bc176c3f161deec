"""Resume training: store additional state in checkpoints, and apply options that differ from the checkpoint.

:func:`install_patches` is called when fairseq-train loads the plugin.
"""

import argparse
import ast
import functools
import logging
import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional
from unittest import mock

from . import training_loop
from .deferred_imports import STATISTICS, defer_imports

with defer_imports(*STATISTICS):
    from fairseq import checkpoint_utils
    from fairseq.data import iterators
    from fairseq.optim import OPTIMIZER_REGISTRY
    from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

_KEEPING_SCHEDULERS = ("reduce_lr_on_plateau", "reduce_lr_on_validation")
"""Schedulers that use --lr only at the start of training.

After that, they modify the current learning rate, which is stored in checkpoints.
"""
_AT_THE_START = ("initial_accumulator", "no_bias_correction")
"""Optimiser options that have an effect only at the start of training."""


class _EpochPosition(NamedTuple):
    """Position in an epoch at which the remaining batches are redistributed among the workers."""

    epoch: int
    batches: int
    """Total number of batches that all workers had read before this position."""


class ResumableBatches(iterators.EpochBatchIterator):
    """Version of fairseq's batch iterator that can resume with a different number of workers or --update-freq.

    fairseq stores the number of batches that each worker has read. This number is incorrect if training resumes with a
    different number of workers. Moreover, with --curriculum, fairseq starts to shuffle batches after the given number
    of epochs only if training is restarted at that point. This class corrects both errors.
    """

    _resumed: Optional[_EpochPosition] = None

    @property
    def iterations_in_epoch(self) -> int:
        """Number of batches that each worker has read in the current epoch."""
        return int(super().iterations_in_epoch) + math.ceil(self._batches_before_resuming / self.num_shards)

    @property
    def _batches_before_resuming(self) -> int:
        """Total number of batches that all workers had read in the current epoch when training was resumed."""
        return self._resumed.batches if self._resumed is not None and self._resumed.epoch == self.epoch else 0

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
        """Restore the position in the epoch from a checkpoint.

        Raises:
            ValueError: the position is beyond the end of the epoch, or the number of workers has changed and the order
                of the batches depends on this number.
        """
        self._resumed = None
        read, workers = state_dict.get("batches_read"), state_dict.get("workers")
        if not state_dict.get("iterations_in_epoch") or read is None:
            return super().load_state_dict(state_dict)
        epoch, found, saved = state_dict["epoch"], len(self.frozen_batches), state_dict.get("batches")
        if read >= found:
            raise ValueError(
                f"the checkpoint was saved after {read:,} batches of epoch {epoch}, but the epoch has only {found:,} "
                "with this data and these options. Use the data and options of the training, or --reset-dataloader, "
                "which restarts with the first epoch"
            )
        if saved not in (None, found):
            logger.warning(
                f"epoch {epoch} has {found:,} batches, but had {saved:,} when the checkpoint was saved: the data, "
                "--max-tokens or --batch-size differ, so some documents are read twice in this epoch, and others are "
                "skipped"
            )
        if workers != self.num_shards and self.grouped_shuffling:
            raise ValueError(
                f"--grouped-shuffling: the order of batches depends on the number of workers, which was {workers} "
                f"when the checkpoint was saved in the middle of epoch {epoch} and is {self.num_shards} now. Continue "
                f"with {workers} workers, or give --reset-dataloader, which restarts with the first epoch"
            )
        if workers == self.num_shards and not state_dict.get("is_shared_out_again"):
            return super().load_state_dict(state_dict)
        logger.info(f"{self.num_shards} workers share the rest of epoch {epoch}: {found - read:,} of {found:,} batches")
        self.epoch, self._resumed = epoch, _EpochPosition(epoch, read)
        self._next_epoch_itr = self._get_iterator_for_epoch(epoch, shuffle=state_dict.get("shuffle", True))

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> List[Any]:
        """Return this worker's batches in an epoch. After resuming, return its batches in the rest of the epoch."""
        if self._resumed is None or self._resumed.epoch != epoch:
            return list(super().ordered_batches(epoch, fix_batches_to_gpus, shuffle))
        with mock.patch.multiple(self, num_shards=1, shard_id=0):
            every = super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)
        rest = every[self._resumed.batches :]
        return list(iterators.ShardedIterator(rest, self.num_shards, self.shard_id, fill_value=[]))

    def _get_iterator_for_epoch(
        self, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
    ) -> Any:
        if self.reuse_dataloader and self.dataloader is not None:  # fairseq does not update a sampler that is reused
            self.epoch_batch_sampler.shuffle = shuffle
        return super()._get_iterator_for_epoch(epoch, shuffle, fix_batches_to_gpus, offset)


def _convert_options_to_dict(options: Any) -> Dict[str, Any]:
    """Return a group of options as a dictionary, which is empty if there are no options.

    For optimisers without a dataclass, such as sgd, fairseq's group is a namespace with all options of the command.
    """
    if isinstance(options, argparse.Namespace):
        return vars(options)
    return dict(options) if hasattr(options, "keys") else {}


def _get_saved_options(state: Dict[str, Any], group: str) -> Dict[str, Any]:
    """Return a group of options from a checkpoint.

    The result is an empty dictionary if the checkpoint does not contain the group.
    """
    return _convert_options_to_dict((state.get("cfg") or {}).get(group))


def _get_optimizer_options(options: Any) -> Dict[str, Any]:
    """Return the options of the optimiser in ``cfg.optimizer``, and its name as ``_name``."""
    values = _convert_options_to_dict(options)
    if not isinstance(options, argparse.Namespace):
        return values
    parser = argparse.ArgumentParser()
    OPTIMIZER_REGISTRY[values["_name"]].add_args(parser)
    return {name: values[name] for name in ("_name", *vars(parser.parse_args([]))) if name in values}


def _get_update_freq(options: Any, epoch: int) -> int:
    """Return the value of --update-freq for an epoch."""
    values = options.get("update_freq") or [1]
    return int(values[min(epoch, len(values)) - 1])


class _CheckpointAdapter:
    """Compare a checkpoint with the current options, and adapt it before fairseq's trainer loads it.

    Args:
        trainer: fairseq's trainer, which loads the checkpoint.
        reset_optimizer, reset_lr_scheduler: values of fairseq's options with these names, which --finetune-from-model
            also sets.
        overrides: value of --optimizer-overrides.
    """

    def __init__(
        self,
        trainer: Any,
        reset_optimizer: bool,
        reset_lr_scheduler: bool,
        overrides: Optional[Dict[str, Any]] = None,
    ):
        self.trainer = trainer
        self.cfg = trainer.cfg
        self.reset_optimizer = reset_optimizer
        self.reset_lr_scheduler = reset_lr_scheduler
        self.overrides = overrides or {}

    def prepare(self, state: Dict[str, Any], path: str) -> None:
        """Adapt the state in a checkpoint, in place, before it is sent to other workers.

        Raises:
            ValueError: the checkpoint does not match the data of the task.
        """
        check = getattr(self.trainer.task, "check_checkpoint_dictionaries", None)
        if check is not None:
            check(state.get("task_state") or {}, path)
        self._adapt_position(state, path)
        self._initialise_ema_weights(state)
        if not self.reset_optimizer and state.get("last_optimizer_state") is not None:
            self._store_missing_result(state)
            self._reset_changed_scheduler(state)
            self._store_changed_options(state)
        self._remove_best_of_other_metric(state)

    def _adapt_position(self, state: Dict[str, Any], path: str) -> None:
        """Adapt the position in the epoch if the number of workers or --update-freq has changed."""
        position = state["extra_state"].get("train_iterator") or {}
        epoch = position.get("epoch", 1)
        if epoch < 1:
            logger.warning(
                f"{path} does not record how much of the data was read (like crash.pt), so training starts with the "
                "first epoch"
            )
        workers = _get_saved_options(state, "distributed_training").get("distributed_world_size")
        if not position.get("iterations_in_epoch") or workers is None:
            return
        position.setdefault("workers", workers)
        position.setdefault("batches_read", position["iterations_in_epoch"] * position["workers"])
        saved, now = _get_saved_options(state, "optimization"), self.cfg.optimization
        if saved and _get_update_freq(saved, epoch) != _get_update_freq(now, epoch):
            position["is_shared_out_again"] = True

    def _initialise_ema_weights(self, state: Dict[str, Any]) -> None:
        """Initialise the average of --store-ema with the checkpoint's weights if the checkpoint contains no average."""
        if self.cfg.ema.store_ema and "ema" not in state["extra_state"]:
            logger.info("--store-ema: the checkpoint has no average; the average starts from the checkpoint's weights")
            state["extra_state"]["ema"] = dict(state["model"])

    def _store_missing_result(self, state: Dict[str, Any]) -> None:
        """Store a validation result that the scheduler has not yet received, so that :meth:`finish` can pass it on.

        fairseq saves the checkpoint at the end of an epoch before it passes the result to the scheduler.
        """
        position = state["extra_state"].get("train_iterator") or {}
        ends_epoch = not position.get("iterations_in_epoch") and position.get("epoch", 1) > 1
        loss = state["extra_state"].get("val_loss")
        name = getattr(self.cfg.lr_scheduler, "_name", None)
        if ends_epoch and loss is not None and name == "reduce_lr_on_plateau" and not self.reset_lr_scheduler:
            state["extra_state"]["missing_result"] = (position["epoch"] - 1, loss)

    def _reset_changed_scheduler(self, state: Dict[str, Any]) -> None:
        """Replace the state of the scheduler if --lr-scheduler has changed.

        Training continues as if the new scheduler had been used from the beginning.
        """
        saved = _get_saved_options(state, "lr_scheduler").get("_name")
        name = getattr(self.cfg.lr_scheduler, "_name", None)
        if self.reset_lr_scheduler or saved is None or saved == name:
            return
        updates = state["optimizer_history"][-1]["num_updates"]
        logger.info(f"--lr-scheduler {name}: replaces {saved} from update {updates:,} on")
        state["optimizer_history"][-1]["lr_scheduler_state"] = self.trainer.lr_scheduler.state_dict()

    def _store_changed_options(self, state: Dict[str, Any]) -> None:
        """Store changed optimiser options in the state, so that :meth:`finish` can apply them in each worker."""
        saved, now = _get_saved_options(state, "optimizer"), _get_optimizer_options(self.cfg.optimizer)
        if saved.get("_name") != now.get("_name"):
            return
        changed = {
            name: (saved[name], value)
            for name, value in now.items()
            if name in saved and name != "lr" and saved[name] != value
        }
        rates = list(_get_saved_options(state, "optimization").get("lr") or []), list(self.cfg.optimization.lr)
        if rates[0] and rates[0] != rates[1]:
            changed["lr"] = rates
        state["extra_state"]["changed_options"] = changed

    def _remove_best_of_other_metric(self, state: Dict[str, Any]) -> None:
        """Remove the best validation score from the state if --best-checkpoint-metric has changed."""
        saved, now = _get_saved_options(state, "checkpoint"), self.cfg.checkpoint
        names = ("best_checkpoint_metric", "maximize_best_checkpoint_metric")
        if saved and any(saved.get(name) != now.get(name) for name in names) and "best" in state["extra_state"]:
            logger.info(
                f"--best-checkpoint-metric {now.best_checkpoint_metric}: the best value so far was for "
                f"{saved.get('best_checkpoint_metric')} and is dropped"
            )
            for name in ("best", "patience"):
                state["extra_state"].pop(name, None)

    def finish(self, extra_state: Dict[str, Any]) -> None:
        """Apply the validation result and the changed options that the trainer ignores when it loads the checkpoint."""
        if "missing_result" in extra_state:
            rate = self.trainer.get_lr()
            self.trainer.lr_step(*extra_state.pop("missing_result"))
            if "lr" in self.overrides:
                self.trainer.optimizer.set_lr(rate)
        for name, (saved, value) in extra_state.pop("changed_options", {}).items():
            self._apply_changed_optimizer_option(name, saved, value)
        frequency = self.cfg.ema.ema_update_freq
        if self.cfg.ema.store_ema and frequency > 1:  # fairseq would count from 0 again
            self.trainer.ema.update_freq_counter = self.trainer.get_num_updates() % frequency

    def _apply_changed_optimizer_option(self, name: str, saved: Any, value: Any) -> None:
        """Apply a changed option to the optimiser and log the change, or log that the old value is kept."""
        flag = "--" + name.replace("_", "-")
        if name == "lr":
            scheduler = getattr(self.cfg.lr_scheduler, "_name", None)
            if scheduler in _KEEPING_SCHEDULERS:
                rate = self.trainer.get_lr()
                logger.warning(
                    f"{flag} {value[0]}: has no effect on a training that is resumed with --lr-scheduler {scheduler}, "
                    f"which continues at a rate of {rate:g}; to change it, give --optimizer-overrides \"{{'lr': "
                    f'{value[0]}}}"'
                )
            return
        found = [group for group in self.trainer.optimizer.param_groups if _find_group_key(group, name, saved)]
        for group in found:
            group[_find_group_key(group, name, saved)] = _parse_option_value(value)
        if found:
            logger.info(f"{flag} {value}: replaces {saved} from update {self.trainer.get_num_updates():,} on")
        elif name in _AT_THE_START:
            logger.warning(f"{flag} {value}: has no effect on a resumed training; the value remains {saved}")


def _parse_option_value(value: Any) -> Any:
    """Parse the value of an option, which may be a Python literal, such as the betas of Adam."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (SyntaxError, ValueError):
        return value


def _find_group_key(group: Dict[str, Any], option: str, value: Any) -> str:
    """Return the key of an option in a parameter group, or an empty string if the group does not contain it."""
    names = (name for name in group if option == name or option.endswith("_" + name))
    return next((name for name in names if group[name] == _parse_option_value(value)), "")


def _adapt_checkpoint_on_loading(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Trainer.load_checkpoint`` to adapt the checkpoint before loading, and apply changed options afterwards."""

    @functools.wraps(load)
    def load_checkpoint(
        self: Any,
        filename: str,
        reset_optimizer: bool = False,
        reset_lr_scheduler: bool = False,
        optimizer_overrides: Any = None,
        **kw: Any,
    ) -> Any:
        resumption = _CheckpointAdapter(self, reset_optimizer, reset_lr_scheduler, optimizer_overrides)
        read = checkpoint_utils.load_checkpoint_to_cpu

        def read_and_adapt_checkpoint(path: str, *arguments: Any, **options: Any) -> Any:
            state = read(path, *arguments, **options)
            resumption.prepare(state, path)
            return state

        with mock.patch.object(checkpoint_utils, "load_checkpoint_to_cpu", read_and_adapt_checkpoint):
            extra_state = load(self, filename, reset_optimizer, reset_lr_scheduler, optimizer_overrides, **kw)
        if extra_state is not None:
            resumption.finish(extra_state)
        return extra_state

    load_checkpoint.is_patched = True  # type: ignore[attr-defined]
    return load_checkpoint


def _save_patience_and_validation_state(save: Callable[..., Any], command: Any) -> Callable[..., Any]:
    """Wrap ``Trainer.save_checkpoint``, so that it also saves the counter of --patience and whether validation is due.

    Validation is due if a signal prevented it.
    """

    @functools.wraps(save)
    def save_checkpoint(self: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
        state = command.should_stop_early
        if hasattr(state, "best"):
            extra_state = {**extra_state, "patience": {"best": state.best, "num_runs": state.num_runs}}
        if training_loop.is_validation_missed():
            extra_state = {**extra_state, "validation_is_due": True}
        return save(self, filename, extra_state)

    save_checkpoint.is_patched = True  # type: ignore[attr-defined]
    return save_checkpoint


def _restore_patience_and_validation_state(load: Callable[..., Any], command: Any) -> Callable[..., Any]:
    """Wrap ``load_checkpoint`` so that it also restores the --patience counter and runs any overdue validation.

    Otherwise, fairseq would start counting from 0 again, and the best checkpoint might be missed.
    """

    @functools.wraps(load)
    def load_checkpoint(cfg: Any, trainer: Any, **arguments: Any) -> Any:
        extra_state, epoch_itr = load(cfg, trainer, **arguments)
        saved = (extra_state or {}).get("patience")
        # fairseq keeps the best score unless the optimiser or the meters are reset, for example by
        # --finetune-from-model.
        if saved and getattr(checkpoint_utils.save_checkpoint, "best", None) == extra_state.get("best"):
            command.should_stop_early.best, command.should_stop_early.num_runs = saved["best"], saved["num_runs"]
        # The number of updates is 0 if a new training run starts from the checkpoint.
        due = (extra_state or {}).get("validation_is_due") and trainer.get_num_updates() > 0
        if due and not trainer.cfg.dataset.disable_validation:
            training_loop.validate_after_resuming(command, trainer, extra_state["train_iterator"])
        return extra_state, epoch_itr

    load_checkpoint.is_patched = True  # type: ignore[attr-defined]
    return load_checkpoint


def install_patches(command: Any) -> None:
    """Patch fairseq to correct how training resumes. This function can be called repeatedly.

    Args:
        command: the module ``fairseq_cli.train``.
    """
    if not hasattr(Trainer.save_checkpoint, "is_patched"):
        Trainer.save_checkpoint = _save_patience_and_validation_state(Trainer.save_checkpoint, command)
        Trainer.load_checkpoint = _adapt_checkpoint_on_loading(Trainer.load_checkpoint)
    if not hasattr(checkpoint_utils.load_checkpoint, "is_patched"):
        checkpoint_utils.load_checkpoint = _restore_patience_and_validation_state(
            checkpoint_utils.load_checkpoint, command
        )
    iterators.EpochBatchIterator = ResumableBatches
