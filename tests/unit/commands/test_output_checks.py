"""No command writes over a file that it reads: under its own name, through a link, or as a file beside its output."""

import importlib
import os
import re
from pathlib import Path

import pytest

ENTRIES = dict(re.findall(r'"(etads-\w+)=([\w.]+):main"', (Path(__file__).parents[3] / "setup.py").read_text()))
BIN = "run/prepared/bin"
READ = {"d.txt": "a b\n", "d.svg": "a b\n", "d.txt.partial": "a b\n", "run/checkpoints/checkpoint_best.pt": "x"}
READ.update({f"{BIN}/test.s-t.s.bin": "x", f"{BIN}/dict.s.txt": "a 1\n", f"{BIN}/labels.words.test": "x"})
READ.update({"run/probabilities.sentences.test": "x", "run/content.npz": "x", "nli/config.json": "{}", "key": "{}"})
REWRITE = "etads-rewrite run/prepared {} --extractor run --abstractor run"
CASES = [
    ("d.txt", "etads-summarize debian d.txt --output {}"),
    ("d.txt.partial", "etads-summarize debian --lines d.txt.partial --output d.txt"),
    ("d.txt", "etads-explain debian d.txt --output {}"),
    ("d.txt", "etads-rouge d.txt d.txt --json {}"),
    ("nli/config.json", "etads-rouge d.txt d.txt --also entail --entail-model nli --json {}"),
    ("d.txt", "etads-compare key d.txt d.txt --json {}"),
    ("nli/config.json", "etads-compare key d.txt d.txt --also entail --entail-model nli --json {}"),
    ("d.txt", "etads-analyse --source d.txt --reference d.txt --system a=d.txt --json {}"),
    ("d.txt", "etads-human make --source d.txt --system a=d.txt --system b=d.txt --out out --key {}"),
    ("key", "etads-human score --key key d.txt --json {}"),
    ("d.svg", "etads-plot d.svg --out {}"),
    ("nli/config.json", "etads-nli score nli d.txt --out {}"),
    (f"{BIN}/test.s-t.s.bin", "etads-extract run/prepared {} --by lead"),
    (f"{BIN}/labels.words.test", "etads-extract run/prepared {} --by labels"),
    ("run/probabilities.sentences.test", "etads-extract run/prepared {} --by content --selection run"),
    ("run/content.npz", "etads-extract run/prepared {} --by content --selection run"),
    ("run/checkpoints/checkpoint_best.pt", "etads-select run --report {}"),
    (f"{BIN}/labels.words.test", "etads-select run --report {}"),
    ("run/probabilities.sentences.test", "etads-select run --report {}"),
    ("run/checkpoints/checkpoint_best.pt", REWRITE),
    (f"{BIN}/test.s-t.s.bin", REWRITE),
    (f"{BIN}/dict.s.txt", "etads-shortlist run/prepared --out {}"),
    ("d.txt", "etads-dictionary {} --train d.txt"),
]


@pytest.mark.parametrize("path, words", CASES, ids=lambda value: value.split(" run")[0].replace("/", "."))
def test_what_is_read_is_not_replaced(path, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in READ.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    link = Path(f"link{Path(path).suffix}")
    link.symlink_to(path)
    for output in {path, str(link)} if "{}" in words else {path}:
        name, *arguments = words.format(output).split()
        with pytest.raises(SystemExit) as stopped:
            raise SystemExit(importlib.import_module(ENTRIES[name]).main(arguments))
        assert stopped.value.code == 2
        assert re.search(r" (is also read \(|and \S+ name the same file)", capsys.readouterr().err)
        assert Path(path).read_text() == READ[path] and os.readlink(link) == path
