"""Trainings that are interrupted, saved and resumed, and their times of validation."""

import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from helpers import environment, run_command
from toy import PLUGIN, SMALL_MODEL, summaries

UPDATES = 30


def train_command(corpus, save, *options):
    return [
        *("fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "etads", *SMALL_MODEL, "--dropout", "0.3"),
        *("--lr", "1e-3", "--save-dir", str(save), "--no-epoch-checkpoints", "--log-interval", "1", *options),
    ]


def checkpoint(save):
    return torch.load(save / "checkpoint_last.pt", weights_only=True)


def updates_of(save):
    return checkpoint(save)["optimizer_history"][-1]["num_updates"]


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A training without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    run_command(train_command(corpus, folder, "--max-update", str(UPDATES), "--disable-validation"), cwd=folder)
    return folder


def wait_for(path, text):
    deadline = time.monotonic() + 120
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text()[-2000:]
        time.sleep(0.01)


def test_a_training_interrupted_before_its_first_checkpoint_is_saved(corpus, whole, tmp_path):
    """Otherwise the whole training would be lost, although the script says that the same command continues it."""
    options = ("--max-epoch", "100000", "--disable-validation", "--data-buffer-size", "1")
    command, log = train_command(corpus, tmp_path, *options), tmp_path / "said"
    with open(log, "w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(anew=True), stdout=said, stderr=said)
        wait_for(log, "num_updates=3,")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 128 + signal.SIGINT, log.read_text()[-2000:]
    reached = updates_of(tmp_path)
    assert 3 <= reached < UPDATES, f"interrupted too late to show anything: {reached} updates"
    assert f"Interrupted by SIGINT after {reached} updates" in log.read_text()

    run_command(train_command(corpus, tmp_path, "--max-update", str(UPDATES), "--disable-validation"), cwd=tmp_path)
    resumed = checkpoint(tmp_path)["model"]
    for name, value in checkpoint(whole)["model"].items():
        assert torch.equal(value, resumed[name]), f"{name} differs after resuming"


def validated(output):
    return [int(number) for number in re.findall(r"valid on 'valid' subset .*num_updates (\d+)", output)]


def test_patience_counts_validations_and_not_saves_and_counts_on_after_a_restart(corpus, tmp_path):
    """With a learning rate of 0, no validation is better than the first one."""
    options = ["--lr", "0", "--save-interval-updates", "1", "--validate-interval-updates", "4", "--patience", "3"]
    options += ["--validate-interval", "99"]
    first = run_command(train_command(corpus, tmp_path, *options, "--max-update", "8"), cwd=tmp_path).stdout
    assert validated(first) == [4, 8]
    assert "training plan: patience: training ends after 3 validations without a better loss, at most 12" in first
    second = run_command(train_command(corpus, tmp_path, *options, "--max-update", "99"), cwd=tmp_path).stdout
    assert validated(second) == [12, 16] and "early stop" in second
    third = run_command(train_command(corpus, tmp_path, *options, "--max-update", "99"), cwd=tmp_path).stdout
    assert "--patience 3: training is complete after 16 updates" in third and validated(third) == []
    assert updates_of(tmp_path) == 16


INTERRUPTED = """
import os, signal, sys
import fairseq_cli.train as command
from fairseq.trainer import Trainer
name = sys.argv.pop(1)
owner = command if name == "validate" else Trainer
plain = getattr(owner, name)
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return plain(*arguments)
setattr(owner, name, interrupted)
command.cli_main()
"""
"""fairseq-train that receives SIGTERM during its first validation or update."""


@pytest.mark.parametrize(
    "name, options",
    [("validate", ["--max-update", "4"]), ("train_step", ["--max-epoch", "1", "--max-tokens", "99999"])],
)
def test_an_interrupted_validation_is_run_when_training_is_resumed(corpus, tmp_path, name, options):
    """Otherwise the last model would never be validated, and there would be no best checkpoint."""
    command = train_command(corpus, tmp_path, *options)
    first = run_command([sys.executable, "-c", INTERRUPTED, name, *command[1:]], cwd=tmp_path, check=False)
    assert first.returncode == 128 + signal.SIGTERM and validated(first.stdout) == [], first.stdout[-2000:]
    assert not (tmp_path / "checkpoint_best.pt").exists()
    position, updates = checkpoint(tmp_path)["extra_state"]["train_iterator"], updates_of(tmp_path)
    assert (position["iterations_in_epoch"] == 0) == (name == "train_step")
    assert validated(run_command(command, cwd=tmp_path).stdout) == [updates]
    best = torch.load(tmp_path / "checkpoint_best.pt", weights_only=True)["extra_state"]
    last = checkpoint(tmp_path)["extra_state"]
    assert best["val_loss"] == best["best"] == last["val_loss"]
    assert {name: last["train_iterator"][name] for name in position} == position
    assert validated(run_command(command, cwd=tmp_path).stdout) == []


def test_training_saves_every_few_minutes_without_validating(corpus, tmp_path):
    options = ["--max-update", "4", "--save-interval-minutes", "1e-9", "--validate-interval", "99"]
    output = run_command(train_command(corpus, tmp_path, *options), cwd=tmp_path).stdout
    assert len(re.findall(r"Saved checkpoint .*checkpoint_last.pt", output)) == 3
    assert validated(output) == [4]


def test_a_rate_falls_after_validations_without_a_better_loss(corpus, tmp_path):
    """The rate falls before the first epoch ends; fairseq's reduce_lr_on_plateau only uses losses at the ends of
    epochs.
    """
    options = ["--max-update", "12", "--validate-interval-updates", "3", "--validate-interval", "99", "--lr", "1e-6"]
    options += ["--lr-scheduler", "reduce_lr_on_validation", "--lr-shrink", "0.5", "--lr-threshold", "0.5"]
    output = run_command(train_command(corpus, tmp_path, *options, "--max-tokens", "40"), cwd=tmp_path).stdout
    rates = [float(rate) for rate in re.findall(r"train_inner .*\blr=([\d.e-]+)", output)]
    assert rates == [1e-6] * 6 + [5e-7] * 3 + [2.5e-7] * 3


def test_the_rate_falls_after_epochs_as_without_interruption(corpus, tmp_path):
    """fairseq saves before the scheduler learns the result of an epoch, and does not save how many were worse."""
    options = ["--lr", "1e-6", "--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", "0.5", "--lr-threshold", "0.5"]
    options += ["--lr-patience", "1", "--batch-size", "300", "--max-tokens", "9999", "--max-epoch"]
    whole = run_command(train_command(corpus, tmp_path / "whole", *options, "4"), cwd=tmp_path).stdout
    parts = [run_command(train_command(corpus, tmp_path / "save", *options, n), cwd=tmp_path).stdout for n in "34"]
    rates = [re.findall(r"train_inner .*\blr=([\d.e-]+)", output) for output in (whole, "".join(parts))]
    assert rates[0] == rates[1] == ["1e-06"] * 9 + ["5e-07"] * 3
    resumed = checkpoint(tmp_path / "save")["model"]
    assert all(torch.equal(value, resumed[name]) for name, value in checkpoint(tmp_path / "whole")["model"].items())


def test_stages_go_on_as_if_unbroken(corpus, tmp_path):
    """Weights and Adagrad's sums of two stages are those of one training (See et al. 2017)."""

    def train(name, updates, *options):
        command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "pointer_generator", "--no-paper-init"]
        command += ["--encoder-embed-dim", "16", "--encoder-hidden-size", "12", "--attention-dim", "10", "--cpu"]
        command += ["--readout-dim", "12", "--criterion", "summarization_nll", "--length-normalised", "--no-end-if-cut"]
        command += ["--optimizer", "lazy_adagrad", "--lr", "0.15", "--initial-accumulator", "0.1", "--clip-norm", "2"]
        command += ["--truncate-source", "5", "--truncate-target", "2", "--batch-size", "8", "--sort-within", "10"]
        command += ["--disable-validation", "--no-epoch-checkpoints", "--num-workers", "0", "--max-update", updates]
        log = run_command([*command, "--save-dir", str(tmp_path / name), *options], cwd=tmp_path).stdout
        state = checkpoint(tmp_path / name)
        return log, [state["model"], [value["sum"] for value in state["last_optimizer_state"]["state"].values()]]

    _, whole = train("whole", "4")
    train("first", "2")
    log, resumed = train("second", "4", "--continue-once", str(tmp_path / "first" / "checkpoint_last.pt"))
    assert "@ 2 updates" in log and checkpoint(tmp_path / "second")["task_state"]["no_end_if_cut"]
    torch.testing.assert_close(resumed, whole, rtol=1e-4, atol=1e-6)


def test_shared_layers_survive_half_precision_resuming_and_averaging(corpus, tmp_path):
    """Half precision as on a GPU, by the optimiser that also works without one."""
    options = ["--arch", "gated_es_transformer", "--memory-efficient-fp16", "--fp16-init-scale", "4"]
    options += ["--save-interval-updates", "2", "--disable-validation", "--max-update"]
    run_command(train_command(corpus, tmp_path, *options, "2"), cwd=tmp_path)
    assert "@ 2 updates" in run_command(train_command(corpus, tmp_path, *options, "6"), cwd=tmp_path).stdout
    saved = sorted(map(str, tmp_path.glob("checkpoint_*_*.pt")))
    assert len(saved) >= 2
    run_command(["etads-average", "mean.pt", *saved], cwd=tmp_path)
    found = run_command(
        ["fairseq-generate", str(corpus / "bin"), *PLUGIN, "--path", "mean.pt", "--cpu", "--max-len-b", "6"],
        cwd=tmp_path,
    )
    assert len(summaries(found.stdout)) == 37
