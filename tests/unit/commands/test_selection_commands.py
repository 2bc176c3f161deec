"""etads-labels, -select, -extract, -content and -shorten, in process, on tiny data."""

import json
import pickle
import random
import shutil

import numpy as np
import pytest
import torch
from folders import make_run, save_checkpoint
from helpers import make_task, model_config
from preparation import lines, prepare
from selection_data import write_data, write_subset
from test_selector import DOCUMENTS, MARK, SIZES, units

from fairseq_etads.commands.content import fit_feature_network
from fairseq_etads.commands.content import main as fit_content
from fairseq_etads.commands.extract import main as extract
from fairseq_etads.commands.labels import main as make_labels
from fairseq_etads.commands.select import main as select
from fairseq_etads.commands.shorten import main as shorten
from fairseq_etads.data.labels import (
    SelectionFile,
    SentencePickingSettings,
    compute_source_hash,
    match_sentences,
    select_by_greedy_recall,
    write_label_rows,
)
from fairseq_etads.data.pairs import MISSING, TokenValues
from fairseq_etads.platform.errors import InputError

LABELLED = [
    ("the c@@ at sat <q> a dog ran <q> it rain@@ ed", "the c@@ at <q> it rain@@ ed"),
    ("<unk> a b", "b <unk> a"),
    ("a b <q> c", "x y"),
]


def write_rows(path, documents, fields, **header):
    """Write labels or probabilities of documents."""
    rows = [(compute_source_hash(document.split()), row) for document, row in zip(documents, fields)]
    write_label_rows(path, {"documents": len(rows), "truncate_source": 100_000, **header}, rows)


# ---- etads-labels


@pytest.fixture
def labelled(tmp_path):
    write_data(tmp_path / "prepared" / "bin", {"train": LABELLED, "test": LABELLED[:1]})
    return tmp_path / "prepared" / "bin"


def fields(path):
    """Header, hashes and fields of a file."""
    head, *lines = path.read_text().splitlines()
    return json.loads(head[2:]), *zip(*((line.split("\t")[0], line.split("\t")[1].split()) for line in lines))


def test_labels_of_words_are_spread_over_subwords(labelled):
    assert make_labels([str(labelled.parent), "--jobs", "1"]) == 0
    header, hashes, rows = fields(labelled / "labels.words.train")
    assert (header["kind"], header["documents"], header["truncate_source"]) == ("words", 3, 400)
    assert hashes == tuple(compute_source_hash(document.split()) for document, _ in LABELLED)
    assert rows[0] == ["1", "1", "1", "0", "-", "0", "0", "0", "-", "1", "1", "1"]
    assert rows[1] == ["0", "1", "1"], "an unknown word is equal to no other"
    assert rows[2] == ["0", "0", "-", "0"]
    assert (labelled / "labels.words.test").exists()
    assert make_labels([str(labelled), "--truncate-source", "2", "--jobs", "1", "--subset", "train"]) == 0
    header, hashes, rows = fields(labelled / "labels.words.train")
    assert header["truncate_source"] == 2 and rows[0] == ["1", "1"], "half a word has the label of the whole"
    assert hashes[0] == compute_source_hash(LABELLED[0][0].split())


def test_labels_of_sentences(labelled, tmp_path):
    texts = [[[s.split() for s in text.replace("@@ ", "").split("<q>")] for text in pair] for pair in LABELLED]
    for kind, function in (("match", match_sentences), ("extract", select_by_greedy_recall)):
        assert make_labels([str(labelled), "--kind", kind, "--jobs", "1", "--out", str(tmp_path / kind)]) == 0
        _, _, rows = fields(tmp_path / kind / "labels.sentences.train")
        assert [[int(number) for number in row] for row in rows] == [function(*text) for text in texts]
        assert rows[0] == ["0", "2"]
    assert make_labels([str(labelled), "--kind", "distribution", "--jobs", "1"]) == 0
    _, _, rows = fields(labelled / "labels.sentences.train")
    assert rows[0] == ["0:1", "2:1"] and rows[2] == ["-"]


def test_the_number_of_processes_changes_nothing(tmp_path):
    words = "abcdefghij"
    pairs = [(" ".join(words[i % 7 :]) + " <q> " + words[i % 3], words[i % 10]) for i in range(200)]
    write_data(tmp_path / "bin", {"train": pairs})
    for jobs in "12":
        make_labels([str(tmp_path / "bin"), "--kind", "words", "--jobs", jobs, "--out", str(tmp_path / jobs)])
    one, other = ((tmp_path / jobs / "labels.words.train").read_bytes() for jobs in "12")
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
    assert make_labels([str(tmp_path), *options.split()]) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.glob("labels*"))


def test_files_refuse_other_text_and_damage(tmp_path):
    path = tmp_path / "labels.words.train"
    write_rows(path, ["a b", ""], [["1", "0"], []])
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


# ---- etads-select


@pytest.fixture(params=SIZES)
def run(request, tmp_path):
    """A run with an untrained selector and the split test; also returns the model."""
    make_run(tmp_path / "run", mark=True, tail=9)
    write_subset(tmp_path / "run" / "prepared" / "bin", "test", DOCUMENTS, [[5]] * len(DOCUMENTS))
    task = make_task(60, 20, mark=True, tail=9)
    torch.manual_seed(1)
    cfg = model_config(request.param, **SIZES[request.param])
    model = task.build_model(cfg).eval()
    save_checkpoint(tmp_path / "run" / "checkpoints" / "checkpoint_best.pt", model, cfg, task)
    return tmp_path / "run", model


def test_probabilities_are_those_of_each_document_alone_and_in_its_place(run, capsys):
    folder, model = run
    expected = [units(model, [document])[0] for document in DOCUMENTS]
    for most in ("1", "30", "1000"):
        assert select([str(folder), "--subset", "test", "--max-tokens", most, "--device", "cpu"]) == 0
        (path,) = folder.glob("probabilities.*.test")
        rows = [line.partition("\t")[2].split() for line in path.read_text().splitlines()[1:]]
        found = [[float(field) for field in row if field != "-"] for row in rows]
        for document, values, wanted in zip(DOCUMENTS, found, expected):
            if model.unit == "words":  # a mark has a probability, but nothing asks for it
                wanted = [value for value, word in zip(wanted, document) if word != MARK]
            assert values[: len(wanted)] == pytest.approx(wanted, rel=2e-3)
            assert not any(values[len(wanted) :]), "sentences that are not read have probability 0"
    assert f"{path}: {model.unit} of 5 documents" in capsys.readouterr().out


def test_labels_judge_what_is_read(run, tmp_path, capsys):
    folder, model = run
    words = make_task(60, 20, mark=True, tail=9).source_dictionary
    texts = [[words[number] for number in document] for document in DOCUMENTS]
    fields = [[str(int(n == 0)) for n in range(len(text))] if model.unit == "words" else ["0"] for text in texts]
    write_rows(tmp_path / f"labels.{model.unit}.test", map(" ".join, texts), fields)
    (folder / "checkpoints/checkpoint_best.pt").rename(folder / "checkpoints/checkpoint_last.pt")
    report, given = tmp_path / "report.json", [str(folder), "--subset", "test", "--labels", str(tmp_path)]
    given += ["--out", str(tmp_path / "out"), "--checkpoint", "last", "--report", str(report)]
    assert select([*given, "--truncate-source", "3"]) == 0
    assert f"AUC {json.loads(report.read_text())['test']['auc']:.4f}" in capsys.readouterr().out
    header, first, *_ = (tmp_path / "out" / f"probabilities.{model.unit}.test").read_text().splitlines()
    assert '"truncate_source": 3' in header and len(first.split()) == (4 if model.unit == "words" else 2)
    found = []
    for threshold in ("0", "1"):  # above which there is everything, and nothing
        assert select([*given, "--threshold", threshold]) == 0
        found.append(json.loads(report.read_text())["test"]["f1"])
    assert found[0] > found[1] == 0


# ---- etads-extract

EXTRACTED = ["the c@@ at sat <q> a dog ran , <q> it rain@@ ed <q> we left", "<q> one <q> two two", "four <q> five"]
SUMMARIES = ["it rain@@ ed <q> we left", "<unk> two", "zero"]


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path / "bin", {"test": list(zip(EXTRACTED, SUMMARIES))})
    words = "0.1 0.9 0.9 0.2 - 0 0.3 0.3 0.3 - 0.5 0.5 0.4 - 0.6 0.9", "- 0.2 - 0.1 0.2", "0 - 0.1"
    sentences = "0.1 0.8 0.3 0.9", "- 0.2 0.1", "0.5 0.5"
    for unit, rows in (("words", words), ("sentences", sentences)):
        write_rows(tmp_path / f"probabilities.{unit}.test", EXTRACTED, map(str.split, rows), truncate_source=400)
    return tmp_path


def extracted(data, *options):
    assert extract([str(data), str(data / "out.txt"), *options]) == 0
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
    assert extracted(data, *options.split()) == expected


def test_labelled_sentences_are_those_of_the_oracle(data, capsys):
    labels = [str(data), "--subset", "test", "--truncate-source", "9", "--jobs", "1"]
    assert make_labels([*labels, "--kind", "extract"]) == 0
    assert extracted(data, "--by", "labels") == extracted(data, "--by", "oracle", "--truncate-source", "9")
    assert make_labels([*labels, "--kind", "distribution", "--out", str(data)]) == 0
    assert extract([str(data), str(data / "out.txt"), "--by", "labels", "--labels", str(data)]) == 2
    assert "labels.sentences.test contains labels of the kind distribution" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        ("--by tagger", "--by tagger needs --selection"),
        (f"{SELECTOR} --words 4 --threshold 0.5", "--words 4 does not go with --threshold 0.5"),
        (f"{SELECTOR} --at-least 2", "--at-least 2 needs --threshold"),
        (f"{SELECTOR} --threshold nan", "--threshold nan: choose a probability"),
        ("--by labels --labels nowhere", "no nowhere/labels.sentences.test"),
        ("--by lead --subset valid", 'no split "valid"'),
    ],
)
def test_what_has_no_effect_or_does_not_fit_is_refused(data, options, message, monkeypatch, capsys):
    monkeypatch.chdir(data)
    assert extract([str(data), str(data / "out.txt"), *options.split()]) == 2
    assert message in capsys.readouterr().err and not (data / "out.txt").exists()


def test_tokens_have_the_values_of_their_sentences_and_files_that_do_not_fit_are_refused(data):
    dictionary = write_data(data / "again", {"test": list(zip(EXTRACTED, SUMMARIES))})
    texts = [torch.tensor([*(dictionary.index(word) for word in d.split()), 2]) for d in EXTRACTED]

    def read(name, limit=400):
        unit = name.split(".")[1]
        return TokenValues(data / name, unit, texts, [len(t) for t in texts], dictionary, limit, "--labels")

    m = MISSING
    expected = torch.tensor([0.1, 0.1, 0.1, 0.1, m, 0.8, 0.8, 0.8, 0.8, m, 0.3, 0.3, 0.3, m, 0.9, 0.9, m])
    torch.testing.assert_close(read("probabilities.sentences.test")[0], expected)
    torch.testing.assert_close(read("probabilities.sentences.test", 3)[0], torch.tensor([0.1, 0.1, 0.1, m]))
    torch.testing.assert_close(read("probabilities.words.test")[1], torch.tensor([m, 0.2, m, 0.1, 0.2, m]))
    write_rows(data / "labels.sentences.test", EXTRACTED, (["3", "1"], [], ["-"]), kind="match")
    found = read("labels.sentences.test")
    assert found[0].tolist() == [0, 0, 0, 0, m, 1, 1, 1, 1, m, 0, 0, 0, m, 1, 1, m]
    assert found[1].tolist() == [m, 0, m, 0, 0, m]
    for header, documents, message in (
        ({}, EXTRACTED[:2], "covers 2 documents, but DATA has 3"),
        ({"kind": "distribution"}, EXTRACTED, "distribution; create it with etads-labels --kind extract"),
        ({"truncate_source": 5}, EXTRACTED, "first 5 tokens of each document, but --truncate-source is 400"),
        ({}, EXTRACTED[::-1], "line 2: does not match document"),
    ):
        fields = [["0"] * len(document.split()) for document in documents]
        write_rows(data / "labels.words.test", documents, fields, **header)
        with pytest.raises(InputError, match=message):
            read("labels.words.test")
    write_rows(data / "labels.words.test", EXTRACTED, (["x"], ["0"], ["0"]), truncate_source=16)
    found = read("labels.words.test")
    for number, message in ((0, "could not convert"), (1, "1 values for 5 tokens")):
        with pytest.raises(InputError, match=f"line {number + 2}: {message}"):
            found[number]


# ---- etads-content

PAIRS = {"train": 120, "valid": 12, "test": 8}


def pair(r):
    """A document with two sentences of key words, and the summary that has the same words in another order."""
    words = [f"key{number}" for number in r.sample(range(26), 10)]
    keys = [words[:5], words[5:]]
    sentences = [*([f"plain{r.randint(0, 25)}" for _ in range(5)] for _ in range(4)), *keys]
    r.shuffle(sentences)
    return " <q> ".join(map(" ".join, sentences)), " <q> ".join(map(" ".join, reversed(keys)))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("content")
    r = random.Random(5)
    pairs = {split: [pair(r) for _ in range(count)] for split, count in PAIRS.items()}
    write_data(path / "prepared" / "bin", pairs)
    for split, rows in pairs.items():
        documents = [document for document, _ in rows]
        values = [[f"{r.random():.4g}" for _ in document.split("<q>")] for document in documents]
        write_rows(path / f"probabilities.sentences.{split}", documents, values)
    assert fit_content([str(path), "--documents", "100"]) == 0
    return path, pairs


def chosen(content, *options):
    path, _ = content
    arguments = [str(path / "prepared"), str(path / "out.txt"), "--by", "content", "--selection", str(path), *options]
    assert extract(arguments) == 0
    return [[sentence.split() for sentence in line.split("<q>")] for line in (path / "out.txt").open()]


def test_training_can_be_repeated_and_another_seed_makes_another_model(content, tmp_path, capsys):
    models = []
    for seed in ("1", "1", "7"):
        path = shutil.copytree(content[0], tmp_path / str(len(models)))
        assert fit_content([str(path), "--documents", "100", "--seed", seed]) == 0
        with np.load(path / "content.npz") as file:
            models.append({name: file[name].tobytes() for name in file.files})
    assert models[0] == models[1] != models[2]
    said = capsys.readouterr().out
    assert "from 120 pairs, networks trained on 100" in said


def test_sentences_with_the_words_of_summaries_are_chosen(content):
    for summary, (document, reference) in zip(chosen(content), content[1]["test"]):
        wanted = [sentence.split() for sentence in document.split("<q>") if "key" in sentence]
        words = [word for sentence in summary for word in sentence]
        assert summary == wanted and sorted(words) == sorted(reference.replace("<q>", "").split())
    assert all(len(summary) == 1 for summary in chosen(content, "--words", "5"))


def test_long_documents_are_read_to_their_end(content, tmp_path):
    """Two sentences of 300 words are too long to be chosen, and the key words follow them."""
    r = random.Random(9)
    plain = [[f"plain{r.randint(0, 25)}" for _ in range(300)] for _ in range(2)]
    keys = [[f"key{number}" for number in range(first, first + 5)] for first in (0, 5)]
    document = " <q> ".join(map(" ".join, [*plain, *keys]))
    write_data(tmp_path / "prepared" / "bin", {"test": [(document, "key0")]})
    write_rows(tmp_path / "probabilities.sentences.test", [document], [["0.5"] * 4])
    shutil.copy(content[0] / "content.npz", tmp_path)
    assert chosen((tmp_path, None)) == [keys]
    assert chosen((tmp_path, None), "--truncate-source", "400") != [keys]


def test_a_network_learns_what_no_line_separates():
    features = np.random.RandomState(0).randn(200_000, 3).astype("float32") * [5, 1, 1] + [7, 0, 0]
    labels = (abs(features[:, 0] - 7) < 3).tolist()
    state = torch.random.get_rng_state()
    network = fit_feature_network(features, labels, 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert ((network.predict_probabilities(features) > 0.5) == labels).mean() > 0.9


# ---- etads-shorten

SPLITS = {"train": 24, "valid": 5, "test": 3}
MOST = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Text with and without sentence marks, prepared, and a run with probabilities of its sentences."""
    path = tmp_path_factory.mktemp("shorten")
    r = random.Random(1)
    text = path / "text"
    text.mkdir()
    for split, count in SPLITS.items():
        documents = []
        for number in range(count):
            words = [[f"Word{r.randint(0, 30)}," for _ in range(r.randint(3, 9))] for _ in range(r.randint(4, 9))]
            sentences = [f"{' '.join(sentence)} end {place}." for place, sentence in enumerate(words)]
            documents.append((" <q> " if number % 2 else "  ").join(sentences))
        (text / f"{split}.source").write_text("".join(document + "\n" for document in documents))
        (text / f"{split}.target").write_text("a summary\n" * count)
    (text / "test.target.1").write_text("another\n" * SPLITS["test"])
    prepared = path / "run" / "prepared"
    prepare(text, prepared, "word", 60, True, 1, words="ptb", source_marks=True)
    for split in SPLITS:
        documents = lines(prepared / "tokens" / f"{split}.source")
        values = [[f"{r.random():.4g}" for _ in line.split(" <q> ")] for line in documents]
        write_rows(path / "run" / f"probabilities.sentences.{split}", documents, values)
    return path


def shortened(made, out, *options, status=0):
    arguments = [str(made / "text"), str(out), "--run", str(made / "run"), "--words", str(MOST), *options]
    assert shorten(arguments) == status


def test_likely_sentences_are_picked_as_they_are_written(made, tmp_path, capsys):
    shortened(made, tmp_path / "out")
    assert "train.source: 24 documents, of" in capsys.readouterr().out
    record = json.loads((made / "run" / "picking.json").read_text())
    assert record["words"] == MOST and len(record["edges"]) == 7
    picking = SentencePickingSettings(MOST, tuple(record["edges"]))
    seen = set()
    for split in SPLITS:
        texts, levels = (lines(tmp_path / "out" / f"{split}.source{end}") for end in ("", ".salience"))
        rows = lines(made / "run" / f"probabilities.sentences.{split}")[1:]
        for line, short, of_line, row in zip(lines(made / "text" / f"{split}.source"), texts, levels, rows):
            sentences = [part.strip() for part in line.split("<q>")]
            if len(sentences) == 1:
                sentences = [f"{part}." for part in line.rstrip(".").split(".  ")]
            values = [float(value) for value in row.split("\t")[1].split()]
            places = [pick.number for pick in picking.pick(sentences, values)]
            assert 0 < len(places) < len(sentences)
            assert short.split(" <q> ") == [sentences[place] for place in places], "in their case, with their commas"
            assert of_line.split() == [picking.find_probability_level(values[place]) for place in places]
            assert len(short.replace("<q>", "").split()) <= MOST
            seen.update(of_line.split())
        assert len(texts) == len(levels) == SPLITS[split]
    assert len(seen) > 4, "levels differ"
    assert lines(tmp_path / "out" / "test.target.1") == ["another"] * SPLITS["test"]
    prepare(tmp_path / "out", tmp_path / "short", "bpe", 60, True, 1, factors=["salience"])
    assert (tmp_path / "short" / "bin" / "complete").exists()


def test_a_test_set_has_the_levels_of_the_training(made, tmp_path, capsys):
    shortened(made, tmp_path / "all")
    before = (made / "run" / "picking.json").read_text()
    stale = tmp_path / "test" / "test.target.2"  # of a text with more references
    stale.parent.mkdir()
    stale.touch()
    shortened(made, stale.parent, "--subset", "test", "--words", "200", status=2)
    assert "--words 200: RUN" in capsys.readouterr().err and stale.exists()
    shortened(made, stale.parent, "--subset", "test")
    assert (made / "run" / "picking.json").read_text() == before and not stale.exists()
    assert lines(tmp_path / "test" / "test.source.salience") == lines(tmp_path / "all" / "test.source.salience")
    (made / "run" / "picking.json").unlink()
    shortened(made, tmp_path / "again", "--subset", "test", status=2)
    assert "shorten the split train first" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, options, message",
    [
        (None, "{text} {text} --run {run}", "is the same folder as TEXT"),
        (lambda lines: lines[:9], "text out --run {run}", "has 9 lines, but --prepared has 24 documents"),
        (lambda lines: ["One sentence."] * 24, "text out --run {run}", "line 1 of"),
        (None, "{text} out --run . --prepared {run}/prepared", "etads-select creates it"),
    ],
)
def test_what_does_not_fit_is_refused(made, tmp_path, monkeypatch, capsys, change, options, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "text", "text")
    if change:
        changed = change(lines(made / "text" / "train.source"))
        (tmp_path / "text" / "train.source").write_text("".join(f"{line}\n" for line in changed))
    assert shorten(options.format(text=made / "text", run=made / "run").split()) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "train.source").exists()
