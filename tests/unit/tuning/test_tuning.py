"""Tuning: spaces, proposals, searches that are interrupted; line searches of extractive weights against brute force."""

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
from fairseq_etads.tuning.extractive_weights import (
    NBestList,
    compute_mean_score,
    find_best_weight_value,
    find_best_weights,
    hill_climb_weights,
)
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
    """References longer than summaries with the defaults, and equal to the model's output at that length."""
    return [summary.text for summary in summarizer.summarize(DOCUMENTS, min_len=7, max_len=9)]


@pytest.fixture
def run(summarizer, references, tmp_path):
    """Tune on all documents, unless other arguments are given."""

    def run(out=tmp_path / "out", **changed):
        return tune(**{"summarizer": summarizer, "documents": DOCUMENTS, "references": references, **changed}, out=out)

    return run


# ---- spaces


@pytest.mark.parametrize(
    "name, text, values",
    [
        ("lenpen", "0.5:2.0", tuple(np.arange(5, 21) / 10)),
        ("lenpen", "-1:1:0.75", (-1, -0.25, 0.5, 1)),
        ("max_len", "10:110", (*range(10, 111, 5),)),
        ("beam", "10, 2,5,2", (2, 5, 10)),
        ("stepwise_coverage_penalty", "true", (True,)),
        ("length_penalty_type", "wu,avg", ("wu", "avg")),
    ],
)
def test_values_of_a_range(name, text, values):
    found = parse_values(name, text)
    assert found == (pytest.approx(values) if name == "lenpen" else values)


@pytest.mark.parametrize(
    "name, values",
    [
        ("lenpen", "2:0.5"),
        ("min-len", "1.5:3"),
        ("lenpen", "1:2:0"),
        ("lenpen", "0:1:0.00001"),
        ("stepwise-coverage-penalty", "1"),
    ],
)
def test_impossible_ranges_are_refused(name, values):
    with pytest.raises(InputError, match=f"--range {name}={values}: "):
        parse_values(name.replace("-", "_"), values)


@pytest.mark.parametrize(
    "search, ranges, decoding, message",
    [
        (["lenpn"], {}, {}, r"there is no decoding option lenpn; did you mean lenpen\?"),
        (["infer-dtype"], {}, {}, "--infer-dtype cannot be searched"),
        (["unkpen"], {}, {}, "--search unkpen: its range is missing"),
        (["min-len"], {"min-len": "31:40"}, {"max_len": 30}, "--min-len 31 is more than --max-len 30"),
        (["min-len"], {}, {"exact_length": 4}, "--search min-len: has no effect with --exact-length"),
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
    only = make_search_space(["--min-len", "early_stopping"], {"beam": "2"}, {"max_len": 25}, lengths)
    assert [p.name for p in only] == ["early_stopping", "beam", "min_len"] and only[2].values[-1] <= 25


def test_options_without_effect_do_not_make_settings_differ():
    base = {"beam": 2, "coverage_penalty_type": "wu", "stepwise_coverage_penalty": True, "length_penalty_beta": 3.0}
    plain = make_decoding_options({"coverage_penalty": 0.0}, base)
    assert plain["stepwise_coverage_penalty"] is False, "it is refused without a weight"
    assert plain == make_decoding_options({"coverage_penalty": 0.0, "coverage_penalty_type": "summary"}, base)
    assert make_decoding_options({"coverage_penalty": 1.0}, base)["stepwise_coverage_penalty"] is True
    assert make_decoding_options({"length_penalty_type": "wu"}, base)["length_penalty_beta"] == 3.0


def test_each_setting_is_proposed_once_and_no_impossible_one():
    space = [Parameter("lenpen", (0.5, 1.0)), Parameter("max_len", (3, 5, 8)), Parameter("min_len", (1, 2, 5, 6))]
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=3))
    found = [Trial(0, {"lenpen": 1.0, "max_len": 8, "min_len": 1}, {}, None, {}, [], 0.0)]
    study.tell(study.ask(), 1.0)
    while len(found) < 100 and (proposal := _propose_settings(study, space, DECODING, found)) is not None:
        study.tell(proposal[0], float(proposal[1]["min_len"]))
        found.append(Trial(len(found), proposal[1], {}, None, {}, [], 0.0))
    every = [dict(zip((p.name for p in space), values)) for values in itertools.product(*(p.values for p in space))]
    wanted = [chosen for chosen in every if chosen["min_len"] <= chosen["max_len"]]
    settings = [trial.settings for trial in found]
    assert len(settings) == len(wanted) == 2 * (2 + 3 + 4)
    assert all(chosen in settings for chosen in wanted)


# ---- searches


def test_trial_0_is_what_the_folder_writes_and_figures_are_those_of_the_evaluation(summarizer, references, run):
    found = run(trials=2)
    assert found.trials[0].summaries == [" ".join(s.text.split()) for s in summarizer.summarize(DOCUMENTS)]
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


def test_an_interrupted_search_keeps_its_finished_trials(run, tmp_path, monkeypatch):
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
            run(trials=12)
        with open(tmp_path / "out" / STUDY_FILE, "ab") as file:
            file.write(b'{"op_code": 4, "study')
    found = run(trials=12).trials
    assert len(began) == 12 + 3, "no finished trial is made again"
    assert [trial.number for trial in found] == list(range(12)) and found[0].decoding == SHORT
    assert len({json.dumps(trial.decoding) for trial in found}) == 12
    longer = run(trials=13).trials
    assert [trial._replace(scores=0) for trial in longer[:12]] == [trial._replace(scores=0) for trial in found]
    assert all((one.scores == other.scores).all() for one, other in zip(longer, found))


def test_documents_are_chosen_once_for_all_trials(run, references, tmp_path):
    def used(name, **options):
        found = run(tmp_path / name, trials=1, **options)
        return found.documents, found.fingerprint

    assert used("a", most_documents=5) == used("b", most_documents=5) != used("c", most_documents=5, seed=2)
    assert used("a", most_documents=5)[0] == 5
    assert used("d", documents=["", *DOCUMENTS[1:]], references=[*references[:11], " \t"])[0] == 10


def test_another_search_in_the_same_folder_is_refused_but_for_defaults_that_it_found(folder, run, references, tmp_path):
    other, _ = make_folder(tmp_path, pointer="soft", arch="etads", decoder_layers=1)
    changed = Summarizer.load(folder, "cpu")
    found = run(trials=4)
    object.__setattr__(changed.config, "decoding", {**SHORT, "beam": 4})
    for arguments, what in (
        ({"references": references[::-1]}, "choice of documents and references"),
        ({"most_documents": 9}, "choice of documents and references"),
        ({"metric": "rouge2"}, "--metric"),
        ({"ranges": {"lenpen": "1,2"}}, "--search or --range"),
        ({"summarizer": Summarizer.load(other, "cpu")}, "model"),
        ({"summarizer": changed}, "set of default options"),
    ):
        with pytest.raises(InputError, match=rf"trials used another {what}"):
            run(trials=4, **arguments)
    object.__setattr__(changed.config, "decoding", found.trials[2].decoding)
    again = run(trials=4, summarizer=changed).trials
    assert len(again) == 4 and again[0].decoding == SHORT


def test_wrong_values_are_refused_before_anything_is_recorded_and_so_is_a_file_that_is_no_study(run, tmp_path):
    for options, message in (
        ({"metric": "bleu"}, "--metric bleu"),
        ({"ranges": {"exact_length": "5:500:100"}, "search": ["lenpen"]}, "--exact-length"),
        ({"ranges": {"temperature": "0,1"}}, "--temperature 0.0"),
    ):
        with pytest.raises(InputError, match=message):
            run(**options)
    assert run(trials=1).trials, "nothing was recorded"
    (tmp_path / "out" / STUDY_FILE).write_bytes(b'{"format": "fairseq-etads trials", "version": 1, "settings": {}}\n')
    with pytest.raises(InputError, match=f"{STUDY_FILE}.*damaged, or not a study.*delete the file to start again"):
        run()


# ---- extractive weights


def random_lists(seed, documents=6, size=8, features=5):
    numbers = np.random.default_rng(seed)
    return [
        NBestList(numbers.integers(-3, 4, (size, features)).astype(float), numbers.random(size))
        for _ in range(documents)
    ]


def candidates(lists, weights, feature):
    """List a value on each step of the metric, between any two places where two lines of a document meet."""
    places = set()
    for nbest in lists:
        others = np.array(weights)
        others[feature] = 0
        heights, slopes = nbest.features @ others, nbest.features[:, feature]
        for i, j in itertools.combinations(range(len(slopes)), 2):
            if slopes[i] != slopes[j]:
                places.add((heights[j] - heights[i]) / (slopes[i] - slopes[j]))
    ordered = sorted(places)
    return [ordered[0] - 1, *((a + b) / 2 for a, b in zip(ordered, ordered[1:])), ordered[-1] + 1]


@pytest.mark.parametrize("feature", [1, 3])
def test_a_line_search_finds_the_best_of_all_steps(feature):
    for seed in range(8):
        lists, weights = random_lists(seed), [1.0, *np.random.default_rng(seed).normal(size=4).tolist()]
        value, score = find_best_weight_value(lists, weights, feature)

        def score_at(x, lists=lists, weights=weights):
            return compute_mean_score(lists, [*weights[:feature], x, *weights[feature + 1 :]])

        assert score_at(value) == pytest.approx(score)
        assert score == pytest.approx(max(map(score_at, [weights[feature], *candidates(lists, weights, feature)])))
    flat = [NBestList(np.ones((3, 5)), np.array([0.2, 0.9, 0.5]))]
    assert find_best_weight_value(flat, weights, feature) == (weights[feature], pytest.approx(0.2)), (
        "the first of equals"
    )


def test_a_known_optimum_is_found():
    """The metric is highest for the top hypotheses under certain weights, so these score 1."""
    numbers, wanted = np.random.default_rng(0), np.array([1.0, 4.0, -2.0, 0.5, 3.0])
    lists = []
    for _ in range(40):
        features = numbers.normal(size=(15, 5))
        scores = np.zeros(15)
        scores[(features @ wanted).argmax()] = 1.0
        lists.append(NBestList(features, scores))
    plain = [1.0, 0.0, 0.0, 0.0, 0.0]
    found, score = find_best_weights(lists, plain, points=20, seed=1)
    assert compute_mean_score(lists, plain) < 0.5 and found[0] == 1.0
    assert score == pytest.approx(compute_mean_score(lists, found)) and score >= 0.95
    assert find_best_weights(lists, plain, points=20, seed=1) == (found, score)
    assert hill_climb_weights(lists, plain)[1] <= score
    assert hill_climb_weights(lists, wanted.tolist()) == (wanted.tolist(), 1.0), "nothing is left to gain"
