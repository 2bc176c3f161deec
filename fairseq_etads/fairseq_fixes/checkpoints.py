"""Checkpoints: nothing in a file runs code when it is loaded, and files on disk are always complete."""

import argparse
import collections
import os
import shutil
import time
import typing
from typing import Any
from unittest import mock

import omegaconf
import torch
from fairseq import checkpoint_utils, file_io
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from omegaconf import base, nodes

from . import Original, replaces

torch.serialization.add_safe_globals(
    [
        *(argparse.Namespace, collections.defaultdict, dict, list, int, float),
        # torch reads the __qualname__ of each class, which typing.Any does not have in Python 3.9.
        typing.Any if hasattr(typing.Any, "__qualname__") else (typing.Any, "typing.Any"),
        *(omegaconf.DictConfig, omegaconf.ListConfig, base.ContainerMetadata, base.Metadata),
        *(node for node in vars(nodes).values() if isinstance(node, type) and issubclass(node, base.Node)),
        distributed_utils._TensorPlaceholder,  # replaces tensors in a checkpoint that is sent to workers
        # Published checkpoints from 2019, such as BART's, name these classes by a module that was renamed later.
        *(
            type(meter.__name__, (meter,), {"__module__": "fairseq.meters"})
            for meter in (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
        ),
    ]
)


class UnsafeCheckpointError(RuntimeError):
    """Exception raised if a file is not a complete checkpoint of tensors and settings. Loading it could run code."""


@replaces(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_safely(original: Original, path: str, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint with ``weights_only=True``, regardless of torch's default and the environment.

    Raises UnsafeCheckpointError if the file is damaged or contains other objects. torch's own message recommends to
    switch the protection off.
    """
    plain_load = torch.load

    def load(*arguments: Any, **options: Any) -> Any:
        try:
            return plain_load(*arguments, **{**options, "weights_only": True})
        except (MemoryError, OSError):
            raise
        except Exception:
            raise UnsafeCheckpointError(
                f"{path}: refused, because it is damaged or contains more than tensors and settings, which can run "
                "code when it is loaded. Get the file from its author again, or name another checkpoint."
            ) from None

    with mock.patch.object(torch, "load", load):
        return original(path, *args, **kwargs)


@replaces(checkpoint_utils, "_torch_persistent_save")
def save_from_the_start(original: Original, state: Any, file: Any) -> None:
    """Save a checkpoint with three attempts, each from the start of the file. fairseq appends to the failed one."""
    if isinstance(file, str) or not file.seekable():
        return original(state, file)
    for attempt in range(3):
        try:
            file.seek(0)
            file.truncate()
            return torch.save(state, file)
        except Exception:
            if attempt == 2:
                raise
            time.sleep(2.5)


def copy_atomically(original: Original, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a checkpoint to checkpoint_last.pt so that it is complete even if the process is killed."""
    partial = f"{dst_path}.partial"
    shutil.copyfile(src_path, partial)
    os.replace(partial, dst_path)
    return True


if file_io.IOPathManager is None:  # iopath copies to remote storage
    replaces(file_io.PathManager, "copy")(copy_atomically)
