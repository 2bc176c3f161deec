"""etads-corpus: nothing is lost without a report, parallel processes give the same result, it continues after an
interruption, and --near-duplicates finds what comparing every pair finds.
"""

import json
import os
import random
import sys
from collections import Counter
from unittest import mock

import corpora
import hypothesis.strategies as st
import pytest
from etads_preprocess import corpus, near_duplicates
from etads_preprocess.corpus import CorpusOptions
from etads_preprocess.encode import map_in_order
from etads_preprocess.near_duplicates import FOUND_SHARE, choose_lsh_bands, find_near_duplicates, make_shingles
from hypothesis import given
from test_readers import lines, refused, run, stories

from fairseq_etads.text.documents import Document, clean_text, make_lines


@given(text=st.text(st.characters(codec=None), max_size=40))
def test_cleaning_is_complete_after_one_go(text):
    cleaned = clean_text(text, Counter())
    assert clean_text(cleaned, Counter()) == cleaned and "<q>" not in cleaned.lower()
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned and cleaned == " ".join(cleaned.split())


def test_any_number_of_processes_writes_the_same(tmp_path, monkeypatch):
    path = corpora.table(tmp_path / "train.csv", [*corpora.rows(300), {"article": "", "highlights": "x"}])
    monkeypatch.setattr(corpus, "map_in_order", lambda *a, **k: map_in_order(*a, **k, small=64))
    made = {}
    for jobs in (1, 3):
        out, report = run(tmp_path / str(jobs), "table", "--train", path, "--no-sentences", jobs=jobs)
        made[jobs] = [(out / name).read_bytes() for name in ("train.source", "train.target", "report.json")]
        assert report["splits"]["train"]["documents"] == 300
    assert made[1] == made[3]


def test_broken_records_stop_the_command_or_are_counted(tmp_path):
    """Broken ones at the beginning do not tell the columns."""
    good = json.dumps({"source": "a b", "target": "c"})
    first, bad = '{"x": 1}', ['["source"]', '{"source": "a"}', '{"source": 1, "target": "b"}', "[" * 100_000]
    path = corpora.write(tmp_path / "train.jsonl", "\n".join(['{"source": "a"', first, good, *bad, "", good]) + "\n")
    assert "train.jsonl, line 1: not JSON" in refused(tmp_path, "table", "--train", path)
    assert not (tmp_path / "text" / "train.source").exists()
    out, report = run(tmp_path, "table", "--train", path, "--skip-bad")
    about = report["splits"]["train"]
    assert len(lines(out / "train.source")) == about["documents"] == 2 and sum(about["dropped"].values()) == 6
    assert 'no "target"' in about["dropped"] and "document is of type int" in about["dropped"]
    assert about["dropped, the first"][3] == f'{path}, line 5: no "target"'
    assert about["changed"] == {"blank lines between records": 1}
    corpora.write(path, "[]\n{}\n")
    assert "train.jsonl, line 1" in refused(tmp_path / "n", "table", "--train", path, "--skip-bad")


def test_other_encodings_are_read_if_asked_and_counted(tmp_path):
    path = tmp_path / "train.csv"
    path.write_bytes("source,target\r\ncaf\xe9 €,b\r\n".encode("cp1252") + "naïve,b\r\n".encode())
    out, report = run(tmp_path, "table", "--train", path, "--fallback-encoding", "cp1252")
    assert lines(out / "train.source") == ["café €", "naïve"]
    assert report["splits"]["train"]["changed"] == {"lines not UTF-8, read as cp1252": 1}
    out, _ = run(tmp_path / "r", "table", "--train", path, "--fallback-encoding", "replace")
    assert lines(out / "train.source")[0] == "caf\ufffd \ufffd"
    for name in ("ebcdic9", "rot13", "utf-16", "cp037"):
        error = refused(tmp_path / "n", "table", "--train", path, "--fallback-encoding", name)
        assert f"--fallback-encoding {name}" in error


def test_bytes_that_are_no_text_are_cleaned_and_counted(tmp_path):
    record = {"source": "a\0b <q> c\u200bd \ud800 e\u0301 <Q>\r\nf", "target": "x"}
    path = corpora.write(tmp_path / "train.jsonl", json.dumps(record) + "\n")
    out, report = run(tmp_path, "table", "--train", path, "--no-sentences")
    assert lines(out / "train.source") == ["a b < q > cd \ufffd é < Q > <q> f"]
    assert report["splits"]["train"]["changed"] == {
        "control characters replaced by spaces": 1,
        "invisible characters removed": 1,
        "literal <q> neutralised": 2,
        "lone surrogates replaced": 1,
        "paragraphs or sentences put into Unicode's form NFC": 1,
    }


def test_a_second_call_does_only_what_is_missing_or_changed(tmp_path):
    folder = corpora.scitldr(tmp_path / "raw")
    out, first = run(tmp_path, "scitldr", "--data", folder)
    before, target = (out / "train.source").stat().st_mtime_ns, (out / "test.target").read_text()
    (out / "valid.target.1").unlink()
    corpora.write(out / "test.target", "changed\n")
    out, second = run(tmp_path, "scitldr", "--data", folder)
    assert (out / "train.source").stat().st_mtime_ns == before, "made again"
    assert (out / "valid.target.1").exists() and (out / "test.target").read_text() == target and first == second
    error = refused(tmp_path, "scitldr", "--data", folder, "--source-words", "2")
    assert "was made with other options" in error
    corpora.write(folder / "dev.jsonl", (folder / "train.jsonl").read_text())
    assert "was made with other inputs" in refused(tmp_path, "scitldr", "--data", folder)


def test_files_of_the_same_name_and_other_folders_of_stories_are_other_inputs(tmp_path):
    train, valid = (
        [corpora.write(tmp_path / split / f"{name}.txt", f"{split} {name}\n") for name in ("doc", "sum")]
        for split in ("train", "valid")
    )
    arguments = ["parallel", "--train", *train, "--valid", *valid]
    _, report = run(tmp_path, *arguments)
    assert list(report["inputs"]) == ["train 1: doc.txt", "train 2: sum.txt", "valid 1: doc.txt", "valid 2: sum.txt"]
    swapped = ["parallel", "--train", *valid, "--valid", *train]
    assert "was made with other inputs" in refused(tmp_path, *swapped)

    raw, other = (corpora.cnndm(tmp_path / name) for name in ("raw", "other"))
    next((other / "cnn" / "stories").iterdir()).write_text("longer\n\n@highlight\n\nx\n")
    run(tmp_path / "s", *stories(raw, "cnn", "dailymail"), "--expect", "any")
    error = refused(tmp_path / "s", *stories(other, "cnn", "dailymail"), "--expect", "any")
    assert "was made with other inputs" in error
    run(tmp_path / "s", *stories(raw.rename(tmp_path / "moved"), "cnn", "dailymail"), "--expect", "any")


def test_force_leaves_nothing_of_the_corpus_before_and_all_files_of_the_user(tmp_path):
    files = [corpora.write(tmp_path / name, f"{name}\n") for name in "abc"]
    out, _ = run(tmp_path, "parallel", "--train", *files, "--valid", *files)
    own = {"train.target.notes.txt", "train.target.bak", "train.sources", "mine.txt"}
    for name in (*own, "train.source.pos", "test.target.1"):
        corpora.write(out / name, "mine\n")
    _, report = run(tmp_path, "parallel", "--train", *files[:2], "--force")
    names = {path.name for path in out.iterdir()}
    assert names == {"SHA256SUMS", "report.json", "train.source", "train.target", *own}
    assert list(report["splits"]["train"]["files"]) == ["train.source", "train.target"]
    assert not any(name in (out / "SHA256SUMS").read_text() for name in own)
    error = refused(tmp_path, "parallel", "--train", out / "train.source", out / "train.target", "--force")
    assert "--force" in error and lines(out / "train.source") == ["a"]


def test_documents_in_two_splits_are_counted(tmp_path, capsys):
    texts = {"train": "a\nb\na\n\nc\n", "valid": "d\nb\n", "test": "a\nd\na\n\n"}
    arguments = ["parallel", "--keep-empty"]
    for split, text in texts.items():
        files = [corpora.write(tmp_path / split / side, text) for side in ("s", "t", "u")]
        arguments += [f"--{split}", *files]
    _, report = run(tmp_path, *arguments)
    expected = {
        "train": {"duplicates": 1},
        "valid": {"duplicates": 0, "also in train": 1},
        "test": {"duplicates": 1, "also in train": 2, "also in valid": 1},
    }
    assert report["overlap"] == expected and "the same documents: 2 also in train" in capsys.readouterr().out
    _, report = run(tmp_path / "all", *arguments, "--train-references", "all")
    assert report["splits"]["train"]["documents"] > 5 and report["overlap"] == expected


def test_names_that_are_not_utf8_and_damaged_reports(tmp_path):
    files = [tmp_path / name for name in (os.fsdecode(b"caf\xe9"), "b")]
    for path in files:
        path.write_text("x\n")
    out, report = run(tmp_path, "parallel", "--train", *files)
    assert run(tmp_path, "parallel", "--train", *files)[1] == report
    assert os.fsdecode(b"train 1: caf\xe9") in report["inputs"]
    for content in ('{"corpus', "[]"):
        corpora.write(out / "report.json", content)
        assert "report.json is damaged" in refused(tmp_path, "parallel", "--train", *files)


def test_an_interrupted_split_leaves_no_file(tmp_path, monkeypatch):
    path = corpora.table(tmp_path / "train.csv", corpora.rows(3))
    monkeypatch.setattr(corpus, "make_lines", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "table", "--train", path)
    assert not (tmp_path / "text" / "train.source").exists()


def test_leads_and_full_stops():
    document = Document(["One two. Three four.", "Five"], [["a"]])
    done = make_lines(document, CorpusOptions(split=True, full_stops=True, source_sentences=2, source_words=3))
    assert done.source == "One two. <q> Three" and done.targets == ["a."]
    assert done.counts["documents cut by --source-sentences"] == done.counts["documents cut by --source-words"] == 1
    for options, expected in (
        (CorpusOptions(split=True, source_sentences=1, short_lead=9), "One two. <q> Three four."),
        (CorpusOptions(split=False), "One two. Three four. <q> Five"),
    ):
        assert make_lines(document, options).source == expected


@pytest.fixture
def datasketch():
    return pytest.importorskip("datasketch")


def write_splits(folder, **splits):
    for split, documents in splits.items():
        (folder / f"{split}.source").write_text("".join(line + "\n" for line in documents))
        (folder / f"{split}.target").write_text("a summary\n" * len(documents))


def edited(document, places):
    return " ".join("other" if place in places else word for place, word in enumerate(document.split()))


def documents(count, seed):
    generator = random.Random(seed)
    return [" ".join(f"word{generator.randrange(400)}" for _ in range(100)) for _ in range(count)]


def test_runs_of_words():
    assert make_shingles("One, two. <q> THREE four five six") == {"one two three four five", "two three four five six"}
    assert make_shingles("One two") == {"one two"} and make_shingles(" <q> .") == set()


def test_what_is_found_is_what_comparing_all_pairs_finds(tmp_path, datasketch):
    """Edits of 1 or 2 places give a similarity of 0.9 or 0.81, above the threshold of 0.7; 20 edits are far below."""
    train = documents(30, seed=1)
    test = [edited(train[0], [50]), edited(train[1], [20, 70]), edited(train[2], range(0, 100, 5))]
    test += documents(9, seed=2)
    test += [edited(test[-1], [3]), train[4], f"{train[5].upper()} ."]
    write_splits(tmp_path, train=[*train, train[7], "", edited(train[8], [1, 2])], test=[*test, ""])
    found = find_near_duplicates(tmp_path, ["train", "test"], 0.7, jobs=1)
    # Equal ones are no news.
    assert found["splits"] == {"train": {"within": 1}, "test": {"within": 1, "also in train": 3}}
    rows = [line.split("\t") for line in (tmp_path / near_duplicates.LIST).read_text().splitlines()[1:]]
    assert {" ".join(row[:4]) for row in rows} == {
        *("train 33 train 9", "test 13 test 12", "test 1 train 1", "test 2 train 2", "test 15 train 6")
    }
    for split, line, other, place, similarity in rows:
        first = make_shingles(lines(tmp_path / f"{split}.source")[int(line) - 1])
        second = make_shingles(lines(tmp_path / f"{other}.source")[int(place) - 1])
        exact = len(first & second) / len(first | second)
        assert exact >= 0.7 and abs(float(similarity) - exact) < 0.2


def test_one_stands_for_many(tmp_path, monkeypatch, datasketch):
    """A template is filled in a hundred times, and not compared with all earlier ones, which takes quadratic time."""
    compared = []
    query = near_duplicates._DuplicateIndex.add

    def add(self, *arguments):
        compared.append(len(self._documents))
        return query(self, *arguments)

    monkeypatch.setattr(near_duplicates._DuplicateIndex, "add", add)
    (template,) = documents(1, seed=3)
    write_splits(tmp_path, train=[f"{template} {number}" for number in range(100)])
    found = find_near_duplicates(tmp_path, ["train"], 0.8, jobs=1)
    assert found["splits"] == {"train": {"within": 99}} and max(compared) == 1


@pytest.mark.parametrize("similarity", [0.1, 0.5, 0.8, 0.95, 1.0])
def test_hardly_a_pair_is_missed(similarity):
    count, size = choose_lsh_bands(similarity)
    assert count * size <= near_duplicates.PERMUTATIONS and count > 1
    assert 1 - (1 - similarity**size) ** count >= min(FOUND_SHARE, 1 - (1 - similarity**2) ** 64)


def test_the_command_reports_and_keeps_the_documents(tmp_path, capsys, monkeypatch, datasketch):
    train = documents(3, seed=4)
    write_splits(tmp_path, train=train, test=[edited(train[1], [50])])
    command = ["parallel"]
    for split in ("train", "test"):
        command += [f"--{split}", *(tmp_path / f"{split}.{side}" for side in ("source", "target"))]
    out, _ = run(tmp_path, *command)
    before = (out / "test.source").read_bytes()
    report = run(tmp_path, *command, "--near-duplicates")[1]  # the splits exist, so only the report is new
    assert "test.source, line 1 and train.source, line 2" in capsys.readouterr().out
    assert report["near-duplicates"]["splits"]["test"] == {"within": 0, "also in train": 1}
    assert (out / "test.source").read_bytes() == before and (out / near_duplicates.LIST).exists()
    report = run(tmp_path, *command)[1]
    assert not (out / near_duplicates.LIST).exists() and "near-duplicates" not in report
    monkeypatch.setitem(sys.modules, "datasketch", None)
    for value, words in (("nan", "from 0.1 to 1"), ("1", "missing: pip install datasketch")):
        assert words in refused(tmp_path / "refused", *command, "--near-duplicates", value)
    assert not (tmp_path / "refused" / "text").exists()
