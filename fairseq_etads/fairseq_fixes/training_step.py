"""Training steps: empty batches, half precision, and state that fairseq does not save or restore."""

import atexit
import contextlib
import queue
import time
import weakref
from typing import Any, Dict, List
from unittest import mock

import torch
from fairseq.data.iterators import BufferedIterator
from fairseq.models.ema.ema import EMA
from fairseq.nan_detector import NanDetector
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from . import Original, replaces

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
