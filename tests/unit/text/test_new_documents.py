"""Documents in the input of etads-summarize."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.records import ReadingOptions, choose_input_format, read_documents


def read(*files, given=None, column=""):
    """The documents in files, as pairs of name and text, of which the problems are left out."""
    names = list(map(str, files))
    kind = choose_input_format(names, given)
    return [(one.name, one.text) for one in read_documents(list(files), kind, ReadingOptions(column=column))]


def test_lines_of_printed_pages_are_joined_and_their_edges_left_out(tmp_path):
    path = tmp_path / "paper.txt"
    path.write_text(
        "Frobs 12 (2020)\n\nThe inter-\nnational, well-\nknown state-of-the-\nart in Anglo-\nSaxon is well-known."
        "\nIt\n\n3\n"
        "\fFrobs 12 (2020)\n\ncosts 3\nor 4.\n\nLast words.\n\n4\n\f"
    )
    (found,) = read_documents([path], "file", ReadingOptions(join_lines=True))
    first = "The international, well-known state-of-the-art in Anglo-Saxon is well-known. It costs 3 or 4."
    assert found.text == f"{first}\nLast words."
    path.write_text("3\n\nOnly one page.\n\n3\n")
    (found,) = read_documents([path], "file", ReadingOptions(join_lines=True))
    assert found.text == "3\nOnly one page.\n3"


def test_a_text_file_is_one_document_unless_its_lines_are(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("One text.\n\nAnother.\n")
    assert read(path) == [(str(path), "One text.\n\nAnother.")]
    assert read(path, given="lines") == [("1", "One text."), ("2", ""), ("3", "Another.")]
    path.write_text("")
    assert read(path) == [(str(path), "")] and read(path, given="lines") == []


def test_a_folder_is_read_in_the_order_of_names(tmp_path, capsys):
    folder = tmp_path / "articles"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.txt", ".hidden"):
        (folder / name).write_text(f"Text {name[0]}.\n")
    assert read(folder) == [("a.txt", "Text a."), ("b.txt", "Text b.")]
    assert "1 subfolders are ignored" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no file"):
        read(tmp_path / "empty")


def test_json_lines_have_a_field_and_perhaps_an_id(tmp_path):
    records = [{"id": "x y", "article": "A b.\nC d."}, {"article": ["E f.", "G h."], "id": 7}, {"article": None}]
    path = tmp_path / "new"  # the first line tells the format
    path.write_text("\n\ufeff".join(map(json.dumps, records)) + "\n\n")
    assert read(path) == [("x y", "A b.\nC d."), ("7", "E f.\nG h."), ("3", "")]
    path.write_text('{"body": "B", "more": 1}\n')
    with pytest.raises(InputError, match="--source-column is needed: no known column"):
        read(path)
    assert read(path, column="body") == [("1", "B")]


def test_rows_of_tables_are_documents(tmp_path):
    (tmp_path / "A.CSV").write_text("Article,Text,SUMMARY\nx,A one.,x\n")
    assert read(tmp_path / "A.CSV") == [("1", "A one.")], "the column that etads-corpus takes"
    (tmp_path / "a.csv").write_text("text\nA one.\n\nA two.\n")
    assert read(tmp_path / "a.csv") == [("1", "A one."), ("2", ""), ("3", "A two.")]


@pytest.mark.parametrize(
    "name, lines, found",
    [
        ("a.jsonl", [b'{"text": "a"}', b'{"text": 5}'], ["a", "2: document is of type int"]),
        ("a.jsonl", [b'{"text": "a"}', b'{"text": "\xff"}', b'{"text": "c"}'], ["a", "2: not UTF-8", "c"]),
        ("a.jsonl", [b'{"id": "\xff", "text": "a"}', b'{"id": "b", "text": "c"}'], ["1: not UTF-8", "c"]),
        ("a.csv", [b"id,text", b"a,\xff", b"b,c"], ["1: not UTF-8", "c"]),
    ],
)
def test_bad_records_are_named(name, lines, found, tmp_path):
    """They keep their ids, unless these are bad."""
    (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
    read = list(read_documents([tmp_path / name], name.partition(".")[2], ReadingOptions()))
    assert [one.problem.rpartition(f"{name}, ")[2].partition(" ")[2] or one.text for one in read] == found
    assert read[0].name == ("a" if b"a,\xff" in lines else "1") and read[-1].name in ("b", str(len(read)))


def test_standard_input(monkeypatch):
    for text, given, documents in (
        (b'\xef\xbb\xbf{"text": "one"}\n', None, ["one"]),
        (b"one\n2\n", "file", ["one\n2"]),
    ):
        stream = io.BufferedReader(io.BytesIO(text))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream, isatty=lambda: False))
        assert [text for _, text in read(Path("-"), given=given)] == documents


def test_inputs_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    for files, given, words in (
        ([tmp_path / "missing"], None, "no such file or folder"),
        ([tmp_path, tmp_path / "a.txt"], None, "inputs of one format"),
        ([tmp_path], "lines", "is a folder, but --input-format is lines"),
    ):
        with pytest.raises(InputError, match=words):
            read(*files, given=given)
    with pytest.raises(InputError, match="--source-column text: applies only to JSON lines and CSV"):
        read(tmp_path / "a.txt", column="text")
