"""etads-rouge and etads-compare --also: METEOR with a small WordNet, BERTScore, and rewards of training."""

import json
import math
import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from seeds import shifted
from test_evaluation_commands import write

from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.rouge import main
from fairseq_etads.evaluation import other_scores
from fairseq_etads.evaluation.rouge import RougeSettings
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig, write_config, write_model

HYPOTHESES = ["the auto runs . <q> it stops .", "", "a cat", "dogs sleep"]
REFERENCES = ["the car runs . <q> it stops .", "a dog", "a cat", "the cat is here"]


def lines_of(path, name):
    return [json.loads(line)[name] for line in path.read_text().splitlines()]


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    """WordNet's files with one synset, car and auto, which are their own stems; as Debian's, without lexnames."""
    folder = tmp_path_factory.mktemp("wordnet")
    header = "  1 WordNet 9.7 Copyright 2026\n"
    for part in ("noun", "verb", "adj", "adv"):
        synset = f"{len(header):08} 06 n 02 car 0 auto 0 000 | a thing with wheels\n" if part == "noun" else ""
        index = "".join(f"{word} n 1 0 1 0 {len(header):08}\n" for word in ("auto", "car")) if part == "noun" else ""
        (folder / f"data.{part}").write_text(header + synset)
        (folder / f"index.{part}").write_text(header + index)
        (folder / f"{part}.exc").write_text("")
    return str(folder)


def meteor_by_hand(matches, chunks, hypothesis, reference):
    """Banerjee and Lavie (2005) with nltk's alpha 0.9, beta 3, gamma 0.5."""
    precision, recall = matches / hypothesis, matches / reference
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return 100 * mean * (1 - 0.5 * (chunks / matches) ** 3)


def test_meteor_knows_synonyms_and_the_best_of_several_references_counts(files, wordnet, tmp_path, capsys):
    values = [meteor_by_hand(7, 1, 7, 7), 0, meteor_by_hand(2, 1, 2, 2), 0]
    saved = tmp_path / "report.json"
    options = ["--also", "meteor", "--wordnet", wordnet, "--json", str(saved), "--per-example"]
    lines, table = tmp_path / "lines.jsonl", tmp_path / "lines.tsv"
    assert main([*files, *options, str(lines)]) == 0
    assert lines_of(lines, "METEOR") == pytest.approx(values, abs=1e-3)
    score = json.loads(saved.read_text())["also"]["scores"]["METEOR"]
    low, high = score["interval"]
    assert low < score["mean"] < high and score["mean"] == pytest.approx(np.mean(values))
    signature = r"^METEOR\|nltk:\S+\|wordnet:9.7\|alpha:0.9\|.*\|refs:1\|n:4\|bootstrap:1000\|seed:"
    assert re.search(signature, capsys.readouterr().out, re.MULTILINE)
    other = write(tmp_path / "other.txt", ["nothing", "", "", "dogs sleep"])  # empty references do not count
    assert main([*files, other, *options, str(table), "--bootstrap", "0"]) == 0
    assert json.loads(saved.read_text())["also"]["scores"]["METEOR"]["interval"] is None
    heads, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert heads[-1] == "METEOR" and {len(row) for row in rows} == {len(heads)}
    assert [float(row[-1]) for row in rows] == pytest.approx([*values[:3], values[2]], abs=1e-3)


def test_all_systems_of_a_comparison_are_scored_in_one_call(files, tmp_path, monkeypatch):
    """A scorer may load a model in a process of its own."""
    calls = []

    def score(hypotheses, references):
        calls.append(len(hypotheses))
        lengths = [len("".join(texts)) - len("".join(several[0])) for texts, several in zip(hypotheses, references)]
        return np.array(lengths, dtype=float)[:, None], "LENGTHS"

    monkeypatch.setattr(other_scores, "load_scorers", lambda args, load_entailment: {"rougesal": score})
    report = tmp_path / "report.json"
    command = [files[1], "--a", *files, "--b", files[0], "--json", str(report), "--bootstrap", "10"]
    assert compare_main(command) == 0
    row = json.loads(report.read_text())["scores"][other_scores.FIGURES["rougesal"][0]]
    assert calls == [3 * len(HYPOTHESES)]
    assert row["first_trainings"][1] == 0 and row["first_trainings"][0] == row["second"] != 0


def test_wordnet_is_debians_or_there_is_no_meteor(files, wordnet, tmp_path, capsys, monkeypatch):
    """Without synonyms, METEOR would be a different measure under the same name."""
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", Path(wordnet))
    assert other_scores.find_wordnet(None).get_version() == "9.7"
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", tmp_path / "none")
    for options, words in (([], "needs WordNet"), (["--wordnet", str(tmp_path)], "no data.noun in it")):
        assert main([*files, "--also", "meteor", *options]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, words",
    [
        ("bertscore", "--bertscore-model; nothing is downloaded"),
        ("bertscore --bertscore-model model", "pip install bert-score"),
        ("rougesal --saliency-documents model/empty", "there are no words in it"),
        ("entail --entail-model nowhere", "nowhere/model.safetensors: No such file"),
    ],
)
def test_what_a_score_lacks_is_named(files, tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.setitem(sys.modules, "bert_score", None)
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    write(Path("model/config.json"), ["{}"])
    write(Path("model/empty"), ["", "<q> !"])
    assert main([*files, "--also", *options.split()]) == 2
    assert words in capsys.readouterr().err


class FakeScorer:
    """The interface of bert-score's scorer: precision, recall and F1 as tensors."""

    num_layers = 2

    def __init__(self, folder):
        self.model_type, self.asked = str(folder), []

    def score(self, hypotheses, references):
        self.asked += zip(hypotheses, references)
        figures = {"the cat is here": (0.9, 0.3, 0.45), "dogs": (0.2, 0.8, 0.32)}
        return torch.tensor([figures.get(text, (0.25, 0.75, 0.5)) for text in references]).unbind(1)


def test_texts_reach_bertscore_without_marks_and_empty_ones_score_0(tmp_path, monkeypatch):
    monkeypatch.setattr(other_scores.metadata, "version", lambda name: "1")
    (tmp_path / "config.json").write_text("{}")
    scorer = FakeScorer(tmp_path)
    score = other_scores.adapt_scorer_to_sentences(partial(other_scores.score_with_bertscore, scorer))
    names = {"bertscore": score}
    references = [REFERENCES, ["", "", "", "dogs"]]
    heads, figures, (signature,) = other_scores.compute_scores(names, HYPOTHESES, references, RougeSettings())
    assert heads == ["BERTScore-F1", "BERTScore-P", "BERTScore-R"]
    assert figures[:3].tolist() == [[50, 25, 75], [0, 0, 0], [50, 25, 75]]
    assert figures[3] == pytest.approx([45, 90, 30]), "all of the reference with the highest F1"
    assert scorer.asked[0] == ("the auto runs . it stops .", "the car runs . it stops .")
    assert scorer.asked[2:] == [("dogs sleep", "the cat is here"), ("dogs sleep", "dogs")]
    assert re.search(r"sha256 \w{12}\|layer:2\|idf:no\|rescaled:no\|refs:2,best", signature)
    (tmp_path / "config.json").write_text('{"another": 1}')
    other = other_scores.compute_scores(names, HYPOTHESES, references, RougeSettings())[2]
    assert other != [signature], "another model"


@pytest.fixture
def texts(tmp_path):
    """Files of hypotheses and references, with words of different saliency."""
    hypotheses, references = ["The w1 ! <q> it w2 .", "", "the the"], ["w1 runs . <q> it stops .", "w3", "the w3"]
    return [write(tmp_path / "hyp.txt", hypotheses), write(tmp_path / "ref.txt", references)]


def test_rougesal_weighs_words_by_how_few_documents_have_them(texts, tmp_path, capsys):
    documents = write(tmp_path / "train.source", ["the w1 <q> it", "the it it w2", "the runs"])
    lines = tmp_path / "lines.jsonl"
    options = ["--also", "rougesal", "--saliency-documents", documents, "--per-example", str(lines)]
    assert main([*texts, *options]) == 0
    weight = {word: math.log(4 / (1 + n)) + 1 for word, n in {"the": 3, "it": 2, "w1": 1, "runs": 1, "w2": 1}.items()}
    weight |= dict.fromkeys(("stops", "w3"), math.log(4) + 1)
    hits = weight["w1"] + weight["it"]
    precision = hits / (hits + weight["the"] + weight["w2"])
    recall = hits / (hits + weight["runs"] + weight["stops"])
    last = 2 * 0.5 * (share := weight["the"] / (weight["the"] + weight["w3"])) / (0.5 + share)
    expected = [100 * 2 * precision * recall / (precision + recall), 0, 100 * last]
    assert lines_of(lines, "ROUGESal") == pytest.approx(expected, abs=1e-3)
    assert re.search(r"^ROUGESAL\|saliency:idf,sha256 \w{12}\|stem:no\|", capsys.readouterr().out, re.MULTILINE)


def test_entailment_is_that_of_each_sentence_times_the_share_of_the_length(texts, tmp_path):
    nli, config, dictionary = tmp_path / "nli", NliConfig(embed_dim=4, width=5), Dictionary()
    for word in ["the", "w1", "it", "w2", "runs", "stops", "w3"]:
        dictionary.add_symbol(word)
    torch.manual_seed(shifted(1))
    model = config.make_model(dictionary)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    nli.mkdir()
    write_config(nli, config, dictionary, {})
    write_model(nli, model.state_dict())
    other = write(tmp_path / "other.txt", ["", "", "the the the the w3"])  # an empty reference counts as missing
    lines = tmp_path / "lines.jsonl"
    assert main([*texts, other, "--also", "entail", "--entail-model", str(nli), "--per-example", str(lines)]) == 0

    def judged(premise, hypothesis):
        return EntailmentScorer.load(str(nli)).score([premise.split()], [hypothesis.split()]).item()

    premise = "w1 runs . it stops ."
    first = (judged(premise, "the w1 !") + judged(premise, "it w2 .")) / 2
    last = max(judged("the w3", "the the"), 2 / 5 * judged("the the the the w3", "the the"))
    assert lines_of(lines, "entailment") == pytest.approx([100 * first, 0, 100 * last], abs=1e-2)
