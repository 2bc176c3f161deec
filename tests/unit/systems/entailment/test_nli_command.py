"""etads-nli: pairs made from summaries, training to an accuracy, continuing after a kill, and evaluation."""

import itertools
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file
from seeds import shifted

from fairseq_etads.commands.nli import SHORTEST, find_replaceable_kind, main, read_references
from fairseq_etads.data.nli_pairs import NliPair, format_tab_separated_pair, read_pairs
from fairseq_etads.systems.entailment import model
from fairseq_etads.systems.entailment.model import EntailmentScorer

SMALL = ["--embed-dim", "48", "--width", "128", "--dropout", "0", "--batch-size", "16", "--device", "cpu"]
TINY = ["--embed-dim", "4", "--width", "5", "--batch-size", "300"]
WORDS = [f"word{number}" for number in range(10)]


def write_containment(path, count, seed):
    """Write pairs that are entailed if the premise has all words of the hypothesis; otherwise one word is exchanged."""
    generator, lines = random.Random(shifted(seed)), []
    for number in range(count):
        premise = generator.sample(WORDS, 4)
        hypothesis = generator.sample(premise, 2)
        if number % 2:
            hypothesis[generator.randrange(2)] = generator.choice([w for w in WORDS if w not in premise])
        pair = NliPair(" ".join(premise), " ".join(hypothesis), "neutral" if number % 2 else "entailment")
        lines.append(format_tab_separated_pair(pair))
    path.write_text("".join(lines))
    return str(path)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return write_containment(folder / "train.tsv", 2000, 1), write_containment(folder / "valid.tsv", 300, 2)


def train(out, pairs, *options):
    return main(["train", str(out), "--train", pairs[0], "--valid", pairs[1], *SMALL, *options])


@pytest.fixture(scope="module")
def trained(pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    assert train(out, pairs, "--epochs", "5") == 0
    return out


def test_it_learns_which_words_are_contained(trained, tmp_path, capsys):
    test = write_containment(tmp_path / "test.tsv", 300, 3)
    assert main(["score", str(trained), test, "--out", str(tmp_path / "scores.txt"), "--device", "cpu"]) == 0
    scores = [float(line) for line in (tmp_path / "scores.txt").read_text().splitlines()]
    labels = [pair.label == "entailment" for pair in read_pairs(tmp_path / "test.tsv")]
    accuracy = sum((score > 0.5) == label for score, label in zip(scores, labels)) / 300
    assert accuracy > 0.95 and f"accuracy {accuracy:.4f};" in capsys.readouterr().out


def test_a_training_that_is_killed_goes_on_to_the_same_weights(pairs, tmp_path, monkeypatch, capsys):
    """The kill comes while the model of the second epoch is stored. Dropout depends only on the epoch."""
    options = (*TINY, "--dropout", "0.3", "--epochs", "3")
    assert train(tmp_path / "whole", pairs, *options) == 0
    stored = model.write_model

    def killed(folder, weights, name="model.safetensors"):
        if int(weights.get("progress", [0])[0]) == 2:
            raise KeyboardInterrupt
        stored(folder, weights, name)

    monkeypatch.setattr(model, "write_model", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", pairs, *options)
    monkeypatch.undo()
    capsys.readouterr()
    assert train(tmp_path / "parts", pairs, *options) == 0
    said = capsys.readouterr().out
    assert "epoch 1:" not in said and "epoch 2:" in said and "epoch 3:" in said
    for name in ("model.safetensors", "training.safetensors"):
        whole, parts = (load_file(tmp_path / folder / name) for folder in ("whole", "parts"))
        assert whole.keys() == parts.keys() and all((whole[key] == parts[key]).all() for key in whole)
    assert not list(tmp_path.rglob("*.partial"))


def about(folder):
    return json.loads((folder / "config.json").read_text())["training"]


def test_a_finished_training_stays(trained, pairs, monkeypatch, capsys):
    before = about(trained)
    assert before["accuracy"] > 0.9 and before["options"]["train"] == [pairs[0]] and before["pairs"] == 2000
    monkeypatch.setattr(model.Trainer, "train_epoch", lambda *_: pytest.fail("it was trained again"))
    assert train(trained, pairs, "--epochs", "5") == 0
    assert train(trained, pairs, "--lr", "0.1") == 2
    assert "it was trained with a different --lr (0.001, now 0.1)" in capsys.readouterr().err
    assert about(trained) == before


def test_a_training_does_not_continue_on_other_pairs(pairs, tmp_path, capsys):
    """The same path may contain other pairs of the same words; the old model used to be reported as trained on them."""
    files = [str(shutil.copy(path, tmp_path)) for path in pairs]
    assert train(tmp_path / "model", files, *TINY, "--epochs", "1") == 0
    Path(files[0]).write_text("".join(reversed(Path(files[0]).read_text().splitlines(keepends=True))))
    capsys.readouterr()
    assert train(tmp_path / "model", files, *TINY, "--epochs", "1") == 2
    assert "it was trained on other pairs" in capsys.readouterr().err
    config = tmp_path / "model" / "config.json"
    written = json.loads(config.read_text())
    del written["training"]["files"]  # as earlier versions wrote it
    config.write_text(json.dumps(written))
    assert train(tmp_path / "model", files, *TINY, "--epochs", "1") == 0


def test_it_stops_without_progress_and_never_keeps_a_worse_model(pairs, tmp_path, monkeypatch, capsys):
    rights = iter([200, 250, 240, 250, 299])
    monkeypatch.setattr(model, "_count_correct_predictions", lambda *_: next(rights))
    assert train(tmp_path / "model", pairs, *TINY, "--patience", "2") == 0
    assert "accuracy 0.8333 of 300 pairs, epoch 2 of 4" in capsys.readouterr().out
    assert about(tmp_path / "model")["epoch"] == 2


def test_vectors_stay_and_know_words_that_no_pair_has(pairs, tmp_path):
    (tmp_path / "vectors.txt").write_text(f"{WORDS[0]} 0.5 1 1 1\nelsewhere 0.25 1 1 1\n")
    (tmp_path / "texts").write_text("Elsewhere, nowhere.\n")
    more = ["--vectors", str(tmp_path / "vectors.txt"), "--more-words", str(tmp_path / "texts")]
    assert train(tmp_path / "model", pairs, *TINY, *more, "--epochs", "1") == 0
    scorer = EntailmentScorer.load(tmp_path / "model")
    rows = {word: scorer.model.table.weight[scorer.dictionary.index(word)] for word in (WORDS[0], "elsewhere")}
    assert rows[WORDS[0]][0] == 0.5 and rows["elsewhere"][0] == 0.25
    assert "nowhere" in scorer.dictionary and "unheard" not in scorer.dictionary


TEXT = [
    "John Smith met 12 people in Paris, and they talked for hours. <q> It rained there.",
    "Mary went to London on Monday because Peter had asked her. <q> No.",
    "The price rose by 5 % while Acme sold 300 cars .",
]


def test_pairs_of_summaries_are_what_their_labels_say(tmp_path, capsys):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.target").write_text("\n".join(TEXT * 20) + "\n")
    assert main(["synthesise", str(tmp_path), str(tmp_path / "pairs")]) == 0
    pairs = list(read_pairs(tmp_path / "pairs" / "train.tsv"))
    counts = Counter(pair.label for pair in pairs)
    assert f"train.tsv: {len(pairs):,} pairs from 60 summaries" in capsys.readouterr().out
    assert counts["entailment"] == 80, "one of each sentence but the one that is too short"
    assert counts["neutral"] > 20 and counts["contradiction"] > 20
    references = read_references(tmp_path / "train.target")
    sentences = "".join(f" {' '.join(words)} \n" for reference in references for words in reference)
    premises = {" ".join(words) for reference in references for words in (itertools.chain(*reference), *reference)}
    for pair in pairs:
        assert pair.premise in premises and len(pair.hypothesis.split()) >= SHORTEST
        new = [w for w in pair.hypothesis.split() if w.lower() not in pair.premise.lower().split()]
        if pair.label == "contradiction":
            assert len(new) == 1 and find_replaceable_kind(new[0], False)
            assert any(find_replaceable_kind(word, False) for word in pair.premise.split())
        else:
            assert f" {pair.hypothesis} " in sentences and bool(new) == (pair.label == "neutral")
    assert main(["synthesise", str(tmp_path), str(tmp_path / "again")]) == 0
    assert [*read_pairs(tmp_path / "again" / "train.tsv")] == pairs


def test_numbers_and_names():
    """A capital letter tells nothing at the beginning of a sentence."""
    kinds = {"12": "number", "$3.5": "number", "Paris": "name", "The": None, "I": None, "1990s": None, ",": None}
    assert {word: find_replaceable_kind(word, False) for word in kinds} == kinds
    assert find_replaceable_kind("Paris", True) is None and find_replaceable_kind("12", True) == "number"
