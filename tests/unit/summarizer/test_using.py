"""The examples of docs/using.md, docs/explain.md and docs/demo.md, run with a folder of an untrained model."""

import json
import re

import pytest
from documented import ROOT
from folders import make_folder

PAGE = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
    make_folder(tmp_path, pointer="soft", text={"tokenizer": "etads"})
    (tmp_path / "documents.txt").write_text("w1 w2\n\nw3\n")
    monkeypatch.chdir(tmp_path)


def test_the_examples_in_python_run(place, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile(block, "docs/using.md", "exec"), names)
    copied = [line for line in capsys.readouterr().out.splitlines() if " from " in line]
    assert copied and all(line.split()[0] == line.split()[-1].lower() for line in copied)


def test_the_example_of_an_explanation_runs(place, capsys, tmp_path):
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(block, "docs/explain.md", "exec"), names)
    *words, last = capsys.readouterr().out.splitlines()
    assert len(words) == len(names["explanation"].tokens) and "for the reference" in last
    assert any(" copied from " in line for line in words) and any(" generated" in line for line in words)
    data = names["explanation"].to_dict()
    named = set(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    named = {name for cell in named for name in re.findall(r"`(\w+)`", cell)}
    depending = {"picked", "surprisal", "chosen"}  # on parts that this folder lacks
    assert depending <= named and not depending & set(data)
    others = "schema document summary architecture pointer saliency_gate score log_probability left_out least"
    assert named - depending <= set(data) and set(data) - named <= {*others.split()}
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")


def test_the_example_of_partial_summaries_runs(place, capsys):
    page = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(block, "docs/demo.md", "exec"), names)
    *steps, last = capsys.readouterr().out.splitlines()
    assert len(steps) >= 2 and last.split()[1:] == names["summary"].text.split()
    assert steps[0].split()[-1].strip(".") in names["text"]


def test_the_json_line_has_the_fields_there_are(place):
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    from fairseq_etads import Summarizer

    found = Summarizer.load("model").summarize("Zebra w1", min_len=2).to_dict()
    shown = json.loads(block)
    assert {"document", *found} == set(shown)
    assert set(found["copied"][0]) == set(shown["copied"][0])
