"""Entail-s2s by the real commands: the auxiliary task, then edited references; both resume bit for bit."""

import re

import pytest
import torch
from helpers import run_command
from seeds import shifted
from toy import PLUGIN, write_labelled_pairs

SIZES = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--readout-dim", "16", "--num-workers", "0"]
TRAIN = ["--optimizer", "adam", "--lr", "1e-2", "--clip-norm", "5", "--batch-size", "60", "--sentence-avg"]
TRAIN += ["--truncate-source", "9", "--truncate-target", "5", "--log-format", "simple", "--log-interval", "1"]
TRAIN += ["--cpu", "--no-epoch-checkpoints", "--disable-validation", "--seed", str(shifted(3)), "--no-progress-bar"]


def train(corpus, save, updates, *options):
    """Continue the training; returns the log and the parameters."""
    command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "entail_s2s", *SIZES, *TRAIN, *options]
    command += ["--save-dir", str(save), "--max-update", str(updates)]
    output = run_command(command, cwd=corpus).stdout
    return output, torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Folder for --auxiliary-data."""
    folder = tmp_path_factory.mktemp("nli")
    write_labelled_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def beside(corpus, pairs, tmp_path_factory):
    """13 updates, the tenth ends an epoch; three on pairs follow every fourth one. Results without and with an
    interruption.
    """
    folder = tmp_path_factory.mktemp("beside")
    options = ["--auxiliary-task", "entailment", "--auxiliary-data", str(pairs), "--auxiliary-every", "4:3"]
    options += ["--auxiliary-words", "spaces", "--auxiliary-batch-size", "16"]
    whole = train(corpus, folder / "whole", 13, *options)
    train(corpus, folder / "parts", 7, *options)
    return folder, whole, train(corpus, folder / "parts", 13, *options)


def test_training_on_pairs_goes_on_as_if_uninterrupted(beside):
    _, (output, whole), (resumed, parts) = beside
    assert "50 pairs" in output and "@ 7 updates" in resumed
    assert any(name.startswith("pair_classifier.") for name in whole)
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
    logged = [line for line in output.splitlines() if "train_inner" in line]
    assert len(logged) == 13, "an update on pairs was counted"
    assert re.search(r"auxiliary_accuracy=[\d.]+", logged[3]) and "auxiliary" not in logged[2]
