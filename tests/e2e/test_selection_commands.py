"""Content selection by the real commands: labels, selectors, probabilities, decoding with them, extraction."""

import random
import re

import pytest
import torch
from helpers import run_command
from toy import PLUGIN, PREPROCESS, SMALL_MODEL, WORDS, summaries

import fairseq_etads  # noqa: F401  # so that checkpoints load

TRAIN = ["--criterion", "selection_nll", "--optimizer", "adam", "--lr", "0.01", "--batch-size", "32", "--cpu"]
TRAIN += ["--num-workers=0", "--no-progress-bar", "--log-format", "simple", "--no-epoch-checkpoints", "--clip-norm=2"]
SIZES = {
    "word_tagger": ["--encoder-hidden-size", "16", "--encoder-embed-dim", "16", "--dropout", "0.1"],
    "sentence_extractor": ["--encoder-hidden-size", "16", "--encoder-embed-dim", "16"],
}


def write_texts(directory, split, count, seed):
    """The summary is one of the two sentences with a marker, the one after "keep", without the marker."""
    r = random.Random(seed)
    with open(directory / f"{split}.source", "w") as sources, open(directory / f"{split}.target", "w") as targets:
        for _ in range(count):
            words = r.sample(WORDS[:20], 9)
            parts = [words[:3], words[3:6], words[6:]]
            markers = ["keep", "skip", "skip"]
            r.shuffle(markers)
            sources.write(" <q> ".join(" ".join([marker, *part]) for marker, part in zip(markers, parts)) + "\n")
            targets.write(" ".join(parts[markers.index("keep")]) + "\n")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Data with labels of words and sentences."""
    directory = tmp_path_factory.mktemp("selection")
    for seed, (split, count) in enumerate((("train", 800), ("valid", 40), ("test", 50))):
        write_texts(directory, split, count, seed)
    splits = [f"--{split}pref={split}" for split in ("train", "valid", "test")]
    run_command([*PREPROCESS, "bin", *splits], cwd=directory)
    for kind in ("words", "extract"):
        said = run_command(["etads-labels", "bin", "--kind", kind, "--jobs", "1"], cwd=directory).stdout
        assert len(re.findall(r"labels\.\w+\.(train|valid|test): ", said)) == 3
    return directory


def train(work, arch, updates):
    command = ["fairseq-train", "bin", *PLUGIN, "--arch", arch, *SIZES[arch], *TRAIN, "--save-dir"]
    return run_command([*command, f"{arch}/checkpoints", "--max-update", str(updates)], cwd=work)


@pytest.fixture(scope="module")
def selectors(work):
    """Both selectors, each trained in two parts; returns the log of the second parts."""
    said = {}
    for arch in SIZES:
        train(work, arch, 50)
        said[arch] = train(work, arch, 150).stdout
    return said


@pytest.mark.parametrize("arch", SIZES)
def test_a_selector_is_trained_resumed_and_judged(work, selectors, arch):
    said = selectors[arch]
    assert "Loaded checkpoint" in said and "(epoch 3 @ 50 updates)" in said
    areas = [float(area) for area in re.findall(r"valid on .* auc ([\d.]+)", said)]
    assert areas[-1] > 0.95
    said = run_command(["etads-select", arch, "--checkpoint", "last"], cwd=work).stdout
    assert all(float(area) > 0.95 for area in re.findall(r"AUC ([\d.]+)", said)) and said.count("AUC") == 2


def test_a_pointer_copies_what_is_selected(work, selectors):
    """A summariser that is unsure which sentence to keep writes no word of another one."""
    run_command(["etads-select", "word_tagger", "--checkpoint", "last", "--subset", "test"], cwd=work)
    options = ["--pointer", "soft", "--dropout", "0", "--lr", "2e-3", "--max-update", "60", "--save-dir", "summariser"]
    run_command(
        ["fairseq-train", "bin", *PLUGIN, "--arch", "etads", *SMALL_MODEL, *options, "--criterion", "summarization_nll"]
        + ["--no-epoch-checkpoints"],
        cwd=work,
    )
    weights = torch.load(work / "summariser/checkpoint_last.pt", weights_only=True)
    weights["model"]["decoder.pointer.gate.bias"].fill_(-20.0)  # with this bias, the model always copies
    torch.save(weights, work / "copies.pt")
    generate = ["fairseq-generate", "bin", *PLUGIN, "--path", "copies.pt", "--cpu", "--beam", "3", "--max-len-b", "6"]
    plain = summaries(run_command(generate, cwd=work).stdout)
    output = run_command([*generate, "--selection", "word_tagger", "--selection-threshold", "0.5"], cwd=work).stdout
    kept = [line.split("keep ")[1].split(" <q>")[0].split() for line in (work / "test.source").read_text().splitlines()]

    def shares(found):
        return [sum(w in kept[n] for w in text.split()) / max(1, len(text.split())) for n, text in found.items()]

    selected = shares(summaries(output))
    assert sum(share == 1 for share in selected) >= 40, "<q> may be copied, too"
    assert sum(shares(plain)) < sum(selected) - 10
    refused = run_command([*generate, "--selection", "nowhere"], cwd=work, check=False)
    assert refused.returncode and "--selection: there is no nowhere/probabilities.words.test" in refused.stdout


def test_an_extractor_and_an_abstracter_are_trained_together(work, selectors):
    """The model starts from both checkpoints, but not when training resumes; the whole model summarises and selects."""
    sizes = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--attention-dim", "16", "--readout-dim", "16"]
    command = ["fairseq-train", "bin", *PLUGIN, *sizes, *TRAIN, "--criterion", "summarization_nll"]
    command += ["--coverage-loss", "1", "--length-normalised", "--no-paper-init"]
    abstractor = ["--arch", "pointer_generator_coverage", "--save-dir", "abstractor", "--max-update", "5"]
    run_command([*command, *abstractor], cwd=work)
    command += ["--arch", "unified_summarizer", "--save-dir", "together/checkpoints", "--inconsistency-loss", "1"]
    command += ["--extractor-embed-dim", "16", "--extractor-hidden-size", "16", "--extraction-loss", "5"]
    command += ["--init-from", "abstractor/checkpoint_last.pt"]
    command += ["--extractor", "sentence_extractor/checkpoints/checkpoint_last.pt", "--max-update"]
    first = run_command([*command, "30"], cwd=work).stdout
    assert len(re.findall(r"--(?:init-from|extractor) \S+: loaded [\d,]+ of", first)) == 2
    assert re.search(r"--extractor \S+: loaded .*\(100\.0%\)", first) and "in the checkpoint, but" not in first
    second = run_command([*command, "60"], cwd=work).stdout
    assert "Loaded checkpoint" in second and "@ 30 updates" in second and ": loaded" not in second
    saved = torch.load(work / "together/checkpoints/checkpoint_last.pt", weights_only=True)
    steps = {int(state["step"]) for state in saved["last_optimizer_state"]["state"].values()}
    assert steps == {60}, "the optimiser began anew"
    for name in ("extraction_loss", "inconsistency_loss"):
        losses = [float(value) for value in re.findall(rf"valid on .* {name} ([\d.]+)", first + second)]
        assert len(losses) > 1 and losses[-1] < 0.3 + (name != "extraction_loss"), (name, losses)
    generate = ["fairseq-generate", "bin", *PLUGIN, "--path", "together/checkpoints/checkpoint_last.pt", "--cpu"]
    found = summaries(run_command([*generate, "--beam", "3", "--max-len-b", "6"], cwd=work).stdout)
    assert sorted(found) == list(range(50)) and all("<unk>" not in text for text in found.values())
    said = run_command(["etads-select", "together", "--checkpoint", "last", "--subset", "test"], cwd=work).stdout
    assert "together/probabilities.sentences.test" in said and float(re.search(r"AUC ([\d.]+)", said)[1]) > 0.95
