"""Trainer of fairseq-train: steps, when to validate and save, signals, and state that resumed training restores."""

import atexit
import contextlib
import logging
import math
import os
import queue
import re
import signal
import sys
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple
from unittest import mock

import torch
from fairseq import checkpoint_utils
from fairseq.data import iterators
from fairseq.data.iterators import BufferedIterator
from fairseq.logging import metrics
from fairseq.models.ema.ema import EMA
from fairseq.nan_detector import NanDetector
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from . import Original, replaces

logger = logging.getLogger(__name__)


def get_command() -> Any:
    """Return the module of fairseq-train. It is None in a program that uses only parts of fairseq."""
    return sys.modules.get("fairseq_cli.train")


class _ValidationInterrupted(BaseException):
    """Exception raised if a signal arrives during validation, so that a checkpoint can be saved immediately."""


class _Interruption:
    """Signal handler that ends training after the current update, so that a checkpoint can be saved first.

    A second signal ends training immediately. Signals are handled only if training uses a single process, because
    several processes would have to react in the same update.
    """

    number = 0
    process = 0
    may_raise = False
    """True during validation in the middle of an epoch."""

    def install_handlers(self) -> None:
        """Start handling SIGINT and SIGTERM, unless the process ignores them."""
        self.process = os.getpid()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if os.getpid() != self.process:  # a data-loading worker, which also receives Ctrl-C: its batch is still needed
            if number == signal.SIGTERM:
                os._exit(128 + number)
            return
        for handled in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(handled) == self._handle_signal:
                signal.signal(handled, signal.SIG_DFL)
        self.number = number
        if self.may_raise:
            raise _ValidationInterrupted


_interruption = _Interruption()


def is_validation_or_saving_due(
    cfg: Any, updates: int, epoch: int, end_of_epoch: bool, is_last: bool
) -> Tuple[bool, bool]:
    """Return whether to validate and whether to save a checkpoint after this update.

    With ``--validate-interval-updates 0`` (the default), the model is validated whenever a checkpoint is saved, as in
    fairseq. With a value N > 0, the model is validated every N updates. With -1, the model is validated only at the end
    of an epoch. In the last two cases, ``--save-interval-updates`` saves checkpoints without validation. A checkpoint
    is saved after each validation in the middle of an epoch, because the best checkpoint might otherwise be missed.
    """
    interval, after = cfg.dataset.validate_interval_updates, cfg.dataset.validate_after_updates
    every = cfg.checkpoint.save_interval_updates
    save = is_last or (end_of_epoch and epoch % cfg.checkpoint.save_interval == 0)
    save = save or (every > 0 and updates > 0 and updates % every == 0 and updates >= after)
    validate = is_last or (end_of_epoch and epoch % cfg.dataset.validate_interval == 0)
    if interval:
        now = interval > 0 and updates > 0 and updates % interval == 0
        validate = validate or now
        save = save or (now and not cfg.dataset.disable_validation and updates >= after)
    else:
        validate = validate or (save and not end_of_epoch)
    return validate and not cfg.dataset.disable_validation and updates >= after, save


def _update_scheduler_and_patience(trainer: Any, loss: Optional[float]) -> bool:
    """Pass a validation result to the scheduler. Return whether --patience now ends training."""
    step = getattr(trainer.lr_scheduler, "step_validation", None)
    if step is not None and loss is not None:
        step(loss)
    return bool(get_command().should_stop_early(trainer.cfg, loss))


def _save_checkpoint(trainer: Any, epoch_itr: Any, loss: Optional[float]) -> None:
    """Save a checkpoint with a validation result."""
    path = checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, epoch_itr, loss)
    trainer.minutes_at_last_save = trainer.cumulative_training_time() / 60
    if path is not None and hasattr(trainer.task, "post_save"):
        trainer.task.post_save(path, trainer.get_num_updates())


def validate_after_resuming(trainer: Any, position: Dict[str, Any]) -> None:
    """Run the validation that a signal prevented at a position in an epoch, and save the checkpoint with its result."""
    at_end = not position.get("iterations_in_epoch")
    epoch = position["epoch"] - at_end  # at the end of an epoch, the position is the start of the next one
    saved = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: at_end, state_dict=lambda: position)
    check_best_metric(trainer.cfg, trainer, epoch)
    subsets = trainer.cfg.dataset.valid_subset.split(",")
    loss = get_command().validate(trainer.cfg, trainer, trainer.task, saved, subsets)[0]
    _update_scheduler_and_patience(trainer, loss)
    _save_checkpoint(trainer, saved, loss)
    if at_end:
        trainer.lr_step(epoch, loss)


def validate_and_save(
    original: Original, cfg: Any, trainer: Any, task: Any, epoch_itr: Any, subsets: List[str], end_of_epoch: bool
) -> Tuple[List[Optional[float]], bool]:
    """Validate the model and save a checkpoint after an update if :func:`is_validation_or_saving_due` requires it.

    After a signal, a checkpoint is saved, and training ends with the status that shells use for the signal.
    """
    updates, limit, hours = trainer.get_num_updates(), cfg.optimization.max_update, cfg.optimization.stop_time_hours
    trained = trainer.cumulative_training_time() / 3600
    stop = 0 < limit <= updates or 0 < hours < trained
    if stop:
        reached = f"num_updates: {updates} >= max_update: {limit}" if 0 < limit <= updates else ""
        reached = reached or f"cumulative_training_time: {trained} > stop_time_hours: {hours} hour(s)"
        logger.info(f"Stopping training due to {reached}")
    validate, save = is_validation_or_saving_due(cfg, updates, epoch_itr.epoch, end_of_epoch, stop)
    losses: List[Optional[float]] = [None]
    if validate and not _interruption.number:
        # Validation at the end of an epoch must not be interrupted, because the scheduler requires the loss.
        _interruption.may_raise = not end_of_epoch
        with contextlib.suppress(_ValidationInterrupted):
            losses = get_command().validate(cfg, trainer, task, epoch_itr, subsets)
        _interruption.may_raise = False
    trainer.validation_is_due = validate and bool(_interruption.number) and losses[0] is None
    stop |= _update_scheduler_and_patience(trainer, losses[0])
    minutes = getattr(cfg.task, "save_interval_minutes", 0) or 0  # the same time in all processes
    is_timed = 0 < minutes <= trainer.cumulative_training_time() / 60 - trainer.minutes_at_last_save
    if save or stop or _interruption.number or is_timed:
        _save_checkpoint(trainer, epoch_itr, losses[0])
    if _interruption.number:
        logger.info(f"Interrupted by {signal.Signals(_interruption.number).name} after {updates} updates")
        raise SystemExit(128 + _interruption.number)
    return losses, stop


def train_epoch(original: Original, cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
    """Train for an epoch, but not beyond --max-update or --patience."""
    updates, command = trainer.get_num_updates(), get_command()
    if 0 < cfg.optimization.max_update <= updates:
        logger.info(f"--max-update {cfg.optimization.max_update}: training is complete after {updates} updates")
        return [None], True
    bad = getattr(command.should_stop_early, "num_runs", 0)
    if 0 < cfg.checkpoint.patience <= bad and not cfg.dataset.disable_validation:
        if _continues_run_in_save_dir(cfg.checkpoint, updates):
            logger.info(
                f"--patience {cfg.checkpoint.patience}: training is complete after {updates} updates, because {bad} "
                "validations in a row were not better than the best one; to continue, choose a larger --patience"
            )
            return [None], True
        command.should_stop_early.num_runs = 0
    if not getattr(trainer, "has_begun", False):
        trainer.has_begun = True
        check_best_metric(cfg, trainer, epoch_itr.epoch)
        trainer.minutes_at_last_save = trainer.cumulative_training_time() / 60
        if hasattr(task, "begin_training"):
            task.begin_training(cfg, epoch_itr)
        is_main = threading.current_thread() is threading.main_thread()
        if cfg.distributed_training.distributed_world_size == 1 and is_main:
            _interruption.install_handlers()
    return original(cfg, trainer, task, epoch_itr)


def has_last_checkpoint(save_dir: str, suffix: str = "") -> bool:
    """Return whether a folder, which need not exist, has the checkpoint from which fairseq-train resumes.

    ``suffix`` is the value of --checkpoint-suffix. A renamed copy such as checkpoint_last_old.pt does not count.
    """
    # With --use-sharded-state, each worker adds a suffix to its file name.
    name = re.compile(rf"checkpoint_last{re.escape(suffix)}(-shard\d+)?\.pt")
    return os.path.isdir(save_dir) and any(name.fullmatch(found) for found in os.listdir(save_dir))


def _continues_run_in_save_dir(options: Any, updates: int) -> bool:
    """Return whether training continues the run in --save-dir, and not another run or with a part of its state."""
    resets = (options.reset_optimizer, options.reset_lr_scheduler, options.reset_dataloader, options.reset_meters)
    if any(resets) or options.finetune_from_model or options.continue_once or updates == 0:
        return False
    is_own = options.restore_file == "checkpoint_last.pt"
    return is_own and has_last_checkpoint(options.save_dir, options.checkpoint_suffix)


def check_best_metric(cfg: Any, trainer: Any, epoch: int) -> None:
    """Check that validation reports ``--best-checkpoint-metric``, by evaluating the first batch of the validation set.

    Raises:
        ValueError: the metric is not reported in validation.
    """
    metric = cfg.checkpoint.best_checkpoint_metric
    if metric == "loss" or cfg.dataset.disable_validation or hasattr(trainer.task, "post_validate"):
        return  # all criterions report a loss, and a task with post_validate may report further metrics
    trainer.begin_valid_epoch(epoch)
    batches = trainer.get_valid_iterator(cfg.dataset.valid_subset.split(",")[0])
    for first in getattr(batches, "frozen_batches", ())[:1]:
        without_summaries = getattr(trainer.task, "without_summaries", contextlib.nullcontext)
        with without_summaries() as further, metrics.aggregate(new_root=True) as found:
            trainer.valid_step(batches.collate_fn([batches.dataset[index] for index in first]))
        reported = {*found.get_smoothed_values(), *(further or ())}
        if metric not in (*reported, "num_updates"):
            choices = ", ".join(sorted(reported - {"bsz", "ups", "wpb", "wps"}))  # without metrics of speed
            raise ValueError(f"--best-checkpoint-metric {metric}: not reported by validation; choose from {choices}")


_plain_train_step = Trainer.train_step


def train_step(trainer: Any, samples: List[Any], *args: Any, **kwargs: Any) -> Any:
    """Make an update without empty batches, and without a visible GPU if training uses the CPU."""
    # With --ddp-backend fully_sharded, all workers must process the same number of batches.
    full = samples if trainer.is_fsdp else [sample for sample in samples if sample is not None and len(sample)]
    with contextlib.ExitStack() as stack:
        if not trainer.cuda:
            stack.enter_context(mock.patch.object(torch.cuda, "is_available", lambda: False))
            stack.enter_context(mock.patch.object(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor))
        return _plain_train_step(trainer, full or samples, *args, **kwargs)


Trainer.train_step = train_step  # directly, because each update calls it


@replaces(EMA, "_step_internal")
def copy_integers(original: Original, average: Any, new_model: torch.nn.Module, updates: Any = None) -> None:
    """Copy integers and booleans with --store-ema; fairseq multiplies them by the decay."""
    tensors = {name: x for name, x in new_model.state_dict().items() if isinstance(x, torch.Tensor)}
    average.skip_keys = {*average.skip_keys, *(name for name, x in tensors.items() if not x.is_floating_point())}
    original(average, new_model, updates)


@replaces(NanDetector, "add_hooks")
def hook_leaves(original: Original, detector: Any, module: torch.nn.Module) -> None:
    """Add backward hooks only to modules without submodules; encoders do not return a tensor, which hooks need."""
    backward = detector.backward
    detector.backward = backward and not any(True for _ in module.children())
    original(detector, module)
    detector.backward = backward


@replaces(_FP16OptimizerMixin, "build_fp32_params")
def build_fp32_params(original: Original, cls: Any, args: Any, params: Any, flatten: bool = True) -> Any:
    """Copy the parameters for --fp16, also on CPUs. Copies of matrices keep their mark (``kernels/linear.py``)."""
    params = list(params)
    on_cpu = all(parameter.device.type == "cpu" for parameter in params)
    no_number = mock.patch.object(torch.cuda, "current_device", lambda: None)
    with no_number if on_cpu else contextlib.nullcontext():
        copies = original(cls, args, params, flatten=flatten)
    for copied, parameter in () if flatten else zip(copies, params):
        copied.is_matrix = getattr(parameter, "is_matrix", False)
    return copies


@replaces(AMPOptimizer, "step")
def unscale_once(original: Original, optimizer: Any) -> Any:
    """Make a step with --amp in which gradients are divided by the loss scale only once.

    fairseq unscales the gradients of torch's optimiser before it clips them, but passes its own optimiser to the step.
    """
    states = getattr(optimizer.scaler, "_per_optimizer_states", {})  # missing without a GPU
    if id(optimizer.optimizer) in states:
        states[id(optimizer.fp32_optimizer)] = states[id(optimizer.optimizer)]
    return original(optimizer)


def skips_overflowing_updates(optimizer: Any) -> bool:
    """Return whether a fairseq optimiser scales the loss and skips updates with overflowing gradients.

    This is the case for optimisers with --fp16 and --amp. With --amp on a CPU, torch disables the scaler.
    """
    scaler = getattr(optimizer, "scaler", None)
    return scaler is not None and (not isinstance(scaler, torch.amp.GradScaler) or scaler.is_enabled())


@replaces(ReduceLROnPlateauLRSchedule, "state_dict")
def save_bad_epochs(original: Original, schedule: Any) -> Dict[str, Any]:
    """Save the counter of --lr-patience."""
    return {**original(schedule), "num_bad_epochs": schedule.lr_scheduler.num_bad_epochs}


@replaces(ReduceLROnPlateauLRSchedule, "load_state_dict")
def load_bad_epochs(original: Original, schedule: Any, state: Dict[str, Any]) -> None:
    """Restore the counter of --lr-patience."""
    original(schedule, state)
    schedule.lr_scheduler.num_bad_epochs = state.get("num_bad_epochs", 0)


_loading: "weakref.WeakSet[BufferedIterator]" = weakref.WeakSet()


@replaces(BufferedIterator, "_create_consumer")
def remember_loading_thread(original: Original, batches: Any) -> None:
    """Start the thread that loads batches in advance, which :func:`stop_loading_threads` stops."""
    original(batches)
    _loading.add(batches)


@atexit.register
def stop_loading_threads(seconds: float = 10.0) -> None:
    """Stop the threads that load batches in advance, in at most ``seconds`` seconds each."""
    for batches in list(_loading):
        thread, deadline = batches._consumer, time.monotonic() + seconds
        thread._max_len = 0
        while thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                while True:
                    batches._queue.get_nowait()  # the thread may be waiting for free space in the queue
            thread.join(0.01)


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
    counter: Any = getattr(get_command(), "should_stop_early", None)
    if hasattr(counter, "best"):
        extra_state = {**extra_state, "patience": {"best": counter.best, "num_runs": counter.num_runs}}
    if getattr(trainer, "validation_is_due", False):
        extra_state = {**extra_state, "validation_is_due": True}
    return original(trainer, filename, extra_state)


@replaces(checkpoint_utils, "load_checkpoint")
def restore_patience(original: Original, cfg: Any, trainer: Any, **arguments: Any) -> Any:
    """Load the checkpoint of a training, restore the counter of --patience, and run a validation that was prevented."""
    extra_state, epoch_itr = original(cfg, trainer, **arguments)
    counter, state = getattr(get_command(), "should_stop_early", None), extra_state or {}
    # fairseq keeps the best score unless the optimiser or the meters are reset, as by --finetune-from-model.
    has_best = getattr(checkpoint_utils.save_checkpoint, "best", None) == state.get("best")
    if counter is not None and "patience" in state and has_best:
        vars(counter).update(state["patience"])
    # The number of updates is 0 if a new training run starts from the checkpoint.
    if state.get("validation_is_due") and trainer.get_num_updates() and not trainer.cfg.dataset.disable_validation:
        validate_after_resuming(trainer, state["train_iterator"])
    return extra_state, epoch_itr
