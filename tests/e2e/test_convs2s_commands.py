"""Convolutional models by the real commands: ours, and fairseq's own fconv; control words on new text."""

import math
import re
from collections import Counter

import pytest
import torch
from helpers import run_command
from seeds import shifted
from toy import PLUGIN, summaries

SIZES = {"train": 800, "valid": 60, "test": 20}
SMALL = [
    *("--encoder-embed-dim", "48", "--decoder-embed-dim", "48", "--decoder-out-embed-dim", "48", "--dropout", "0.1"),
    *("--encoder-layers", "[(48, 3)]", "--decoder-layers", "[(48, 3)]"),
]
TRAIN = [
    *("--criterion", "summarization_nll", "--batch-size", "16", "--truncate-source", "60", "--no-epoch-checkpoints"),
    *("--num-workers", "0", "--log-format", "simple", "--cpu", "--seed", str(shifted(3))),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The first pairs of the sample corpus with a word for the length of the synopsis, and its first 800 words."""
    directory = tmp_path_factory.mktemp("convs2s")
    run_command(["etads-debian", "--sample", "--out", str(directory / "all")], cwd=directory)
    text = directory / "text"
    text.mkdir()
    for split, size in SIZES.items():
        for side in ("source", "target"):
            lines = (directory / "all" / f"{split}.{side}").read_text(encoding="utf-8").split("\n")[:size]
            (text / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_command(["etads-control", "text", "controlled", "--length-bins", "3"], cwd=directory)
    prepare = ["etads-prepare", "controlled", "run/prepared", "--tokens", "word", "--size", "800", "--jobs", "1"]
    run_command(prepare, cwd=directory)
    return directory


def train(data, save, arch, *options):
    command = ["fairseq-train", str(data / "run/prepared/bin"), *PLUGIN, "--arch", arch, *SMALL, *TRAIN, *options]
    return run_command([*command, "--save-dir", str(save)], cwd=data).stdout


def generate(data, save, *options):
    command = ["fairseq-generate", str(data / "run/prepared/bin"), *PLUGIN, "--cpu", "--max-len-b", "12", *options]
    return summaries(run_command([*command, "--path", str(save / "checkpoint_last.pt")], cwd=data).stdout)


def unigram_bits(data):
    """Bits per token of validation summaries by frequencies in training, plus 1; all unknown words count as one
    word.
    """
    tokens = data / "run/prepared/tokens"
    entries = (data / "run/prepared/bin/dict.target.txt").read_text(encoding="utf-8").splitlines()
    known = {word for word, count in map(str.split, entries) if int(count) > 0}

    def words(split):
        for line in (tokens / f"{split}.target").read_text(encoding="utf-8").splitlines():
            yield from (word if word in known else "<unk>" for word in line.split())
            yield "</s>"

    counts = Counter(words("train"))
    total = sum(counts.values()) + len(known) + 2
    found = [-math.log2((counts[word] + 1) / total) for word in words("valid")]
    return sum(found) / len(found)


def test_two_hundred_updates_beat_the_frequencies_of_words(data):
    save = data / "run/checkpoints"
    log = train(
        data, save, "convs2s", "--pointer", "none", "--optimizer", "adam", "--lr", "2e-3", "--max-update", "200"
    )
    loss = [float(found) for found in re.findall(r"\| valid \|.*? nll_loss ([\d.]+)", log)][-1]
    assert loss < unigram_bits(data) - 0.3, log[-2000:]
    found = generate(data, save, "--beam", "3", "--replace-unknown")
    assert sorted(found) == list(range(SIZES["test"]))
    assert not any("<unk>" in summary for summary in found.values()), "it returned no attention"


def test_fairseqs_own_model_trains_and_summarises(data):
    save = data / "fconv"
    train(
        data,
        save,
        "fconv",
        "--optimizer",
        "nag",
        "--momentum",
        "0.99",
        "--lr",
        "0.25",
        "--clip-norm",
        "0.1",
        "--max-update",
        "3",
        "--disable-validation",
    )
    model = torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]
    assert any(key.startswith("decoder.fc3.weight") for key in model)
    found = generate(data, save, "--beam", "3", "--replace-unknown")
    assert sorted(found) == list(range(SIZES["test"]))
    assert not any("<unk>" in summary for summary in found.values())


def test_an_exported_model_obeys_control_words_before_new_text(data):
    """It reads control words as ordinary words."""
    run_command(["etads-export", "run", "model", "--checkpoint", "run/checkpoints/checkpoint_last.pt"], cwd=data)
    line = (data / "text/test.source").read_text(encoding="utf-8").splitlines()[0]
    given = "".join(f"{word}{line}\n" for word in ("lengthbin1 ", "lengthbin3 "))
    answer = run_command(["etads-summarize", "model", "--output", "out.txt"], cwd=data, input=given)
    assert len((data / "out.txt").read_text(encoding="utf-8").splitlines()) == 2, answer.stdout
    known = (data / "model/dict.source.txt").read_text(encoding="utf-8").split()
    assert {"lengthbin1", "lengthbin2", "lengthbin3"} <= set(known)
