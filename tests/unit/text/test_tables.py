"""Tables of users: one file for all splits, columns, delimiters, standard input, compression, warnings."""

import bz2
import gzip
import io
import json
import lzma
from types import SimpleNamespace

import corpora
import pytest
from test_readers import lines, refused, run

from fairseq_etads.files import inputs
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.platform.errors import InputError

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
        (["--input", "all.csv", "--split", "90/10"], "--split 90/10: choose shares of train, valid and test"),
        (["--input", "all.csv", "--split", "90/-5/5"], "choose shares"),
        (["--input", "all.csv", "--split", "nan/1/1"], "choose shares"),
        (["--input", "all.csv", "--split", "1/0.000001/0.00000001"], "none falls into valid by --split"),
        (["--input", "all.csv", "--train", "x.csv"], "--input all.csv does not go with --train x.csv"),
        (["--train", "all.csv", "--split", "90/5/5"], "--split 90/5/5: has no effect without --input"),
        (["--train", "all.csv", "--delimiter", ";;"], '--delimiter ";;": choose one character'),
    ],
)
def test_impossible_options_are_refused(tmp_path, monkeypatch, capsys, more, words):
    monkeypatch.chdir(tmp_path)
    corpora.table(tmp_path / "all.csv", records(range(9)))
    assert words in refused(tmp_path, capsys, "table", *more)


def test_columns_are_found_in_any_case_and_listed_if_none_fits(tmp_path, capsys):
    path = corpora.write(tmp_path / "a.csv", "ID, Text ,SUMMARY\n1,a,b\n")
    out, _ = run(tmp_path, "table", "--train", path)
    assert lines(out / "train.source") == ["a"] and lines(out / "train.target") == ["b"]
    asked = ["--source-column", "id", "--target-column", "text"]
    out, _ = run(tmp_path / "asked", "table", "--train", path, *asked)
    assert lines(out / "train.source") == ["1"] and lines(out / "train.target") == ["a"]
    corpora.write(path, "Text,text,Summary\n1,a,b\n")
    out, _ = run(tmp_path / "exact", "table", "--train", path)
    assert lines(out / "train.source") == ["a"], "the name that is exactly right counts first"
    corpora.write(path, "Text,TEXT,Summary\n1,a,b\n")
    assert "2 columns are named TEXT or Text" in refused(tmp_path / "x", capsys, "table", "--train", path)
    corpora.write(path, "Body;Teaser;Text\n1;a;b\n")
    error = refused(tmp_path / "x", capsys, "table", "--train", path)
    assert "no known pair of columns in" in error and "it has Body, Teaser, Text" in error
    asked = ["--source-column", "body", "--target-column", "sort"]
    assert "--target-column sort: no such column" in refused(tmp_path / "x", capsys, "table", "--train", path, *asked)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_standard_input_is_a_table(tmp_path, monkeypatch, capsys, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    content = corpora.table(tmp_path / f"a.{kind}", records(range(30))).read_bytes()
    reports = []
    for folder in ("one", "one", "two"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        out, report = run(tmp_path / folder, "table", "--input", "-", "--split", "60/20/20")
        reports.append(report)
    assert reports[0] == reports[1] == reports[2] and len(split_of(out)) == 30
    error = refused(tmp_path / "x", capsys, "table", "--train", "-", "--valid", "-")
    assert "standard input (-) is given twice; it can be read only once" in error
    bad = b'{"source": "a", "target": "b"}\n{"source": 1}\n'
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(bad)))
    error = refused(tmp_path / "x", capsys, "table", "--train", "-")
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
