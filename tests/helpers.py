"""Helpers for all tests: small models and tasks built in fairseq's way, batches, and the real commands."""

import functools
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Dict, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

import fairseq_etads  # noqa: F401  # registers models and task, as --user-dir does
from fairseq_etads.pipeline.architectures import make_architecture_config
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.vocabulary.dictionary import limit_known_words

PAD, EOS = 1, 2
SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
}


RECURRENT = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_hidden_size": 12, "attention_dim": 10}
"""Sizes of a small recurrent model."""


class NotOnCpu(torch.Tensor):
    """A tensor that takes the branches for GPUs. To read one of its values fails, unless a test allows it."""

    is_cpu = False
    may_be_read = False

    def _read(self, kind):
        assert self.may_be_read, "the CPU would wait for this number"
        return kind(self.as_subclass(torch.Tensor))

    def __bool__(self):
        return self._read(bool)

    def __int__(self):
        return self._read(int)

    def __float__(self):
        return self._read(float)

    def tolist(self):
        return self._read(torch.Tensor.tolist)


def make_dictionary(words: int = 40, tail: int = 0, mark: bool = False) -> Dictionary:
    """Ids 4 … words + 3 are known words, the last "<q>" if ``mark``; ``tail`` more can only be copied."""
    dictionary = Dictionary()
    for number in range(words):
        dictionary.add_symbol("<q>" if mark and number == words - 1 else f"w{number}", n=words - number)
    for number in range(tail):
        dictionary.add_symbol(f"rare{number}", n=0)
    return dictionary


def make_task(truncate_source=None, truncate_target=None, tail=0, mark=False, target_words=None, words=40, **options):
    """A task with one dictionary; summaries know its first ``target_words`` (None: as many as documents)."""
    dictionary = make_dictionary(words, tail, mark)
    cfg = SummarizationConfig(truncate_source=truncate_source, truncate_target=truncate_target)
    cfg.dataset_impl, cfg.train_subset, cfg.required_seq_len_multiple = None, "train", 1
    for name, value in options.items():
        setattr(cfg, name, value)
    summaries = dictionary if target_words is None else limit_known_words(dictionary, target_words)
    return SummarizationTask(cfg, dictionary, summaries)


@functools.cache
def model_config(arch: str, **options):
    """Options of a model as fairseq-train passes them, without options that the model does not have."""
    kind = getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")
    if arch == "transformer" or kind is None:  # fairseq's own
        args = Namespace(arch=arch, **options)
        ARCH_CONFIG_REGISTRY[arch](args)
        return args if arch == "transformer" else convert_namespace_to_omegaconf(args).model
    known = {name: value for name, value in options.items() if name in kind.__dataclass_fields__}
    return make_architecture_config(arch, **known)


def make_model(arch: str = "etads", task: Optional[SummarizationTask] = None, **options):
    """Build a small model like fairseq-train; options as on its command line, with underscores."""
    task = task or make_task()
    torch.manual_seed(1)
    model = ARCH_MODEL_REGISTRY[arch].build_model(model_config(arch, **{**SMALL, **options}), task)
    with torch.no_grad():  # biases start at 0, but tests should detect their effect
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model.eval()


def make_batch(documents: List[List[int]], left: bool = False, width: Optional[int] = None) -> torch.Tensor:
    """Make (B, S) ids from documents without the end symbol: adds it, and pads to the longest or to width."""
    width = width or max(map(len, documents)) + 1
    batch = torch.full((len(documents), width), PAD)
    for row, document in enumerate(documents):
        tokens = torch.tensor([*document, EOS])
        if left:
            batch[row, width - len(tokens) :] = tokens
        else:
            batch[row, : len(tokens)] = tokens
    return batch


PROGRAMS = [str(Path(sys.executable).parent)]
"""Folders where :func:`run_command` first looks for commands; tests/e2e puts a command server's folder first."""


def environment(anew: bool = False) -> Dict[str, str]:
    """Environment of :func:`run_command`."""
    folders = PROGRAMS[-1:] if anew else PROGRAMS
    return {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}


def run_command(command: List[str], cwd: Path, check: bool = True, anew: bool = False, **kwargs):
    """Run a console command of this environment and return its output; a failure shows the output.

    Args:
        anew: start the command as users do, instead of in a command server, which has already imported everything.
    """
    result = subprocess.run(
        command, cwd=cwd, env=environment(anew), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs
    )
    if check:
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-4000:]}"
    return result
