"""Patch fairseq so that training, validation and generation work with several processes, mainly on CPUs.

fairseq sets the number of processes to the number of GPUs. On a machine without a GPU, ``torchrun fairseq-train``
therefore divides by zero, ``--distributed-world-size 2`` does not start any processes, and ``--ddp-backend
pytorch_ddp`` passes device indices to torch, which raises an error. With ``--cpu`` on a machine with GPUs, fairseq
starts a worker for each GPU. With ``--bf16``, it expects a TPU. :func:`install_patches` corrects these errors in
fairseq-train, fairseq-validate and fairseq-generate. These commands import the plugin (``--user-dir``) while parsing
their options, before they start processes. fairseq-hydra-train imports the plugin too late, so the errors are not
corrected there.

fairseq-generate accepts the options ``--num-shards`` and ``--shard-id`` for dividing the work but ignores them. After
:func:`install_patches`, these options have an effect.
"""

import contextlib
import functools
import logging
import os
import re
import socket
import sys
from argparse import Namespace
from typing import Any, Callable, Iterator, List, NamedTuple, Optional
from unittest import mock

import torch
from fairseq import utils
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.logging.meters import StopwatchMeter
from fairseq.models import distributed_fairseq_model
from omegaconf import DictConfig
from torch.nn.parallel import DistributedDataParallel

logger = logging.getLogger(__name__)

_CONNECTION_LOST = re.compile(r"Connection (closed|reset|refused)|Connection was likely closed|Broken pipe")
_WHAT_NOW = "The same command resumes the training from its last checkpoint, which is complete"


def has_several_workers() -> bool:
    """Return whether this process is one of several workers that train a model together."""
    available = torch.distributed.is_available() and torch.distributed.is_initialized()
    return available and torch.distributed.get_world_size() > 1


class WorkerEndedError(RuntimeError):
    """Exception raised if one of several cooperating processes ends before its work is complete."""


class LaunchedWorker(NamedTuple):
    """Properties of a worker process that was started by a launcher such as torchrun.

    Attributes:
        rank: rank of the worker process among all workers.
        workers: total number of workers on all machines.
        local_rank: rank of the worker process among the workers on this machine.
    """

    rank: int
    workers: int
    local_rank: int

    @classmethod
    def from_environment(cls) -> Optional["LaunchedWorker"]:
        """Read the properties of the current process from the environment.

        Returns:
            The properties, or None if the process was not started by a launcher such as torchrun.
        """
        if not all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")):
            return None
        rank = int(os.environ["RANK"])
        return cls(rank, int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", rank)))


def _is_option_given(option: str) -> bool:
    """Return whether an option occurs on the command line. fairseq does not accept abbreviated options."""
    return option in (word.partition("=")[0] for word in sys.argv[1:])


def _unset_implied_tpu(cfg: Any) -> None:
    """Unset ``tpu`` unless a TPU may be available. fairseq sets it for --bf16 and --memory-efficient-bf16.

    With ``tpu`` but without torch_xla, training would never start.
    """
    may_have_tpu = distributed_utils.xm is not None and not (cfg.common.cpu or torch.cuda.is_available())
    if not cfg.common.bf16 or may_have_tpu or _is_option_given("--tpu"):
        return
    for part in cfg.values():
        if isinstance(part, (DictConfig, Namespace)) and "tpu" in part:
            part.tpu = False


@contextlib.contextmanager
def _hide_gpus() -> Iterator[None]:
    """Context manager that hides all GPUs from fairseq, torch and new processes.

    With --cpu, fairseq's trainer does not use GPUs, but other parts of fairseq still do.
    """
    unavailable = mock.patch.object(torch.cuda, "is_available", lambda: False)
    with unavailable, mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}):
        yield


def _wrap_call_main(call_main: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``call_main``, so that it also works on CPUs.

    The wrapper starts the workers of a command, or connects the current process to the other workers.
    """

    @functools.wraps(call_main)
    def call(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        options, launched = cfg.distributed_training, LaunchedWorker.from_environment()
        command = main.__module__.rpartition(".")[2]
        _unset_implied_tpu(cfg)
        if cfg.common.cpu and torch.cuda.is_available():
            with _hide_gpus():
                return call(cfg, main, **kwargs)
        if command != "eval_lm" and cfg.dataset.num_shards > 1:
            raise ValueError(f"--num-shards {cfg.dataset.num_shards}: fairseq-{command} ignores this option")
        if launched is not None and options.distributed_init_method is None and options.distributed_world_size == 1:
            options.distributed_world_size = launched.workers  # fairseq's default is the number of GPUs, but at least 1
        _check_parameter_sharding(cfg)
        if cfg.common.tpu or (torch.cuda.is_available() and not cfg.common.cpu):
            return call_main(cfg, main, **kwargs)
        if cfg.common.amp:
            logger.warning("--amp: training on CPUs uses float32; --bf16 uses bfloat16")
        _set_up_cpu_workers(options, launched)
        if options.distributed_world_size > 1 and command == "interactive":
            raise ValueError(
                f"{options.distributed_world_size} workers: each fairseq-interactive would summarise the whole input; "
                "divide the input among them, as etads-summarize --shard I/N does"
            )
        if options.distributed_world_size == 1 or options.distributed_no_spawn:
            with _explain_lost_connection():
                return call_main(cfg, main, **kwargs)
        return _spawn_workers(cfg, main, kwargs)

    call.is_patched = True  # type: ignore[attr-defined]
    return call


def _check_parameter_sharding(cfg: Any) -> None:
    """Check that parameters are not sharded if an update consists of several batches.

    The last batch of a worker may be empty. In this case, fairseq also treats the other batches of the worker as empty
    and divides the gradients by a number that is too small. :mod:`.compat` corrects this error for other backends. It
    cannot be corrected for fully_sharded, because all workers must process the same number of batches.

    Raises:
        ValueError: parameters are sharded, and an update consists of several batches.
    """
    options, several = cfg.distributed_training, [number for number in cfg.optimization.update_freq if number > 1]
    if str(options.ddp_backend) == "fully_sharded" and options.distributed_world_size > 1 and several:
        raise ValueError(
            f"--update-freq {several[0]} with --ddp-backend fully_sharded: gradients would be wrong at the end of an "
            "epoch if a worker had fewer batches; choose --update-freq 1, or --ddp-backend pytorch_ddp or legacy_ddp"
        )


def _set_up_cpu_workers(options: Any, launched: Optional[LaunchedWorker]) -> None:
    """Configure the connection between workers on CPUs, which fairseq does only for GPUs.

    Args:
        options: the options ``cfg.distributed_training``, which are modified in place.
        launched: properties of the current process, or None if it was not started by a launcher.

    Raises:
        ValueError: the options are incompatible with each other or with CPUs.
    """
    for name in ("distributed_world_size", "distributed_num_procs"):  # both default to the number of GPUs
        is_default = getattr(options, name) == getattr(DistributedTrainingConfig, name)
        if is_default and not _is_option_given("--" + name.replace("_", "-")):
            setattr(options, name, 1)
    if str(options.ddp_backend) in ("fully_sharded", "slowmo"):
        raise ValueError(
            f"--ddp-backend {options.ddp_backend} needs GPUs, because fairseq relies on fairscale, which requires a "
            "GPU for every worker (up to 0.4.13, its last release); choose pytorch_ddp or legacy_ddp"
        )
    if options.distributed_init_method is None and launched is not None:
        options.distributed_world_size = launched.workers
        if launched.workers > 1:
            options.distributed_init_method = "env://"
            options.distributed_rank, options.device_id = launched.rank, launched.local_rank
            options.distributed_no_spawn = True
    if options.distributed_world_size == 1:
        return
    options.distributed_backend = "gloo"  # the only backend for CPUs that is included in all builds of torch
    if options.distributed_init_method is not None:
        return
    if options.distributed_no_spawn:
        raise ValueError(
            "--distributed-no-spawn: this worker cannot find the others; give --distributed-init-method "
            "tcp://HOST:PORT and --distributed-rank, or start the workers with torchrun"
        )
    options.distributed_init_method = f"tcp://localhost:{_find_free_port()}"


def _find_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return int(taken.getsockname()[1])


def _spawn_workers(cfg: Any, main: Callable[..., Any], kwargs: Any) -> None:
    """Start the workers on this machine, and wait until they end.

    If --distributed-num-procs is greater than 1, as in training on several machines, it sets the number of workers on
    this machine. Otherwise, the number of workers is --distributed-world-size. The rank of the first worker is
    --distributed-rank.

    Raises:
        ValueError: the number of workers would exceed --distributed-world-size.
        WorkerEndedError: a worker was killed. The other workers have also been stopped.
    """
    options = cfg.distributed_training
    workers, first = options.distributed_world_size, options.distributed_rank
    here = options.distributed_num_procs if options.distributed_num_procs > 1 else workers
    if first + here > workers:
        raise ValueError(
            f"--distributed-world-size {workers}: {here} workers from --distributed-rank {first} exceed this number; "
            "give the number of workers on this machine with --distributed-num-procs, or start each worker with "
            "--distributed-no-spawn"
        )
    options.distributed_rank = None  # the rank of a worker is start_rank plus its index
    # Without this limit, each worker would start one thread per processor.
    threads = os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // here)))
    logger.info(f"starting {here} of {workers} workers on this machine's CPUs, each with OMP_NUM_THREADS={threads}")
    try:
        torch.multiprocessing.spawn(
            distributed_utils.distributed_main, args=(main, cfg, {**kwargs, "start_rank": first}), nprocs=here
        )
    except torch.multiprocessing.ProcessExitedException as error:
        how = error.signal_name or f"exit status {error.exit_code}"
        raise WorkerEndedError(
            f"worker {first + error.error_index} of {workers} (numbers from 0) was ended from outside ({how}; out of "
            f"memory?), so the others were ended too. {_WHAT_NOW}"
        ) from None


@contextlib.contextmanager
def _explain_lost_connection() -> Iterator[None]:
    """Context manager that raises WorkerEndedError instead of gloo's error if another worker has ended."""
    try:
        yield
    except RuntimeError as error:
        if not _CONNECTION_LOST.search(str(error)):
            raise
        reason = str(error).splitlines()[0]
        raise WorkerEndedError(
            f"another worker has ended, so this one cannot continue ({reason}). {_WHAT_NOW}"
        ) from None


class _AnyDeviceDataParallel(DistributedDataParallel):
    """DistributedDataParallel that ignores fairseq's device indices if the model is on a CPU."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, **options: Any):
        if next(module.parameters()).device.type == "cpu":
            device_ids = output_device = None
        super().__init__(module, device_ids=device_ids, output_device=output_device, **options)


def _all_gather_objects(all_gather_list: Callable[..., Any]) -> Callable[..., Any]:
    """Replace fairseq's ``all_gather_list``, which requires GPU memory and is limited to 16,384 bytes per worker.

    fairseq-validate uses this function to gather the statistics of all batches, which easily exceed this limit. Some
    criterions use it too.
    """

    @functools.wraps(all_gather_list)
    def gather(data: Any, group: Any = None, max_size: int = 0) -> List[Any]:
        group = distributed_utils.get_global_group() if group is None else group
        gathered: List[Any] = [None] * distributed_utils.get_world_size(group)
        torch.distributed.all_gather_object(gathered, utils.move_to_cpu(data), group=group)
        return gathered

    gather.is_patched = True  # type: ignore[attr-defined]
    return gather


class _TrackedTimer(StopwatchMeter):
    """Timer of fairseq that records whether it has ever been started. fairseq-generate starts it for each batch."""

    has_run = False

    def start(self) -> None:
        _TrackedTimer.has_run = True
        super().start()


def _generate_in_shards(main: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the ``main`` function of fairseq-generate, so that each of n processes summarises every n-th batch.

    The number of processes and the index of the current process are set by --num-shards and --shard-id. If these
    options are not set, --distributed-world-size and --distributed-rank are used. If these are not set either, torchrun
    provides the values. With --results-path, each process writes to its own subfolder, such as "2-of-4".
    """

    @functools.wraps(main)
    def generate(cfg: Any) -> Any:
        cfg = convert_namespace_to_omegaconf(cfg) if isinstance(cfg, Namespace) else cfg
        options, launched = cfg.distributed_training, LaunchedWorker.from_environment()
        shards, shard = cfg.dataset.num_shards, cfg.dataset.shard_id
        if not 0 <= shard < shards:
            raise ValueError(f"--shard-id {shard} of --num-shards {shards}: choose a number from 0 to {shards - 1}")
        if shards > 1:
            options.distributed_world_size, options.distributed_rank = shards, shard
        elif launched is not None and options.distributed_world_size == 1:
            options.distributed_world_size, options.distributed_rank = launched.workers, launched.rank
            if torch.cuda.is_available() and not cfg.common.cpu:
                torch.cuda.set_device(launched.local_rank % torch.cuda.device_count())
        share = f"{options.distributed_rank + 1}-of-{options.distributed_world_size}"
        if options.distributed_world_size > 1 and cfg.common_eval.results_path is not None:
            cfg.common_eval.results_path = os.path.join(cfg.common_eval.results_path, share)
        try:
            return main(cfg)
        except (
            ZeroDivisionError
        ):  # fairseq divides by the elapsed time and the number of words, which are 0 if there are no batches
            if options.distributed_world_size == 1 or _TrackedTimer.has_run:
                raise
            return logger.info("Translated 0 sentences: there are fewer batches than processes")

    generate.is_patched = True  # type: ignore[attr-defined]
    return generate


def install_patches() -> None:
    """Patch fairseq to support several processes. This function can be called repeatedly."""
    if not hasattr(distributed_utils.call_main, "is_patched"):
        distributed_utils.call_main = _wrap_call_main(distributed_utils.call_main)
        distributed_utils.all_gather_list = _all_gather_objects(distributed_utils.all_gather_list)
    distributed_fairseq_model.DistributedDataParallel = _AnyDeviceDataParallel
    # At this point, the module is fully imported only if the command is fairseq-generate.
    command: Any = sys.modules.get("fairseq_cli.generate")
    if hasattr(command, "main") and not hasattr(command.main, "is_patched"):
        command.main = _generate_in_shards(command.main)
        command.StopwatchMeter = _TrackedTimer
