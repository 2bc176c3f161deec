"""Extracts of documents by untrained systems, and their choice by the validation pairs."""

import json
import sys

import pytest
from documented import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
evidence = __import__("evidence")
DOCUMENTS = [
    "a parser reads text . <q> the parser reads xml text and json text . <q> it is small .",
    "one tool draws graphs . <q> it is old .",
]
REFERENCES = ["reads xml text and json text", "one tool draws graphs"]


@pytest.fixture
def text(tmp_path):
    for split in ("valid", "test"):
        (tmp_path / f"{split}.source").write_text("".join(f"{line}\n" for line in DOCUMENTS), encoding="utf-8")
        (tmp_path / f"{split}.target").write_text("".join(f"{line}\n" for line in REFERENCES), encoding="utf-8")
    return tmp_path


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["evidence.py", *map(str, arguments)])
    evidence.main()


@pytest.mark.parametrize(
    "kind,expected",
    [
        ("lead-1", ["a parser reads text .", "one tool draws graphs ."]),
        ("lead-3-words", ["a parser reads", "one tool draws"]),
        ("oracle-1", ["the parser reads xml text and json text .", "one tool draws graphs ."]),
    ],
)
def test_extracts(kind, expected, text, monkeypatch):
    run(monkeypatch, "extract", text / "out", "--kind", kind, "--text", text)
    assert (text / "out").read_text(encoding="utf-8").splitlines() == expected


def test_an_unknown_kind_is_refused_with_the_valid_ones(text, monkeypatch):
    with pytest.raises(SystemExit, match=r"--kind tail-3: choose lead-N, .*textrank-N"):
        run(monkeypatch, "extract", text / "out", "--kind", "tail-3", "--text", text)


@pytest.mark.parametrize("method", ["textrank", "lexrank"])
def test_central_sentences_come_from_sumy(method):
    """The second sentence shares words with each of the others, which share none with each other."""
    pytest.importorskip("sumy")
    sentences = ["parser text .", "parser text json keys .", "json keys ."]
    document = " <q> ".join([*sentences, "memory trees ."])
    assert list(evidence.iterate_extracts(f"{method}-1", [document], [""])) == [sentences[1]]
    assert list(evidence.iterate_extracts(f"{method}-3-words", [document], [""])) == ["parser text json"]
    assert next(evidence.iterate_extracts(f"{method}-9", [document], [""])) == document


def test_the_best_kind_of_each_method_is_chosen_by_the_validation_pairs(text, monkeypatch):
    kinds = ["lead-2-words", "lead-1", "oracle-1"]
    run(monkeypatch, "choose", "--corpus", "x", "--text", text, "--results", text, "--kinds", *kinds)
    found = json.loads((text / "extracts.json").read_text(encoding="utf-8"))["x"]
    assert set(found["validation"]) == set(kinds)
    assert found["best"] == {"lead": "lead-1", "oracle": "oracle-1"} and found["pairs"] == 2
    assert found["validation"]["oracle-1"] > found["validation"]["lead-1"] > found["validation"]["lead-2-words"]
