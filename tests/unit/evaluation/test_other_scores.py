"""etads-rouge --also: METEOR with a small WordNet in its real format, BERTScore with a small BERT, and refusals."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.rouge import main
from fairseq_etads.evaluation import other_scores
from fairseq_etads.evaluation.rouge import RougeSettings

HYPOTHESES = ["the auto runs . <q> it stops .", "", "a cat", "dogs sleep"]
REFERENCES = ["the car runs . <q> it stops .", "a dog", "a cat", "the cat is here"]


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    """WordNet's files with one synset, car and auto (nltk looks stems up: these are their own).

    As in Debian's package there is no file lexnames.
    """
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


def test_meteor_knows_synonyms(files, wordnet, tmp_path, capsys):
    assert main([*files, "--also", "meteor", "--wordnet", wordnet, "--json", str(tmp_path / "j")]) == 0
    expected = [meteor_by_hand(7, 1, 7, 7), 0, meteor_by_hand(2, 1, 2, 2), 0]
    report = json.loads((tmp_path / "j").read_text())["also"]
    assert report["scores"]["METEOR"]["mean"] == pytest.approx(np.mean(expected))
    low, high = report["scores"]["METEOR"]["interval"]
    assert low < np.mean(expected) < high
    out = capsys.readouterr().out
    assert re.search(r"^METEOR +48\.\d\d   \[", out, re.MULTILINE)
    assert re.search(
        r"^METEOR\|nltk:\S+\|wordnet:9.7\|alpha:0.9\|.*\|refs:1\|n:4\|bootstrap:1000\|seed:", out, re.MULTILINE
    )
    assert out.splitlines()[-2].startswith("METEOR ") and "ROUGE-1" in out


def test_without_resamples_other_scores_have_no_intervals_either(files, wordnet, capsys):
    assert main([*files, "--also", "meteor", "--wordnet", wordnet, "--bootstrap", "0"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^METEOR +48\.\d\d$", out, re.MULTILINE) and "interval" not in out


def test_the_best_of_several_references_counts_and_empty_ones_do_not(files, wordnet, tmp_path):
    other = write(tmp_path / "other.txt", ["nothing", "", "", "dogs sleep"])
    lines = tmp_path / "lines.jsonl"
    assert main([*files, other, "--also", "meteor", "--wordnet", wordnet, "--per-example", str(lines)]) == 0
    found = [json.loads(line)["METEOR"] for line in lines.read_text().splitlines()]
    both = meteor_by_hand(2, 1, 2, 2)
    assert found == pytest.approx([meteor_by_hand(7, 1, 7, 7), 0, both, both], abs=1e-3)
    table = tmp_path / "lines.tsv"
    assert main([*files, "--also", "meteor", "--wordnet", wordnet, "--per-example", str(table)]) == 0
    heads, first = (line.split("\t") for line in table.read_text().splitlines()[:2])
    assert heads[-1] == "METEOR" and len(first) == len(heads) and float(first[-1]) == pytest.approx(found[0], abs=1e-3)


def test_all_systems_of_a_comparison_are_scored_in_one_call(files, tmp_path, monkeypatch):
    """A scorer may load a model in a process of its own."""
    calls = []

    def score(hypotheses, references):
        calls.append(len(hypotheses))
        found = [
            len("".join(hypothesis)) - len("".join(several[0])) for hypothesis, several in zip(hypotheses, references)
        ]
        return np.array(found, dtype=float)[:, None], "LENGTHS"

    monkeypatch.setattr(other_scores, "load_scorers", lambda args, load_entailment: {"rougesal": score})
    report = tmp_path / "report.json"
    command = [files[1], "--a", *files, "--b", files[0], "--json", str(report), "--bootstrap", "10"]
    assert compare_main(command) == 0
    row = json.loads(report.read_text())["scores"][other_scores.FIGURES["rougesal"][0]]
    assert calls == [3 * len(HYPOTHESES)]
    assert row["first_trainings"][1] == 0 and row["first_trainings"][0] == row["second"] != 0


def test_systems_are_compared_by_it(files, wordnet, tmp_path, capsys):
    worse = write(tmp_path / "worse.txt", ["x", "x", "a cat", "x"])
    options = ["--also", "meteor", "--wordnet", wordnet, "--bootstrap", "200", "--json", str(tmp_path / "j")]
    assert compare_main([files[0], worse, files[1], *options]) == 0
    report = json.loads((tmp_path / "j").read_text())
    row = report["scores"]["METEOR"]
    assert row["difference"] == pytest.approx(meteor_by_hand(7, 1, 7, 7) / 4) and 0 < row["p_randomisation"] <= 1
    assert (
        report["also_signatures"][0].startswith("METEOR|") and "tests:paired-bootstrap" in report["also_signatures"][0]
    )
    assert re.search(r"^METEOR +\d+\.\d\d", capsys.readouterr().out, re.MULTILINE)


def test_without_wordnet_there_is_no_meteor(files, tmp_path, capsys, monkeypatch):
    """Without synonyms, METEOR would be a different measure under the same name."""
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", tmp_path / "none")
    assert main([*files, "--also", "meteor"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert all(words in err for words in ("needs WordNet", "wordnet-base", "nltk_data/corpora", "--wordnet"))
    assert main([*files, "--also", "meteor", "--wordnet", str(tmp_path)]) == 2
    assert "no data.noun in it" in capsys.readouterr().err


def test_debians_folder_is_found(wordnet, monkeypatch):
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", Path(wordnet))
    assert other_scores.find_wordnet(None).get_version() == "9.7"


@pytest.mark.parametrize(
    "options, words",
    [
        (["--wordnet", "x"], "--wordnet has no effect without --also meteor"),
        (["--bertscore-layer", "1"], "--bertscore-layer has no effect without --also bertscore"),
        (["--also", "bertscore"], "give a model folder with --bertscore-model; nothing is downloaded"),
        (["--also", "bertscore", "--bertscore-model", "roberta-large"], "it has no config.json"),
    ],
)
def test_options_that_do_not_go_together(files, capsys, options, words):
    assert main([*files, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_missing_package_is_named(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bert_score", None)
    (tmp_path / "config.json").write_text("{}")
    assert main([*files, "--also", "bertscore", "--bertscore-model", str(tmp_path)]) == 2
    assert "pip install bert-score" in capsys.readouterr().err


class FakeScorer:
    """The interface of bert-score's scorer: precision, recall and F1 as tensors."""

    num_layers = 2

    def __init__(self, folder):
        self.model_type, self.asked = str(folder), []
        self.figures = {"the cat is here": (0.9, 0.3, 0.45), "dogs": (0.2, 0.8, 0.32)}

    def score(self, hypotheses, references):
        import torch

        self.asked += zip(hypotheses, references)
        several = [[each] if isinstance(each, str) else each for each in references]
        found = [[self.figures.get(text, (0.25, 0.75, 0.5)) for text in texts] for texts in several]
        return torch.tensor([[max(each) for each in zip(*one)] for one in found]).unbind(1)


def test_texts_reach_bertscore_without_marks_and_empty_ones_score_0(tmp_path, monkeypatch):
    monkeypatch.setattr(other_scores.metadata, "version", lambda name: "1")
    (tmp_path / "config.json").write_text("{}")
    scorer = FakeScorer(tmp_path)
    names = {
        "bertscore": other_scores.adapt_scorer_to_sentences(
            lambda *texts: other_scores.score_with_bertscore(scorer, *texts)
        )
    }
    references = [REFERENCES, ["", "", "", "dogs"]]
    heads, figures, (signature,) = other_scores.compute_scores(names, HYPOTHESES, references, RougeSettings())
    assert heads == ["BERTScore-F1", "BERTScore-P", "BERTScore-R"]
    assert figures[:3].tolist() == [[50, 25, 75], [0, 0, 0], [50, 25, 75]]
    assert figures[3] == pytest.approx([45, 90, 30]), "all of the reference with the highest F1"
    assert scorer.asked[0] == ("the auto runs . it stops .", "the car runs . it stops .")
    assert scorer.asked[2:] == [("dogs sleep", "the cat is here"), ("dogs sleep", "dogs")]
    assert re.fullmatch(
        rf"BERTSCORE\|.*model:{tmp_path.name},sha256 \w{{12}}\|layer:2\|idf:no\|rescaled:no\|refs:2,best", signature
    )
    (tmp_path / "config.json").write_text('{"another": 1}')
    assert other_scores.compute_scores(names, HYPOTHESES, references, RougeSettings())[2] != [signature], (
        "another model"
    )


def test_bertscore_of_a_small_model(tmp_path, files):
    reason = "bert-score is not installed: pip install bert-score (the extra bertscore of setup.py)"
    pytest.importorskip("bert_score", reason=reason, exc_type=ImportError)
    import torch
    from transformers import BertConfig, BertModel

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters, *(f"##{letter}" for letter in letters)]
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(1)
    model = tmp_path / "model"
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)).save_pretrained(model)
    write(model / "vocab.txt", words)
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": 64}')
    options = ["--also", "bertscore", "--bertscore-model", str(model), "--json", str(tmp_path / "j")]
    assert main([files[0], files[0], *options, "--per-example", str(tmp_path / "same.jsonl")]) == 0
    same = [json.loads(line) for line in (tmp_path / "same.jsonl").read_text().splitlines()]
    assert [row["BERTScore-F1"] for row in same] == pytest.approx([100, 0, 100, 100], abs=1e-2)
    assert main([*files, *options, "--per-example", str(tmp_path / "lines.jsonl")]) == 0
    found = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    values = [row["BERTScore-F1"] for row in found]
    assert values[2] == pytest.approx(100, abs=1e-2) and values[2] - 1e-2 > values[0] > values[1] == 0
    (signature,) = json.loads((tmp_path / "j").read_text())["also"]["signatures"]
    assert "|layer:2|" in signature and "model:model,sha256" in signature
    assert main([*files, *options, "--bertscore-layer", "3"]) == 2
