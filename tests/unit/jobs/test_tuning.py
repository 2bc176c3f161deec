"""Tuning: spaces, proposals, the store of trials, and searches that are interrupted."""

import itertools
import json
import random

import numpy as np
import pytest
from folders import DECODING, make_folder

from fairseq_etads import Summarizer
from fairseq_etads.evaluation import rouge
from fairseq_etads.jobs.tuning import report
from fairseq_etads.jobs.tuning.proposals import propose_settings
from fairseq_etads.jobs.tuning.search_space import (
    Parameter,
    make_decoding_options,
    make_search_space,
    parse_values,
)
from fairseq_etads.jobs.tuning.trial_store import VERSION, TrialStore
from fairseq_etads.jobs.tuning.tune import TuningListener, tune
from fairseq_etads.platform.errors import InputError

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

SPACE = [
    Parameter("lenpen", (0.5, 1.0, 1.5)),
    Parameter("length_penalty_type", ("avg", "wu")),
    Parameter("max_len", (3, 5, 8)),
    Parameter("min_len", (1, 2, 5, 6)),
]


def test_each_setting_is_proposed_once_and_no_impossible_one():
    every = [dict(zip((p.name for p in SPACE), values)) for values in itertools.product(*(p.values for p in SPACE))]
    wanted = [chosen for chosen in every if chosen["min_len"] <= chosen["max_len"]]
    tried = [({"lenpen": 1.0, "length_penalty_type": "avg", "max_len": 8, "min_len": 1}, 0.0)]
    while (chosen := propose_settings(SPACE, DECODING, tried, seed=3)) is not None:
        assert chosen in wanted and len(tried) < len(wanted)
        tried.append((chosen, float(chosen["min_len"])))
    assert len(tried) == len(wanted) == 3 * 2 * (2 + 3 + 4)


def test_a_proposal_depends_on_the_trials_and_the_seed_alone():
    def run(seed, trials=14):
        # These values are not in the space.
        tried = [({"lenpen": 9.0, "length_penalty_type": "avg", "max_len": 9, "min_len": 1}, 0.0)]
        for _ in range(trials):
            random.random(), np.random.rand()  # random draws elsewhere have no influence
            chosen = propose_settings(SPACE, DECODING, tried, seed)
            tried.append((chosen, chosen["lenpen"] + chosen["min_len"]))
        return tried

    assert run(1) == run(1) != run(2)


def test_the_sampler_learns():
    """With random search, the last ten of 35 trials would be about 25 steps away on average."""
    space = [Parameter("lenpen", tuple(n / 20 for n in range(41))), Parameter("max_len", tuple(range(1, 41)))]
    distances = []
    for seed in range(3):
        tried = [({"lenpen": 0.0, "max_len": 40}, -60.0)]
        for _ in range(35):
            chosen = propose_settings(space, DECODING, tried, seed)
            tried.append((chosen, -abs(chosen["lenpen"] - 1.4) * 20 - abs(chosen["max_len"] - 9)))
        distances += [-score for _, score in tried[-10:]]
    assert np.mean(distances) < 15


# ---- the store


def test_what_a_killed_process_has_written_is_kept(tmp_path):
    path = tmp_path / "trials.jsonl"
    with TrialStore(path, {"seed": 1, "range": (1, 2)}) as store:
        for number in range(3):
            store.append({"number": number})
    whole = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        with TrialStore(path, {"seed": 1, "range": [1, 2]}) as store:
            kept = sum(end <= size for end in ends) - 1
            assert [trial["number"] for trial in store.trials] == list(range(max(kept, 0)))
            store.append({"number": 9})
        lines = path.read_text().splitlines()
        assert [json.loads(line).get("number") for line in lines] == [None, *range(max(kept, 0)), 9]


def test_other_settings_other_files_and_other_processes_are_refused(tmp_path):
    path = tmp_path / "trials.jsonl"
    with TrialStore(path, {"model": "a", "--seed": 1, VERSION: "0.1"}) as store:
        store.append({"number": 0})
        with pytest.raises(InputError, match=r"trials\.jsonl: another process is writing it"):
            TrialStore(path, {"model": "a", "--seed": 1})
    # Each new commit of an editable checkout changes the version.
    with TrialStore(path, {"model": "a", "--seed": 1, VERSION: "0.2"}) as store:
        assert store.trials == [{"number": 0}]
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"trials used another model and --seed; name another folder"):
        TrialStore(path, {"model": "b", "--seed": 2, VERSION: "0.3"})
    assert path.read_bytes() == before
    for damage, line in ((b"{}\n" + before, 1), (before.replace(b'{"number"', b'"number"'), 2)):
        path.write_bytes(damage)
        with pytest.raises(InputError, match=rf"trials\.jsonl, line {line}: not a record of a trial"):
            TrialStore(path, {"model": "a", "--seed": 1})
        assert path.read_bytes() == damage
    with pytest.raises(InputError, match="cannot be written"):
        TrialStore(tmp_path / "no" / "trials.jsonl", {})


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


class Interrupting(TuningListener):
    """End the search at an event of a trial, before or after its record is on disk."""

    def __init__(self, event="", trial=None):
        self.end, self.began = (event, trial), []

    def _at(self, *event):
        if event == self.end:
            raise KeyboardInterrupt

    def on_trial_start(self, number, trials, documents):
        self.began.append(number)
        self._at("start", number)

    def on_documents_summarised(self, documents):
        self._at("documents", self.began[-1])

    def on_trial_end(self, trial, best):
        self._at("end", trial.number)


def tables(tuning, out):
    """Contents of the tables, without times."""
    report.write_tables(tuning, out)
    as_json = json.loads((out / "tuning.json").read_text())
    for trial in as_json["trials"]:
        assert trial.pop("seconds") >= 0
    return (out / "trials.csv").read_text(), as_json


def test_an_interrupted_search_goes_on_as_if_it_had_not_been(summarizer, references, tmp_path):
    def run(name, trials=12, listener=None):
        return tune(summarizer, DOCUMENTS, references, tmp_path / name, trials=trials, listener=listener)

    undisturbed = run("undisturbed")
    began = []
    for event in (("start", 0), ("end", 3), ("documents", 6), ("start", 10)):
        listener = Interrupting(*event)
        with pytest.raises(KeyboardInterrupt):
            run("disturbed", listener=listener)
        began += listener.began
    rest = Interrupting()
    again = run("disturbed", listener=rest)
    assert tables(again, tmp_path / "disturbed") == tables(undisturbed, tmp_path / "undisturbed")
    assert began + rest.began == [0, 0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 10, 11], "no finished trial is made again"
    longer = run("disturbed", trials=13)
    assert [t.settings for t in longer.trials[:12]] == [t.settings for t in undisturbed.trials]


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
        ({"most_documents": 0}, "--documents 0"),
        ({"ranges": {"exact_length": "5:500:100"}, "search": ["lenpen"]}, "--exact-length"),
        ({"ranges": {"temperature": "0,1"}}, "--temperature 0.0"),
    ):
        with pytest.raises(InputError, match=message):
            tune(summarizer, DOCUMENTS, references, tmp_path, **options)
    assert not list(tmp_path.glob("*")), "nothing was tried"
