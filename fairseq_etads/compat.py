"""What this project must know of particular versions of fairseq and torch. Nothing elsewhere does.

:func:`install` is called once, when the plugin is imported, and may be called again.
"""

import argparse
import collections
import contextlib
import functools
import os
import pickle
import re
import shutil
import typing
from typing import Any, Callable, Iterator, List

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager


class UnsafeCheckpointError(RuntimeError):
    """A checkpoint holds more than tensors and settings, so that loading it could run code."""


def _checkpoint_classes() -> List[Any]:
    """The classes beyond torch's own list which fairseq's checkpoints hold; none does anything when built."""
    import omegaconf
    from omegaconf import base, nodes

    classes: List[Any] = [argparse.Namespace, collections.defaultdict, dict, list, int, float, typing.Any]
    classes += [omegaconf.DictConfig, omegaconf.ListConfig, base.ContainerMetadata, base.Metadata]
    classes += [node for node in vars(nodes).values() if isinstance(node, type) and issubclass(node, base.Node)]
    return classes


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """torch.load with weights_only=True inside, whatever torch's default and the environment say."""
    plain_load = torch.load
    torch.load = functools.partial(plain_load, weights_only=True)
    try:
        yield
    finally:
        torch.load = plain_load


def _safely(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq's ``load_checkpoint_to_cpu``, refusing files that hold other classes and saying so in a sentence."""

    @functools.wraps(load_checkpoint)
    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            with _weights_only():
                return load_checkpoint(path, *args, **kwargs)
        except pickle.UnpicklingError as error:
            found = re.search(r"(?:GLOBAL|class) ([\w.]+)", str(error))
            what = f"it refers to {found.group(1)}" if found else f"it is not a plain checkpoint ({error})"
            raise UnsafeCheckpointError(
                f"{path}: refused, because {what}. A fairseq checkpoint holds tensors and settings only; a file that "
                "holds anything else can run code when it is loaded. Get the file from its author again, or, if you "
                "trust it, save it anew without that object."
            ) from None
        except (EOFError, RuntimeError) as error:
            if "PytorchStreamReader" not in str(error) and not isinstance(error, EOFError):
                raise
            reason = next(iter(str(error).splitlines()), "it ends early")
            raise RuntimeError(
                f"{path}: not a complete checkpoint ({reason}). Delete it, or name another one "
                "with --restore-file (training) or --path (generation)."
            ) from error

    load_checkpoint_to_cpu.is_safe = True  # type: ignore[attr-defined]
    return load_checkpoint_to_cpu


def _copy_atomically(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """fairseq's ``PathManager.copy`` for local files, but never leaving half a file under the final name.

    fairseq writes one checkpoint atomically and copies it to checkpoint_last.pt; killed while copying, it would leave a
    file from which training cannot resume.
    """
    partial = f"{dst_path}.partial"
    shutil.copyfile(src_path, partial)
    os.replace(partial, dst_path)
    return True


def install() -> None:
    """Make checkpoints load safely and be copied atomically. Idempotent."""
    torch.serialization.add_safe_globals(_checkpoint_classes())
    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "is_safe"):
        checkpoint_utils.load_checkpoint_to_cpu = _safely(checkpoint_utils.load_checkpoint_to_cpu)
    from fairseq import file_io

    if file_io.IOPathManager is None:
        PathManager.copy = staticmethod(_copy_atomically)
