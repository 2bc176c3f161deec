"""Patch fairseq and torch. The patches depend on the versions of these packages.

:func:`install_patches` is called when the plugin is imported and when the task is set up. It can be called repeatedly.
"""

import argparse
import atexit
import collections
import contextlib
import functools
import logging
import os
import pickle
import queue
import re
import shutil
import struct
import sys
import time
import typing
import weakref
import zipfile
import zlib
from pathlib import Path
from typing import Any, Callable, Iterator, List, NoReturn, Optional, Tuple
from unittest import mock

import torch

from .deferred_imports import speed_up_fairseq_import

with speed_up_fairseq_import():
    from fairseq import checkpoint_utils, file_io, utils
    from fairseq.data import iterators
    from fairseq.data.encoders.gpt2_bpe import GPT2BPE
    from fairseq.distributed import utils as distributed_utils
    from fairseq.file_io import PathManager
    from fairseq.logging import meters
    from fairseq.models.ema.ema import EMA
    from fairseq.nan_detector import NanDetector
    from fairseq.optim.amp_optimizer import AMPOptimizer
    from fairseq.optim.fp16_optimizer import MemoryEfficientFP16Optimizer, _FP16OptimizerMixin
    from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
    from fairseq.tasks.fairseq_task import StatefulContainer
    from fairseq.trainer import Trainer

from . import resuming, training_loop

logger = logging.getLogger(__name__)


class UnsafeCheckpointError(RuntimeError):
    """Exception raised if a checkpoint contains more than tensors and settings. Loading it could execute code."""


def _list_checkpoint_classes() -> List[Any]:
    """Return the classes in fairseq's checkpoints that torch does not allow by default.

    Creating instances of these classes does not execute any code in the checkpoint.
    """
    import omegaconf
    from omegaconf import base, nodes

    classes: List[Any] = [argparse.Namespace, collections.defaultdict, dict, list, int, float]
    # torch reads the ``__qualname__`` of each class. In Python 3.9, typing.Any is not a class and does not have this
    # attribute.
    classes.append(typing.Any if hasattr(typing.Any, "__qualname__") else (typing.Any, "typing.Any"))
    classes += [omegaconf.DictConfig, omegaconf.ListConfig, base.ContainerMetadata, base.Metadata]
    # Instances of this class replace the tensors in a checkpoint that a worker sends to other workers.
    classes.append(distributed_utils._TensorPlaceholder)
    classes += [node for node in vars(nodes).values() if isinstance(node, type) and issubclass(node, base.Node)]
    # Checkpoints from 2019, such as BART's, contain meters that were pickled under the name of a module that was
    # renamed later.
    averages = (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
    classes += [type(meter.__name__, (meter,), {"__module__": "fairseq.meters"}) for meter in averages]
    return classes


class _UnreadableFileError(Exception):
    """Exception raised if a file cannot be read with torch.load."""


@contextlib.contextmanager
def _load_weights_only() -> Iterator[None]:
    """Context manager in which torch.load uses weights_only=True, regardless of torch's default and the environment.

    If a file was not written by torch.save, torch raises various errors with messages that recommend disabling this
    protection. These errors are therefore replaced with _UnreadableFileError.
    """
    plain_load = torch.load

    @functools.wraps(plain_load)
    def load(*args: Any, **kwargs: Any) -> Any:
        try:
            return plain_load(*args, **{**kwargs, "weights_only": True})
        except (pickle.UnpicklingError, MemoryError, OSError):
            raise
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            readable = "PytorchStreamReader" in first or isinstance(error, EOFError)
            raise _UnreadableFileError(
                (first or "it ends early") if readable else "it was not written by torch.save"
            ) from None

    torch.load = load
    try:
        yield
    finally:
        torch.load = plain_load


class DamagedCheckpointError(RuntimeError):
    """Exception raised if a checkpoint is damaged."""


def _describe_damage(path: str) -> str:
    """Return a description of the damage in a checkpoint file, or an empty string if the file is intact.

    torch saves a checkpoint as a zip archive with a CRC-32 checksum for each tensor, but does not verify these
    checksums when it loads the file. Verification takes 0.4 s per GiB. Checkpoints from torch versions before 1.6 are
    not zip archives and do not contain checksums.
    """
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return ""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (
        zipfile.BadZipFile,
        EOFError,
        OSError,
        RuntimeError,
        ValueError,
        OverflowError,
        struct.error,
        zlib.error,
    ) as e:
        return str(e) or type(e).__name__  # the error describes an incorrect checksum, offset or length
    return f"the checksum of {damaged} is wrong" if damaged else ""


def _is_complete_archive(path: str) -> bool:
    """Return whether a file is an archive that was written by torch.save and contains correct checksums."""
    if not zipfile.is_zipfile(path) or _describe_damage(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name for name in names)


def _read_training_progress(path: str) -> Tuple[int, bool]:
    """Return the number of updates after which a checkpoint was saved, and whether training can resume from it.

    The result is (-1, False) if the file is not a checkpoint, or if it was saved because training failed (crash.pt).
    The tensors in the file are not read.
    """
    try:
        with _load_weights_only():
            state = torch.load(path, map_location="cpu", mmap=True)
        updates = int(state["optimizer_history"][-1]["num_updates"])
        if not isinstance(state["model"], dict) or "train_iterator" not in state["extra_state"]:
            return -1, False
        return updates, state.get("last_optimizer_state") is not None
    # Various errors can occur (see _load_weights_only). A checkpoint that causes an error is never recommended.
    except Exception:
        return -1, False


def _raise_damaged_checkpoint_error(path: str, reason: str) -> NoReturn:
    """Raise DamagedCheckpointError. The message describes the damage and recommends another checkpoint in the folder.

    Checkpoints from which training can resume take precedence over checkpoints that can only be used for generation.
    Among equally suitable checkpoints, the one with the most updates is recommended.
    """
    others = [str(file) for file in Path(path).parent.glob("*.pt") if file.name != Path(path).name]
    found = []
    for file in others:
        updates, is_resumable = _read_training_progress(file)
        if updates >= 0:
            found.append((is_resumable, updates, os.path.getmtime(file), file))
    best = next((entry for entry in sorted(found, reverse=True) if _is_complete_archive(entry[-1])), None)
    training, generation = "--restore-file (training)", "--path (generation; --checkpoint of etads-summarize)"
    if best is None:
        advice = f"Name another checkpoint with {training} or {generation}"
    elif best[0]:
        advice = f"{best[-1]}, saved after {best[1]:,} updates, is complete: name it with {training} or {generation}"
    else:
        advice = f"{best[-1]} is complete: name it with {generation}. Training cannot resume from any file here"
    raise DamagedCheckpointError(f"{path}: not a complete checkpoint ({reason}). {advice}.") from None


def _reject_unsafe_checkpoints(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``load_checkpoint_to_cpu`` to reject files that are damaged or contain unsafe classes."""

    @functools.wraps(load_checkpoint)
    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        reason = _describe_damage(path) if os.path.isfile(path) else ""
        if reason:
            _raise_damaged_checkpoint_error(path, reason)
        try:
            with _load_weights_only():
                return load_checkpoint(path, *args, **kwargs)
        except pickle.UnpicklingError as error:
            found = re.search(r"(?:GLOBAL|class) ([\w.]+)", str(error))
            what = f"it refers to {found.group(1)}" if found else "it was not written by torch.save"
            raise UnsafeCheckpointError(
                f"{path}: refused, because {what}. A fairseq checkpoint contains only tensors and settings; a file "
                "with any other content can run code when it is loaded. Get the file from its author again. If you "
                "trust it, save it again without this object."
            ) from None
        except _UnreadableFileError as error:
            _raise_damaged_checkpoint_error(path, str(error))

    load_checkpoint_to_cpu.is_safe = True  # type: ignore[attr-defined]
    return load_checkpoint_to_cpu


def _overwrite_failed_checkpoint_save(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``_torch_persistent_save``, so that a second attempt to save a checkpoint overwrites the first.

    Without this patch, fairseq would append to the incomplete data from the first attempt.
    """

    @functools.wraps(save)
    def persistent_save(obj: Any, f: Any) -> Any:
        if not isinstance(f, str) and f.seekable():
            plain_save = torch.save

            def save_from_the_start(*args: Any, **kwargs: Any) -> None:
                f.seek(0)
                f.truncate()
                plain_save(*args, **kwargs)

            with mock.patch.object(torch, "save", save_from_the_start):
                return save(obj, f)
        return save(obj, f)

    persistent_save.is_patched = True  # type: ignore[attr-defined]
    return persistent_save


def _copy_atomically(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a local file atomically. fairseq's ``PathManager.copy`` is replaced with this function.

    fairseq writes a checkpoint atomically and then copies it to checkpoint_last.pt. If the process were killed during
    an ordinary copy, checkpoint_last.pt would be incomplete, and training could not resume from it.
    """
    partial = f"{dst_path}.partial"
    shutil.copyfile(src_path, partial)
    os.replace(partial, dst_path)
    return True


def parse_replacements_file(replace_unk: str) -> str:
    """Return the FILE in ``--replace-unk FILE``, or an empty string if no file is specified.

    If no file is specified, fairseq sets the option to "@@ ".
    """
    return "" if replace_unk == "@@ " else replace_unk


def _avoid_attribute_recursion(plain: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Wrap the ``__getattr__`` method of fairseq's task state to avoid infinite recursion.

    If the state has no fields, the original method calls itself endlessly. This occurs while a state is being unpickled
    or copied, so without the wrapper, tasks could be neither unpickled nor copied.
    """

    @functools.wraps(plain)
    def get(state: Any, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return plain(state, name)

    get.is_patched = True  # type: ignore[attr-defined]
    return get


def _allow_missing_alignments(load_align_dict: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``load_align_dict``, so that ``--replace-unk`` can be used without a file."""

    @functools.wraps(load_align_dict)
    def load(replace_unk: Any) -> Any:
        return load_align_dict(None if replace_unk is None else parse_replacements_file(replace_unk))

    load.is_patched = True  # type: ignore[attr-defined]
    return load


def _check_model_overrides(load_models: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``load_model_ensemble_and_task``, so that the task checks ``--model-overrides`` first."""

    @functools.wraps(load_models)
    def load(filenames: Any, arg_overrides: Any = None, task: Any = None, *args: Any, **kwargs: Any) -> Any:
        check = getattr(task, "check_model_overrides", None)
        if check is not None and arg_overrides:
            check(arg_overrides)
        return load_models(filenames, arg_overrides, task, *args, **kwargs)

    load.is_checking = True  # type: ignore[attr-defined]
    return load


_PIECE = re.compile(r"\d+|<unk>|<mask>")


def _ignore_invalid_bpe_tokens(decode: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    """Wrap the ``decode`` method of ``--bpe gpt2``, which raises an error for words that are not numbers.

    The word "<<unk>>", which represents the unknown word in references, is decoded to "<unk>". Padding words in BART's
    dictionary, such as "madeupword0000", do not represent text and are dropped.
    """

    @functools.wraps(decode)
    def decode_pieces(self: Any, x: str) -> str:
        return decode(self, " ".join(filter(_PIECE.fullmatch, x.replace("<<unk>>", "<unk>").split())))

    decode_pieces.is_patched = True  # type: ignore[attr-defined]
    return decode_pieces


_loaders: "weakref.WeakSet[iterators.BackgroundConsumer]" = weakref.WeakSet()


def _copy_weight_matrix_marks(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``build_fp32_params``, so that copies of marked matrices are also marked (see ``kernels/linear.py``).

    The wrapper also enables --fp16 on CPUs. fairseq groups parameters by the index of their GPU, but parameters on a
    CPU do not have such an index.
    """

    @functools.wraps(build)
    def build_fp32_params(cls: Any, args: Any, params: Any, flatten: bool = True) -> Any:
        params = list(params)
        on_cpu = all(parameter.device.type == "cpu" for parameter in params)
        no_number = mock.patch.object(torch.cuda, "current_device", lambda: None)
        with no_number if on_cpu else contextlib.nullcontext():
            copies = build(cls, args, params, flatten=flatten)
        if not flatten:
            for copied, original in zip(copies, params):
                copied.is_matrix = getattr(original, "is_matrix", False)
        return copies

    build_fp32_params.is_patched = True  # type: ignore[attr-defined]
    return build_fp32_params


def _clip_gradients_on_their_device(clip: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``clip_grad_norm_``, which would otherwise move norms to a visible GPU even with --cpu."""

    @functools.wraps(clip)
    def clip_grad_norm(params: Any, max_norm: float, aggregate_norm_fn: Any = None) -> Any:
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        gradients = [p.grad for p in params if getattr(p, "grad", None) is not None]
        on_cpu = all(gradient.device.type == "cpu" for gradient in gradients)
        no_gpu = mock.patch.object(torch.cuda, "is_available", lambda: False)
        with no_gpu if on_cpu else contextlib.nullcontext():
            return clip(params, max_norm, aggregate_norm_fn)

    clip_grad_norm.is_patched = True  # type: ignore[attr-defined]
    return clip_grad_norm


def _correct_train_step(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Trainer.train_step`` to correct the handling of empty batches and of overflows with --fp16 on CPUs.

    With --update-freq, the last update in an epoch may consist of several batches followed by an empty batch. fairseq
    replaces the empty batch with another batch and ignores the gradient of that batch, but it then sets the number of
    sentences in all batches to 0. As a result, the gradients are divided by a number that is too small. Updates that
    consist only of an empty batch are processed correctly. With --ddp-backend fully_sharded, the batches are not
    changed, because all workers must then process the same number of batches.

    Without a GPU, fairseq cannot skip an update if its gradients overflow with --fp16.
    """

    @functools.wraps(train_step)
    def step(self: Any, samples: Any, *args: Any, **kwargs: Any) -> Any:
        full = samples if self.is_fsdp else [sample for sample in samples if sample is not None and len(sample)]
        if self.cuda or not self.cfg.common.fp16:
            return train_step(self, full or samples, *args, **kwargs)
        with mock.patch.object(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor):
            return train_step(self, full or samples, *args, **kwargs)

    step.is_patched = True  # type: ignore[attr-defined]
    return step


MEMORY_EFFICIENT = ("adam", "lazy_adam", "adafactor", "adamax", "nag")
"""Optimisers that do not require a full-precision copy of the weights."""


def _name_optimizer_in_error(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``MemoryEfficientFP16Optimizer.build_optimizer``, so that its error message names the option."""

    @functools.wraps(build)
    def build_optimizer(cls: Any, cfg: Any, params: Any, **kwargs: Any) -> Any:
        try:
            return build(cls, cfg, params, **kwargs)
        except ValueError as error:
            if not str(error).startswith("Unsupported optimizer"):
                raise
            flag = "--memory-efficient-bf16" if cfg.common.memory_efficient_bf16 else "--memory-efficient-fp16"
            raise ValueError(
                f"{flag} does not go with --optimizer {cfg.optimizer._name}: choose from "
                f"{', '.join(MEMORY_EFFICIENT)}, "
                f"or give {flag.replace('memory-efficient-', '')}"
            ) from None

    build_optimizer.is_patched = True  # type: ignore[attr-defined]
    return build_optimizer


def _unscale_gradients_once(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``AMPOptimizer.step``, so that gradients are divided by the loss scale of --amp only once.

    fairseq uses torch's scaler to unscale the gradients before they are clipped. For the step, it passes a different
    optimiser object to the scaler, which therefore divides the gradients a second time. This hardly affects Adam, but
    the steps of SGD and Adagrad become far too small.
    """

    @functools.wraps(step)
    def step_once(self: Any) -> Any:
        # Without a GPU, the scaler does not have this attribute.
        states = getattr(self.scaler, "_per_optimizer_states", {})
        if id(self.optimizer) in states:
            states[id(self.fp32_optimizer)] = states[id(self.optimizer)]
        return step(self)

    step_once.is_patched = True  # type: ignore[attr-defined]
    return step_once


def _check_norm_without_scaler(clip: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``AMPOptimizer.clip_grad_norm`` for CPUs, on which torch disables the scaler of --amp.

    If a gradient is not finite, fairseq would read the backoff factor of the scaler, but a disabled scaler has none.

    Raises:
        FloatingPointError: a gradient is not finite. Training without --amp raises the same error.
    """

    @functools.wraps(clip)
    def clip_grad_norm(self: Any, max_norm: float, aggregate_norm_fn: Any = None) -> Any:
        if self.scaler.is_enabled():
            return clip(self, max_norm, aggregate_norm_fn)
        norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
        if not torch.isfinite(norm).all():
            raise FloatingPointError("gradients are Nan/Inf")
        return norm

    return clip_grad_norm


def _save_bad_epochs(get_state: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``state_dict`` of ``--lr-scheduler reduce_lr_on_plateau``, so that it includes the counter of --lr-patience.

    Otherwise, resumed training would start counting from 0 again.
    """

    @functools.wraps(get_state)
    def state_dict(self: Any) -> Any:
        return {**get_state(self), "num_bad_epochs": self.lr_scheduler.num_bad_epochs}

    state_dict.is_patched = True  # type: ignore[attr-defined]
    return state_dict


def _load_bad_epochs(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``load_state_dict`` of ``--lr-scheduler reduce_lr_on_plateau`` to restore the counter of --lr-patience."""

    @functools.wraps(load)
    def load_state_dict(self: Any, state_dict: Any) -> None:
        load(self, state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict.get("num_bad_epochs", 0)

    return load_state_dict


def _copy_integers_in_ema(average: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the averaging of ``--store-ema``, so that integers and booleans are copied instead of averaged.

    fairseq would multiply them by the decay, which causes an error in torch.
    """

    @functools.wraps(average)
    def step(self: Any, new_model: torch.nn.Module, updates: Optional[int] = None) -> None:
        tensors = {name: x for name, x in new_model.state_dict().items() if isinstance(x, torch.Tensor)}
        self.skip_keys = {*self.skip_keys, *(name for name, x in tensors.items() if not x.is_floating_point())}
        average(self, new_model, updates)

    step.is_patched = True  # type: ignore[attr-defined]
    return step


def _limit_backward_hooks(add_hooks: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``NanDetector.add_hooks``, so that it adds backward hooks only to modules without submodules.

    If a gradient is not finite, fairseq repeats the update with these hooks. torch would then raise StopIteration for
    modules that do not return a tensor, such as encoders.
    """

    @functools.wraps(add_hooks)
    def add(self: Any, module: torch.nn.Module) -> None:
        backward = self.backward
        self.backward = backward and not any(True for _ in module.children())
        add_hooks(self, module)
        self.backward = backward

    add.is_patched = True  # type: ignore[attr-defined]
    return add


class _StoppableLoader(iterators.BackgroundConsumer):
    """fairseq's thread for loading batches in advance, with an additional method that stops the thread.

    fairseq does not stop this thread before the interpreter exits. If training ends in the middle of an epoch while the
    thread is executing torch code, the process aborts ("terminate called without an active exception"). The exit status
    then indicates a failure, although all work is complete.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        _loaders.add(self)

    def stop_loading(self, seconds: float) -> None:
        """Stop the thread after it has loaded its current batch. Wait for at most ``seconds`` seconds."""
        self._max_len = 0
        deadline = time.monotonic() + seconds
        while self.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._queue.get_nowait()  # the thread may be waiting for free space in the queue
            self.join(0.01)


def _stop_loaders() -> None:
    for loader in list(_loaders):
        loader.stop_loading(seconds=10.0)


def install_patches() -> None:
    """Apply all patches to fairseq. This function can be called repeatedly.

    The patches affect the following parts:

    - checkpoints: safe loading, atomic copies, pickling of tasks, and checks of ``--model-overrides``;
    - fairseq-train: the training loop, resuming, the counter of ``--lr-patience``, ``--store-ema``, stopping
      threads, and empty batches;
    - optimisers: marked matrices in half precision, ``--fp16`` on CPUs, error messages for unsupported optimisers,
      gradient clipping with ``--cpu``, the loss scale of ``--amp``, and the search for non-finite gradients;
    - text: ``--replace-unk`` without a file, and ``--bpe gpt2`` with words that are not pieces.
    """
    torch.serialization.add_safe_globals(_list_checkpoint_classes())
    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "is_safe"):
        checkpoint_utils.load_checkpoint_to_cpu = _reject_unsafe_checkpoints(checkpoint_utils.load_checkpoint_to_cpu)
    if not hasattr(checkpoint_utils.load_model_ensemble_and_task, "is_checking"):
        checkpoint_utils.load_model_ensemble_and_task = _check_model_overrides(
            checkpoint_utils.load_model_ensemble_and_task
        )
    if file_io.IOPathManager is None:
        PathManager.copy = staticmethod(_copy_atomically)
    if not hasattr(checkpoint_utils._torch_persistent_save, "is_patched"):
        checkpoint_utils._torch_persistent_save = _overwrite_failed_checkpoint_save(
            checkpoint_utils._torch_persistent_save
        )
    # When the plugin is imported, the module is fully imported only if the command is fairseq-train.
    command: Any = sys.modules.get("fairseq_cli.train")
    if hasattr(command, "train"):
        training_loop.install_patches(command)
        resuming.install_patches(command)
    if not hasattr(GPT2BPE.decode, "is_patched"):
        GPT2BPE.decode = _ignore_invalid_bpe_tokens(GPT2BPE.decode)
    if not hasattr(utils.load_align_dict, "is_patched"):
        utils.load_align_dict = _allow_missing_alignments(utils.load_align_dict)
    if not hasattr(StatefulContainer.__getattr__, "is_patched"):
        StatefulContainer.__getattr__ = _avoid_attribute_recursion(StatefulContainer.__getattr__)
    if not hasattr(_FP16OptimizerMixin.build_fp32_params, "is_patched"):
        _FP16OptimizerMixin.build_fp32_params = classmethod(
            _copy_weight_matrix_marks(_FP16OptimizerMixin.build_fp32_params.__func__)
        )
    if not hasattr(MemoryEfficientFP16Optimizer.build_optimizer, "is_patched"):
        build = MemoryEfficientFP16Optimizer.build_optimizer.__func__
        MemoryEfficientFP16Optimizer.build_optimizer = classmethod(_name_optimizer_in_error(build))
    if not hasattr(utils.clip_grad_norm_, "is_patched"):
        utils.clip_grad_norm_ = _clip_gradients_on_their_device(utils.clip_grad_norm_)
    if not hasattr(Trainer.train_step, "is_patched"):
        Trainer.train_step = _correct_train_step(Trainer.train_step)
    if not hasattr(ReduceLROnPlateauLRSchedule.state_dict, "is_patched"):
        schedule = ReduceLROnPlateauLRSchedule
        schedule.state_dict = _save_bad_epochs(schedule.state_dict)
        schedule.load_state_dict = _load_bad_epochs(schedule.load_state_dict)
    if not hasattr(EMA._step_internal, "is_patched"):
        EMA._step_internal = _copy_integers_in_ema(EMA._step_internal)
    if not hasattr(NanDetector.add_hooks, "is_patched"):
        NanDetector.add_hooks = _limit_backward_hooks(NanDetector.add_hooks)
    if not hasattr(AMPOptimizer.step, "is_patched"):
        AMPOptimizer.step = _unscale_gradients_once(AMPOptimizer.step)
        AMPOptimizer.clip_grad_norm = _check_norm_without_scaler(AMPOptimizer.clip_grad_norm)
    if iterators.BackgroundConsumer is not _StoppableLoader:
        iterators.BackgroundConsumer = _StoppableLoader
        atexit.register(_stop_loaders)


def skips_overflowing_updates(optimizer: Any) -> bool:
    """Return whether a fairseq optimiser scales the loss and skips updates with overflowing gradients.

    This is the case for optimisers with --fp16 and --amp. With --amp on a CPU, torch disables the scaler.
    """
    scaler = getattr(optimizer, "scaler", None)
    return scaler is not None and (not isinstance(scaler, torch.amp.GradScaler) or scaler.is_enabled())
