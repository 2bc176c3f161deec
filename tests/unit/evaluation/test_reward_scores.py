"""etads-rouge and etads-compare --also rougesal entail: the rewards of training as scores of files."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from seeds import shifted
from test_other_scores import write

from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.rouge import main
from fairseq_etads.evaluation import reward_scores
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig, write_config, write_model

HYPOTHESES = ["The w1 ! <q> it w2 .", "", "the the"]
REFERENCES = ["w1 runs . <q> it stops .", "w3", "the w3"]
DOCUMENTS = ["the w1 <q> it", "the it it w2", "the runs"]


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)]


@pytest.fixture
def saliency(tmp_path):
    return ["--also", "rougesal", "--saliency-documents", write(tmp_path / "train.source", DOCUMENTS)]


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A random entailment model that knows the words of the texts above."""
    folder, config, dictionary = tmp_path_factory.mktemp("nli"), NliConfig(embed_dim=4, width=5), Dictionary()
    for word in ["the", "w1", "it", "w2", "runs", "stops", "w3"]:
        dictionary.add_symbol(word)
    torch.manual_seed(shifted(1))
    model = config.make_model(dictionary)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    write_config(folder, config, dictionary, {})
    write_model(folder, model.state_dict())
    return str(folder)


def lines_of(path, name):
    return [json.loads(line)[name] for line in path.read_text().splitlines()]


def test_rougesal_weighs_words_by_how_few_documents_have_them(files, saliency, tmp_path, capsys):
    lines = tmp_path / "lines.jsonl"
    assert main([*files, *saliency, "--per-example", str(lines)]) == 0
    weight = {word: math.log(4 / (1 + n)) + 1 for word, n in {"the": 3, "it": 2, "w1": 1, "runs": 1, "w2": 1}.items()}
    weight |= dict.fromkeys(("stops", "w3"), math.log(4) + 1)
    hits = weight["w1"] + weight["it"]
    precision = hits / (hits + weight["the"] + weight["w2"])
    recall = hits / (hits + weight["runs"] + weight["stops"])
    last = 2 * 0.5 * (share := weight["the"] / (weight["the"] + weight["w3"])) / (0.5 + share)
    expected = [100 * 2 * precision * recall / (precision + recall), 0, 100 * last]
    assert lines_of(lines, "ROUGESal") == pytest.approx(expected, abs=1e-3)
    signature = r"^ROUGESAL\|saliency:idf,sha256 \w{12}\|stem:no\|tok:a-z0-9\|refs:1\|n:3\|"
    assert re.search(signature, capsys.readouterr().out, re.MULTILINE)


def test_entailment_is_that_of_each_sentence_times_the_share_of_the_length(files, nli, tmp_path):
    other = write(tmp_path / "other.txt", ["", "", "the the the the w3"])  # an empty reference counts as missing
    lines = tmp_path / "lines.jsonl"
    options = ["--also", "entail", "--entail-model", nli, "--per-example", str(lines)]
    assert main([*files, other, *options]) == 0

    def judged(premise, hypothesis):
        return EntailmentScorer.load(nli).score([premise.split()], [hypothesis.split()]).item()

    premise = "w1 runs . it stops ."
    first = (judged(premise, "the w1 !") + judged(premise, "it w2 .")) / 2
    last = max(judged("the w3", "the the"), 2 / 5 * judged("the the the the w3", "the the"))
    assert lines_of(lines, "entailment") == pytest.approx([100 * first, 0, 100 * last], abs=1e-2)


def test_systems_are_compared_by_rewards(files, saliency, tmp_path):
    worse = write(tmp_path / "worse.txt", ["x", "x", "the the"])
    report = tmp_path / "j"
    assert compare_main([files[0], worse, files[1], *saliency, "--bootstrap", "100", "--json", str(report)]) == 0
    content = json.loads(report.read_text())
    row = content["scores"]["ROUGESal"]
    assert row["difference"] == pytest.approx(row["first"] - row["second"]) and row["difference"] > 10
    assert content["also_signatures"][0].startswith("ROUGESAL|") and "tests:paired" in content["also_signatures"][0]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--also", "rougesal"], "give a file of training documents with --saliency-documents"),
        (["--also", "entail"], "give a model folder with --entail-model"),
        (["--saliency-documents", "x"], "--saliency-documents has no effect without --also rougesal"),
        (["--also", "entail", "--entail-model", "nowhere"], "--entail-model nowhere: no model.safetensors in it"),
        (["--also", "rougesal", "--saliency-documents", "nowhere"], "nowhere"),
    ],
)
def test_what_is_missing_is_said_in_a_line(files, capsys, options, words):
    assert main([*files, *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_a_report_does_not_replace_what_a_score_reads(files, saliency, tmp_path, capsys):
    (tmp_path / "nli").mkdir()
    weights = write(tmp_path / "nli" / "model.safetensors", ["weights"])
    entail = ["--also", "entail", "--entail-model", str(tmp_path / "nli")]
    for options, path in ((saliency, saliency[-1]), (entail, weights)):
        before = Path(path).read_bytes()
        for command, given in ((main, files), (compare_main, [files[0], *files])):
            assert command([*given, *options, "--json", path]) == 2
            assert f"--json {path} is also read ({options[2]} {path})" in capsys.readouterr().err
            assert Path(path).read_bytes() == before


def test_a_file_without_words_has_no_frequencies(files, tmp_path, capsys):
    empty = write(tmp_path / "train.source", ["", "<q> !"])
    assert main([*files, "--also", "rougesal", "--saliency-documents", empty]) == 2
    assert "there are no words in it" in capsys.readouterr().err
    assert reward_scores.split_words("A-b c2.") == ["a", "b", "c2"]
