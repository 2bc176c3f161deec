"""Training with rewards by the real commands: it starts from a model, resumes, and runs with two workers."""

import re

import torch
from helpers import run_command
from toy import PLUGIN, SMALL_MODEL


def train(corpus, trained, save, *options):
    """Continue training from the checkpoint of the likelihood; returns the log and the parameters."""
    command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "etads", *SMALL_MODEL, "--dropout", "0.1"]
    command += ["--lr", "1e-3", "--truncate-source", "8", "--truncate-target", "5", "--finetune-from-model"]
    command += [str(trained / "checkpoint_best.pt"), "--criterion", "summarization_rl", "--rewards", "rouge1,rougeL"]
    command += ["--rl-weight", "0.9", "--rl-max-len", "6", "--save-dir", str(save), "--no-epoch-checkpoints"]
    output = run_command([*command, "--log-interval", "2", "--disable-validation", *options], cwd=corpus).stdout
    return output, torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]


def test_it_goes_on_from_a_model_and_resumes_bit_for_bit(corpus, trained, tmp_path):
    output, whole = train(corpus, trained, tmp_path / "whole", "--max-update", "12")
    for figure in ("reward_rouge1", "reward_rougeL", "greedy_rougeL", "sampled_words", "unfinished", "nll_loss"):
        assert re.search(rf"\b{figure}=[\d.]+", output), figure
    rewards = [float(value) for value in re.findall(r"greedy_rougeL=([\d.]+)", output)]
    assert min(rewards) > 0.3, "the model that it began with had learnt the task"

    train(corpus, trained, tmp_path / "parts", "--max-update", "5")
    output, parts = train(corpus, trained, tmp_path / "parts", "--max-update", "12")
    assert "@ 5 updates" in output
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
