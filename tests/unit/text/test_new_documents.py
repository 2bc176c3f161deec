"""Documents in the input of scripts/generate.sh."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from fairseq_etads.text.files import ESCAPE_INVALID
from fairseq_etads.text.input_records import main, read_documents


@pytest.fixture
def read(tmp_path, capsys):
    """Run the module on options; returns its exit status, the documents, their names, and messages."""

    def read(*options, stdin=b""):
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        before, sys.stdin = sys.stdin, SimpleNamespace(buffer=io.BytesIO(stdin))
        status = 0
        try:
            main([*map(str, options), "--out", str(out)])
        except SystemExit as end:
            status = end.code
        finally:
            sys.stdin = before
        said = capsys.readouterr().err
        if status:
            return status, [], [], said
        lines = [(out / name).read_text(encoding="utf-8").split("\n")[:-1] for name in ("documents", "names")]
        return (status, *lines, said)

    return read


def test_lines_are_documents_and_it_is_said_how_to_mean_something_else(read, tmp_path):
    path = tmp_path / "new.txt"
    path.write_bytes(b"One\0 text. \n\nA game\rof chess\r\nlast")
    status, documents, names, said = read("--input", "-", stdin=path.read_bytes())
    assert (status, documents, names) == (0, ["One text.", "", "A game of chess", "last"], ["1", "2", "3", "4"])
    assert "every line is a document (4)" in said and "empty lines" in said and "--input-format file" in said
    assert "empty lines" not in read("--input", "-", stdin=b"one\ntwo\n")[3]
    path.write_text("one\ntwo\n")
    for option in (["--input-format", "lines"], ["--lines"]):
        assert read("--input", path, *option)[3].endswith("every line is a document (2)\n")


def test_an_empty_file_is_an_empty_document(read, tmp_path):
    (tmp_path / "new.txt").touch()
    assert read("--input", tmp_path / "new.txt")[1:3] == ([""], [str(tmp_path / "new.txt")])
    assert read("--input", tmp_path / "new.txt", "--lines")[:3] == (0, [], [])


def test_a_file_can_be_one_document(read, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"Title {name}\n\nA sentence. Another one.\n")
    for options in (["--input-format", "file"], []):
        status, documents, _, said = read("--input", tmp_path / "a.txt", *options)
        assert (status, documents) == (0, ["Title a <q> A sentence. <q> Another one."])
    assert "a.txt is one document with all its lines (up to version 0.1, every line was one) (1); --lines reads" in said
    # Several files are taken for documents.
    status, documents, names, said = read("--input", tmp_path / "b.txt", "--input", tmp_path / "a.txt")
    assert [document[:7] for document in documents] == ["Title b", "Title a"]
    assert names == [str(tmp_path / "b.txt"), str(tmp_path / "a.txt")] and "--lines reads every line" in said


def test_a_folder_is_read_in_the_order_of_names(read, tmp_path):
    folder = tmp_path / "articles"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.txt", ".hidden"):
        (folder / name).write_text(f"Text {name[0]}.\n")
    (folder / "c.txt").touch()
    _, documents, names, said = read("--input", folder)
    assert (documents, names) == (["Text a.", "Text b.", ""], ["a.txt", "b.txt", "c.txt"])
    assert "1 subfolders are ignored" in said and "every file is a document (3)" in said
    empty = tmp_path / "empty"
    empty.mkdir()
    assert read("--input", empty)[0] == 2


def test_json_lines_have_a_field_and_perhaps_an_id(read, tmp_path):
    records = [{"id": "x y", "article": "A b.\nC d."}, {"article": ["E f.", "G h."], "id": 7}, {"article": None}]
    path = tmp_path / "new"  # the first line tells the format
    path.write_text("\n".join(map(json.dumps, records)) + "\n\n")
    status, documents, names, said = read("--input", path)
    assert documents == ["A b. <q> C d.", "E f. <q> G h.", ""]
    assert names == ["x y", "7", "3"] and "every record is a document (3)" in said
    path.write_text('{"body": "B", "more": 1}\n')
    status, _, _, said = read("--input", path)
    assert status == 2 and "choose --source-column from body, more" in said
    assert read("--input", path, "--source-column", "body")[1] == ["B"]


def test_names_are_told_in_upper_case_too(read, tmp_path):
    (tmp_path / "A.CSV").write_text("text,more\nA one.,x\n")
    assert read("--input", tmp_path / "A.CSV")[1] == ["A one."]


def test_an_empty_row_of_one_column_is_an_empty_document(read, tmp_path):
    (tmp_path / "a.csv").write_text("text\nA one.\n\nA two.\n")
    assert read("--input", tmp_path / "a.csv")[1:3] == (["A one.", "", "A two."], ["1", "2", "3"])


@pytest.mark.parametrize(
    "name,content,options,words",
    [
        ("a.csv", "text,Text\na,b\n", [], "2 columns are named text"),
        ("a.jsonl", '{"text": "a", "text": "b"}\n', [], "line 1: a key occurs twice in an object"),
        ("a.txt", "a\n", ["--source-column", "text"], "--source-column text: applies only to JSON lines and CSV"),
    ],
)
def test_what_could_mean_two_things_is_refused(name, content, options, words, read, tmp_path):
    (tmp_path / name).write_text(content)
    status, _, _, said = read("--input", tmp_path / name, *options)
    assert status == 2 and words in said


def test_an_output_is_no_input(read, tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    status, _, _, said = read("--input", tmp_path / "a.txt", "--writes", tmp_path / "b", tmp_path / "a.txt")
    assert status == 2 and "is also read (--input" in said


def test_a_first_record_without_text_is_one_bad_record(read, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"id": 7}\n[]\n{"text": "a", "summary": "b"}\n')
    status, documents, names, said = read("--input", path, "--skip-bad")
    assert (status, documents, names) == (0, ["", "", "a"], ["7", "2", "3"]) and "2 of them are unreadable" in said
    assert 'line 1: no field "text"' in read("--input", path)[3]


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


@pytest.mark.parametrize(
    "text, options, documents",
    [
        (b"one\ntwo\n", [], ["one", "two"]),
        (b'{"text": "one"}\n', [], ["one"]),
        (b"one\ntwo\n", ["--input-format", "file"], ["one <q> two"]),
    ],
)
def test_standard_input(text, options, documents, read):
    assert read("--input", "-", *options, stdin=text)[1] == documents


def test_inputs_that_do_not_fit_are_refused(read, tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    for options, words in (
        (["--input", tmp_path / "missing"], "no such file or folder"),
        (["--input", tmp_path, "--input", tmp_path / "a.txt"], "inputs of one format"),
        (["--input", tmp_path, "--input-format", "lines"], "is a folder, but --input-format is lines"),
    ):
        status, _, _, said = read(*options)
        assert status == 2 and words in said and said.startswith("generate.sh: ")
