"""Tuning: spaces, proposals, and searches that are interrupted."""

import itertools
import json

import numpy as np
import optuna
import pytest
from folders import DECODING, make_folder

from fairseq_etads import Summarizer
from fairseq_etads.evaluation import rouge
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments
from fairseq_etads.tuning.tune import (
    STUDY_FILE,
    Parameter,
    Trial,
    _propose_settings,
    make_decoding_options,
    make_search_space,
    parse_values,
    tune,
)

DOCUMENTS = [
    " ".join(f"w{(7 * number + step * (number % 3 + 1)) % 40}" for step in range(8 + number)) for number in range(12)
]
SHORT = {**DECODING, "max_len": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft", decoding=SHORT)[0]


@pytest.fixture(scope="module")
def summarizer(folder):
    return Summarizer.load(folder, "cpu")


@pytest.fixture(scope="module")
def references(summarizer):
    """Make references longer than summaries with the defaults, and equal to the model's output at that length."""
    return [summary.text for summary in summarizer.summarize(DOCUMENTS, min_len=7, max_len=9)]


# ---- spaces


@pytest.mark.parametrize(
    "name, text, values",
    [
        ("lenpen", "0.5:2.0", tuple(np.arange(5, 21) / 10)),
        ("lenpen", "-1:1:0.75", (-1, -0.25, 0.5, 1)),
        ("min_len", "3:6", (3, 4, 5, 6)),
        ("max_len", "10:110", (*range(10, 111, 5),)),
        ("beam", "10, 2,5,2", (2, 5, 10)),
        ("stepwise_coverage_penalty", "true", (True,)),
        ("length_penalty_type", "wu,avg", ("wu", "avg")),
    ],
)
def test_values_of_a_range(name, text, values):
    assert parse_values(name, text) == pytest.approx(values) if name == "lenpen" else parse_values(name, text) == values


@pytest.mark.parametrize(
    "name, text",
    [
        ("lenpen", "2:0.5"),
        ("min_len", "1.5:3"),
        ("lenpen", "1:2:0"),
        ("lenpen", "0:1:0.00001"),
        ("lenpen", "0:inf"),
        ("coverage_penalty", "-1:1"),
        ("stepwise_coverage_penalty", "1"),
    ],
)
def test_impossible_ranges_are_refused(name, text):
    with pytest.raises(InputError, match=f"--range {name.replace('_', '-')}={text}: "):
        parse_values(name, text)


@pytest.mark.parametrize(
    "search, ranges, decoding, message",
    [
        (["lenpn"], {}, {}, r"there is no decoding option lenpn; did you mean lenpen\?"),
        (["infer-dtype"], {}, {}, "--infer-dtype cannot be searched"),
        (["unkpen"], {}, {}, "--search unkpen: its range is missing"),
        (["min-len"], {"min-len": "31:40"}, {"max_len": 30}, "--min-len 31 is more than --max-len 30"),
        ([], {"max-len": "1:3", "min-len": "4:5"}, {}, "--min-len 4 is more than --max-len 3"),
        (["min-len"], {}, {"exact_length": 4}, "--search min-len: has no effect with --exact-length"),
        (["max-len"], {"exact-length": "3,4"}, {}, "--search max-len: has no effect with --exact-length"),
    ],
)
def test_impossible_spaces_are_refused(search, ranges, decoding, message):
    with pytest.raises(InputError, match=message):
        make_search_space(search, ranges, decoding, [4, 5, 9])


def test_lengths_come_from_the_references_and_what_is_now_is_among_all_values():
    lengths = [*range(20, 60), 500]
    space = {p.name: p.values for p in make_search_space([], {}, {**DECODING, "lenpen": 0.97, "max_len": 45}, lengths)}
    assert list(space) == ["lenpen", "coverage_penalty", "no_repeat_ngram_size", "max_len", "min_len"]
    assert 0.97 in space["lenpen"] and space["lenpen"] == tuple(sorted(space["lenpen"]))
    assert space["min_len"][0] == 1 and space["min_len"][-1] == 40 and len(space["min_len"]) < 13
    assert space["max_len"][0] == 40 and 45 in space["max_len"] and space["max_len"][-1] in (59, 500)
    short = {p.name: p.values for p in make_search_space([], {}, {**DECODING, "max_len": 100}, range(8, 17))}
    assert short["max_len"] == (12, 13, 14, 15, 16, 100), "a default far above all references adds one value only"
    assert {0, 2} < set(space["no_repeat_ngram_size"]) and 0.0 in space["coverage_penalty"]
    only = make_search_space(["--min-len", "early_stopping"], {"beam": "2"}, {"max_len": 25}, lengths)
    assert [p.name for p in only] == ["early_stopping", "beam", "min_len"] and only[2].values[-1] <= 25


def test_options_without_effect_do_not_make_settings_differ():
    base = {"beam": 2, "coverage_penalty_type": "wu", "stepwise_coverage_penalty": True, "length_penalty_beta": 3.0}
    plain = make_decoding_options({"coverage_penalty": 0.0}, base)
    assert plain["stepwise_coverage_penalty"] is False, "it is refused without a weight"
    assert plain == make_decoding_options({"coverage_penalty": 0.0, "coverage_penalty_type": "summary"}, base)
    assert make_decoding_options({"coverage_penalty": 1.0}, base)["stepwise_coverage_penalty"] is True
    assert make_decoding_options({"length_penalty_type": "wu"}, base)["length_penalty_beta"] == 3.0


# ---- proposals

SPACE = [Parameter("lenpen", (0.5, 1.0)), Parameter("max_len", (3, 5, 8)), Parameter("min_len", (1, 2, 5, 6))]


def propose(space, first, trials, score, seed=3):
    """Run a study without a model; returns the settings of all trials in order."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    found = [Trial(0, first, {}, None, {}, [], 0.0)]
    study.tell(study.ask(), score(first))
    while len(found) < trials and (proposal := _propose_settings(study, space, DECODING, found)) is not None:
        study.tell(proposal[0], score(proposal[1]))
        found.append(Trial(len(found), proposal[1], {}, None, {}, [], 0.0))
    return [trial.settings for trial in found]


def test_each_setting_is_proposed_once_and_no_impossible_one():
    every = [dict(zip((p.name for p in SPACE), values)) for values in itertools.product(*(p.values for p in SPACE))]
    wanted = [chosen for chosen in every if chosen["min_len"] <= chosen["max_len"]]
    first = {"lenpen": 1.0, "max_len": 8, "min_len": 1}
    found = propose(SPACE, first, 100, lambda settings: float(settings["min_len"]))
    assert len(found) == len(wanted) == 2 * (2 + 3 + 4)
    assert all(settings in wanted and found.count(settings) == 1 for settings in found)


# ---- searches


def test_trial_0_is_what_the_folder_writes_and_figures_are_those_of_the_evaluation(summarizer, references, tmp_path):
    wanted = [" ".join(summary.text.split()) for summary in summarizer.summarize(DOCUMENTS)]
    found = tune(summarizer, DOCUMENTS, references, tmp_path, trials=2)
    assert found.trials[0].summaries == wanted
    for trial in found.trials:
        scores = rouge(trial.summaries, references).scores
        assert trial.scores.mean(axis=0) == pytest.approx([score.f1 for score in scores.values()], abs=1e-5)
        assert trial.score("rouge2") == pytest.approx(scores["rouge2"].f1, abs=1e-5)
        assert trial.score("mean") == pytest.approx(np.mean([score.f1 for score in scores.values()]), abs=1e-5)
        words = [text.split() for text in trial.summaries]
        copied = [np.mean([w in d.split() for w in text]) for text, d in zip(words, DOCUMENTS)]
        assert trial.figures["words"] == pytest.approx(np.mean([len(text) for text in words]))
        assert trial.figures["copy rate"] == pytest.approx(100 * np.mean(copied))
        assert trial.summaries == [s.text for s in summarizer.summarize(DOCUMENTS, **trial.decoding)]


def test_an_interrupted_search_keeps_its_finished_trials(summarizer, references, tmp_path, monkeypatch):
    """Half a line, which a kill while writing leaves, would make Optuna's whole file unreadable."""
    began, plain = [], EncodedDocuments.summarize

    def summarize(*arguments, **options):
        began.append(options)
        if len(began) in (1, 5, 9):
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(EncodedDocuments, "summarize", summarize)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(summarizer, DOCUMENTS, references, tmp_path, trials=12)
        with open(tmp_path / STUDY_FILE, "ab") as file:
            file.write(b'{"op_code": 4, "study')
    found = tune(summarizer, DOCUMENTS, references, tmp_path, trials=12).trials
    assert len(began) == 12 + 3, "no finished trial is made again"
    assert [trial.number for trial in found] == list(range(12)) and found[0].decoding == SHORT
    assert len({json.dumps(trial.decoding) for trial in found}) == 12
    longer = tune(summarizer, DOCUMENTS, references, tmp_path, trials=13).trials
    assert [trial._replace(scores=0) for trial in longer[:12]] == [trial._replace(scores=0) for trial in found]
    assert all((one.scores == other.scores).all() for one, other in zip(longer, found))


def test_a_file_that_is_no_study_is_refused(summarizer, references, tmp_path):
    (tmp_path / STUDY_FILE).write_bytes(b'{"format": "fairseq-etads trials", "version": 1, "settings": {}}\n')
    with pytest.raises(InputError, match=f"{STUDY_FILE}.*damaged, or not a study.*delete the file to start again"):
        tune(summarizer, DOCUMENTS, references, tmp_path)


def test_documents_are_chosen_once_for_all_trials(summarizer, references, tmp_path):
    def used(name, **options):
        found = tune(summarizer, DOCUMENTS, references, tmp_path / name, trials=1, **options)
        return found.documents, found.fingerprint

    assert used("a", most_documents=5) == used("b", most_documents=5) != used("c", most_documents=5, seed=2)
    assert used("a", most_documents=5)[0] == 5 and used("d")[0] == 12
    blank = ["", *DOCUMENTS[1:11], DOCUMENTS[11]], [*references[:11], " \t"]
    assert tune(summarizer, *blank, tmp_path / "e", trials=1).documents == 10


def test_other_data_model_or_space_in_the_same_folder_are_refused(summarizer, references, tmp_path):
    tune(summarizer, DOCUMENTS, references, tmp_path / "out", trials=2)
    other, _ = make_folder(tmp_path, pointer="soft", arch="etads", decoder_layers=1)
    for changed, what in (
        ({"references": references[::-1]}, "choice of documents and references"),
        ({"most_documents": 9}, "choice of documents and references"),
        ({"metric": "rouge2"}, "--metric"),
        ({"ranges": {"lenpen": "1,2"}}, "--search or --range"),
        ({"summarizer": Summarizer.load(other, "cpu")}, "model"),
    ):
        arguments = {"summarizer": summarizer, "documents": DOCUMENTS, "references": references, **changed}
        with pytest.raises(InputError, match=rf"trials used another {what}"):
            tune(out=tmp_path / "out", trials=2, **arguments)
    assert len(tune(summarizer, DOCUMENTS, references, tmp_path / "out", trials=2).trials) == 2


def test_other_defaults_are_refused_but_for_those_that_it_found(folder, summarizer, references, tmp_path):
    found = tune(summarizer, DOCUMENTS, references, tmp_path, trials=4)
    changed = Summarizer.load(folder, "cpu")
    object.__setattr__(changed.config, "decoding", found.trials[2].decoding)
    assert tune(changed, DOCUMENTS, references, tmp_path, trials=4).trials[0].decoding == SHORT
    object.__setattr__(changed.config, "decoding", {**SHORT, "beam": 4})
    with pytest.raises(InputError, match="another set of default options"):
        tune(changed, DOCUMENTS, references, tmp_path, trials=4)


def test_wrong_numbers_and_values_that_the_model_cannot_have(summarizer, references, tmp_path):
    for options, message in (
        ({"metric": "bleu"}, "--metric bleu"),
        ({"ranges": {"exact_length": "5:500:100"}, "search": ["lenpen"]}, "--exact-length"),
        ({"ranges": {"temperature": "0,1"}}, "--temperature 0.0"),
    ):
        with pytest.raises(InputError, match=message):
            tune(summarizer, DOCUMENTS, references, tmp_path, **options)
    assert tune(summarizer, DOCUMENTS, references, tmp_path, trials=1).trials, "nothing was recorded"
