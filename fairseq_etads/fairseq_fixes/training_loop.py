"""Extend the training loop of fairseq-train.

The functions in this module decide when to validate and when to save checkpoints. They also save a checkpoint when
training is interrupted, and log a training plan at the start. :func:`install_patches` replaces parts of
``fairseq_cli.train``. :mod:`.compat` calls it when fairseq-train is running.
"""

import contextlib
import functools
import logging
import math
import os
import re
import signal
import threading
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from .deferred_imports import STATISTICS, defer_imports

with defer_imports(*STATISTICS):
    from fairseq import checkpoint_utils
    from fairseq.logging import metrics

logger = logging.getLogger(__name__)


class _ValidationInterrupted(BaseException):
    """Exception raised if a signal arrives during validation, so that a checkpoint can be saved immediately."""


class InterruptionHandler:
    """Signal handler that ends training after the current update, so that a checkpoint can be saved first.

    It handles SIGINT and SIGTERM. A second signal ends training immediately. A checkpoint is saved only if training
    uses a single process, because several processes would have to react to the signal in the same update.
    """

    def __init__(self) -> None:
        self.number = 0
        self.process = 0
        self.may_raise = False
        """True while the handler may raise an exception: during validation in the middle of an epoch."""
        self.misses_validation = False
        """True if the signal prevented or interrupted a validation that was due."""

    def install_handlers(self) -> None:
        """Start handling the signals, except for signals that the process ignores."""
        if threading.current_thread() is not threading.main_thread():
            return
        self.process = os.getpid()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in (signal.SIG_IGN, self._handle_signal):
                signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if (
            os.getpid() != self.process
        ):  # this is a data-loading worker, which also receives Ctrl-C although its batch is still needed
            if number == signal.SIGTERM:
                os._exit(128 + number)
            return
        for handled in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(handled) == self._handle_signal:
                signal.signal(handled, signal.SIG_DFL)
        self.number = number
        if self.may_raise:
            raise _ValidationInterrupted

    def exit_with_signal_status(self) -> NoReturn:
        """Exit with the status that shells use for the signal."""
        raise SystemExit(128 + self.number)


_interruption = InterruptionHandler()
_last_save = {"minutes": 0.0}


def is_training_over(cfg: Any, trainer: Any) -> bool:
    """Return whether training must end now because of --max-update or --stop-time-hours."""
    updates, limit = trainer.get_num_updates(), cfg.optimization.max_update
    if 0 < limit <= updates:
        logger.info(f"Stopping training due to num_updates: {updates} >= max_update: {limit}")
        return True
    hours, most = trainer.cumulative_training_time() / 3600, cfg.optimization.stop_time_hours
    if 0 < most < hours:
        logger.info(f"Stopping training due to cumulative_training_time: {hours} > stop_time_hours: {most} hour(s)")
        return True
    return False


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


def _is_timed_checkpoint_due(cfg: Any, trainer: Any) -> bool:
    """Return whether at least --save-interval-minutes have passed since the last checkpoint was saved.

    The result is the same in all processes.
    """
    interval = getattr(cfg.task, "save_interval_minutes", 0) or 0
    return bool(0 < interval <= trainer.cumulative_training_time() / 60 - _last_save["minutes"])


def _update_scheduler_and_patience(command: Any, trainer: Any, loss: Optional[float]) -> bool:
    """Pass a validation result to the scheduler. Return whether --patience now ends training."""
    step = getattr(trainer.lr_scheduler, "step_validation", None)
    if step is not None and loss is not None:
        step(loss)
    return bool(command.should_stop_early(trainer.cfg, loss))


def _save_checkpoint(trainer: Any, epoch_itr: Any, loss: Optional[float]) -> None:
    """Save a checkpoint with a validation result."""
    path = checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, epoch_itr, loss)
    _last_save["minutes"] = trainer.cumulative_training_time() / 60
    if path is not None and hasattr(trainer.task, "post_save"):
        trainer.task.post_save(path, trainer.get_num_updates())


def is_validation_missed() -> bool:
    """Return whether a signal prevented a validation that was due. This validation must run when training resumes."""
    return _interruption.misses_validation


def validate_after_resuming(command: Any, trainer: Any, position: Dict[str, Any]) -> None:
    """Run the validation that a signal prevented, and save the checkpoint again with the result.

    Args:
        command: the module ``fairseq_cli.train``.
        trainer: the trainer of fairseq, which has loaded the checkpoint.
        position: the position in the epoch, as stored in the checkpoint.
    """
    at_end = not position.get("iterations_in_epoch")
    epoch = position["epoch"] - at_end  # at the end of an epoch, the position is the start of the next one
    saved = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: at_end, state_dict=lambda: position)
    logger.info(f"validating after {trainer.get_num_updates()} updates, because the validation was interrupted")
    check_best_metric(trainer.cfg, trainer, epoch)
    subsets = trainer.cfg.dataset.valid_subset.split(",")
    loss = command.validate(trainer.cfg, trainer, trainer.task, saved, subsets)[0]
    _update_scheduler_and_patience(command, trainer, loss)
    _save_checkpoint(trainer, saved, loss)
    if at_end:
        trainer.lr_step(epoch, loss)


def _make_validate_and_save(command: Any) -> Callable[..., Any]:
    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: List[str], end_of_epoch: bool
    ) -> Tuple[List[Optional[float]], bool]:
        """Validate the model and save a checkpoint after an update if :func:`is_validation_or_saving_due` requires it.

        This function replaces the function of the same name in fairseq.
        """
        stop = is_training_over(cfg, trainer)
        validate, save = is_validation_or_saving_due(
            cfg, trainer.get_num_updates(), epoch_itr.epoch, end_of_epoch, stop
        )
        losses: List[Optional[float]] = [None]
        if validate and not _interruption.number:
            # Validation at the end of an epoch must not be interrupted, because the scheduler requires the loss.
            _interruption.may_raise = not end_of_epoch
            try:
                losses = command.validate(cfg, trainer, task, epoch_itr, valid_subsets)
            except _ValidationInterrupted:
                pass
            finally:
                _interruption.may_raise = False
        _interruption.misses_validation = validate and bool(_interruption.number) and losses[0] is None
        stop |= _update_scheduler_and_patience(command, trainer, losses[0])
        if save or stop or _interruption.number or _is_timed_checkpoint_due(cfg, trainer):
            _save_checkpoint(trainer, epoch_itr, losses[0])
        if _interruption.number:
            name = signal.Signals(_interruption.number).name
            logger.info(f"Interrupted by {name} after {trainer.get_num_updates()} updates")
            _interruption.exit_with_signal_status()
        return losses, stop

    validate_and_save.is_patched = True  # type: ignore[attr-defined]
    return validate_and_save


def wrap_train_epoch(train: Callable[..., Any], command: Any) -> Callable[..., Any]:
    """Wrap fairseq-train's ``train``, so that it logs the plan first and never exceeds --max-update or --patience.

    ``train`` runs one epoch. fairseq checks the number of updates only after an update, and --patience only after a
    validation. If a completed run were started again, fairseq would therefore train until the next of these checks.
    """

    @functools.wraps(train)
    def train_epoch(cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
        limit = cfg.optimization.max_update
        if 0 < limit <= trainer.get_num_updates():
            logger.info(f"--max-update {limit}: training is complete after {trainer.get_num_updates()} updates")
            return [None], True
        bad = getattr(command.should_stop_early, "num_runs", 0)
        if 0 < cfg.checkpoint.patience <= bad and not cfg.dataset.disable_validation:
            if _continues_run_in_save_dir(cfg, trainer):
                logger.info(
                    f"--patience {cfg.checkpoint.patience}: training is complete after {trainer.get_num_updates()} "
                    f"updates, because {bad} validations in a row were not better than the best one; to continue, "
                    "choose a larger --patience"
                )
                return [None], True
            command.should_stop_early.num_runs = 0
        if not getattr(train_epoch, "has_begun", False):
            train_epoch.has_begun = True  # type: ignore[attr-defined]
            check_best_metric(cfg, trainer, epoch_itr.epoch)
            check_batch_order_seed(cfg, task)
            _last_save["minutes"] = trainer.cumulative_training_time() / 60
            for line in describe_training_plan(cfg, epoch_itr):
                logger.info(f"training plan: {line}")
            if cfg.distributed_training.distributed_world_size == 1:
                _interruption.install_handlers()
        return train(cfg, trainer, task, epoch_itr)

    train_epoch.is_patched = True  # type: ignore[attr-defined]
    return train_epoch


def has_last_checkpoint(save_dir: str, suffix: str = "") -> bool:
    """Return whether a folder contains the checkpoint from which fairseq-train resumes.

    A renamed copy such as checkpoint_last_old.pt does not count.

    Args:
        save_dir: the folder, which need not exist.
        suffix: the value of --checkpoint-suffix.
    """
    # With --use-sharded-state, each worker adds a suffix to its file name.
    name = re.compile(rf"checkpoint_last{re.escape(suffix)}(-shard\d+)?\.pt")
    return os.path.isdir(save_dir) and any(name.fullmatch(found) for found in os.listdir(save_dir))


def _continues_run_in_save_dir(cfg: Any, trainer: Any) -> bool:
    """Return whether training continues the run in --save-dir with the same optimiser and schedule.

    Training that starts from a checkpoint of another run or resets part of the state counts as a new run.
    """
    options = cfg.checkpoint
    changed = options.finetune_from_model or options.continue_once or options.reset_optimizer
    changed = changed or options.reset_lr_scheduler or options.reset_dataloader or options.reset_meters
    is_own = options.restore_file == "checkpoint_last.pt"
    is_own = is_own and has_last_checkpoint(options.save_dir, options.checkpoint_suffix)
    return bool(is_own and not changed and trainer.get_num_updates() > 0)


def check_batch_order_seed(cfg: Any, task: Any) -> None:
    """Check that --update-ordered-indices-seed has an effect.

    If the batches of all epochs are created at once, the option merely adds to their seed the number of the epoch in
    which the process starts. Resumed training would therefore use different batches.

    Raises:
        ValueError: the option is set, but the batches are not created separately for each epoch.
    """
    options = cfg.dataset
    if not options.update_ordered_indices_seed or options.update_epoch_batch_itr or task.has_sharded_data("train"):
        return
    if task.can_reuse_epoch_itr(task.dataset(options.train_subset)):
        raise ValueError(
            "--update-ordered-indices-seed has no effect, because the batches of all epochs are created at once: leave "
            "it out, or add --update-epoch-batch-itr, which creates them for each epoch"
        )


def check_best_metric(cfg: Any, trainer: Any, epoch: int) -> None:
    """Check that validation reports the metric specified by ``--best-checkpoint-metric``.

    Without this check, fairseq would raise a KeyError, but only at the end of the first validation. The available
    metrics depend on the criterion, the model and the data. They are determined by evaluating one batch of the first
    validation set.

    Raises:
        ValueError: the metric is not reported in validation.
    """
    metric = cfg.checkpoint.best_checkpoint_metric
    if metric == "loss" or cfg.dataset.disable_validation or hasattr(trainer.task, "post_validate"):
        return  # all criterions report a loss, and a task with post_validate may report further metrics
    reported = _find_reported_metrics(trainer, cfg.dataset.valid_subset.split(",")[0], epoch)
    if reported and metric not in (*reported, "num_updates"):
        choices = ", ".join(name for name in reported if name not in _NO_QUALITY)
        raise ValueError(f"--best-checkpoint-metric {metric}: not reported by the validation; choose from {choices}")


_NO_QUALITY = ("bsz", "ups", "wpb", "wps")
"""Metrics that are always reported in validation, but describe batches and speed rather than quality."""


def _find_reported_metrics(trainer: Any, subset: str, epoch: int) -> List[str]:
    """Evaluate the first batch of a validation set, and return the names of all reported metrics.

    The list is empty if the validation set does not contain any batches.
    """
    trainer.begin_valid_epoch(epoch)
    batches = trainer.get_valid_iterator(subset)
    first = next(iter(getattr(batches, "frozen_batches", ())), None)
    if first is None:
        return []
    sample = batches.collate_fn([batches.dataset[index] for index in first])
    without_summaries = getattr(trainer.task, "without_summaries", contextlib.nullcontext)
    with without_summaries() as further, metrics.aggregate(new_root=True) as found:
        trainer.valid_step(sample)
    return sorted({*found.get_smoothed_values(), *(further or ())})


def _format_epochs(updates: float, updates_per_epoch: int) -> str:
    epochs = updates / updates_per_epoch
    return f"{epochs:.{0 if epochs == round(epochs) else 2 if epochs < 1 else 1}f} epoch{'' if epochs == 1 else 's'}"


def describe_training_plan(cfg: Any, epoch_itr: Any) -> List[str]:
    """Return lines of text that describe how training will proceed with the given options.

    They contain the number of updates per epoch, the validation interval, the patience, the peak learning rate and the
    batch size.

    Args:
        epoch_itr: batch iterator over the first epoch.
    """
    freq = cfg.optimization.update_freq[0]
    per_epoch = max(math.ceil(len(epoch_itr) / freq), 1)
    lines = [f"{per_epoch:,} updates in an epoch"]
    interval, saves = cfg.dataset.validate_interval_updates, cfg.checkpoint.save_interval_updates
    every = interval if interval > 0 else saves if interval == 0 and saves > 0 else 0
    if cfg.dataset.disable_validation:
        lines.append("no validation")
    elif every > 0:
        at_end = " and at the end of each epoch" if cfg.dataset.validate_interval == 1 else ""
        lines.append(f"validation every {every:,} updates ({_format_epochs(every, per_epoch)}){at_end}")
    else:
        epochs = cfg.dataset.validate_interval
        every = epochs * per_epoch
        lines.append(f"validation every {every:,} updates ({_format_epochs(every, per_epoch)})")
    patience = cfg.checkpoint.patience
    if patience > 0 and not cfg.dataset.disable_validation:
        # Validations at the end of an epoch are also counted, so training may end earlier.
        most = patience * every
        metric = cfg.checkpoint.best_checkpoint_metric
        lines.append(
            f"patience: training ends after {patience} validations without a better {metric}, at most {most:,} updates "
            f"({_format_epochs(most, per_epoch)})"
        )
    scheduler = getattr(cfg.lr_scheduler, "_name", None) or "fixed"
    warmup = getattr(cfg.lr_scheduler, "warmup_updates", 0) or 0
    after = f" after {warmup:,} updates of warm-up" if warmup else ""
    lines.append(f"peak rate {max(cfg.optimization.lr):.3g}{after} ({scheduler})")
    tokens = _compute_mean_source_tokens(epoch_itr)
    if tokens is not None:
        shards = getattr(epoch_itr, "num_shards", 1) * freq
        update = f", {tokens * shards:,.0f} in an update" if shards > 1 else ""
        lines.append(f"{tokens:,.0f} source tokens in a batch on average{update}")
    return lines


def _compute_mean_source_tokens(epoch_itr: Any) -> Optional[float]:
    """Return the mean number of source tokens per batch, or None if the document lengths are unknown."""
    sizes, batches = getattr(epoch_itr.dataset, "src_sizes", None), getattr(epoch_itr, "frozen_batches", None)
    if sizes is None or not batches:
        return None
    try:
        return sum(float(sizes[list(batch)].sum()) for batch in batches) / len(batches)
    except (IndexError, TypeError, ValueError):
        return None


def install_patches(command: Any) -> None:
    """Patch the module ``fairseq_cli.train``. This function can be called repeatedly."""
    if not hasattr(command.train, "is_patched"):
        command.train = wrap_train_epoch(command.train, command)
        command.validate_and_save = _make_validate_and_save(command)
