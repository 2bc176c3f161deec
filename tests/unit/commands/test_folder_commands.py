"""etads-summarize and etads-explain: kinds of input and output, continuing, documents that fail, options."""

import json
import os
from pathlib import Path

import pytest
from folders import make_folder
from programs import run_on_input

from fairseq_etads import Summarizer
from fairseq_etads.commands import summarize as summarize_command
from fairseq_etads.commands.explain import main as explain_main
from fairseq_etads.commands.summarize import main as summarize_main
from fairseq_etads.summarizer.documents import DocumentTokenizer
from fairseq_etads.summarizer.surprisal import Surprisal

TEXTS = ["w1 w2 Zebra w3", "", "yak W5 w6 w7 w8", "w9 only unknown words", "w20 w21"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0]


@pytest.fixture(scope="module")
def wanted(folder):
    """The summaries of TEXTS, as text output has them."""
    found = Summarizer.load(folder, "cpu").summarize(TEXTS)
    return [" ".join(summary.sentences) for summary in found]


@pytest.fixture
def summarize(folder, capsysbinary, monkeypatch):
    """Run the command; returns its status, the lines on standard output, and messages."""

    def run(*arguments, stdin=b""):
        status, out, said = run_on_input(summarize_main, [folder, *arguments], stdin, capsysbinary, monkeypatch)
        return status, out.split("\n")[:-1], said

    return run


def test_every_line_of_standard_input_has_a_summary_which_a_pipe_may_take(summarize, wanted):
    status, lines, said = summarize(stdin="\n".join(TEXTS).encode())
    assert (status, lines) == (0, wanted) and "5 documents in " in said and "; 1 are empty" in said
    assert summarize(stdin=b"")[:2] == (0, [])
    ends = os.pipe()
    assert summarize("--output", f"/dev/fd/{ends[1]}", stdin="\n".join(TEXTS).encode())[:2] == (0, [])
    assert os.read(ends[0], 10_000).decode().split("\n")[:-1] == wanted
    for end in ends:
        os.close(end)


def test_text_is_spelled_as_in_the_document_unless_marks_are_wanted_and_limits_hold(summarize, folder):
    text = "Yak W5 w6 W7 w8. Zebra w3 w4!"
    summarizer = Summarizer.load(folder, "cpu")
    plain, limited = summarizer.summarize(text), summarizer.summarize(text, sentences=1, must_include="zebra")
    assert summarize(stdin=text.encode())[1] == [" ".join(plain.sentences)]
    assert summarize("--sentence-marks", stdin=text.encode())[1] == [plain.text]
    assert summarize("--sentences", "1", "--must-include", "zebra", stdin=text.encode())[1] == [*limited.sentences]
    assert len(limited.sentences) == 1 and "Zebra" in limited.sentences[0]
    status, lines, said = summarize("--must-include", "nowhere", stdin=text.encode())
    assert (status, lines) == (1, [""]) and '--must-include "nowhere": neither the summaries' in said


def test_escaped_lone_surrogates_of_json_are_no_bad_bytes(summarize, tmp_path):
    text = "w1 w2 \udc80 Zebra"
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": text}) + "\n")
    status, lines, _ = summarize(tmp_path / "in.jsonl")
    assert (status, lines) == (0, summarize(stdin=text.replace("\udc80", "\ufffd").encode())[1])


def test_documents_of_several_inputs_have_names_of_their_own(summarize, tmp_path):
    def found(*arguments, stdin=b""):
        lines = summarize(*arguments, "--output-format", "jsonl", stdin=stdin)[1]
        return [json.loads(line)["document"] for line in lines]

    a, b = (tmp_path / name for name in ("a", "b"))
    for path in (a, b):
        path.write_text("w1\nw2\n")
        Path(f"{path}.jsonl").write_text('{"text": "w1"}\n{"id": "x", "text": "w2"}\n')
        Path(f"{path}.d").mkdir()
        (Path(f"{path}.d") / "1.txt").write_text("w1")
    assert found(a, b, "-", "--lines", stdin=b"w3") == [f"{a}:1", f"{a}:2", f"{b}:1", f"{b}:2", "standard input:1"]
    assert found(f"{a}.jsonl", f"{b}.jsonl") == [f"{a}.jsonl:1", "x", f"{b}.jsonl:1", "x"]
    assert found(f"{a}.d", f"{b}.d") == [f"{a}.d/1.txt", f"{b}.d/1.txt"]
    assert found(a, "--lines") == ["1", "2"] and found(f"{a}.jsonl") == ["1", "x"] and found(f"{a}.d") == ["1.txt"]


def test_documents_that_cannot_be_read_do_not_stop_the_rest(summarize, wanted, tmp_path):
    status, lines, said = summarize(stdin=b"w1 w2 Zebra w3\nnot \xff utf-8\nw20 w21\n")
    assert (status, lines) == (1, [wanted[0], "", wanted[4]])
    assert "document 2: standard input, line 2: not UTF-8" in said and "1 document has no summary" in said
    (tmp_path / "a.csv").write_text('text\nw20 w21\n"w1 w2')
    status, lines, said = summarize(tmp_path / "a.csv")
    assert (status, lines) == (2, [wanted[4]]) and "a.csv, line 3: not CSV" in said
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "w1 w2 Zebra w3"}\n{"text": 3}\nno json\n\n{"text": "w20 w21"}\n')
    assert summarize(path, "--output", tmp_path / "out.jsonl")[0] == 1
    found = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert [" ".join(record.get("sentences", ())) for record in found] == [wanted[0], "", "", wanted[4]]
    problems = [record.get("problem", "") for record in found]
    assert "document is of type int" in problems[1] and "not JSON" in problems[2] and not problems[0]


def test_an_error_in_the_search_does_not_stop_the_rest(summarize, wanted, monkeypatch):
    plain = DocumentTokenizer.tokenize_document

    def read(self, number, text, *more):
        if "yak" in text:
            raise MemoryError
        return plain(self, number, text, *more)

    monkeypatch.setattr(DocumentTokenizer, "tokenize_document", read)
    status, lines, said = summarize(stdin="\n".join(TEXTS).encode())
    assert status == 1 and lines == [*wanted[:2], "", *wanted[3:]] and "document 3: MemoryError" in said


def test_an_interrupted_run_goes_on_unless_options_changed(summarize, folder, wanted, tmp_path, monkeypatch):
    (tmp_path / "in").write_text("\n".join(TEXTS))
    (folder / "SHA256SUMS").unlink()
    arguments = [tmp_path / "in", "--lines", "--output", tmp_path / "out", "--read-ahead", "2"]
    plain, asked = summarize_command._format_summary_line, []

    def ends(document, summary, *how):
        asked.append(document.name)
        if len(asked) > 3:
            raise KeyboardInterrupt
        return plain(document, summary, *how)

    monkeypatch.setattr(summarize_command, "_format_summary_line", ends)
    with pytest.raises(KeyboardInterrupt):
        summarize(*arguments, "--beam", "1")
    asked.clear()
    with pytest.raises(KeyboardInterrupt):
        summarize(*arguments, "--restart")
    assert not (tmp_path / "out").exists()
    assert "was started with another --beam" in summarize(*arguments, "--beam", "2")[2]
    (folder / "content.npz").write_bytes(b"other")
    assert "was started with another model" in summarize(*arguments)[2]
    (folder / "content.npz").unlink()
    monkeypatch.setattr(summarize_command, "_format_summary_line", lambda *a: asked.append(a[0].name) or plain(*a))
    assert summarize(*arguments)[0] == 0 and asked == ["1", "2", "3", "4", "4", "5"]
    assert (tmp_path / "out").read_text().split("\n")[:-1] == wanted
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "out"]


def test_an_output_among_the_documents_is_refused(summarize, wanted, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(TEXTS[0])
    (tmp_path / "link").symlink_to("docs")
    for output in (tmp_path / "docs" / "out.jsonl", tmp_path / "link" / "out.txt"):
        status, lines, said = summarize(tmp_path / "docs", "--output", output)
        assert (status, lines) == (2, []) and f"--output {output}: FILE {tmp_path}/docs is this folder" in said
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["a.txt"]
    (tmp_path / "far").symlink_to("nowhere/out.txt")
    assert "far: no such folder" in summarize(tmp_path / "docs", "--output", tmp_path / "far")[2]
    (tmp_path / "docs" / "inner").mkdir()
    output = tmp_path / "docs" / "inner" / "out.txt"
    assert summarize(tmp_path / "docs", "--output", output)[0] == 0 and output.read_text() == wanted[0] + "\n"


def test_documents_that_are_cut_or_unlike_the_training_are_pointed_out(summarize, monkeypatch):
    long = b" ".join(b"w%d" % (n % 40) for n in range(75))
    assert "documents truncated to their first 60 tokens: 1;" in summarize(stdin=b"w1 w2\n" + long + b"\n")[2]
    assert "truncated" not in summarize(stdin=b"w1 w2\n")[2]
    figures = {True: Surprisal(14.2, 0.5, 99.5), False: Surprisal(9.0, 0.1, 99.0)}
    monkeypatch.setattr(DocumentTokenizer, "measure_surprisal", lambda _, text: figures["zebra" in text.tokens])
    assert summarize(stdin=b"w1 w2\nZebra w1\n")[2].count("document 2: unlike the documents used to train") == 1


# ---- etads-explain


@pytest.fixture(scope="module")
def explained(folder):
    """The explanations of TEXTS."""
    summarizer = Summarizer.load(folder, "cpu")
    return [summarizer.explain(text) for text in TEXTS]


@pytest.fixture
def explain(folder, capsysbinary, tmp_path, monkeypatch):
    """Run the command in an empty folder; returns its status, standard output, and messages."""
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("\n".join(TEXTS) + "\n")
    return lambda *words, stdin=b"": run_on_input(explain_main, [folder, *words], stdin, capsysbinary, monkeypatch)


def test_which_document(explain, explained):
    status, out, said = explain("a.txt", "--lines", "-o", "page.html", "--json", "page.json")
    assert (status, out) == (0, "") and "this is the first (1); --document chooses another" in said
    assert Path("page.html").read_text() == explained[0].to_html("a.txt, document 1")
    assert Path("page.json").read_text() == explained[0].to_json() + "\n"
    for number, text in ((1, explained[0]), (3, explained[2]), (2, explained[1])):
        assert explain("a.txt", "--lines", "--document", number, "--json", "-")[1] == text.to_json() + "\n"
    records = [{"id": name, "article": text} for name, text in zip(("3", "x", "1", "z"), TEXTS)]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name, text in (("3", explained[0]), ("1", explained[2]), ("4", explained[3])):
        assert explain("a.jsonl", "--document", name, "--json", "-")[1] == text.to_json() + "\n", "by id before number"
    out = explain("--json", "-", stdin=("\n\n" + TEXTS[2]).encode())[1]
    assert json.loads(out)["document"] == TEXTS[2], "the first with words"


def test_a_page_for_each(explain, explained):
    Path("a.jsonl").write_text("\n".join([*(json.dumps({"text": text}) for text in TEXTS), "no json"]))
    status, _, said = explain("a.jsonl", "--document", "all", "-o", "pages")
    assert status == 1 and "a.jsonl, line 6: not JSON" in said
    pages = [f"{number:04}.html" for number in range(1, 6)]
    assert sorted(path.name for path in Path("pages").iterdir()) == [*pages, "index.html"]
    assert Path("pages", "0003.html").read_text() == explained[2].to_html("a.jsonl, document 3")
    index = Path("pages", "index.html").read_text()
    assert explained[2].summary in index and 'href="0003.html"' in index


def test_a_folder_with_files_is_refused(explain):
    Path("site").mkdir()
    Path("site", "a").write_text("w1")
    for file in ("a.txt", "site", "site/a"):
        status, _, said = explain(file, "--document", "all", "-o", "site")
        assert status == 2 and "--output site already exists" in said
        assert [path.name for path in Path("site").iterdir()] == ["a"]


def test_odd_file_names_are_only_names(explain):
    name = "<img src=x onerror=alert(1)>&\u202e.txt"
    Path(name).write_text("w1")
    status, out, _ = explain(name, "-o", "-")
    assert status == 0 and "<img" not in out and "&lt;img src=x" in out and "\u202e" not in out
