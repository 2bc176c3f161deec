"""Entailment models: the network against its oracle, folders, pairs of texts, and all that etads-nli does."""

import gzip
import itertools
import json
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import reference
import torch
from fairseq.data import Dictionary
from safetensors.torch import load_file
from seeds import shifted

from fairseq_etads.commands.nli import SHORTEST, find_replaceable_kind, main, read_references
from fairseq_etads.data.nli_pairs import SKIPPED, NliPair, format_tab_separated_pair, read_pairs
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment import model
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig, write_config, write_model

CONFIG = NliConfig(embed_dim=5, width=6)
WORDS = [f"w{number}" for number in range(12)]
SMALL = ["--embed-dim", "48", "--width", "128", "--dropout", "0", "--batch-size", "16", "--device", "cpu"]
TINY = ["--embed-dim", "4", "--width", "5", "--batch-size", "300"]


@pytest.fixture
def scorer():
    torch.manual_seed(shifted(1))
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    model = CONFIG.make_model(dictionary, dropout=0.5)
    for parameter in model.parameters():
        parameter.data.mul_(2)  # with initial weights, all pairs would have similar scores
    return EntailmentScorer(model, dictionary, CONFIG)


def layers(network):
    return [(layer.weight.tolist(), layer.bias.tolist()) for layer in network if hasattr(layer, "weight")]


def by_loops(scorer, premise, hypothesis):
    """Class probabilities of a pair by the oracle."""
    network, index = scorer.model, scorer.dictionary.index
    weights = {
        **{"E": network.table.weight.tolist(), "P": network.project.weight.tolist()},
        **{"F": layers(network.attend), "G": layers(network.compare), "H": layers(network.aggregate)},
        **{"W": network.classify.weight.tolist(), "b": network.classify.bias.tolist()},
    }
    ids = ([scorer.dictionary.bos(), *(index(w) for w in words if w in WORDS)] for words in (premise, hypothesis))
    return reference.decomposable_attention(weights, *ids)


def random_pairs(count):
    generator = random.Random(shifted(2))
    texts = [[generator.choice([*WORDS, "unheard-of"]) for _ in range(generator.randint(0, 9))] for _ in range(count)]
    return texts[::2], texts[1::2]


def test_it_is_the_oracle_whatever_the_padding(scorer, monkeypatch):
    """A batch has pairs of all lengths, with empty texts and unknown words. Several batches keep the order."""
    premises, hypotheses = random_pairs(40)
    found = scorer.predict_probabilities(premises, hypotheses)
    expected = torch.tensor([by_loops(scorer, *pair) for pair in zip(premises, hypotheses)])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (expected.amax(0) - expected.amin(0)).max() > 0.05, "all pairs are alike: a test of nothing"
    monkeypatch.setattr("fairseq_etads.systems.entailment.model.AT_ONCE", 7)
    torch.testing.assert_close(scorer.score(premises, hypotheses), expected[:, 0], rtol=1e-4, atol=1e-5)
    assert scorer.score([], []).shape == (0,)


@pytest.fixture
def folder(scorer, tmp_path):
    write_config(tmp_path, CONFIG, scorer.dictionary, {})
    write_model(tmp_path, scorer.model.state_dict())
    return tmp_path


def test_a_folder_gives_the_same_scores(scorer, folder):
    """A model that hides no digits writes files that versions before this option can read."""
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "dict.txt", "model.safetensors"]
    assert "hide_digits" not in (folder / "config.json").read_text(encoding="utf-8")
    before = torch.get_rng_state()
    again = EntailmentScorer.load(folder)
    assert not any(parameter.requires_grad for parameter in again.model.parameters())
    assert not isinstance(again, torch.nn.Module), "a criterion would train and store it"
    assert torch.equal(torch.get_rng_state(), before), "loading drew random numbers"
    premises, hypotheses = random_pairs(20)
    assert torch.equal(again.score(premises, hypotheses), scorer.score(premises, hypotheses))


def test_a_folder_knows_that_digits_are_hidden(scorer, folder):
    """Treebank rules make "#" a word, so digits that were hidden first would be split."""
    scorer.dictionary.add_symbol("w#")
    hiding = replace(CONFIG, hide_digits=True)
    write_config(folder, hiding, scorer.dictionary, {})
    write_model(folder, hiding.make_model(scorer.dictionary).state_dict())
    again = EntailmentScorer.load(folder)
    assert again.config.make_tokenizer().encode("He isn't 42 or 1,000.") == "he is n't ## or #,### ."
    assert torch.equal(again.score([["w5"]], [["w7"]]), again.score([["w#"]], [["w#"]]))


def width(value):
    return lambda text: text.replace('"width": 6', f'"width": {value}')


@pytest.mark.parametrize(
    "name, damage, words",
    [
        ("config.json", None, "has no config.json"),
        ("config.json", lambda text: text.replace("entailment model", "x"), 'of the kind "entailment model"'),
        ("config.json", width('"6"'), '"model" differs from the format'),
        ("config.json", width(10**15), '"model" differs from the format'),
        ("config.json", width(10**6), "much larger than the weights file"),  # and than the memory
        ("config.json", width(7), "they do not belong together"),
        ("config.json", lambda text: text.replace('"training": {}', '"training": 5'), 'it lacks "training" or'),
        ("dict.txt", lambda text: text.replace("w3", "w33"), "does not match the fingerprint"),
        ("dict.txt", lambda text: text.replace("w3 1", "w3"), "line 4: not a dictionary"),
        ("model.safetensors", lambda text: "", "is damaged ("),
    ],
)
def test_what_is_damaged_is_refused_in_words(folder, name, damage, words):
    if damage is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(damage((folder / name).read_text(errors="replace")))
    with pytest.raises(InputError) as error:
        EntailmentScorer.load(folder)
    assert words in str(error.value) and str(folder) in str(error.value)


def published(label, premise="A man sleeps.", **more):
    """Make a line like SNLI's, with fields that nobody reads."""
    fields = {"annotator_labels": ["neutral"], "sentence1": premise, "sentence2": "Someone\u2028rests.", **more}
    return json.dumps({**fields, "gold_label": label}, ensure_ascii=False) + "\n"


def test_published_files_are_read_and_undecided_pairs_counted(tmp_path):
    text = published("entailment") + published("-") + published("contradiction") + published("-")
    (tmp_path / "snli_1.0_dev.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "mnli.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("snli_1.0_dev.jsonl", "mnli.jsonl.gz"):
        counts = Counter()
        pairs = list(read_pairs(tmp_path / name, counts))
        assert pairs == [("A man sleeps.", "Someone\u2028rests.", label) for label in ("entailment", "contradiction")]
        assert counts == {SKIPPED: 2}


def test_text_with_tabs_is_read_as_it_is_written(tmp_path):
    pairs = [NliPair("a b", "a", "entailment"), NliPair("a\tb\n c", "", "neutral")]
    (tmp_path / "pairs.tsv").write_text("".join(map(format_tab_separated_pair, pairs)))
    assert list(read_pairs(tmp_path / "pairs.tsv")) == [("a b", "a", "entailment"), ("a b c", "", "neutral")]


@pytest.mark.parametrize(
    "name, line, words",
    [
        ("x.tsv", "a\tb", "2 tab-separated fields"),
        ("x.tsv", "a\tb\tyes", 'the label is "yes"'),
        ("x.jsonl", published("neutral", sentence2=None).strip(), "not an object with the texts"),
    ],
)
def test_errors_name_file_and_line(name, line, words, tmp_path):
    good = published("neutral") if name == "x.jsonl" else "a\tb\tneutral\n"
    (tmp_path / name).write_text(good + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}, line 2: ") as error:
        list(read_pairs(tmp_path / name))
    assert words in str(error.value)


def write_containment(path, count, seed):
    """Write pairs that are entailed if the premise has all words of the hypothesis; otherwise one word is exchanged."""
    generator, lines = random.Random(shifted(seed)), []
    for number in range(count):
        premise = generator.sample(WORDS[:10], 4)
        hypothesis = generator.sample(premise, 2)
        if number % 2:
            hypothesis[generator.randrange(2)] = generator.choice([w for w in WORDS[:10] if w not in premise])
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


def test_pairs_of_summaries_are_what_their_labels_say(tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.target").write_text("\n".join(TEXT * 20) + "\n")
    assert main(["synthesise", str(tmp_path), str(tmp_path / "pairs")]) == 0
    pairs = list(read_pairs(tmp_path / "pairs" / "train.tsv"))
    counts = Counter(pair.label for pair in pairs)
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
