"""Records of tables and other files: splits, columns, layouts, compression, warnings, new documents."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import corpora
import pytest
from etads_preprocess.corpus import main
from test_readers import lines, refused, run

from fairseq_etads.evaluation import read_lines as read_scored_lines
from fairseq_etads.files import inputs
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.records import ReadingOptions, choose_input_format, read_documents

SPLITS = ("train", "valid", "test")


def records(numbers, template="Document {}. It has words."):
    return [{"Article": template.format(i), "HIGHLIGHTS": f"summary {i}"} for i in numbers]


def split_of(out):
    """Map each document to its split."""
    return {line: split for split in SPLITS for line in lines(out / f"{split}.source")}


def test_one_table_is_split_by_the_documents(tmp_path):
    path = corpora.table(tmp_path / "all.csv", [*records(range(400)), *records(range(20))])
    out, report = run(tmp_path, "table", "--input", path, "--split", "80/10/10")
    sizes = [report["splits"][split]["documents"] for split in SPLITS]
    assert sum(sizes) == 420 and 300 < sizes[0] < 365 and min(sizes) > 20
    before = split_of(out)
    assert len(before) == 400, "a document is in two splits"
    for split in SPLITS:
        pairs = zip(lines(out / f"{split}.source"), lines(out / f"{split}.target"))
        assert all(target == f"summary {source.split()[1][:-1]}" for source, target in pairs)
    more = [*records(range(500, 600)), *records(range(400, -1, -1), "Document  {}.\tIt has words. ")]
    bigger = corpora.table(tmp_path / "bigger.jsonl", more)
    out, _ = run(tmp_path / "bigger", "table", "--input", bigger, "--split", "8/1/1")
    assert before.items() <= split_of(out).items(), "rows were moved by others, or by white space"
    seeded, _ = run(tmp_path / "seeded", "table", "--input", path, "--split", "0.8/0.1/0.1", "--split-seed", "2")
    assert split_of(seeded) != before
    out, report = run(tmp_path / "half", "table", "--input", path, "--split", "1/0/1")
    assert sorted(report["splits"]) == ["test", "train"] and not (out / "valid.source").exists()


def test_documents_that_are_identical_after_cleaning_are_in_the_same_split(tmp_path):
    templates = "Document {} says: café. It's e.g. <b>new</b>.", "Document\u200b {} says:\x07cafe\u0301. It's e.g. new."
    rows = [record for template in templates for record in records(range(60), template)]
    path = corpora.table(tmp_path / "all.jsonl", rows)
    out, report = run(tmp_path, "table", "--input", path, "--split", "40/30/30", "--strip-html")
    assert len(split_of(out)) == 60
    expected = {"duplicates": len(lines(out / "test.source")) // 2, "also in train": 0, "also in valid": 0}
    assert report["overlap"]["test"] == expected


def test_what_has_no_document_is_counted_once(tmp_path):
    good = [json.dumps(record) for record in records(range(40))]
    bad = ['{"Article": 1, "HIGHLIGHTS": ""}', "{", "", '{"Article": "", "HIGHLIGHTS": "x"}', '{"Article": "a"}']
    path = corpora.write(tmp_path / "all.jsonl", "\n".join([good[0], *bad, *good[1:]]) + "\n")
    _, report = run(tmp_path, "table", "--input", path, "--skip-bad", "--split", "60/20/20")
    dropped = [number for about in report["splits"].values() for number in about["dropped"].values()]
    assert sorted(dropped) == [1, 1, 1, 1] and sum(a["documents"] for a in report["splits"].values()) == 40
    assert [about["changed"] for about in report["splits"].values()] == [{"blank lines between records": 1}, {}, {}]


@pytest.mark.parametrize(
    "more, words",
    [
        (["--input", "all.csv", "--split", "nan/1/1"], "choose shares"),
        (["--input", "all.csv", "--split", "1/0.000001/0.00000001"], "none falls into valid by --split"),
        (["--input", "all.csv", "--train", "x.csv"], "--input all.csv does not go with --train x.csv"),
        (["--train", "all.csv", "--delimiter", ";;"], '--delimiter ";;": choose one character'),
    ],
)
def test_impossible_options_are_refused(tmp_path, monkeypatch, more, words):
    monkeypatch.chdir(tmp_path)
    corpora.table(tmp_path / "all.csv", records(range(9)))
    assert words in refused(tmp_path, "table", *more)


def test_columns_are_found_in_any_case_and_listed_if_none_fits(tmp_path):
    asked = ["--source-column", "id", "--target-column", "text"]
    for number, (header, options, pair) in enumerate(
        (
            ("ID, Text ,SUMMARY", [], ["a", "b"]),
            ("ID, Text ,SUMMARY", asked, ["1", "a"]),
            ("Text,text,Summary", [], ["a", "b"]),  # the name that is exactly right counts first
        )
    ):
        path = corpora.write(tmp_path / "a.csv", f"{header}\n1,a,b\n")
        out, _ = run(tmp_path / str(number), "table", "--train", path, *options)
        assert [*lines(out / "train.source"), *lines(out / "train.target")] == pair
    corpora.write(path, "Text,TEXT,Summary\n1,a,b\n")
    assert "2 columns are named TEXT or Text" in refused(tmp_path / "x", "table", "--train", path)
    corpora.write(path, "Body;Teaser;Text\n1;a;b\n")
    error = refused(tmp_path / "x", "table", "--train", path)
    assert "no known pair of columns in" in error and "it has Body, Teaser, Text" in error
    asked = ["--source-column", "body", "--target-column", "sort"]
    assert "--target-column sort: no such column" in refused(tmp_path / "x", "table", "--train", path, *asked)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_standard_input_is_a_table(tmp_path, monkeypatch, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    content = corpora.table(tmp_path / f"a.{kind}", records(range(30))).read_bytes()
    reports = []
    for folder in ("one", "one", "two"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        out, report = run(tmp_path / folder, "table", "--input", "-", "--split", "60/20/20")
        reports.append(report)
    assert reports[0] == reports[1] == reports[2] and len(split_of(out)) == 30
    error = refused(tmp_path / "x", "table", "--train", "-", "--valid", "-")
    assert "standard input (-) is given twice; it can be read only once" in error
    bad = b'{"source": "a", "target": "b"}\n{"source": 1}\n'
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(bad)))
    error = refused(tmp_path / "x", "table", "--train", "-")
    assert "standard input, line 2: " in error and "/tmp" not in error


def pack_zst(content):
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(content)


PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": pack_zst}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_read_whole_or_refused(tmp_path, monkeypatch, suffix):
    """91 KB of .zst used to expand to 3 GB."""
    pack, path = PACKERS[suffix], tmp_path / f"a{suffix}"
    text = [str(number) for number in range(20_000)]
    content = "\n".join(text).encode()
    packed = pack(content)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    cut = [packed[:length] for length in (0, 5, len(packed) // 2, len(packed) - 1)]
    for wrong in (*cut, packed + packed[:-3], bytes(damaged), packed + b"something else"):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=r"a\.\w+: cannot be read \((cut off|damaged): "):
            list(read_lines(path))
    monkeypatch.setattr(inputs, "MOST_AT_ONCE", 1000)
    for right in (packed, pack(content[:100]) + pack(content[100:]) + pack(b""), packed + b"\0" * 512):
        if suffix != ".zst" or not right.endswith(b"\0"):
            path.write_bytes(right)
            assert list(read_lines(path)) == text
    monkeypatch.setattr(inputs, "ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr(inputs, "MOST_TIMES", 300)
    path.write_bytes(pack(b"a\n" * (1 << 22)))
    with pytest.raises(InputError, match=r"a\.\w+: cannot be read \(expands to more than [\d,]+ times its size"):
        list(read_lines(path))
    (tmp_path / "a.txt").write_bytes(packed)
    with pytest.raises(InputError, match=r"a\.txt: is compressed, but not named \*\.gz"):
        list(read_lines(tmp_path / "a.txt", "replace"))


SUSPICIOUS = "Fish &amp; <b>chips</b>,\nif a <b and c> d &x; <cit> &#39;ok&#39; <br/>\u202eback\u200d"


def test_html_and_invisible_characters_are_warned_of_or_taken_out(tmp_path):
    texts = [{"source": "plain", "target": "x"}, {"source": SUSPICIOUS, "target": "<p>y</p> <!-- no -->"}]
    path = corpora.table(tmp_path / "a.jsonl", texts)
    out, report = run(tmp_path, "table", "--train", path, "--no-sentences")
    assert lines(out / "train.source")[1] == SUSPICIOUS.replace("\n", " <q> ").replace("  ", " ")
    counts = {"HTML tags": 6, "HTML entities": 3, "zero-width characters": 1, "bidirectional control characters": 1}
    place = f"{path}, line 2"
    assert report["splits"]["train"]["warnings"] == {n: {"count": c, "first": place} for n, c in counts.items()}
    stripped = ["--strip-html", "--strip-invisible"]
    out, report = run(tmp_path / "s", "table", "--train", path, "--no-sentences", *stripped)
    expected = "Fish & chips, <q> if a <b and c> d &x; <cit> 'ok' <q> back"
    assert lines(out / "train.source")[1] == expected and lines(out / "train.target")[1] == "y"
    assert report["splits"]["train"]["warnings"] == {}
    assert sorted(report["splits"]["train"]["changed"].values()) == [2, 3, 6]


A, B = '{"text": "A b.", "summary": "a"}\n', '{"text": "C d.", "summary": "c"}\n'
COLUMNWISE = '{"text": ["A b.", "C d."], "summary": ["a", "c"]}\n'
LINE_FEEDS = "\u0a0a\u0100"  # as bytes of UTF-16
BOTH = ["A b.", "C d."]


def read(*files, given=None, **options):
    """The documents in files, as pairs of name and text."""
    kind = choose_input_format(list(map(str, files)), given)
    return [(one.name, one.text) for one in read_documents(list(map(Path, files)), kind, ReadingOptions(**options))]


def documents(path, **options):
    return [text for _, text in read(path, **options)]


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
    assert read_scored_lines(str(path)) == summaries, "what etads-rouge scores"


@pytest.mark.parametrize(
    "content, remedy",
    [
        (f"\n\ufeff [\n{A},{B}]", ".[]"),
        ('{"text": [\n"A b."],\n "summary": "a"\n}\n', "."),
        (f"{A.strip()},\n{B}", "sed 's/},$/}/'"),
        (f'{{"data": [{A.strip()}, {B.strip()}]}}', """'.["data"][]'"""),
        (f"{A.strip()}{B}", "jq -c . "),
        (f'{{"7": {A.strip()}, "9": {B.strip()}}}', "jq -c '.[]'"),
        (COLUMNWISE, "map_values([.[]])"),
        ('{"text": {"0": "A b.", "1": "C d."}, "summary": {"0": "a", "1": "c"}}\n', "map_values([.[]])"),  # by pandas
    ],
)
def test_json_of_another_layout_is_refused_with_its_remedy(content, remedy, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(content)
    error = refused(tmp_path, "table", "--train", path, "--skip-bad")
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
    path.write_text('text\tsummary\n"A b.\ta\nC d."\tc\n')
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
    (found,) = read_documents([tmp_path / "file"], "file", ReadingOptions())
    assert [*filter(None, found.text.split("\n"))] == text
    assert problem in found.problem and bool(problem) == bool(found.problem)


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


def test_a_text_file_is_one_document_unless_its_lines_or_rows_are(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("One text.\n\nAnother.\n")
    assert read(path) == [(str(path), "One text.\n\nAnother.")]
    assert read(path, given="lines") == [("1", "One text."), ("2", ""), ("3", "Another.")]
    path.write_text("")
    assert read(path) == [(str(path), "")] and read(path, given="lines") == []
    (tmp_path / "a.csv").write_text("text\nA one.\n\nA two.\n")
    assert read(tmp_path / "a.csv") == [("1", "A one."), ("2", ""), ("3", "A two.")]


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


@pytest.mark.parametrize(
    "name, lines, found",
    [
        ("a.jsonl", [b'{"text": "\xff"}', b'{"text": 5}'], ["1: not UTF-8", "2: document is of type int"]),
        ("a.jsonl", [b'{"id": "\xff", "text": "a"}', b'{"id": "b", "text": "c"}'], ["1: not UTF-8", "c"]),
        ("a.csv", [b"id,text", b"a,\xff", b"b,c"], ["1: not UTF-8", "c"]),
    ],
)
def test_bad_records_are_named(name, lines, found, tmp_path):
    """They keep their ids, unless these are bad."""
    (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
    seen = list(read_documents([tmp_path / name], name.partition(".")[2], ReadingOptions()))
    assert [one.problem.rpartition(f"{name}, ")[2].partition(" ")[2] or one.text for one in seen] == found
    assert seen[0].name == ("a" if b"a,\xff" in lines else "1") and seen[-1].name in ("b", str(len(seen)))


def test_inputs_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    for files, options, words in (
        ([tmp_path / "missing"], {}, "no such file or folder"),
        ([tmp_path, tmp_path / "a.txt"], {}, "inputs of one format"),
        ([tmp_path], {"given": "lines"}, "is a folder, but --input-format is lines"),
        ([tmp_path / "a.txt"], {"column": "text"}, "--source-column text: applies only to JSON lines and CSV"),
    ):
        with pytest.raises(InputError, match=words):
            read(*files, **options)
