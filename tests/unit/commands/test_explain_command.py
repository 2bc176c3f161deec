"""``etads-explain``: kinds of input, choice of the document, given summaries, pages and JSON, incompatible options."""

import json

import pytest
from folders import make_folder
from programs import run_on_input

from fairseq_etads import Summarizer
from fairseq_etads.commands.explain import main

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
        return run_on_input(main, [folder, *arguments], stdin, capsysbinary, monkeypatch)

    run.path = tmp_path / "work"
    return run


def test_which_document(explain, wanted):
    status, out, said = explain("a.txt", "--lines", "-o", "page.html", "--json", "page.json")
    assert (status, out) == (0, "") and "this is the first (1); --document chooses another" in said
    assert (explain.path / "page.html").read_text() == wanted[0].to_html("a.txt, document 1")
    assert (explain.path / "page.json").read_text() == wanted[0].to_json() + "\n"
    for number, text in ((1, wanted[0]), (3, wanted[2]), (2, wanted[1])):
        assert explain("a.txt", "--lines", "--document", number, "--json", "-")[1] == text.to_json() + "\n"
    records = [{"id": name, "article": text} for name, text in zip(("3", "x", "1", "z"), TEXTS)]
    (explain.path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name, text in (("3", wanted[0]), ("1", wanted[2]), ("4", wanted[3])):
        assert explain("a.jsonl", "--document", name, "--json", "-")[1] == text.to_json() + "\n", "by id before number"
    out = explain("--json", "-", stdin=("\n\n" + TEXTS[2]).encode())[1]
    assert json.loads(out)["document"] == TEXTS[2], "the first with words"


def test_a_page_for_each(explain, wanted):
    (explain.path / "a.jsonl").write_text("\n".join([*(json.dumps({"text": text}) for text in TEXTS), "no json"]))
    status, _, said = explain("a.jsonl", "--document", "all", "-o", "pages")
    assert status == 1 and "a.jsonl, line 5: not JSON" in said
    pages = [f"{number:04}.html" for number in range(1, 5)]
    assert sorted(path.name for path in (explain.path / "pages").iterdir()) == [*pages, "index.html"]
    assert (explain.path / "pages" / "0003.html").read_text() == wanted[2].to_html("a.jsonl, document 3")
    index = (explain.path / "pages" / "index.html").read_text()
    assert wanted[2].summary in index and 'href="0003.html"' in index


def test_a_folder_with_files_is_refused(explain):
    (explain.path / "site").mkdir()
    (explain.path / "site" / "a").write_text("w1")
    for file in ("a.txt", "site", "site/a"):
        status, _, said = explain(file, "--document", "all", "-o", "site")
        assert status == 2 and "--output site already exists" in said
        assert [path.name for path in (explain.path / "site").iterdir()] == ["a"]


def test_odd_file_names_are_only_names(explain):
    name = "<img src=x onerror=alert(1)>&\u202e.txt"
    (explain.path / name).write_text("w1")
    status, out, _ = explain(name, "-o", "-")
    assert status == 0 and "<img" not in out and "&lt;img src=x" in out and "\u202e" not in out
