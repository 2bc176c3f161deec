"""Training loop of fairseq-train: when to validate and save, signals, and a plan at the start."""

import contextlib
import logging
import os
import re
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple

from fairseq import checkpoint_utils
from fairseq.logging import metrics

from . import Original

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
