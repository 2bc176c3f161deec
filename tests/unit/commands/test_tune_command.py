"""``etads-tune``: kinds of input, tables, changes of the folder, error messages."""

import csv
import json
import math
import re
import shutil

import optuna
import pytest
import torch
from documented import ROOT
from folders import DECODING, make_folder
from optuna.storages.journal import JournalFileBackend

from fairseq_etads import Summarizer
from fairseq_etads.commands.tune import main
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments
from fairseq_etads.summarizer.folder import model_card
from fairseq_etads.summarizer.folder.config import read_config
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.tuning import extractive_weights
from fairseq_etads.tuning.extractive_weights import TuningRound

DOCUMENTS = [" ".join(f"w{(5 * number + step) % 40}" for step in range(9)) for number in range(8)]
SHORT = {**DECODING, "max_len": 3}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft", decoding=SHORT)[0]


@pytest.fixture(scope="module")
def references(original):
    return [summary.text for summary in Summarizer.load(original, "cpu").summarize(DOCUMENTS, min_len=7, max_len=7)]


@pytest.fixture
def place(original, references, tmp_path, monkeypatch):
    """A folder with the model, and the documents and references as lines, JSON lines and CSV."""
    shutil.copytree(original, tmp_path / "model")
    card = "---\nlicense: mit\n---\n# Mine\n\n## Defaults of decoding\n\n`--beam 3`\n\n## Limits\n\nMany.\n"
    (tmp_path / "model" / "README.md").write_text(card)
    (tmp_path / "d.txt").write_text("".join(f"{text}\n" for text in DOCUMENTS))
    (tmp_path / "r.txt").write_text("".join(f"{text}\n" for text in references))
    records = [{"body": d, "short": [r]} for d, r in zip(DOCUMENTS, references)]
    (tmp_path / "both.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with open(tmp_path / "both.csv", "w", newline="") as file:
        csv.writer(file).writerows([["Text", "headline", "n"], *zip(DOCUMENTS, references, range(8))])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments, **options):
    """Run the command; returns the exit status, its output and messages."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in {"trials": 3, "device": "cpu", **options}.items()]
    status = main(["model", *given, *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def read_results(journal):
    """What a study of Optuna stores about its finished trials."""
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    trials = optuna.load_study(study_name=None, storage=storage).trials
    return [trial.user_attrs["result"] for trial in trials if trial.state.name == "COMPLETE"]


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_lines_json_lines_and_csv_give_the_same_tables(place, capsys):
    before = content(place / "model")
    search = "lenpen,length-penalty-type,stepwise-coverage-penalty,max-len"
    for name, inputs in (
        ("a", ["d.txt", "r.txt"]),
        ("b", ["both.jsonl", "--source-column", "body", "--target-column", "short"]),
        ("c", ["both.csv"]),
    ):
        status, _, err = run(capsys, *inputs, out=name, search=search)
        assert status == 0, err
        files = {path.name for path in (place / name).iterdir()}
        assert files == {"study.journal", "trials.csv", "tuning.json", "tuning.png", "history.png"}
        assert (place / name / "trials.csv").read_text() == (place / "a" / "trials.csv").read_text()
    rows = list(csv.DictReader((place / "a" / "trials.csv").read_text().splitlines()))
    assert [row["trial"] for row in rows] == ["0", "1", "2"]
    assert {"lenpen", "max_len", "mean", "rouge1", "rouge2", "rougeL", "words", "copy rate"} <= {*rows[0]}
    assert content(place / "model") == before, "nothing is written without --write"


def test_the_best_is_written_and_said_on_the_card(place, capsys):
    again = {"trials": 12, "search": "max-len", "range": "max-len=3:8"}
    status, out, _ = run(capsys, "d.txt", "r.txt", "--write", **again)
    assert status == 0
    best = json.loads((place / "model-tuning" / "tuning.json").read_text())["best"]
    assert best["decoding"]["max_len"] >= 6 and best["trial"] > 0 and best["against_defaults"]["difference"] > 5
    assert read_config(place / "model").decoding == best["decoding"]
    by_default = [s.text for s in Summarizer.load(place / "model", "cpu").summarize(DOCUMENTS)]
    assert by_default == read_results(place / "model-tuning" / "study.journal")[best["trial"]]["summaries"]
    card = (place / "model" / "README.md").read_text()
    assert card.startswith("---\nlicense: mit") and card.endswith("## Limits\n\nMany.\n")
    assert f"--max-len {best['decoding']['max_len']}" in card and card.count("## Defaults of decoding") == 1
    assert f"trial {best['trial']} of 6 (seed 1)" in card and "8 of 8 documents of `d.txt`" in card and "ROUGE|" in card
    Checksums(place / "model").verify(["config.json", "model.safetensors", "dict.source.txt"])
    # The command is run again with more trials than there are settings. The trials belong to the previous defaults.
    before = content(place / "model")
    status, repeated, err = run(capsys, "d.txt", "r.txt", "--write", **again)
    assert (status, repeated) == (0, out) and "6 trials exist already" in err
    assert content(place / "model") == before


def test_defaults_that_are_the_best_stay_and_chance_is_not_called_significant(place, capsys):
    before = content(place / "model")
    status, out, _ = run(capsys, "d.txt", "r.txt", "--write", search="max-len", range="max-len=1,2,3")
    assert status == 0 and content(place / "model") == before
    assert "The folder's defaults (trial 0) are the best" in out
    _, out, _ = run(capsys, "d.txt", "r.txt", search="max-len", range="max-len=3:8", trials=9, documents=1, out="one")
    assert "That is not significant for the best of 5 (p is not below 0.01)" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("d.txt short.txt", "8 documents and 7 references"),
        ("d.txt blank.txt", "no document and its reference both have words"),
        ("d.txt", "REFERENCES are missing"),
        ("both.jsonl --source-column body", "--target-column is needed"),
        ("d.txt r.txt --range lenpen=2:1", "--range lenpen=2:1"),
        ("d.txt r.txt --metric rouge1-recall75", "--metric rouge1-recall75"),
        ("d.txt r.txt --mert --search lenpen", "--search lenpen has no effect with --mert"),
        ("d.txt r.txt --out d.txt", "cannot write to --out d.txt"),
    ],
)
def test_what_cannot_be_used_is_refused(place, capsys, arguments, message):
    (place / "short.txt").write_text("w1\n" * 7)
    (place / "blank.txt").write_text(" \n" * 8)
    status, _, err = run(capsys, *arguments.split())
    assert status == 2 and err.startswith(f"etads-tune: {message}")
    assert not list(place.glob("*/trials.csv"))


def test_what_would_hinder_writing_is_said_before_the_first_trial(place, capsys, monkeypatch):
    def read_only(*_, dir):  # a folder that is read-only even if the tests run as root
        raise OSError(30, "Read-only file system", str(dir))

    monkeypatch.setattr(model_card.tempfile, "TemporaryFile", read_only)
    status, _, err = run(capsys, "d.txt", "r.txt", "--write")
    assert status == 2 and "model: cannot be written to" in err and not (place / "model-tuning").exists()


def test_extractive_weights_are_tuned_and_go_on_after_an_interruption(place, capsys):
    """The references are the model's own output with non-zero weights."""
    lengths = {**SHORT, "exact_length": 6}
    set_decoding_defaults(place / "model", lengths, "")
    written = Summarizer.load(place / "model", "cpu").summarize(DOCUMENTS, extractive_weights="1,2,1,0,-1")
    (place / "e.txt").write_text("".join(f"{summary.text}\n" for summary in written))
    options = {"nbest": 20, "starting_points": 8, "metric": "rouge1", "trials": 5}
    status, out, err = run(capsys, "d.txt", "e.txt", "--mert", out="whole", **options)
    assert status == 0 and "== trial 1/4: " in err
    report = json.loads((place / "whole" / "mert.json").read_text())
    scores = [found["score"] for found in report["rounds"]]
    assert report["rounds"][0]["weights"] == [1, 0, 0, 0, 0] and max(scores) == scores[report["best"]] > scores[0] + 2
    assert f"--extractive-weights {report['extractive_weights']}\n" in out and f"**{report['best']}**" in out
    whole = (place / "whole" / "mert.journal").read_bytes()
    third = [found.end() for found in re.finditer(rb'"result"', whole)][2]
    (place / "parts").mkdir()
    (place / "parts" / "mert.journal").write_bytes(whole[: third + 50])  # as after a kill in the third round
    _, again, err = run(capsys, "d.txt", "e.txt", "--mert", "--write", out="parts", **options)
    assert "2 trials exist already" in err
    assert again.split("report:")[0] == out.split("report:")[0]
    assert run(capsys, "d.txt", "e.txt", "--mert", out="parts", **options)[:2] == (0, again.split("--write")[0])
    decoding = read_config(place / "model").decoding
    assert decoding == {**lengths, "extractive_weights": report["extractive_weights"]}
    card = (place / "model" / "README.md").read_text()
    assert f"round {report['best']} of {len(scores)}, the best by rouge1 on 8 documents" in card
    texts = [s.text for s in Summarizer.load(place / "model", "cpu").summarize(DOCUMENTS, beam=20)]
    stored = read_results(place / "whole" / "mert.journal")
    assert texts == [nbest[0][0] for nbest in stored[report["best"]]["lists"]]
    for first, *later in zip(*(found["lists"] for found in stored)):  # by document
        known = {text: features for text, features, _ in first}
        for text, features, _ in (found for nbest in later for found in nbest if found[0] in known):
            assert known[text] == pytest.approx(features, abs=1e-4), "whatever the weights with which it was found"


def test_the_next_weights_come_from_the_lists_of_all_rounds():
    """Only with the third text, which is in the list of the second round, negative weights are best."""
    first, second = ("a", [-1.0, 1, 0, 0, 0], 0.5), ("b", [-2.0, 0, 0, 0, 0], 0.4)
    third = ("c", [-9.0, -2.0, 0, 0, 0], 0.9)
    no_hypotheses = []
    lists = [[[first, second], no_hypotheses], [[third, second], no_hypotheses], [[first], no_hypotheses]]
    rounds = [TuningRound(number, [1.0, 0, 0, 0, 0], {}, found, 0.5, 0.0) for number, found in enumerate(lists)]
    weights = extractive_weights._optimise_weights(rounds, 3, 1)
    assert weights[1] < -7 / 2 and [round(weight, 4) for weight in weights] == weights


def test_hypotheses_without_probability_are_in_no_list(original, monkeypatch):
    """Their log p is minus infinity, which a line search would turn into a step that no weights can reach."""
    summarizer = Summarizer.load(original, "cpu")
    search = summarizer._search_batch

    def with_impossible_ones(*args):
        results = search(*args)
        for hypotheses in results:
            hypotheses[1]["score"] = torch.tensor(-math.inf)
        return results

    monkeypatch.setattr(summarizer, "_search_batch", with_impossible_ones)
    found = EncodedDocuments(summarizer, DOCUMENTS[:2]).search_n_best(beam=3, extractive_weights="1,0,0,0,0")
    assert [len(hypotheses) for hypotheses in found] == [2, 2]


# ---- writing

NEW = {**SHORT, "max_len": 6, "lenpen": 0.5, "stepwise_coverage_penalty": False}


def test_however_writing_ends_the_folder_can_be_loaded(place, monkeypatch):
    """After a kill before any step, the folder has the old or the new defaults, and writing again completes it."""
    left = 0  # number of steps until the kill
    write = model_card.write_text

    def write_or_die(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return write(*arguments)

    monkeypatch.setattr(model_card, "write_text", write_or_die)
    for killed_before in range(1, 4):
        shutil.rmtree(place / "copy", ignore_errors=True)
        shutil.copytree(place / "model", place / "copy")
        left = killed_before
        with pytest.raises(KeyboardInterrupt):
            set_decoding_defaults(place / "copy", NEW, "a note")
        assert Summarizer.load(place / "copy", "cpu").config.decoding in (SHORT, NEW)
        set_decoding_defaults(place / "copy", NEW, "a note")
        assert Summarizer.load(place / "copy", "cpu").config.decoding == NEW
        assert Checksums(place / "copy").listed.keys() == Checksums(place / "model").listed.keys()
        assert not list((place / "copy").glob("*.partial"))
    left = 0
    set_decoding_defaults(place / "copy", NEW, "a note")
    assert left == -3, "config.json, the card and the checksums are written, one after another"


def test_damage_of_other_files_is_not_covered_up_and_a_card_of_another_hand_is_kept(place):
    with pytest.raises(InputError, match="--min-len 9: choose at most --max-len"):
        set_decoding_defaults(place / "model", {"min_len": 9, "max_len": 3}, "")
    card, dictionary = place / "model" / "README.md", place / "model" / "dict.source.txt"
    card.write_text("# A card of another hand\n")
    dictionary.write_bytes(dictionary.read_bytes() + b"more 1\n")
    set_decoding_defaults(place / "model", NEW, "a note")
    assert card.read_text().startswith("# A card of another hand\n\n## Defaults of decoding\n")
    with pytest.raises(InputError, match=r"dict\.source\.txt is damaged or was changed"):
        Summarizer.load(place / "model", "cpu")
    card.unlink()
    set_decoding_defaults(place / "model", SHORT, "a note")
    assert not card.exists() and read_config(place / "model").decoding == SHORT


def test_the_example_in_python_runs(place, capsys):
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for name, side in (("d.txt", "source"), ("r.txt", "target")):
        (place / name).rename(place / f"valid.{side}")
    exec(compile(block, "docs/tuning.md", "exec"), {})
    decoding, best, first = re.fullmatch(r"(\{.*\}) (\S+) (\S+)\n", capsys.readouterr().out).groups()
    assert "lenpen" in decoding and float(best) >= float(first) and (place / "out" / "study.journal").is_file()
