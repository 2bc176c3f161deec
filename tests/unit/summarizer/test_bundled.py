"""The models that come with the package: found by name, complete, small, and useful."""

import json
import re
import sys
from pathlib import Path

import pytest
from helpers import run_command

from fairseq_etads import Summarizer
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.folder import config
from fairseq_etads.summarizer.folder.config import find_folder

ROOT = Path(__file__).parents[3]
DEBIAN = config.BUNDLED / "debian"
TEXT = (
    "Zyxomat is a small command line program which converts pictures between many formats. It reads and writes PNG, "
    "JPEG and TIFF files, and is able to scale and rotate them. This package contains the program."
)


@pytest.fixture(scope="module")
def debian():
    return Summarizer.load("debian", device="cpu")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_finds_the_bundled_model_and_a_path_does_not(elsewhere):
    assert config.bundled_models() == ["debian"]
    assert find_folder("debian") == find_folder(Path("debian")) == DEBIAN
    for path in ("./debian", "other", str(elsewhere / "debian"), "debian/"):
        assert find_folder(path) == Path(path)


def test_a_folder_that_is_no_model_does_not_hide_it_but_a_model_folder_does(elsewhere):
    (elsewhere / "debian").mkdir()
    assert find_folder("debian") == DEBIAN
    (elsewhere / "debian" / "config.json").write_text("{}")
    assert find_folder("debian") == Path("debian")


def test_an_unknown_name_is_answered_with_the_names_there_are(elsewhere):
    with pytest.raises(InputError, match=r"debain: no such folder; .* comes with the package \(debian\)"):
        Summarizer.load("debain")


def test_it_is_small_and_its_card_says_where_it_comes_from():
    assert sum(path.stat().st_size for path in DEBIAN.iterdir()) <= 12e6
    card = (DEBIAN / "README.md").read_text(encoding="utf-8")
    assert re.search(r"ROUGE-1 \| \d\d\.\d\d", card) and "ROUGE|backend:" in card and "--seed 1" in card
    assert "scripts/bundled_model.sh" in card and "--pointer-continue" in card


def test_it_summarises_what_it_has_never_seen(debian):
    summary = debian.summarize(TEXT)
    assert summary.problem == "" and 3 <= len(summary.tokens) <= 30
    assert {"convert", "converts", "converter", "program", "pictures", "picture", "formats", "command"} & set(
        summary.text.lower().split()
    )
    for word in summary.copied:
        assert TEXT[word.start : word.end].lower().startswith(word.word.lower()[:1])
    other = debian.summarize("Kwalitu is a library for the Perl programming language that parses dates and times.")
    assert other.text != summary.text


def test_the_command_knows_it(elsewhere):
    command = [sys.executable, "-m", "fairseq_etads.commands.summarize", "debian", "-", "--output", "out.jsonl"]
    done = run_command(command, input=TEXT + "\n", cwd=elsewhere)
    record = json.loads((elsewhere / "out.jsonl").read_text(encoding="utf-8"))
    assert record["summary"] and "1 documents" in done.stdout
