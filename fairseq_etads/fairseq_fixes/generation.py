"""Commands that generate text: shares of the data, BPE pieces, and unknown words."""

import os
import re
from argparse import Namespace
from typing import Any, ClassVar

import torch
from fairseq import utils
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging.meters import StopwatchMeter
from fairseq.tasks.fairseq_task import StatefulContainer

from ..files.shards import find_local_rank
from . import Original, replaces
from .distributed import find_launched_worker

_PIECE = re.compile(r"\d+|<unk>|<mask>")
StatefulContainer._state, StatefulContainer._factories = {}, {}  # until pickle has filled a new instance


@replaces(GPT2BPE, "decode")
def decode_pieces(original: Original, bpe: Any, x: str) -> str:
    """Decode pieces of GPT-2, and "<<unk>>", the unknown word of references. Padding words are dropped."""
    return original(bpe, " ".join(filter(_PIECE.fullmatch, x.replace("<<unk>>", "<unk>").split())))


def parse_replacements_file(replace_unk: str) -> str:
    """Return the FILE in ``--replace-unk FILE``, or an empty string without a file, for which fairseq stores "@@ "."""
    return "" if replace_unk == "@@ " else replace_unk


@replaces(utils, "load_align_dict")
def allow_missing_replacements(original: Original, replace_unk: Any) -> Any:
    """Read the FILE in ``--replace-unk FILE``, if there is one."""
    return original(None if replace_unk is None else parse_replacements_file(replace_unk))


class GenerationTimer(StopwatchMeter):
    """Timer of fairseq-generate that records whether it has been started, as for every batch."""

    has_run: ClassVar[bool] = False

    def start(self) -> None:
        GenerationTimer.has_run = True
        super().start()


def generate_in_shards(original: Original, cfg: Any) -> Any:
    """Run fairseq-generate, so that each of n processes summarises every n-th batch, into RESULTS_PATH/2-of-n.

    The number of processes and the index of this process come from --num-shards and --shard-id, which fairseq ignores,
    from --distributed-world-size and --distributed-rank, or from torchrun. A wrong --shard-id or --results-path raises
    ValueError.
    """
    cfg = convert_namespace_to_omegaconf(cfg) if isinstance(cfg, Namespace) else cfg
    options, launched = cfg.distributed_training, find_launched_worker()
    shards, shard = cfg.dataset.num_shards, cfg.dataset.shard_id
    if not 0 <= shard < shards:
        raise ValueError(f"--shard-id {shard} of --num-shards {shards}: choose a number from 0 to {shards - 1}")
    results = cfg.common_eval.results_path
    if os.path.exists(results or "") and not os.path.isdir(results):
        raise ValueError(f"--results-path {results}: is not a folder")
    if shards > 1:
        options.distributed_world_size, options.distributed_rank = shards, shard
    elif launched is not None and options.distributed_world_size == 1:
        options.distributed_world_size, options.distributed_rank = launched.shares, launched.number - 1
        if torch.cuda.is_available() and not cfg.common.cpu:
            torch.cuda.set_device(find_local_rank() % torch.cuda.device_count())
    if options.distributed_world_size > 1 and results is not None:
        share = f"{options.distributed_rank + 1}-of-{options.distributed_world_size}"
        cfg.common_eval.results_path = os.path.join(results, share)
    try:
        return original(cfg)
    except ZeroDivisionError:  # without batches, fairseq divides by the time and the number of words, which are 0
        if options.distributed_world_size == 1 or GenerationTimer.has_run:
            raise
