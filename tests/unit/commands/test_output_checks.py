"""No command writes over a file that it reads: under its own name, through a link, or as a file beside its output.

Commands with cheap runs are tested in test_every_option.py.
"""

import importlib
import os
import re
from pathlib import Path

import pytest
from commands_options import ENTRIES as RUNS
from documented import ENTRIES

CHECKPOINT, BIN = "run/checkpoints/checkpoint_best.pt", "run/prepared/bin"
PROBABILITIES, CONTENT, LABELS = "run/probabilities.sentences.test", "run/content.npz", f"{BIN}/labels.words.test"
DATA, DICT, NLI = f"{BIN}/test.s-t.s.bin", f"{BIN}/dict.s.txt", "nli/config.json"
LISTED = ("run/prepared/dict.txt", "model/dict.txt")
CASES = [
    ("d.txt", "etads-summarize debian d.txt --output {}"),
    ("d.txt.partial", "etads-summarize debian --lines d.txt.partial --output d.txt"),
    (NLI, "etads-rouge d.txt d.txt --also entail --entail-model nli --json {}"),
    ("d.svg", "etads-plot d.svg --out {}"),
    (DATA, "etads-extract run/prepared {} --by lead"),
    (LABELS, "etads-extract run/prepared {} --by labels"),
    (CONTENT, "etads-extract run/prepared {} --by content --selection run"),
    (CHECKPOINT, "etads-select run --report {}"),
    (PROBABILITIES, "etads-select run --report {}"),
    (CHECKPOINT, "etads-rewrite run/prepared {} --extractor run --abstractor run"),
    (DICT, "etads-shortlist run/prepared --out {}"),
    (LISTED[0], "etads-shortlist run/prepared --out {}"),
    (LISTED[1], "etads-explain model d.txt --output {}"),
]
OWN_NAMES = "average completion content demo doctor export labels likelihood reproduce results shorten train tune"
"""Commands that write only files of their own names, in a folder, or files that must not exist yet."""


def test_every_command_is_tested():
    cheap = {name.split()[0] for name, runs in RUNS.items() if any(each.run for each in runs.values())}
    others = {words.split()[0] for _, words in CASES}
    assert cheap | others | {f"etads-{name}" for name in OWN_NAMES.split()} >= {*ENTRIES}


@pytest.mark.parametrize("path, words", CASES, ids=lambda value: value.split(" run")[0].replace("/", "."))
def test_what_is_read_is_not_replaced(path, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = ("d.txt", "d.svg", "d.txt.partial", CHECKPOINT, DATA, DICT, LABELS, PROBABILITIES, CONTENT)
    for name in (*files, "run/prepared/prepare.json", NLI, *LISTED):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a 1\n")
    for name in LISTED:
        Path(name).with_name("SHA256SUMS").write_text(f"{'0' * 64}  dict.txt\n")
    link = Path(f"link{Path(path).suffix}")
    link.symlink_to(path)
    for output in {path, str(link)} if "{}" in words else {path}:
        name, *arguments = words.format(output).split()
        with pytest.raises(SystemExit, match="2"):
            raise SystemExit(importlib.import_module(ENTRIES[name]).main(arguments))
        assert re.search(r" (is also read \(|and \S+ name the same file)", capsys.readouterr().err)
        assert Path(path).read_text() == "a 1\n" and os.readlink(link) == path
