"""No command writes over a file that it reads: under its own name, through a link, or as a file beside its output."""

import importlib
import os
import re
from pathlib import Path

import pytest
from documented import ENTRIES

CHECKPOINT, BIN = "run/checkpoints/checkpoint_best.pt", "run/prepared/bin"
PROBABILITIES, CONTENT, LABELS = "run/probabilities.sentences.test", "run/content.npz", f"{BIN}/labels.words.test"
DATA, DICT, NLI = f"{BIN}/test.s-t.s.bin", f"{BIN}/dict.s.txt", "nli/config.json"
CASES = [
    ("d.txt", "etads-summarize debian d.txt --output {}"),
    ("d.txt.partial", "etads-summarize debian --lines d.txt.partial --output d.txt"),
    ("d.txt", "etads-explain debian d.txt --output {}"),
    ("d.txt", "etads-rouge d.txt d.txt --json {}"),
    (NLI, "etads-rouge d.txt d.txt --also entail --entail-model nli --json {}"),
    ("d.txt", "etads-compare key d.txt d.txt --json {}"),
    ("d.txt", "etads-evidence --source d.txt --system a=d.txt --output {}"),
    ("d.txt", "etads-analyse --source d.txt --reference d.txt --system a=d.txt --json {}"),
    ("d.txt", "etads-human make --source d.txt --system a=d.txt --system b=d.txt --out out --key {}"),
    ("key", "etads-human score --key key d.txt --json {}"),
    ("d.svg", "etads-plot d.svg --out {}"),
    (NLI, "etads-nli score nli d.txt --out {}"),
    (DATA, "etads-extract run/prepared {} --by lead"),
    (LABELS, "etads-extract run/prepared {} --by labels"),
    (CONTENT, "etads-extract run/prepared {} --by content --selection run"),
    (CHECKPOINT, "etads-select run --report {}"),
    (LABELS, "etads-select run --report {}"),
    (PROBABILITIES, "etads-select run --report {}"),
    (CHECKPOINT, "etads-rewrite run/prepared {} --extractor run --abstractor run"),
    (DICT, "etads-shortlist run/prepared --out {}"),
    ("d.txt", "etads-dictionary {} --train d.txt"),
]


@pytest.mark.parametrize("path, words", CASES, ids=lambda value: value.split(" run")[0].replace("/", "."))
def test_what_is_read_is_not_replaced(path, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("d.txt", "d.svg", "d.txt.partial", "key", CHECKPOINT, DATA, DICT, LABELS, PROBABILITIES, CONTENT, NLI):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a 1\n")
    link = Path(f"link{Path(path).suffix}")
    link.symlink_to(path)
    for output in {path, str(link)} if "{}" in words else {path}:
        name, *arguments = words.format(output).split()
        with pytest.raises(SystemExit, match="2"):
            raise SystemExit(importlib.import_module(ENTRIES[name]).main(arguments))
        assert re.search(r" (is also read \(|and \S+ name the same file)", capsys.readouterr().err)
        assert Path(path).read_text() == "a 1\n" and os.readlink(link) == path
