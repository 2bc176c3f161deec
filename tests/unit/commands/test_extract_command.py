"""etads-extract, and files of the other commands of content selection, in process, on tiny data."""

import pytest
import torch
from selection_data import write_data

from fairseq_etads.commands.extract import main
from fairseq_etads.commands.labels import main as make_labels
from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.data.pairs import MISSING, TokenValues
from fairseq_etads.platform.errors import InputError

DOCUMENTS = ["the c@@ at sat <q> a dog ran , <q> it rain@@ ed <q> we left", "<q> one <q> two two", "four <q> five"]
SUMMARIES = ["it rain@@ ed <q> we left", "<unk> two", "zero"]


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path / "bin", {"test": list(zip(DOCUMENTS, SUMMARIES))})
    words = "0.1 0.9 0.9 0.2 - 0 0.3 0.3 0.3 - 0.5 0.5 0.4 - 0.6 0.9", "- 0.2 - 0.1 0.2", "0 - 0.1"
    sentences = "0.1 0.8 0.3 0.9", "- 0.2 0.1", "0.5 0.5"
    for unit, rows in (("words", words), ("sentences", sentences)):
        fields = [(compute_source_hash(d.split()), row.split()) for d, row in zip(DOCUMENTS, rows)]
        write_label_rows(tmp_path / f"probabilities.{unit}.test", {"documents": 3, "truncate_source": 400}, fields)
    return tmp_path


def extract(data, *options):
    assert main([str(data), str(data / "out.txt"), *options]) == 0
    return (data / "out.txt").read_text().splitlines()


SELECTOR, TAGGER, PHRASES = (f"--by {name} --selection ." for name in ("selector", "tagger", "phrases"))
WHOLE = ["the cat sat <q> a dog ran, <q> it rained <q> we left", "one <q> two two", "four <q> five"]


@pytest.mark.parametrize(
    "options, expected",
    [
        ("--by lead --truncate-source 6", ["the cat sat <q> a", *WHOLE[1:]]),
        ("--by oracle", ["it rained <q> we left", "two two", "four"]),
        (f"{SELECTOR} --sentences 2", ["a dog ran, <q> we left", *WHOLE[1:]]),
        (f"{PHRASES} --threshold 0.25", ["cat <q> dog ran, <q> it rained <q> we left", "", ""]),
        (f"{SELECTOR} --threshold 0.25", ["a dog ran, <q> it rained <q> we left", "one", "four <q> five"]),
        (f"{SELECTOR} --threshold 0.5", ["a dog ran, <q> we left", "one", "four"]),  # the likeliest in any case
        (f"{SELECTOR} --threshold 0.5 --at-least 3", ["a dog ran, <q> it rained <q> we left", *WHOLE[1:]]),
        (f"{SELECTOR} --threshold 0.1 --sentences 1", ["we left", "one", "four"]),
        # Documents have 12, 3 and 2 words. If one does not fit, sentences of fewer than three words are left out.
        (f"{SELECTOR} --words 7", ["the cat sat <q> a dog ran,", *WHOLE[1:]]),
        (f"{SELECTOR} --words 4", ["a dog ran,", *WHOLE[1:]]),
        (f"{TAGGER} --words 4", ["the cat sat", *WHOLE[1:]]),  # its words are likelier on average
    ],
)
def test_sentences_are_taken_in_each_way(data, monkeypatch, options, expected):
    monkeypatch.chdir(data)
    assert extract(data, *options.split()) == expected


def test_labelled_sentences_are_those_of_the_oracle(data, capsys):
    labels = [str(data), "--subset", "test", "--truncate-source", "9", "--jobs", "1"]
    assert make_labels([*labels, "--kind", "extract"]) == 0
    assert extract(data, "--by", "labels") == extract(data, "--by", "oracle", "--truncate-source", "9")
    assert make_labels([*labels, "--kind", "distribution", "--out", str(data)]) == 0
    assert main([str(data), str(data / "out.txt"), "--by", "labels", "--labels", str(data)]) == 2
    assert "labels.sentences.test contains labels of the kind distribution" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        ("--by tagger", "--by tagger needs --selection"),
        ("--by lead --words 4", "--words 4 has no effect without --by selector"),
        (f"{SELECTOR} --words 4 --threshold 0.5", "--words 4 does not go with --threshold 0.5"),
        (f"{SELECTOR} --at-least 2", "--at-least 2 needs --threshold"),
        (f"{SELECTOR} --threshold nan", "--threshold nan: choose a probability"),
        ("--by labels --labels nowhere", "no nowhere/labels.sentences.test"),
        ("--by lead --subset valid", 'no split "valid"'),
    ],
)
def test_what_has_no_effect_or_does_not_fit_is_refused(data, options, message, monkeypatch, capsys):
    monkeypatch.chdir(data)
    assert main([str(data), str(data / "out.txt"), *options.split()]) == 2
    assert message in capsys.readouterr().err and not (data / "out.txt").exists()


@pytest.fixture
def values(data):
    dictionary = write_data(data / "again", {"test": list(zip(DOCUMENTS, SUMMARIES))})
    texts = [torch.tensor([*(dictionary.index(word) for word in d.split()), 2]) for d in DOCUMENTS]

    def read(name, limit=400):
        unit = name.split(".")[1]
        return TokenValues(data / name, unit, texts, [len(t) for t in texts], dictionary, limit, "--labels")

    return data, read


def test_tokens_have_the_values_of_their_sentences(values):
    data, read = values
    m = MISSING
    expected = torch.tensor([0.1, 0.1, 0.1, 0.1, m, 0.8, 0.8, 0.8, 0.8, m, 0.3, 0.3, 0.3, m, 0.9, 0.9, m])
    torch.testing.assert_close(read("probabilities.sentences.test")[0], expected)
    torch.testing.assert_close(read("probabilities.sentences.test", 3)[0], torch.tensor([0.1, 0.1, 0.1, m]))
    torch.testing.assert_close(read("probabilities.words.test")[1], torch.tensor([m, 0.2, m, 0.1, 0.2, m]))
    rows = [(compute_source_hash(d.split()), row) for d, row in zip(DOCUMENTS, (["3", "1"], [], ["-"]))]
    write_label_rows(data / "labels.sentences.test", {"documents": 3, "kind": "match"}, rows)
    found = read("labels.sentences.test")
    assert found[0].tolist() == [0, 0, 0, 0, m, 1, 1, 1, 1, m, 0, 0, 0, m, 1, 1, m]
    assert found[1].tolist() == [m, 0, m, 0, 0, m]


def test_files_that_do_not_fit_are_refused(values):
    data, read = values
    path = data / "labels.words.test"
    rows = [(compute_source_hash(d.split()), ["0"] * len(d.split())) for d in DOCUMENTS]
    for header, given, message in (
        ({"documents": 2}, rows[:2], "covers 2 documents, but DATA has 3"),
        ({"documents": 3, "kind": "distribution"}, rows, "distribution; create it with etads-labels --kind extract"),
        ({"documents": 3, "truncate_source": 5}, rows, "first 5 tokens of each document, but --truncate-source is 400"),
        ({"documents": 3}, rows[::-1], "line 2: does not match document"),
    ):
        write_label_rows(path, header, given)
        with pytest.raises(InputError, match=message):
            read("labels.words.test")
    write_label_rows(path, {"documents": 3, "truncate_source": 16}, [(rows[0][0], ["x"]), (rows[1][0], ["0"]), rows[2]])
    found = read("labels.words.test")
    for number, message in ((0, "could not convert"), (1, "1 values for 5 tokens")):
        with pytest.raises(InputError, match=f"line {number + 2}: {message}"):
            found[number]
