"""A tokeniser of one's own by the real commands: from preparation to summaries of fairseq and of a model folder."""

from pathlib import Path

import pytest
from etads_preprocess.prepare import main as prepare
from helpers import run_command

pytest.importorskip("tokenizers", reason="needs the extra huggingface")

from own_tokenizers import train_tokenizer

SCRIPTS = Path(__file__).parents[2] / "scripts"
DOCUMENT = "The Ant & the Bée: “{}” isn't new."


def test_raw_text_becomes_summaries_as_raw_text(tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    for split, count in (("train", 400), ("valid", 4), ("test", 3)):
        (text / f"{split}.source").write_text("".join(f"{DOCUMENT.format(i)}\n" for i in range(count)))
        (text / f"{split}.target").write_text("The Ant <q> isn't\n" * count)
    model = train_tokenizer(tmp_path / "mine.json", "bytes", (text / "train.source").read_text().splitlines(), 280)
    prepare([str(text), str(tmp_path / "data"), "--tokens", "huggingface", "--model", str(model), "--jobs", "1"])

    options = "--recipe small --max-update 30 --cpu -- --encoder-layers 1 --decoder-layers 1 --lr 0.01 --eval-rouge"
    command = ["etads-train", "--prepared", "data", "--out", "run", *options.split()]
    shown = run_command([*command, "--max-tokens", "800", "--eval-rouge-print-samples", "1"], cwd=tmp_path).stdout
    assert "content model" not in shown and not (tmp_path / "run" / "content.npz").exists()
    log = (tmp_path / "run" / "train.log").read_text()
    assert "subwords: huggingface" in log and "reference: The Ant isn't\n" in log

    run_command(
        ["etads-summarize", "run", "--split", "test", "--output", "summaries.txt", "--device", "cpu"], cwd=tmp_path
    )
    found = (tmp_path / "summaries.txt").read_text().splitlines()
    assert found == ["The Ant isn't"] * 3

    run_command(["etads-export", "run", "model"], cwd=tmp_path)
    run_command(
        ["etads-summarize", "model", "text/test.source", "--lines", "--sentence-marks", "--output", "again.txt"],
        cwd=tmp_path,
    )
    assert (tmp_path / "again.txt").read_text().splitlines() == found
    assert "tokens are pieces of a Hugging Face tokeniser" in (tmp_path / "model" / "README.md").read_text()
