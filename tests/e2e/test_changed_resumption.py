"""Trainings that resume with other data or other options than the checkpoint's."""

import re

import pytest
import torch
from helpers import run_command
from toy import PLUGIN, PREPROCESS, SMALL_MODEL, write_pairs


def train(data, save, *options, check=True):
    command = ["fairseq-train", str(data), *PLUGIN, "--arch", "etads", *SMALL_MODEL, "--lr", "1e-3", "--dropout", "0.1"]
    command += ["--save-dir", str(save), "--no-epoch-checkpoints", "--disable-validation", "--log-interval", "1"]
    return run_command([*command, *options], cwd=save.parent, check=check)


def checkpoint(save):
    return torch.load(save / "checkpoint_last.pt", weights_only=True)


@pytest.fixture(scope="module")
def permuted(corpus, tmp_path_factory):
    """The corpus with a dictionary of the same words in another order."""
    folder = tmp_path_factory.mktemp("permuted")
    lines = (corpus / "bin" / "dict.source.txt").read_text().splitlines()
    (folder / "dict.txt").write_text("\n".join([*lines[1:8], lines[0], *lines[8:]]) + "\n")
    texts = [f"--{split}pref={corpus / 'text' / split}" for split in ("train", "valid")]
    run_command([*PREPROCESS, str(folder / "bin"), *texts, "--srcdict", str(folder / "dict.txt")], cwd=folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def begun(corpus, tmp_path_factory):
    """A training of four updates."""
    save = tmp_path_factory.mktemp("begun") / "save"
    train(corpus / "bin", save, "--max-update", "4")
    return save


def resumed(begun, save):
    """Folder with a training that can be resumed."""
    save.mkdir()
    (save / "checkpoint_last.pt").write_bytes((begun / "checkpoint_last.pt").read_bytes())
    return save


@pytest.mark.parametrize("option", ["--save-dir", "--finetune-from-model"])
def test_a_dictionary_with_the_same_words_in_another_order_is_refused(option, begun, permuted, tmp_path):
    """Such a dictionary used to be accepted; after the next checkpoint, the right data was refused."""
    save = resumed(begun, tmp_path / "save") if option == "--save-dir" else tmp_path / "new"
    options = [] if option == "--save-dir" else [option, str(begun / "checkpoint_last.pt")]
    before = (save / "checkpoint_last.pt").read_bytes() if save.exists() else b""
    result = train(permuted, save, *options, "--max-update", "8", check=False)
    assert result.returncode == 1
    last = result.stdout.strip().splitlines()[-1]
    assert "training cannot continue from" in last and "checkpoint_last.pt with" in last
    assert "the source dictionary in DATA" in last
    assert ((save / "checkpoint_last.pt").read_bytes() if before else b"") == before


def test_another_scheduler_begins_where_the_training_is(begun, corpus, tmp_path):
    """Some schedulers used to fail with KeyError: 'best'."""
    save, more = resumed(begun, tmp_path / "save"), ["--warmup-updates", "16"]
    log = train(corpus / "bin", save, "--max-update", "5", "--lr-scheduler", "reduce_lr_on_plateau", *more).stdout
    assert re.findall(r"train_inner .*\blr=([\d.e-]+)", log) == ["0.0003125"]


def test_an_average_may_be_added(begun, corpus, tmp_path):
    save = resumed(begun, tmp_path / "save")
    start = checkpoint(begun)["model"]
    options = ["--store-ema", "--ema-decay", "0.5", "--max-update", "5"]
    train(corpus / "bin", save, *options)
    state = checkpoint(save)
    layers = [name for name in start if ".layers." in name]  # fairseq averages a shared table several times
    for name in layers:
        value = state["model"][name]
        torch.testing.assert_close(state["extra_state"]["ema"][name], (start[name] + value) / 2)


def test_an_average_resumes_bit_for_bit(corpus, tmp_path):
    """fairseq counted the updates of --ema-update-freq from 0 again."""
    options = ["--store-ema", "--ema-decay", "0.9", "--ema-start-update", "2", "--ema-update-freq", "3", "--max-update"]
    train(corpus / "bin", tmp_path / "whole", *options, "9")
    for updates in ("4", "9"):
        train(corpus / "bin", tmp_path / "save", *options, updates)
    whole, parts = (checkpoint(tmp_path / name)["extra_state"]["ema"] for name in ("whole", "save"))
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())


def test_the_best_value_of_another_metric_is_forgotten(corpus, tmp_path):
    def validate(save, *options):
        command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "etads", *SMALL_MODEL, "--lr", "1e-3"]
        run_command([*command, "--save-dir", str(save), *options], cwd=tmp_path)

    validate(tmp_path / "save", "--max-update", "2", "--patience", "3")
    validate(tmp_path / "save", "--max-update", "3", "--best-checkpoint-metric", "ppl", "--lr", "0")
    state = checkpoint(tmp_path / "save")["extra_state"]
    assert state["best"] == state["val_loss"]


def test_half_precision_trains_on_a_cpu_through_overflows(corpus, tmp_path):
    """fairseq asked for CUDA when the first update overflowed."""
    options = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", str(2**24), "--max-update", "2"]
    log = train(corpus / "bin", tmp_path / "save", *options).stdout
    assert "gradient overflow detected" in log
    assert checkpoint(tmp_path / "save")["optimizer_history"][-1]["num_updates"] == 2


def test_an_empty_split_of_several_folders_is_named_before_training(corpus, tmp_path):
    (tmp_path / "b").mkdir()
    write_pairs(tmp_path / "b", "train", 0, seed=3)
    dictionary = ["--srcdict", str(corpus / "bin" / "dict.source.txt")]
    run_command(
        [*PREPROCESS, str(tmp_path / "b"), f"--trainpref={tmp_path / 'b' / 'train'}", *dictionary], cwd=tmp_path
    )
    result = train(f"{corpus / 'bin'}:{tmp_path / 'b'}", tmp_path / "save", "--max-epoch", "2", check=False)
    assert result.returncode == 1
    last = result.stdout.strip().splitlines()[-1]
    assert f'the split "train" in "{tmp_path / "b"}" has no pairs' in last
    assert not (tmp_path / "save" / "checkpoint_last.pt").exists()
