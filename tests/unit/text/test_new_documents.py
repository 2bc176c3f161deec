"""Documents in the input of scripts/generate.sh."""

import io
import sys
from types import SimpleNamespace

import pytest

from fairseq_etads.text.files import ESCAPE_INVALID
from fairseq_etads.text.input_records import main, read_documents


@pytest.fixture
def read(tmp_path, capsys, monkeypatch):
    """Run the module on options; returns its exit status, the documents, their names, and messages."""

    def read(*options, stdin=b""):
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        try:
            main([*map(str, options), "--out", str(out)])
        except SystemExit as end:
            return end.code, [], [], capsys.readouterr().err
        lines = [(out / name).read_text(encoding="utf-8").split("\n")[:-1] for name in ("documents", "names")]
        return (0, *lines, capsys.readouterr().err)

    return read


LINES = b"One\0 text. \n\nA game\rof chess\r\nlast"
RECORDS = b"""\
{"id": "x y", "article": "A b.\\nC d."}
{"article": ["E f.", "G h."], "id": 7}
{"article": null}

"""


@pytest.mark.parametrize(
    "name,content,options,documents,names",
    [
        ("-", LINES, [], ["One text.", "", "A game of chess", "last"], ["1", "2", "3", "4"]),
        ("a.txt", LINES, ["--lines"], ["One text.", "", "A game of chess", "last"], ["1", "2", "3", "4"]),
        ("a.txt", b"one\ntwo\n", ["--input-format", "lines"], ["one", "two"], ["1", "2"]),
        ("a.txt", b"", ["--lines"], [], []),
        ("a.txt", b"", [], [""], None),
        ("a.txt", b"Title\n\nA text. Another one.\n", [], ["Title <q> A text. <q> Another one."], None),
        ("-", b"one\ntwo\n", ["--input-format", "file"], ["one <q> two"], None),
        ("new", RECORDS, [], ["A b. <q> C d.", "E f. <q> G h.", ""], ["x y", "7", "3"]),  # the first line tells it
        ("-", b'{"text": "one"}\n', [], ["one"], ["1"]),
        ("new", b'{"body": "B", "more": 1}\n', ["--source-column", "body"], ["B"], ["1"]),
        ("A.CSV", b"text,more\nA one.,x\n", [], ["A one."], ["1"]),
        ("a.csv", b"text\nA one.\n\nA two.\n", [], ["A one.", "", "A two."], ["1", "2", "3"]),
    ],
)
def test_documents_and_their_names(name, content, options, documents, names, read, tmp_path):
    if name != "-":
        (tmp_path / name).write_bytes(content)
    found = read("--input", tmp_path / name if name != "-" else "-", *options, stdin=content)
    assert found[:2] == (0, documents)
    if names is not None:
        assert found[2] == names


def test_it_is_said_how_to_mean_something_else(read, tmp_path):
    for content, empty in ((LINES, True), (b"one\ntwo\n", False)):
        said = read("--input", "-", stdin=content)[3]
        assert "every line is a document" in said and ("empty lines" in said and "--input-format file" in said) == empty
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    assert "is one document with all its lines" in read("--input", path)[3]
    assert "is one document" not in read("--input", path, "--lines")[3]


def test_several_files_and_a_folder_are_documents(read, tmp_path):
    folder = tmp_path / "articles"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.txt", ".hidden"):
        (folder / name).write_text(f"Text {name[0]}.\n")
    (folder / "c.txt").touch()
    _, documents, names, said = read("--input", folder)
    assert (documents, names) == (["Text a.", "Text b.", ""], ["a.txt", "b.txt", "c.txt"])
    assert "1 subfolders are ignored" in said
    files = [folder / "b.txt", folder / "a.txt"]
    _, documents, names, _ = read("--input", files[0], "--input", files[1])
    assert (documents, names) == (["Text b.", "Text a."], [str(path) for path in files])


@pytest.mark.parametrize(
    "name,content,options,words",
    [
        ("a.csv", "text,Text\na,b\n", [], "2 columns are named text"),
        ("a.jsonl", '{"text": "a", "text": "b"}\n', [], "line 1: a key occurs twice in an object"),
        ("a.jsonl", '{"body": "B", "more": 1}\n', [], "choose --source-column from body, more"),
        ("a.txt", "a\n", ["--source-column", "text"], "--source-column text: applies only to JSON lines and CSV"),
        ("a.txt", "a\n", ["--writes", "b", "a.txt"], "is also read (--input"),
        ("a.txt", "a\n", ["--input", "missing"], "no such file or folder"),
        ("a.txt", "a\n", ["--input", "."], "inputs of one format"),
        ("sub/a", "a\n", ["--input-format", "lines"], "is a folder, but --input-format is lines"),
        ("sub/sub/a", "a\n", [], "sub"),
    ],
)
def test_what_could_mean_two_things_or_nothing_is_refused(name, content, options, words, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    status, _, _, said = read("--input", name.partition("/")[0], *options)
    assert status == 2 and words in said and said.startswith("generate.sh: ")


@pytest.mark.parametrize(
    "line, reason",
    [
        (b'{"text": 5}', 'line 2: "text" is neither a text nor a list of texts'),
        (b'{"texts": "a"}', 'line 2: no field "text"'),
        (b"[1]", "line 2: not a JSON object"),
        (b"{", "line 2: not JSON"),
    ],
)
def test_bad_records_are_named_or_counted(line, reason, read, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_bytes(b'{"text": "a"}\n' + line + b'\n{"text": "c"}\n')
    status, _, _, said = read("--input", path)
    assert status == 2 and reason in said and "--skip-bad" in said and said.count("\n") == 1
    status, documents, names, said = read("--input", path, "--skip-bad")
    assert (status, documents, names) == (0, ["a", "", "c"], ["1", "2", "3"]) and "1 of them are unreadable" in said


def test_a_first_record_without_text_is_one_bad_record(read, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"id": 7}\n[]\n{"text": "a", "summary": "b"}\n')
    assert read("--input", path, "--skip-bad")[:3] == (0, ["", "", "a"], ["7", "2", "3"])
    assert 'line 1: no field "text"' in read("--input", path)[3]


def test_what_is_not_utf8_is_named_or_replaced(read, tmp_path):
    path = tmp_path / "new.txt"
    path.write_bytes(b"fine\nnot \xff fine\n")
    status, _, _, said = read("--input", path, "--lines")
    assert status == 2 and "new.txt, line 2: not UTF-8" in said
    assert read("--input", path, "--lines", "--skip-bad")[1] == ["fine", "not \ufffd fine"]


@pytest.mark.parametrize(
    "name, lines",
    [
        ("new.csv", [b"id,text", b"\xff,one", b"b,two"]),
        ("new.jsonl", [b'{"id": "\xff", "text": "one"}', b'{"id": "b", "text": "two"}']),
    ],
)
def test_an_id_that_is_not_utf8_makes_a_bad_record(name, lines, tmp_path):
    (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
    first, second = read_documents([tmp_path / name], name.partition(".")[2], "", ESCAPE_INVALID)
    assert first.name == "1" and not first.text and first.problem.endswith(" 1: not UTF-8")
    assert second[:2] == ("b", "two")
