"""scripts/sample_sentences.py draws sentences of every kind from the files, and the same ones again with the same
seed.
"""

import importlib.util
import subprocess
import sys

import pytest
from documented import ROOT

spec = importlib.util.spec_from_file_location("sample_sentences", ROOT / "scripts" / "sample_sentences.py")
sampling = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sampling)

MODULE = '''\
"""Reads files. It knows two formats."""

import argparse

LIMIT = 3  # more than three files are refused
# a comment may continue
# on the line that follows it


def read(path):
    """Read one file, e.g. a table of words.

    It may be compressed. See Rush et al. (2015)

    Args:
        path: name of the file,
            which exists
        first, last: lines to read
    """
    parser = argparse.ArgumentParser(description="Read a file of words.")
    parser.add_argument("--limit", help="files that are read at most")
    return {"help": "a field with a help text"}  # noqa: this is for a linter
'''
PAGE = """\
# A heading that is no sentence

You get a summary of each document. The command
continues after an interruption.

    etads-summarize model texts.txt and nothing else

| a table | has no sentences to judge at all |
|---|---|

- A list item is a sentence of its own
- So is the item that follows it here

```
a block of code is left out, too
```
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "scripts" / "reading.py").write_text(MODULE)
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    monkeypatch.setattr(sampling, "ROOT", tmp_path)


def test_sentences_of_each_kind_are_found_where_they_stand(files):
    found = sampling.collect_sentences()
    assert {kind: [(piece.place, piece.text) for piece in pieces] for kind, pieces in found.items()} == {
        "docstring": [
            ("scripts/reading.py:1", "It knows two formats."),
            ("scripts/reading.py:10", "Read one file, e.g. a table of words."),
            ("scripts/reading.py:10", "It may be compressed."),
            ("scripts/reading.py:10", "See Rush et al. (2015)"),
            ("scripts/reading.py:10", "path: name of the file, which exists"),
            ("scripts/reading.py:10", "first, last: lines to read"),
        ],
        "page": [
            ("docs/page.md:3", "You get a summary of each document."),
            ("docs/page.md:3", "The command continues after an interruption."),
            ("docs/page.md:11", "A list item is a sentence of its own"),
            ("docs/page.md:12", "So is the item that follows it here"),
        ],
        "help": [
            ("scripts/reading.py:20", "Read a file of words."),
            ("scripts/reading.py:21", "files that are read at most"),
            ("scripts/reading.py:22", "a field with a help text"),
        ],
        "comment": [
            ("scripts/reading.py:5", "more than three files are refused"),
            ("scripts/reading.py:6", "a comment may continue on the line that follows it"),
        ],
    }


def test_names_are_those_of_modules_classes_and_functions(files):
    assert [(piece.kind, piece.text) for piece in sampling.iterate_names()] == [
        ("module", "reading"),
        ("function", "read"),
    ]


def test_a_seed_decides_and_kinds_have_equal_shares():
    drawn = sampling.draw_sample(seed=7, number=61)
    assert drawn == sampling.draw_sample(seed=7, number=61) != sampling.draw_sample(seed=8, number=61)
    counts = {kind: sum(piece.kind == kind for piece in drawn) for kind in ("docstring", "page", "help", "comment")}
    assert counts == {"docstring": 16, "page": 15, "help": 15, "comment": 15} and len(set(drawn)) == 61


def test_the_command_prints_numbered_pieces_with_their_places():
    command = [sys.executable, str(ROOT / "scripts" / "sample_sentences.py"), "--names", "--seed", "2"]
    lines = subprocess.check_output(command, text=True).splitlines()
    assert len(lines) == 40 and lines[38].split()[0] == "20"
    for place, name in zip(lines[::2], lines[1::2]):
        path, line = place.split()[2].split(":")
        text = (ROOT / path).read_text(encoding="utf-8").splitlines()
        assert path.endswith(f"{name.strip()}.py") or name.strip() in text[int(line) - 1]
