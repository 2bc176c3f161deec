"""Explicit-Selection by the real commands: labels, continued training, summaries, a model folder."""

import re

import pytest
from documented import ROOT
from helpers import run_command
from toy import WORDS

import fairseq_etads  # noqa: F401  # so that checkpoints load

SIZES = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--attention-dim", "16", "--num-workers", "0"]
TRAIN = ["--selection-loss", "0.5", "--lr", "0.01", "--batch-size", "20", "--log-interval", "1"]
SCRIPT = ["--prepared", "prepared", "--out", "run", "--arch", "explicit_selection", "--cpu"]


def script(name, *arguments, work, check=True):
    return run_command([str(ROOT / "scripts" / name), *arguments], cwd=work, check=check).stdout


def write_texts(folder, split, count):
    """Three sentences; the last and the first are the summary. Names occur in only one document."""
    folder.mkdir(exist_ok=True)
    with open(folder / f"{split}.source", "w") as sources, open(folder / f"{split}.target", "w") as targets:
        for number in range(count):
            words = [WORDS[(number * 7 + k) % len(WORDS)] for k in range(6)]
            texts = [f"{words[2 * k]} {split}name{number}x{k} {words[2 * k + 1]}" for k in range(3)]
            sources.write(" <q> ".join(texts) + "\n")
            targets.write(f"{texts[2]} <q> {texts[0]}\n")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Prepared data with labels, and run/ trained in two parts; said.txt is the log of the second one."""
    work = tmp_path_factory.mktemp("explicit")
    for split, count in (("train", 60), ("valid", 10), ("test", 6)):
        write_texts(work / "text", split, count)
    prepare = ["etads-prepare", "text", "prepared", "--tokens", "word", "--words", "spaces", "--size", "25"]
    run_command([*prepare, "--source-sentence-marks", "--jobs", "1"], cwd=work)
    refused = script("train.sh", *SCRIPT, "--max-update", "1", "--", *SIZES, *TRAIN, work=work, check=False)
    assert "--selection-loss: there is no prepared/bin/labels.sentences." in refused and "etads-labels" in refused
    run_command(["etads-labels", "prepared", "--kind", "distribution", "--jobs", "1"], cwd=work)
    script("train.sh", *SCRIPT, "--max-update", "30", "--", *SIZES, *TRAIN, work=work)
    script("train.sh", *SCRIPT, "--max-update", "60", "--", *SIZES, *TRAIN, work=work)
    return work


def test_training_goes_on_and_learns_to_select(work):
    log = (work / "run" / "train.log").read_text()
    assert "Loaded checkpoint" in log and "@ 30 updates" in log
    losses = [float(loss) for loss in re.findall(r"valid .* selection_loss ([\d.]+)", log)]
    assert losses[-1] < 0.7 * losses[0], losses


def test_summaries_have_sentences_and_unknown_words(work):
    options = ["--output", "out.txt", "--beam", "3", "--max-len", "20", "--cpu", "--", "--min-sentences", "2"]
    script("generate.sh", "--run", "run", "--prepared", "prepared", *options, work=work)
    found = [text.split() for text in (work / "out.txt").read_text().splitlines()]
    documents = [text.split() for text in (work / "text" / "test.source").read_text().splitlines()]
    assert len(found) == len(documents)
    copied = [word for words, document in zip(found, documents) for word in words if word in document]
    assert any("name" in word for word in copied), found


def test_a_model_folder_summarises_raw_text(work):
    run_command(["etads-export", "run", "model", "--prepared", "prepared"], cwd=work)
    (work / "new.txt").write_text("word1 unheard word2 <q> word3 other word4 <q> word5 third word6\n")
    found = run_command(["etads-summarize", "model", "new.txt", "--device", "cpu"], cwd=work).stdout
    assert found.strip() and "Traceback" not in found
    read = [line for line in found.splitlines() if "word" in line or "unheard" in line or "other" in line]
    assert read, found
