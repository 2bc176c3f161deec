"""Sentences selected and rewritten by the real commands: labels, both trainings of the extractor, resumed,
summaries.
"""

import re

import pytest
import torch
from helpers import run_command
from test_selection_commands import TRAIN, write_texts
from toy import PLUGIN, PREPROCESS

SIZES = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--no-epoch-checkpoints"]
EXTRACTOR = ["--arch", "pointer_extractor", *SIZES, "--sentence-filters", "8", "--decoder-hidden-size", "16"]


def train(work, save, updates, *options):
    command = ["fairseq-train", "bin", *PLUGIN, *TRAIN, *options, "--save-dir", f"{save}/checkpoints"]
    return run_command([*command, "--max-update", str(updates)], cwd=work).stdout


def weights(work, save):
    return torch.load(work / save / "checkpoints/checkpoint_last.pt", weights_only=True)["model"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Data with labels in the order of summaries, an almost untrained abstractor, a trained extractor."""
    directory = tmp_path_factory.mktemp("rewriting")
    for seed, (split, count) in enumerate((("train", 300), ("valid", 20), ("test", 20))):
        write_texts(directory, split, count, seed)
    run_command([*PREPROCESS, "bin", *(f"--{s}pref={s}" for s in ("train", "valid", "test"))], cwd=directory)
    run_command(["etads-labels", "bin", "--kind", "match", "--jobs", "1", "--subset", "train", "valid"], cwd=directory)
    train(directory, "abstractor", 4, "--arch", "sentence_rewriter", *SIZES, "--criterion", "summarization_nll")
    said = train(directory, "extractor", 60, *EXTRACTOR, "--criterion", "extractor_nll")
    assert float(re.findall(r"valid on .* accuracy ([\d.]+)", said)[-1]) > 0.8
    return directory


def by_rewards(work, save, updates):
    begin = ["--init-from", "extractor/checkpoints/checkpoint_best.pt", "--lr", "1e-3", "--log-interval", "1"]
    files = ["--abstractor", "abstractor/checkpoints/checkpoint_last.pt", "--rl-max-len", "6"]
    return train(work, save, updates, *EXTRACTOR, "--learn-to-stop", "--criterion", "extractor_rl", *files, *begin)


def test_rewards_go_on_from_labels_and_resume_bit_for_bit(work):
    said = by_rewards(work, "whole", 5)
    for figure in ("rewritten_rouge1", "extracted", "policy_loss", "critic_loss"):
        assert re.search(rf"\b{figure}=-?[\d.]+", said), figure
    assert re.search(
        r"new, because the checkpoint does not have them: stop, critic.value.weight, critic.value.bias", said
    )
    by_rewards(work, "parts", 2)
    assert "@ 2 updates" in by_rewards(work, "parts", 5)
    whole, parts = weights(work, "whole"), weights(work, "parts")
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
    assert not torch.equal(whole["stop"], torch.zeros_like(whole["stop"])) and set(whole) == set(parts)


def test_summaries_are_written_and_wrong_checkpoints_refused(work):
    if not (work / "whole").exists():
        by_rewards(work, "whole", 5)
    command = ["etads-rewrite", "bin", "out.txt", "--abstractor", "abstractor", "--device", "cpu", "--max-len", "6"]
    said = run_command([*command, "--extractor", "whole", "--rerank", "--beam", "3"], cwd=work).stdout
    assert "out.txt: 20 summaries of " in said
    lines = (work / "out.txt").read_text().splitlines()
    assert len(lines) == 20 and all(line and len(line.split("<q>")) <= 3 for line in lines)
    refused = run_command(["etads-select", "whole"], cwd=work, check=False)
    assert refused.returncode == 2 and "use etads-rewrite for an extractor" in refused.stdout
