"""Commands on a machine that pretends to have two GPUs (tests/pretended), for ``scripts/test.sh --gpu-simulated``."""

import contextlib
import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from command_server import CommandServer
from helpers import PROGRAMS, run_command
from toy import PLUGIN, SMALL_MODEL, by_two_workers, write_labelled_pairs

ROOT = Path(__file__).parents[2]
PRETENDING = str(ROOT / "tests" / "pretended" / "run_pretending.py")
MODEL = [option for option in SMALL_MODEL if option != "--cpu"]
MODEL += ["--criterion", "summarization_nll", "--arch", "etads", "--pointer", "soft", "--dropout", "0", "--lr", "1e-3"]
HALF, WHOLE = (["--max-update", str(updates), "--validate-interval-updates", "5"] for updates in (5, 10))
CPU, GPU = ["--cpu"], ["--distributed-world-size", "1"]
FORMATS = {"fp32": torch.float32, "amp": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Number format -> dtype of the parameters."""

pytestmark = pytest.mark.skipif("pretended_gpu" not in sys.modules, reason="scripts/test.sh --gpu-simulated runs it")


def train(data, save, *options):
    """Train, and return the log and the losses of two validations."""
    command = ["fairseq-train", str(data), *PLUGIN, *MODEL, "--save-dir", str(save), *options]
    log = run_command(command, save.parent).stdout
    return log, [float(loss) for loss in re.findall(r"\| valid \| .*? \| loss ([\d.]+)", log)]


@pytest.fixture(scope="module")
def without_gpu(corpus, tmp_path_factory):
    """Folder and validation losses of a float32 training without GPUs, run before ``machine`` exists."""
    save = tmp_path_factory.mktemp("without") / "run"
    return save, train(corpus / "bin", save, *CPU, *WHOLE)[1]


@pytest.fixture(scope="module", autouse=True)
def machine(without_gpu):
    """Commands run on the simulated GPUs."""
    environment = {**os.environ, "PRETENDED_GPUS": "2"}
    with contextlib.closing(CommandServer(launcher=[PRETENDING], environment=environment)) as server:
        PROGRAMS.insert(0, str(server.programs))
        yield
        PROGRAMS.remove(str(server.programs))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_one_worker_trains_in_the_requested_format(device, name, without_gpu, corpus, tmp_path):
    """With --cpu the GPUs are left alone; parameters have the requested dtype but are saved in float32."""
    save, option = tmp_path / "run", [] if name == "fp32" else [f"--{name}"]
    log, (first, last) = train(corpus / "bin", save, *device, *option, *WHOLE)
    assert "training on 1 devices" in log and ("rank   0: capabilities =  8.0" in log) == (device is GPU)
    assert last < 0.9 * first and [first, last] == pytest.approx(without_gpu[1], rel=0.01)
    files = (run / "checkpoint_last.pt" for run in (save, without_gpu[0]))
    saved, expected = (torch.load(file, weights_only=True)["model"] for file in files)
    values = torch.cat([values.flatten() for values in saved.values()])
    assert {d for d in FORMATS.values() if torch.equal(values, values.to(d).float())} == {FORMATS[name], torch.float32}
    if device is CPU:
        assert FORMATS[name] is not torch.float32 or all(torch.equal(saved[key], expected[key]) for key in expected)


@pytest.mark.parametrize("name, devices", [("fp16", (CPU, GPU)), ("bf16", (GPU, CPU))], ids=["to a GPU", "to a CPU"])
def test_a_training_continues_on_another_device(name, devices, without_gpu, corpus, tmp_path):
    """The optimiser's state has the same form in both."""
    for device, updates in zip(devices, (HALF, WHOLE)):
        log, losses = train(corpus / "bin", tmp_path / "run", *device, f"--{name}", *updates)
    assert "Loaded checkpoint" in log and losses[-1] == pytest.approx(without_gpu[1][-1], rel=0.01)


def test_an_auxiliary_task_trains_on_a_gpu_as_on_a_cpu(corpus, tmp_path):
    """The pairs of texts and the modules that the task adds to the model are moved to the GPU."""
    write_labelled_pairs(tmp_path)
    options = "--arch entail_s2s --encoder-embed-dim 16 --encoder-hidden-size 16 --readout-dim 16 --dropout 0"
    options += " --optimizer adam --lr 1e-2 --batch-size 60 --max-update 6 --disable-validation --num-workers 0"
    options += " --auxiliary-task entailment --auxiliary-every 2:1 --auxiliary-words spaces --auxiliary-batch-size 16"
    command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, *options.split(), "--auxiliary-data", str(tmp_path)]
    command += ["--log-format", "simple", "--log-interval", "1", "--save-dir"]
    losses = []
    for name, device in (("cpu", CPU), ("gpu", GPU)):
        log = run_command([*command, str(tmp_path / name), *device], tmp_path).stdout
        losses.append([float(loss) for loss in re.findall(r"\b(?:auxiliary_)?loss=([\d.]+)", log)])
    assert len(losses[0]) == 6 + 3 and losses[0] == pytest.approx(losses[1], rel=0.01)


def test_two_processes_validate_many_batches(without_gpu, corpus, tmp_path):
    """The figures of 20 batches are 70,000 bytes, which gloo gathers here as NCCL would on GPUs."""
    validate = ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(without_gpu[0] / "checkpoint_best.pt")]
    validate += ["--batch-size", "1", "--required-batch-size-multiple", "1", "--num-workers", "0"]

    def run(*options):
        return run_command([*validate, *options], tmp_path).stdout

    one = re.search(r"\| loss [\d.]+ \|", run())[0]
    first, second = by_two_workers(run, "--distributed-backend", "cpu:gloo,cuda:gloo")
    assert one in first and "as rank 1" in second


def test_the_check_of_a_gpu_writes_its_report(tmp_path):
    script = str(ROOT / "scripts" / "gpu_check.py")
    assert "torch finds no GPU" in run_command(["python", script], tmp_path, check=False).stdout
    run_command(["python", PRETENDING, script, "--", "-k", "of_pointers"], tmp_path)
    report = json.loads((tmp_path / "gpu_check.json").read_text())
    assert report["gpu"] == "pretended" and report["tests"] == {"passed": 6} and len(report["milliseconds"]) == 6
