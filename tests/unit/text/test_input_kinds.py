"""Records of awkward files, as the command for pairs and the commands for documents understand them."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import corpora
import pytest
from etads_preprocess.corpus import main
from test_readers import refused

from fairseq_etads.evaluation import read_lines
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.records import ReadingOptions, choose_input_format, read_documents

A, B = '{"text": "A b.", "summary": "a"}\n', '{"text": "C d.", "summary": "c"}\n'
COLUMNWISE = '{"text": ["A b.", "C d."], "summary": ["a", "c"]}\n'
BY_PANDAS = '{"text": {"0": "A b.", "1": "C d."}, "summary": {"0": "a", "1": "c"}}\n'
LINE_FEEDS = "\u0a0a\u0100"  # as bytes of UTF-16
BOTH = ["A b.", "C d."]
QUOTED = 'text\tsummary\n"A b.\ta\nC d."\tc\n'


def documents(path, **options):
    kind = choose_input_format([str(path)], None)
    return [document.text for document in read_documents([Path(path)], kind, ReadingOptions(**options))]


def shown(capsys, path, *options):
    """The documents that etads-corpus table --show understands, and its other lines."""
    main(["table", "--train", str(path), "--show", "3", "--jobs", "1", *options])
    out = capsys.readouterr().out.splitlines()
    return [line.partition(": ")[2] for line in out if line.startswith("  document: ")], out


@pytest.mark.parametrize(
    "name, content, found",
    [
        ("a.jsonl", f"\ufeff{A}\ufeff{B}".encode(), BOTH),
        ("a.jsonl", (A + B).encode("utf-16"), BOTH),
        ("a.jsonl", b"\xfe\xff" + f"{A}{B}".replace("A", LINE_FEEDS).encode("utf-16-be"), [f"{LINE_FEEDS} b.", "C d."]),
        ("a.csv", "text,summary\nA b.,a\nÄ d.,c\n".encode("utf-16-le"), ["A b.", "Ä d."]),
        ("a.tsv.gz", gzip.compress(b"text\tsummary\nA, b.\ta, c\n", mtime=0), ["A, b."]),
        ("a.csv", b"article;text;summary\nx;A b.;a\n", ["A b."]),
        ("a.csv", b"text|summary\nA b.|a\ntext|summary\nC d.|c\n", BOTH),
        ("pipe", f"\n{A}{B}".encode(), BOTH),
        ("a.parquet", b"", BOTH),
    ],
)
def test_all_commands_understand_the_same(name, content, found, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content)
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
        corpora.table(path, [json.loads(A), json.loads(B)])
    seen, out = shown(capsys, path)
    assert documents(path) == found == seen
    summaries = [line[11:] for line in out if line.startswith("  summary: ")]
    assert read_lines(str(path)) == summaries, "what etads-rouge scores"


@pytest.mark.parametrize(
    "content, remedy",
    [
        (f"[{A},{B}]", ".[]"),
        (f"\n\ufeff [\n{A}]", ".[]"),
        ('{"text": [\n"A b."],\n "summary": "a"\n}\n', "."),
        (f"{A.strip()},\n{B}", "sed 's/},$/}/'"),
        (f'{{"data": [{A.strip()}, {B.strip()}]}}', """'.["data"][]'"""),
        (f"{A.strip()}{B}", "jq -c . "),
        (f'{{"7": {A.strip()}, "9": {B.strip()}}}', "jq -c '.[]'"),
        (COLUMNWISE, "map_values([.[]])"),
        (BY_PANDAS, "map_values([.[]])"),
    ],
)
def test_json_of_another_layout_is_refused_with_its_remedy(content, remedy, tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(content)
    error = refused(tmp_path, capsys, "table", "--train", path, "--skip-bad")
    assert "each record must be one line: " in error and remedy in error and not (tmp_path / "text").exists()
    stream = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content.encode())), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stream)
    for name in (path, "-"):
        with pytest.raises(InputError, match="each record must be one line: "):
            documents(name)
    path.write_text(COLUMNWISE * 2)
    assert documents(path) == ["A b.\nC d."] * 2, "two documents, each a list of sentences"


def test_a_folder_that_datasets_has_saved_is_a_table(tmp_path):
    datasets = pytest.importorskip("datasets")
    pairs = datasets.Dataset.from_list([json.loads(A), json.loads(B)])
    datasets.DatasetDict({"test": pairs}).save_to_disk(tmp_path / "saved")
    assert documents(tmp_path / "saved" / "test") == BOTH
    with pytest.raises(InputError, match="is a data set with splits; name one of them"):
        documents(tmp_path / "saved")


def test_the_column_is_said_if_others_have_known_names(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("article,text,summary\nx,A b.,a\n")
    said = f"{path}: the documents are in text; --source-column article takes article instead"
    assert {said, "columns of train: text, summary"} <= set(shown(capsys, path)[1])
    assert documents(path) == ["A b."] and said in capsys.readouterr().err
    assert documents(path, column="article") == ["x"] and not capsys.readouterr().err


def test_a_quoted_cell_that_holds_rows_is_warned_of_unless_quotes_are_characters(tmp_path, capsys):
    path = tmp_path / "a.tsv"
    path.write_text(QUOTED)
    words = f"{path}, record 2: a quoted cell holds line breaks and tabs"
    assert any(line.startswith(words) for line in shown(capsys, path)[1])
    assert documents(path) == ["A b.\ta\nC d."] and words in capsys.readouterr().err
    assert shown(capsys, path, "--no-quotes")[0] == documents(path, quotes=False) == ['"A b.', 'C d."']


def test_a_pipe_is_read_once_however_slowly_it_delivers(tmp_path, capsys):
    path = tmp_path / "fifo"
    write = 'for part in "$@"; do printf "%s" "$part"; done'
    for read in (documents, lambda path: shown(capsys, path)[0]):
        os.mkfifo(path)
        with subprocess.Popen(["bash", "-c", f"{{ {write}; }} > {path}", "-", "\n", "  \n", A[:9], A[9:], B]):
            assert read(path) == BOTH
        path.unlink()
    with subprocess.Popen(["printf", A], stdout=subprocess.PIPE) as process:
        assert documents(f"/dev/fd/{process.stdout.fileno()}") == BOTH[:1]


@pytest.mark.parametrize(
    "content, text, problem",
    [
        ("<!DOCTYPE html>\n<html><script>x<y</script><p>A &amp; b.</p><p>C.</p></html>", ["A & b.", "C."], ""),
        ("A <html> page.", ["A <html> page."], ""),
        ("%PDF-1.4", [], "pdftotext"),
        ("{\\rtf1 A.}", [], "pandoc"),
    ],
)
def test_a_page_is_read_without_its_tags_and_other_files_are_named(content, text, problem, tmp_path):
    (tmp_path / "file").write_text(content)
    (read,) = read_documents([tmp_path / "file"], "file", ReadingOptions())
    assert [*filter(None, read.text.split("\n"))] == text
    assert problem in read.problem and bool(problem) == bool(read.problem)
