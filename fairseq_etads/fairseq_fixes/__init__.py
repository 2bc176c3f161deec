"""Corrections of fairseq and torch, one function each.

A correction stays only if, without it, a documented command fails, loses work, gives a wrong number or runs code. Each
row says what goes wrong in fairseq-fixed 0.12.3.1, the release that setup.py pins, and which issues or pull requests of
fairseq report it. torch is named where its version matters; the tests run with torch 2.13.

| Function | Without it | Reported |
|---|---|---|
| `checkpoints.load_checkpoint_safely` | torch < 2.6 runs code in a checkpoint; torch >= 2.6 loads none | 5603, 5610 |
| `checkpoints.save_from_the_start` | after a full disk, the second attempt writes an unreadable checkpoint | |
| `checkpoints.copy_atomically` | a process killed while it copies leaves half of checkpoint_last.pt | 2684 |
| `trainer.train_step` | an empty batch after another divides the gradients by too small a number | |
| | norms on the CPU move to a visible GPU; --fp16 cannot skip an update without one | 2879 |
| `trainer.copy_integers` | --store-ema fails for models with integers or booleans, such as the extractor | |
| `trainer.hook_leaves` | an update whose gradient is not finite ends in StopIteration | |
| `trainer.build_fp32_params` | Muon finds no matrices with --fp16; --fp16 needs a GPU | |
| `trainer.unscale_once` | --amp divides gradients by the scale twice: SGD and Adagrad hardly move | |
| `trainer.save_bad_epochs`, `load_bad_epochs` | resumed training counts --lr-patience from 0 | 4071 |
| `trainer.stop_loading_threads` | a finished training aborts ("terminate called") | |
| `trainer.validate_and_save` | a signal loses all updates since the last checkpoint | |
| | each save validates, so --patience counts saves; the best model of a validation is not saved | |
| `trainer.train_epoch` | a complete run that is started again trains beyond --max-update and --patience | |
| `trainer.check_best_metric` | KeyError after the first epoch, before anything is saved | 3881 |
| `trainer.ResumableBatches` | another number of workers skips or repeats batches; --curriculum never shuffles | 3638 |
| `trainer.load_adapted_checkpoint` | a dictionary in another order is accepted; reduce_lr_on_plateau misses the | |
| | result of an epoch; another --lr-scheduler or --store-ema raises KeyError | |
| `trainer.save_patience`, `restore_patience` | resumed training counts --patience from 0 | 3531 |
| `distributed.call_main` | torchrun divides by zero on CPUs, --distributed-world-size 2 starts no process | 2879 |
| | --cpu starts a process for each GPU; --bf16 waits for a TPU | 4696 |
| `distributed.distribute_on_any_device` | --ddp-backend pytorch_ddp fails on CPUs | 2879 |
| `distributed.gather_any_size` | fairseq-validate with several processes needs a GPU, and fails above 16,384 bytes | |
| `generation.decode_pieces` | --bpe gpt2 raises ValueError for `<<unk>>` and the padding words of BART | 1817 |
| `generation.allow_missing_replacements` | --replace-unk without a file reads a file named "@@ " | 3533 |
| `generation.StatefulContainer` | a generator that is sent to another process ends in RecursionError | |
| `generation.generate_in_shards` | --num-shards is ignored, so each process summarises everything | |

Importing a module applies its corrections, except for the modules of fairseq's commands, which :func:`extend_commands`
changes. fairseq-hydra-train imports the plugin too late for `distributed`.
"""

import functools
import inspect
import sys
from typing import Any, Callable, TypeVar

Original = Callable[..., Any]
"""Type of the function, method or class of fairseq that a correction replaces, which it receives first."""
Function = TypeVar("Function", bound=Callable[..., Any])


def replaces(owner: Any, name: str) -> Callable[[Function], Function]:
    """Return a decorator that puts a function in place of ``owner.name``, a name in a module or class of fairseq.

    The function receives the original, followed by the arguments of the call. A second call has no effect.
    """

    def decorate(function: Function) -> Function:
        found = inspect.getattr_static(owner, name)
        original = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found

        @functools.wraps(original, updated=())
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        if not hasattr(original, "is_replacement"):
            replacement.is_replacement = True  # type: ignore[attr-defined]
            setattr(owner, name, type(found)(replacement) if original is not found else replacement)
        return function

    return decorate


def extend_commands() -> None:
    """Change the modules of fairseq-train and fairseq-generate if they are imported. Can be called repeatedly."""
    from . import generation, trainer

    train: Any = sys.modules.get("fairseq_cli.train")
    if hasattr(train, "validate_and_save"):
        replaces(train, "train")(trainer.train_epoch)
        replaces(train, "validate_and_save")(trainer.validate_and_save)
    generate: Any = sys.modules.get("fairseq_cli.generate")
    if hasattr(generate, "main"):
        replaces(generate, "main")(generation.generate_in_shards)
        generate.StopwatchMeter = generation.GenerationTimer
