"""``etads-explain``: kinds of input, choice of the document, given summaries, pages and JSON, incompatible options."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.commands.explain import main
from fairseq_etads.platform.outputs import PARTIAL
from fairseq_etads.text import files

TEXTS = ["w1 w2 Zebra w3", "", "yak W5 w6 w7 w8", "w20 <b>w21</b>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0]


@pytest.fixture(scope="module")
def wanted(folder):
    """The explanations of TEXTS."""
    summarizer = Summarizer.load(folder, "cpu")
    return [summarizer.explain(text) for text in TEXTS]


@pytest.fixture
def explain(folder, capsysbinary, tmp_path, monkeypatch):
    """Run the command in an empty folder; returns its status, standard output, and messages."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "a.txt").write_text("\n".join(TEXTS) + "\n")

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(
            sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin)), isatty=lambda: False)
        )
        files._read_input = None
        status = main([str(folder), *map(str, arguments), "--device", "cpu"])
        said = capsysbinary.readouterr()
        return status, said.out.decode(), said.err.decode()

    run.path = tmp_path / "work"
    return run


def test_a_page_and_figures_of_the_first_document(explain, wanted):
    status, out, said = explain("a.txt", "--lines", "-o", "page.html", "--json", "page.json")
    assert (status, out) == (0, "")
    assert (explain.path / "page.html").read_text() == wanted[0].to_html("a.txt, document 1")
    assert (explain.path / "page.json").read_text() == wanted[0].to_json() + "\n"
    assert "every line is a document; this is the first (1); --document chooses another" in said
    assert "open page.html in a browser" in said
    assert explain("a.txt", "--lines", "-o", "page.html", "--quiet") == (0, "", "")
    assert sorted(path.name for path in explain.path.iterdir()) == ["a.txt", "page.html", "page.json"]


def test_a_file_is_a_document(explain, folder):
    status, out, said = explain("a.txt", "--json", "-")
    assert status == 0 and json.loads(out)["document"] == "\n".join(TEXTS)
    assert "a.txt is one document with all its lines" in said and "--lines reads every line as one" in said


def test_which_document(explain, wanted):
    for number, text in ((1, wanted[0]), (3, wanted[2]), (2, wanted[1])):
        assert explain("a.txt", "--lines", "--document", number, "--json", "-")[1] == text.to_json() + "\n"
    records = [{"id": name, "article": text} for name, text in zip(("3", "x", "y", "z"), TEXTS)]
    (explain.path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name, text in (("3", wanted[0]), ("y", wanted[2]), ("4", wanted[3])):
        assert explain("a.jsonl", "--document", name, "--json", "-")[1] == text.to_json() + "\n", "by id before number"
    (explain.path / "folder").mkdir()
    for name, text in zip("ab", TEXTS[::2]):
        (explain.path / "folder" / name).write_text(text)
    assert explain("folder", "--document", "b", "-o", "-")[1] == wanted[2].to_html("folder, document b")
    assert explain("folder/b", "--input-format", "file", "-o", "-")[1] == wanted[2].to_html("b")
    status, out, said = explain("--json", "-", stdin=("\n\n" + TEXTS[2]).encode())
    assert (status, json.loads(out)["document"], said) == (0, TEXTS[2], ""), "the first with words"


def test_a_page_for_each(explain, wanted):
    (explain.path / "a.jsonl").write_text("\n".join([*(json.dumps({"text": text}) for text in TEXTS), "no json"]))
    status, out, said = explain("a.jsonl", "--document", "all", "-o", "pages")
    assert (status, out) == (1, "") and "a.jsonl, line 5: not JSON" in said and "4 pages: open pages" in said
    pages = sorted(path.name for path in (explain.path / "pages").iterdir())
    assert pages == ["0001.html", "0002.html", "0003.html", "0004.html", "index.html"]
    assert (explain.path / "pages" / "0003.html").read_text() == wanted[2].to_html("a.jsonl, document 3")
    index = (explain.path / "pages" / "index.html").read_text()
    assert wanted[2].summary in index and 'href="0003.html"' in index
    assert explain("a.txt", "--document", "all", "-o", "pages")[0] == 0, "into the same folder"
    assert sorted(path.name for path in (explain.path / "pages").iterdir()) == ["0001.html", "index.html"]


def test_files_that_are_no_pages_of_the_command_remain(explain):
    folder = explain.path / "site"
    folder.mkdir()
    for name in ("index.html", "0001.html", "notes.txt"):
        (folder / name).write_text("mine")
        status, out, said = explain("a.txt", "--document", "all", "-o", "site")
        assert (status, out) == (2, "") and f"site: contains {name}, which is not a page of etads-explain" in said
        assert [path.read_text() for path in folder.iterdir()] == ["mine"]
        (folder / name).unlink()
    (folder / "a").write_text("w1")
    for file in ("site", "site/a"):
        status, out, said = explain(file, "--document", "all", "-o", "site")
        assert (status, out) == (2, "") and f"FILE {file} is read from this folder; name another folder" in said


def test_a_call_that_explains_nothing_leaves_no_folder_and_keeps_earlier_pages(explain):
    (explain.path / "bad").write_bytes(b"\xff\n")
    assert explain("bad", "--document", "all", "-o", "pages")[0] == 2 and not (explain.path / "pages").exists()
    assert explain("a.txt", "--document", "all", "-o", "pages")[0] == 0
    (explain.path / "pages" / f"0002.html.12345678{PARTIAL}").write_text("of a killed process")
    assert explain("bad", "--document", "all", "-o", "pages")[0] == 2
    assert (explain.path / "pages" / "0001.html").exists()
    assert explain("a.txt", "--document", "all", "-o", "pages")[0] == 0
    assert sorted(path.name for path in (explain.path / "pages").iterdir()) == ["0001.html", "index.html"]


def test_a_given_summary_and_options_of_the_search(explain, folder):
    summarizer = Summarizer.load(folder, "cpu")
    status, out, _ = explain("a.txt", "--lines", "--summary", "Zebra w9", "--json", "-")
    assert status == 0 and out == summarizer.explain(TEXTS[0], summary="Zebra w9").to_json() + "\n"
    out = explain("a.txt", "--lines", "--beam", 1, "--max-len", 2, "--json", "-")[1]
    assert out == summarizer.explain(TEXTS[0], beam=1, max_len=2).to_json() + "\n"


@pytest.mark.parametrize(
    "arguments,says",
    [
        (["a.txt"], "give --output PAGE, --json FILE, or both"),
        (["a.txt", "-o", "-", "--json", "-"], "only one of them can go to standard output"),
        (["a.txt", "-o", "no/page.html"], "--output no/page.html: there is no folder no"),
        (["a.txt", "-o", "."], "--output .: it is a folder; name a file, or choose --document all"),
        (["a.txt", "--json", "."], "--json .: it is a folder"),
        (["a.txt", "-o", "a.txt", "--document", "all"], "--output a.txt: --document all writes a folder, but"),
        (["a.txt", "--json", "x", "--document", "all"], "--json is for one document"),
        (["a.txt", "-o", "-", "--document", "all"], "--output -: --document all writes a folder"),
        (["a.txt", "-o", "x", "--document", "all", "--summary", "w1"], "--summary is for one document"),
        (
            ["a.txt", "--lines", "-o", "x", "--document", "5"],
            "--document 5: no such id, name or number; the 4 documents",
        ),
        (
            ["a.txt", "-o", "x", "--document", "2"],
            "the 1 documents are numbered from 1; --lines reads every line as one",
        ),
        (["a.txt", "-o", "x", "--document", "0"], "--document 0: no such id"),
        (["b.txt", "-o", "x"], "FILE b.txt: no such file or folder"),
        (["a.txt", "-o", "x", "--summary", "w1", "--beam", "2"], "--beam has no effect with --summary"),
        (["a.txt", "-o", "x", "--summary", " "], "--summary: it has no words"),
        (["a.txt", "-o", "x", "--summary", "w1 " * 30], "--summary: 30 tokens; this model can write at most 20"),
        (["a.txt", "--lines", "-o", "x", "--document", "2", "--summary", "w1"], "the document has no words"),
        (["a.txt", "-o", "x", "--beam", "0"], "--beam 0: choose 1 or more"),
        (["empty", "-o", "x"], "no document with words in it"),
        (["bad", "-o", "x"], "bad: not UTF-8"),
        (["bad", "--lines", "-o", "x"], "bad, line 1: not UTF-8"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(explain, arguments, says):
    (explain.path / "empty").write_text("\n\n")
    (explain.path / "bad").write_bytes(b"\xff\n")
    status, out, said = explain(*arguments)
    assert (status, out) == (2, "") and says in said and said.count("etads-explain: ") == 1
    assert not (explain.path / "x").exists()


def test_odd_file_names_are_only_names(explain):
    name = "<img src=x onerror=alert(1)>&\u202e.txt"
    (explain.path / name).write_text("w1")
    status, out, _ = explain(name, "-o", "-")
    assert status == 0 and "<img" not in out and "&lt;img src=x" in out and "\u202e" not in out
