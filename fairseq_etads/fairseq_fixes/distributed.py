"""Several processes in training, validation and generation, mainly on CPUs."""

import os
import socket
import sys
from argparse import Namespace
from typing import Any, Callable, List, Optional
from unittest import mock

import torch
from fairseq import utils
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from omegaconf import DictConfig

from ..files.shards import Shard, find_launched_shard, find_local_rank
from . import Original, replaces


def has_several_workers() -> bool:
    """Return whether this process is one of several workers that train a model together."""
    available = torch.distributed.is_available() and torch.distributed.is_initialized()
    return available and torch.distributed.get_world_size() > 1


def find_launched_worker() -> Optional[Shard]:
    """Return the number of this process among those that a launcher such as torchrun has started to work together."""
    is_launched = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"} <= os.environ.keys()
    return find_launched_shard() if is_launched else None


@replaces(distributed_utils, "call_main")
def call_main(original: Original, cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Start the workers of a command, or connect this process to the other workers, also on CPUs.

    Raises:
        ValueError: fairseq would give a wrong result with these options.
    """
    options, launched = cfg.distributed_training, find_launched_worker()
    if cfg.common.cpu and torch.cuda.is_available():  # fairseq's trainer heeds --cpu, but other parts do not
        unavailable = mock.patch.object(torch.cuda, "is_available", lambda: False)
        with unavailable, mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}):
            return call_main(original, cfg, main, **kwargs)
    if cfg.common.bf16 and (distributed_utils.xm is None or cfg.common.cpu or torch.cuda.is_available()):
        for part in cfg.values():
            if isinstance(part, (DictConfig, Namespace)) and "tpu" in part:
                part.tpu = False  # --bf16 sets it, and without torch_xla, training would never start
    if launched is not None and options.distributed_init_method is None and options.distributed_world_size == 1:
        options.distributed_world_size = launched.shares  # fairseq's default is the number of GPUs, but at least 1
    several = [number for number in cfg.optimization.update_freq if number > 1]
    if str(options.ddp_backend) == "fully_sharded" and options.distributed_world_size > 1 and several:
        # For other backends, trainer.train_step leaves out empty batches.
        raise ValueError(
            f"--update-freq {several[0]} with --ddp-backend fully_sharded: gradients would be wrong at the end of an "
            "epoch if a worker had fewer batches; choose --update-freq 1, or --ddp-backend pytorch_ddp or legacy_ddp"
        )
    if cfg.common.tpu or torch.cuda.is_available():
        return original(cfg, main, **kwargs)
    _connect_cpu_workers(options, launched)
    if options.distributed_world_size == 1 or options.distributed_no_spawn:
        return original(cfg, main, **kwargs)
    # --distributed-num-procs is the number of workers on this machine, if there are several machines.
    here = options.distributed_num_procs if options.distributed_num_procs > 1 else options.distributed_world_size
    first, options.distributed_rank = options.distributed_rank, None  # a worker's rank is start_rank plus its index
    # Without this limit, each worker would start one thread per processor.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // here)))
    torch.multiprocessing.spawn(
        distributed_utils.distributed_main, args=(main, cfg, {**kwargs, "start_rank": first}), nprocs=here
    )


def _connect_cpu_workers(options: Any, launched: Optional[Shard]) -> None:
    """Set the number of workers on CPUs and their connection in ``options``, which fairseq does only for GPUs."""
    given = {word.partition("=")[0] for word in sys.argv[1:]}
    for name in ("distributed_world_size", "distributed_num_procs"):  # both default to the number of GPUs
        is_default = getattr(options, name) == getattr(DistributedTrainingConfig, name)
        if is_default and "--" + name.replace("_", "-") not in given:
            setattr(options, name, 1)
    if options.distributed_init_method is None and launched is not None:
        options.distributed_world_size = launched.shares
        options.distributed_init_method = "env://"
        options.distributed_rank, options.device_id = launched.number - 1, find_local_rank()
        options.distributed_no_spawn = True
    if options.distributed_world_size > 1:
        options.distributed_backend = "gloo"  # the only backend for CPUs that is included in all builds of torch
        if options.distributed_init_method is None and not options.distributed_no_spawn:
            with socket.socket() as free:
                free.bind(("localhost", 0))
                options.distributed_init_method = f"tcp://localhost:{free.getsockname()[1]}"


@replaces(distributed_fairseq_model, "DistributedDataParallel")
def distribute_on_any_device(original: Original, **options: Any) -> Any:
    """Wrap a model in torch's DistributedDataParallel, without fairseq's indices of GPUs if the model is on a CPU."""
    if next(options["module"].parameters()).device.type == "cpu":
        options["device_ids"] = options["output_device"] = None
    return original(**options)


@replaces(distributed_utils, "all_gather_list")
def gather_any_size(original: Original, data: Any, group: Any = None, max_size: int = 0) -> List[Any]:
    """Gather data of any size from all workers, such as the statistics of all batches in fairseq-validate."""
    group = distributed_utils.get_global_group() if group is None else group
    gathered: List[Any] = [None] * distributed_utils.get_world_size(group)
    torch.distributed.all_gather_object(gathered, utils.move_to_cpu(data), group=group)
    return gathered
