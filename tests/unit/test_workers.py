"""Workers of a training on CPUs of a machine with GPUs: their number, and the GPUs that they see."""

import os
import sys

import pytest
import torch
from fairseq import options, utils
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils

import fairseq_etads  # noqa: F401  # changes fairseq, as --user-dir does

TRAIN = ["fairseq-train", "data", "--task", "summarization", "--arch", "etads", "--cpu"]
VALIDATE = ["fairseq-validate", "data", "--task", "summarization", "--path", "model.pt", "--cpu"]


@pytest.fixture
def two_gpus(monkeypatch):
    """Two GPUs seem to be there, also to the defaults of fairseq's options."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("distributed_world_size", "distributed_num_procs"):
        monkeypatch.setattr(DistributedTrainingConfig, name, 2)
        monkeypatch.setattr(DistributedTrainingConfig.__dataclass_fields__[name], "default", 2)


def started(monkeypatch, command, parser=options.get_training_parser):
    """Numbers of processes that a command starts and of workers in all, and whether it and these see no GPU."""
    monkeypatch.setattr(sys, "argv", command)
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser()))
    calls = []

    def seen(cfg):
        hidden = not torch.cuda.is_available() and os.environ["CUDA_VISIBLE_DEVICES"] == ""
        return cfg.distributed_training.distributed_world_size, hidden

    def main(cfg):
        calls.append((1, *seen(cfg)))

    def spawn(function, args, nprocs):
        calls.append((nprocs, *seen(args[1])))

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    distributed_utils.call_main(cfg, main)
    assert torch.cuda.is_available() and "CUDA_VISIBLE_DEVICES" not in os.environ
    (call,) = calls
    return call


@pytest.mark.parametrize(
    "more,workers",
    [
        ([], 1),
        (["--distributed-world-size", "1"], 1),
        (["--distributed-world-size", "2"], 2),
        (["--distributed-world-size=2"], 2),
        (["--distributed-world-size", "3"], 3),
    ],
)
def test_with_cpu_there_are_as_many_workers_as_were_asked_for(more, workers, two_gpus, monkeypatch):
    """fairseq's default is the number of GPUs, and it would start that many of three."""
    assert started(monkeypatch, TRAIN + more) == (workers, workers, True)


def test_workers_of_several_machines(two_gpus, monkeypatch):
    """Two of four are started here, since that was asked for."""
    more = ["--distributed-world-size", "4", "--distributed-num-procs", "2", "--distributed-rank", "2"]
    assert started(monkeypatch, [*TRAIN, *more, "--distributed-init-method", "tcp://localhost:1"]) == (2, 4, True)


def test_validation_by_three_workers(two_gpus, monkeypatch):
    command = [*VALIDATE, "--distributed-world-size", "3"]
    assert started(monkeypatch, command, options.get_validation_parser) == (3, 3, True)


def test_gradients_on_the_cpu_are_clipped_there(two_gpus, monkeypatch):
    """fairseq moves their norms to the current GPU if there is one."""

    def current_device():
        raise AssertionError("a GPU was asked for")

    monkeypatch.setattr(torch.cuda, "current_device", current_device)
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    for parameter in parameters:
        parameter.grad = torch.tensor([3.0, 4.0])
    assert utils.clip_grad_norm_(parameters, 1.0).item() == pytest.approx(50**0.5)
    total = sum(parameter.grad.square().sum() for parameter in parameters)
    assert total.item() == pytest.approx(1)
