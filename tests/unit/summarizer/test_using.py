"""The examples of docs/using.md, docs/explain.md and docs/demo.md, run with a folder of an untrained model."""

import json
import re

import pytest
from documented import ROOT
from folders import make_folder

from fairseq_etads import Summarizer


def blocks(page, language="python"):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(page):
    names = {}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    make_folder(tmp_path, pointer="soft", text={"tokenizer": "etads"})
    (tmp_path / "documents.txt").write_text("w1 w2\n\nw3\n")
    monkeypatch.chdir(tmp_path)


def test_the_examples_in_python_run(capsys):
    assert len(blocks("using.md")) == 2
    run("using.md")
    copied = [line for line in capsys.readouterr().out.splitlines() if " from " in line]
    assert copied and all(line.split()[0] == line.split()[-1].lower() for line in copied)


def test_the_example_of_an_explanation_runs(capsys, tmp_path):
    names = run("explain.md")
    *words, last = capsys.readouterr().out.splitlines()
    assert len(words) == len(names["explanation"].tokens) and "for the reference" in last
    assert any(" copied from " in line for line in words) and any(" generated" in line for line in words)
    data = names["explanation"].to_dict()
    cells = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "explain.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    depending = {"picked", "surprisal", "chosen"}  # on parts that this folder lacks
    assert depending <= named and not depending & set(data)
    more = "schema document summary architecture pointer saliency_gate score log_probability left_out least"
    assert named - depending <= set(data) and set(data) - named <= set(more.split())
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")


def test_the_example_of_partial_summaries_runs(capsys):
    names = run("demo.md")
    *steps, last = capsys.readouterr().out.splitlines()
    assert len(steps) >= 2 and last.split()[1:] == names["summary"].text.split()
    assert steps[0].split()[-1].strip(".") in names["text"]


def test_the_json_line_has_the_fields_there_are():
    (block,) = blocks("using.md", "json")
    found = Summarizer.load("model").summarize("Zebra w1", min_len=2).to_dict()
    shown = json.loads(block)
    assert {"document", *found} == set(shown)
    assert set(found["copied"][0]) == set(shown["copied"][0])
