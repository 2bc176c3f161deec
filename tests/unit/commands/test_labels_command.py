"""etads-labels: files with the data, the same for any number of processes, that refuse other text."""

import json
import pickle

import pytest
from selection_data import write_data

from fairseq_etads.commands.labels import main
from fairseq_etads.data.labels import (
    SelectionFile,
    compute_source_hash,
    match_sentences,
    select_by_greedy_recall,
    write_label_rows,
)
from fairseq_etads.platform.errors import InputError

TRAIN = [
    ("the c@@ at sat <q> a dog ran <q> it rain@@ ed", "the c@@ at <q> it rain@@ ed"),
    ("<unk> a b", "b <unk> a"),
    ("a b <q> c", "x y"),
]
TEST = [("a dog ran <q> the c@@ at", "a dog")]


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path / "prepared" / "bin", {"train": TRAIN, "test": TEST})
    return tmp_path / "prepared" / "bin"


def fields(path):
    """Header, hashes and fields of a file."""
    head, *lines = path.read_text().splitlines()
    return json.loads(head[2:]), *zip(*((line.split("\t")[0], line.split("\t")[1].split()) for line in lines))


def test_labels_of_words_are_spread_over_subwords(data):
    assert main([str(data.parent), "--jobs", "1"]) == 0
    header, hashes, rows = fields(data / "labels.words.train")
    assert (header["kind"], header["documents"], header["truncate_source"]) == ("words", 3, 400)
    assert hashes == tuple(compute_source_hash(document.split()) for document, _ in TRAIN)
    assert rows[0] == ["1", "1", "1", "0", "-", "0", "0", "0", "-", "1", "1", "1"]
    assert rows[1] == ["0", "1", "1"], "an unknown word is equal to no other"
    assert rows[2] == ["0", "0", "-", "0"]
    assert (data / "labels.words.test").exists()
    assert main([str(data), "--truncate-source", "2", "--jobs", "1", "--subset", "train"]) == 0
    header, hashes, rows = fields(data / "labels.words.train")
    assert header["truncate_source"] == 2 and rows[0] == ["1", "1"], "half a word has the label of the whole"
    assert hashes[0] == compute_source_hash(TRAIN[0][0].split())


def test_labels_of_sentences(data, tmp_path):
    texts = [[[s.split() for s in text.replace("@@ ", "").split("<q>")] for text in pair] for pair in TRAIN]
    for kind, function in (("match", match_sentences), ("extract", select_by_greedy_recall)):
        assert main([str(data), "--kind", kind, "--jobs", "1", "--out", str(tmp_path / kind)]) == 0
        _, _, rows = fields(tmp_path / kind / "labels.sentences.train")
        assert [[int(number) for number in row] for row in rows] == [function(*text) for text in texts]
        assert rows[0] == ["0", "2"]
    assert main([str(data), "--kind", "distribution", "--jobs", "1"]) == 0
    _, _, rows = fields(data / "labels.sentences.train")
    assert rows[0] == ["0:1", "2:1"] and rows[2] == ["-"]


def test_the_number_of_processes_changes_nothing(tmp_path):
    words = "abcdefghij"
    pairs = [(" ".join(words[i % 7 :]) + " <q> " + words[i % 3], words[i % 10]) for i in range(200)]
    write_data(tmp_path / "bin", {"train": pairs})
    for kind, unit in (("words", "words"), ("distribution", "sentences")):
        for jobs in "12":
            main([str(tmp_path / "bin"), "--kind", kind, "--jobs", jobs, "--out", str(tmp_path / jobs)])
        one, other = ((tmp_path / jobs / f"labels.{unit}.train").read_bytes() for jobs in "12")
        assert one == other


@pytest.mark.parametrize(
    "summary, options, message",
    [
        ("a", "--subset valid", 'no split "valid"'),
        ("a", "--kind match --jobs 1", 'no "<q>"'),
        (None, "--jobs 1", "dict.None.txt"),
    ],
)
def test_what_has_no_labels_is_refused(tmp_path, summary, options, message, capsys):
    write_data(tmp_path, {"train": [("a b", summary)]})
    if summary is None:
        (tmp_path / "train.source-None.source.idx").touch()
    assert main([str(tmp_path), *options.split()]) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.glob("labels*"))


def test_files_refuse_other_text_and_damage(tmp_path):
    path = tmp_path / "labels.words.train"
    rows = [(compute_source_hash(["a", "b"]), ["1", "0"]), (compute_source_hash([]), [])]
    write_label_rows(path, {"documents": 2}, rows)
    file = pickle.loads(pickle.dumps(SelectionFile(path, "--labels")))
    assert len(file) == 2
    assert file.read_row(0, ["a", "b"]) == ["1", "0"] and file.read_row(1, []) == []
    with pytest.raises(InputError, match=r"labels\.words.train, line 2: does not match document 0"):
        file.read_row(0, ["a", "c"])
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: whole.rindex(b"\n", 0, -1) + 1], whole[2:], b"", b"# []\n", b"\xff" + whole):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"--labels: .*labels\.words.train is damaged"):
            SelectionFile(path, "--labels")
    with pytest.raises(InputError, match=r"--labels: there is no .*; etads-labels creates it"):
        SelectionFile(tmp_path / "labels.words.valid", "--labels")
