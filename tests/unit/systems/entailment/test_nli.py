"""Entailment models: the network against its oracle, folders, frozen scorers; pairs of published files and of text."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace

import pytest
import reference
import torch
from fairseq.data import Dictionary
from seeds import shifted

from fairseq_etads.data.nli_pairs import SKIPPED, NliPair, format_tab_separated_pair, read_pairs
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig, write_config, write_model

CONFIG = NliConfig(embed_dim=5, width=6)
WORDS = [f"w{number}" for number in range(12)]


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
    model, index = scorer.model, scorer.dictionary.index
    weights = {
        **{"E": model.table.weight.tolist(), "P": model.project.weight.tolist()},
        **{"F": layers(model.attend), "G": layers(model.compare), "H": layers(model.aggregate)},
        **{"W": model.classify.weight.tolist(), "b": model.classify.bias.tolist()},
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
        ("x.jsonl", "[" * 100000, "not JSON"),
        ("x.jsonl", published("neutral", sentence2=None).strip(), "not an object with the texts"),
    ],
)
def test_errors_name_file_and_line(name, line, words, tmp_path):
    good = published("neutral") if name == "x.jsonl" else "a\tb\tneutral\n"
    (tmp_path / name).write_text(good + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}, line 2: ") as error:
        list(read_pairs(tmp_path / name))
    assert words in str(error.value)
