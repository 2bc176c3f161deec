"""Commands on a machine that pretends to have two GPUs (tests/pretended): with ``--cpu``, and in each dtype.

This does not test the results of a real GPU; tests/gpu does.
"""

import contextlib
import re
import shutil
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
FORMATS = {
    "fp32": torch.float32,
    "amp": torch.float32,
    "fp16": torch.float16,
    "memory-efficient-fp16": torch.float16,
    "bf16": torch.bfloat16,
    "memory-efficient-bf16": torch.bfloat16,
}
"""Dtype, named like its option -> the dtype of the model's parameters."""

pytestmark = [
    pytest.mark.skipif(torch.version.cuda is not None, reason="torch with CUDA has no room for a simulated GPU"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile the simulated device"),
]


@pytest.fixture(scope="module")
def machine():
    """Folder of programs that run commands on the simulated GPUs; ``run_command`` finds them first."""
    with contextlib.closing(CommandServer(launcher=[PRETENDING, "--devices", "2"])) as server:
        PROGRAMS.insert(0, str(server.programs))
        yield server.programs
        PROGRAMS.remove(str(server.programs))


def number_format(name):
    return [] if name == "fp32" else [f"--{name}"]


def train(data, save, *options, anew=False, check=True):
    return run_command(
        ["fairseq-train", str(data), *PLUGIN, *MODEL, "--save-dir", str(save), *options],
        cwd=save.parent,
        check=check,
        anew=anew,
    ).stdout


def valid_losses(log):
    return [
        float(loss) for loss in re.findall(r"\| valid \| epoch \d+ \| valid on 'valid' subset \| loss ([\d.]+)", log)
    ]


def parameters(save):
    return torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]


def check_training(log, save, name):
    """One worker trains, the loss falls, and parameters have the requested dtype but are saved in float32."""
    assert "training on 1 devices" in log, "there was a worker for each GPU"
    first, last = valid_losses(log)
    assert last < 0.9 * first
    values = torch.cat([values.flatten() for values in parameters(save).values()])
    fitting = {dtype for dtype in FORMATS.values() if torch.equal(values, values.to(dtype).float())}
    assert fitting == {FORMATS[name], torch.float32}


@pytest.fixture(scope="module")
def without_gpu(corpus, tmp_path_factory):
    """Folder and validation losses of a float32 training without GPUs, run before ``machine`` exists."""
    save = tmp_path_factory.mktemp("without") / "run"
    return save, valid_losses(train(corpus / "bin", save, "--cpu", *WHOLE))


def test_a_gpu_is_pretended(without_gpu, machine, tmp_path):
    script = (
        "import torch; a = torch.ones(2, device='cuda'); print(torch.cuda.device_count(), a.is_cuda, a.sum().item())"
    )
    assert run_command(["python", "-"], cwd=tmp_path, input=script).stdout.endswith("2 True 2.0\n")
    mixed = run_command(["python", "-"], cwd=tmp_path, input=f"{script}; a @ torch.ones(2)", check=False)
    assert mixed.returncode == 1 and "MixedDevicesError" in mixed.stdout


@pytest.mark.parametrize("name", FORMATS)
def test_with_cpu_the_gpus_are_left_alone(name, without_gpu, machine, corpus, tmp_path):
    log = train(corpus / "bin", tmp_path / "run", "--cpu", *number_format(name), *WHOLE)
    check_training(log, tmp_path / "run", name)
    save, losses = without_gpu
    expected = parameters(save)
    assert valid_losses(log) == pytest.approx(losses, rel=0.01)
    if FORMATS[name] is torch.float32:
        assert all(torch.equal(values, expected[key]) for key, values in parameters(tmp_path / "run").items())
    assert ("--amp: training on CPUs uses float32" in log) == (name == "amp")


@pytest.mark.parametrize("name", FORMATS)
def test_training_on_a_gpu(name, without_gpu, machine, corpus, tmp_path):
    options = ["--distributed-world-size", "1", *number_format(name), *WHOLE]
    log = train(corpus / "bin", tmp_path / "run", *options)
    check_training(log, tmp_path / "run", name)
    assert "rank   0: capabilities =  8.0" in log
    assert valid_losses(log) == pytest.approx(without_gpu[1], rel=0.01)


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_a_training_continues_on_another_device(name, without_gpu, machine, corpus, tmp_path):
    """The optimiser's state has the same form in both."""
    data, save = corpus / "bin", tmp_path / "run"
    devices = ["--cpu"], ["--distributed-world-size", "1"]
    train(data, save, *devices[name == "bf16"], *number_format(name), *HALF)
    log = train(data, save, *devices[name == "fp16"], *number_format(name), *WHOLE)
    assert "Loaded checkpoint" in log
    assert valid_losses(log)[-1] == pytest.approx(without_gpu[1][-1], rel=0.01)


def test_an_auxiliary_task_trains_on_a_gpu_as_on_a_cpu(machine, corpus, tmp_path):
    """The pairs of texts and the modules that the task adds to the model are moved to the GPU."""
    write_labelled_pairs(tmp_path)
    command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "entail_s2s", "--optimizer", "adam"]
    command += ["--lr", "1e-2", "--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--readout-dim", "16"]
    command += ["--batch-size", "60", "--num-workers", "0", "--no-epoch-checkpoints", "--disable-validation"]
    command += ["--log-format", "simple", "--log-interval", "1", "--no-progress-bar", "--max-update", "6"]
    command += ["--auxiliary-task", "entailment", "--auxiliary-data", str(tmp_path), "--auxiliary-every", "2:1"]
    command += ["--auxiliary-words", "spaces", "--auxiliary-batch-size", "16", "--dropout", "0"]

    def losses(name, *options):
        log = run_command([*command, "--save-dir", str(tmp_path / name), *options], cwd=tmp_path).stdout
        return [float(loss) for loss in re.findall(r"\b(?:auxiliary_)?loss=([\d.]+)", log)]

    found, expected = losses("gpu", "--distributed-world-size", "1"), losses("cpu", "--cpu")
    assert len(found) == 6 + 3 and found == pytest.approx(expected, rel=0.01)


def test_typed_documents_get_the_summaries_of_a_cpu(without_gpu, machine, corpus, tmp_path):
    """fairseq-interactive reads documents of different lengths, one of them empty, and copies an unknown word."""
    command = [
        "fairseq-interactive",
        str(corpus / "bin"),
        *PLUGIN,
        "--path",
        str(without_gpu[0] / "checkpoint_last.pt"),
    ]
    command += ["--beam", "3", "--max-len-b", "5", "--buffer-size", "2", "--batch-size", "2"]
    documents = "word1 word2 word3\nword4 nowhere\n\nword5\n"

    def summaries(*options):
        printed = run_command([*command, *options], cwd=tmp_path, input=documents, anew=True).stdout
        return re.findall(r"^(H-\d+)\t(\S+)\t(.*)$", printed, re.MULTILINE)

    found, wanted = summaries(), summaries("--cpu")
    assert [(number, text) for number, _, text in found] == [(number, text) for number, _, text in wanted] and len(
        found
    ) == 4
    for (_, one, _), (_, other, _) in zip(found, wanted):
        assert float(one) == pytest.approx(float(other), rel=1e-3, abs=1e-4)


def test_a_tpu_that_was_asked_for_is_not_forgotten(machine, corpus, tmp_path):
    """Without torch_xla there is no TPU; silently training on another device would be worse."""
    log = train(corpus / "bin", tmp_path / "run", "--bf16", "--tpu", *HALF, check=False)
    assert "xla" in log and not (tmp_path / "run" / "checkpoint_last.pt").exists()


def test_two_processes_validate_many_batches(without_gpu, machine, corpus, tmp_path):
    """The figures of 20 batches are 70,000 bytes. gloo gathers them, as NCCL would; fairseq does not check which one it
    is.
    """
    validate = ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(without_gpu[0] / "checkpoint_best.pt")]
    validate += ["--batch-size", "1", "--required-batch-size-multiple", "1", "--num-workers", "0"]

    def run(*options):
        return run_command([*validate, *options], cwd=tmp_path).stdout

    backend = ["--distributed-backend", "cpu:gloo,cuda:gloo"]
    one = re.search(r"\| loss [\d.]+ \|", run())[0]
    first, second = by_two_workers(run, *backend)
    assert one in first and "as rank 1" in second
