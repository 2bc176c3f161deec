"""ROUGE against values worked out by hand and by loops, and the command around it."""

import json
import re

import numpy as np
import pytest
from rouge_score import rouge_scorer

from fairseq_etads.evaluation import RougeReport, bootstrap_intervals, command, read_lines, rouge, split_summary
from fairseq_etads.evaluation.command import main
from fairseq_etads.evaluation.perl import find_perl_rouge

METRICS = ("rouge1", "rouge2", "rougeL")
HYPOTHESES = [
    "the cat sat on the mat . <q> a dog barked .",
    "police killed the gunman .",
    "five people were hurt when buses crashed .",
]
REFERENCES = [
    "the cat was on the mat . <q> the dogs barked loudly .",
    "police kill the gunman . he was armed .",
    "two buses crashed <q> five were hurt",
]


def values(report, metric):
    score = report.scores[metric]
    return [score.f1, score.precision, score.recall]


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def loop_rouge_n(hypothesis, reference, n):
    """F1, precision and recall x100 of Lin's ROUGE-N, by striking matched n-grams off a list."""
    grams = []
    for text in (hypothesis, reference):
        words = text.split()
        grams.append([words[i : i + n] for i in range(len(words) - n + 1)])
    left, matches = list(grams[1]), 0
    for gram in grams[0]:
        if gram in left:
            left.remove(gram)
            matches += 1
    precision, recall = (100 * matches / len(g) if g else 0.0 for g in grams)
    return [f1(precision, recall), precision, recall]


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)


# --- the measures ---


def test_values_by_hand():
    # "police killed the gunman" / "police kill the gunman": 3 of 4 words, 1 of 3 bigrams ("the gunman"), LCS 3
    report = rouge(["police killed the gunman"], ["police kill the gunman"], stem=False)
    assert values(report, "rouge1") == pytest.approx([75, 75, 75])
    assert values(report, "rouge2") == pytest.approx([100 / 3] * 3)
    assert values(report, "rougeL") == pytest.approx([75, 75, 75])


def test_precision_belongs_to_the_hypothesis():
    # all 2 words of the hypothesis are in the reference, which has 4
    report = rouge(["the gunman"], ["police kill the gunman"])
    assert values(report, "rouge1") == pytest.approx([200 / 3, 100, 50])
    assert values(report, "rouge2") == pytest.approx([50, 100, 100 / 3])
    assert values(report, "rougeL") == pytest.approx([200 / 3, 100, 50])


def test_stemming_joins_killed_and_kill():
    assert rouge(["police killed the gunman"], ["police kill the gunman"]).scores["rouge2"].f1 == 100


def test_rouge_l_keeps_order_but_not_contiguity():
    # Lin 2004, section 3.1: both share "the gunman" and "police"; only the first keeps "police ... the gunman"
    reference = ["police killed the gunman"]
    first = rouge(["police kill the gunman"], reference, stem=False)
    second = rouge(["the gunman kill police"], reference, stem=False)
    assert first.scores["rouge1"].f1 == second.scores["rouge1"].f1 == pytest.approx(75)
    assert (first.scores["rougeL"].f1, second.scores["rougeL"].f1) == pytest.approx((75, 50))


def test_union_lcs_is_the_example_of_the_paper():
    # Lin 2004, section 3.2: "w1 w2" and "w1 w3 w5" unite to 4 of the reference's 5 words; 10 hypothesis words
    report = rouge(["w1 w2 w6 w7 w8 <q> w1 w3 w8 w9 w5"], ["w1 w2 w3 w4 w5"])
    assert values(report, "rougeL") == pytest.approx([f1(40, 80), 40, 80])


def test_summary_level_differs_from_one_sentence():
    hypothesis, reference = ["w1 w2 <q> w3 w4"], ["w3 w4 <q> w1 w2"]
    assert values(rouge(hypothesis, reference), "rougeL") == pytest.approx([100, 100, 100])
    joined = rouge(hypothesis, reference, split_sentences=False)
    assert values(joined, "rougeL") == pytest.approx([50, 50, 50])
    assert values(joined, "rouge1") == pytest.approx([100, 100, 100])  # the mark is no word here either


@pytest.mark.parametrize("n", [1, 2])
def test_rouge_n_equals_a_loop_on_random_words(n):
    rng = np.random.default_rng(n)
    pairs = [[" ".join(rng.choice(list("abcde"), size=rng.integers(1, 12))) for _ in "hr"] for _ in range(40)]
    for hypothesis, reference in pairs:
        found = values(rouge([hypothesis], [reference], bootstrap=1), f"rouge{n}")
        assert found == pytest.approx(loop_rouge_n(hypothesis, reference, n))
    expected = np.mean([loop_rouge_n(h, r, n) for h, r in pairs], axis=0)
    hypotheses, references = zip(*pairs)
    assert values(rouge(hypotheses, references), f"rouge{n}") == pytest.approx(expected.tolist())


@pytest.mark.parametrize("stem", [True, False])
def test_equals_the_official_scorer(stem):
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=stem)
    hypotheses, references = (
        [text.replace(" . ", " . <q> ").replace("<q> <q>", "<q>") for text in texts]
        for texts in (HYPOTHESES, REFERENCES)
    )
    report = rouge(hypotheses, references, stem=stem)
    official = [scorer.score(r.replace("<q>", "\n"), h.replace("<q>", "\n")) for h, r in zip(hypotheses, references)]
    for ours, theirs in zip(METRICS, ("rouge1", "rouge2", "rougeLsum")):
        pairs = [(o[theirs].fmeasure, o[theirs].precision, o[theirs].recall) for o in official]
        assert values(report, ours) == pytest.approx((100 * np.mean(pairs, axis=0)).tolist())


def test_scores_and_intervals_are_bounded_and_ordered():
    report = rouge(HYPOTHESES, REFERENCES)
    assert tuple(report.scores) == METRICS
    for score in report.scores.values():
        for mean, (low, high) in (
            (score.f1, score.f1_interval),
            (score.precision, score.precision_interval),
            (score.recall, score.recall_interval),
        ):
            assert 0 <= low <= mean <= high <= 100


def test_empty_hypotheses_score_zero_and_are_counted():
    report = rouge(["w1 w2", "", " <q> "], ["w1 w2", "w1 w2", "w1 w2"])
    assert (report.n, report.empty) == (3, 2)
    assert values(report, "rougeL") == pytest.approx([100 / 3] * 3)
    assert "2 of 3 hypotheses are empty" in report.format_table()


def test_an_empty_reference_scores_zero():
    assert all(values(rouge(["w1"], [""]), metric) == [0, 0, 0] for metric in METRICS)


def test_of_several_references_the_best_counts_for_each_pair_and_metric():
    # first pair: set 1 has both words, set 2 the bigram too; second pair: only set 1 has a reference
    report = rouge(["w1 w2", "w5"], [["w2 w1", "w5"], ["w1 w2 w3 w4", ""]])
    assert values(report, "rouge1") == pytest.approx([100, 100, 100])
    assert values(report, "rouge2") == pytest.approx([f1(100, 100 / 3) / 2, 50, 50 / 3])
    assert rouge(["w1"], [["w1"]]).to_dict() == rouge(["w1"], ["w1"]).to_dict()


@pytest.mark.parametrize("backend", ["python", "perl"])
@pytest.mark.parametrize("multi", ["best", "average"])
def test_empty_lines_that_pad_a_set_of_references_do_not_count(backend, multi):
    if backend == "perl":
        try:
            find_perl_rouge()
        except ValueError as error:
            pytest.skip(str(error))
    options = {"backend": backend, "multi": multi, "byte_limit": 75, "bootstrap": 1}
    hypotheses, first = ["w1 w2", "w5 w6", "w7 w8"], ["w1 w2 w3", "", "w7 w8"]
    found = rouge(hypotheses, [first, ["", " <q> ", "w7 w9"], ["", "", ""]], **options)
    expected = [rouge(hypotheses[:1], first[:1], **options), None, rouge(["w7 w8"], [["w7 w8"], ["w7 w9"]], **options)]
    for metric in METRICS:
        sums = np.sum([values(report, metric) for report in expected if report], axis=0)
        assert values(found, metric) == pytest.approx((sums / 3).tolist(), abs=0.002)


# --- sentences ---


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("a b . <q> c d .", ["a b .", "c d ."]),
        ("a b .<q>c d .<q>", ["a b .", "c d ."]),
        ("a b . c d . <q> e", ["a b . c d .", "e"]),  # where marks are, only marks cut
        ("a b . c d .", ["a b .", "c d ."]),  # tokenised
        ("The cat sat. It slept! Why?", ["The cat sat.", "It slept!", "Why?"]),
        ("J. Smith came .", ["J. Smith came ."]),  # an initial
        ('he said " no . " she left .', ['he said " no . "', "she left ."]),
        ("it costs 3.5 dollars .", ["it costs 3.5 dollars ."]),
        ("dr. smith came .", ["dr.", "smith came ."]),  # the documented limit of untrained rules
        ("a\nb", ["a b"]),  # a line break is white space
        (" <q> ", []),
        ("", []),
    ],
)
def test_split_summary(text, sentences):
    assert split_summary(text) == sentences


def test_split_summary_options():
    assert split_summary("a . ## b", sentence_mark="##") == ["a .", "b"]
    assert split_summary("a <q> b . c", sentence_mark="") == ["a <q> b .", "c"]
    assert split_summary("a <q> b . c", split_sentences=False) == ["a b . c"]


# --- confidence intervals ---


def test_intervals_depend_on_the_seed_alone():
    first, again, other = (rouge(HYPOTHESES * 9, REFERENCES * 9, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.scores["rouge1"].f1 == other.scores["rouge1"].f1
    assert first.scores["rouge1"].f1_interval != other.scores["rouge1"].f1_interval


def test_interval_equals_a_loop():
    scores, rng, means = np.random.default_rng(0).random((7, 2)), np.random.default_rng(3), []
    for _ in range(50):
        means.append([sum(column[i] for i in draw) / 7 for draw in [rng.integers(7, size=7)] for column in scores.T])
    assert np.allclose(bootstrap_intervals(scores, 50, 3), np.percentile(means, [2.5, 97.5], axis=0))


def test_interval_has_the_width_of_the_normal_approximation():
    scores = np.random.default_rng(0).normal(size=(2000, 1))
    low, high = bootstrap_intervals(scores, 2000, 1)[:, 0]
    half = 1.96 * scores.std() / np.sqrt(len(scores))
    assert [low, high] == pytest.approx([scores.mean() - half, scores.mean() + half], abs=half / 10)


def test_equal_scores_have_an_interval_without_width():
    score = rouge(["w1 w2 w3"] * 7, ["w1 w4 w5"] * 7).scores["rouge1"]
    assert [score.f1, *score.f1_interval] == pytest.approx([100 / 3] * 3)


def test_jobs_do_not_change_the_report():
    texts = HYPOTHESES * 50, REFERENCES * 50
    assert rouge(*texts, jobs=2) == rouge(*texts)


# --- signature and forms of output ---


def test_signature_names_everything_that_counts():
    base = rouge(HYPOTHESES, REFERENCES)
    assert re.fullmatch(
        r"ROUGE\|backend:rouge-score-[\d.]+\|nltk:[\d.]+\|stem:porter\|tok:a-z0-9\|split:mark <q>, else punkt\|refs:1"
        r"\|n:3\|bootstrap:1000\|seed:12345\|v:\S+",
        base.signature,
    )
    changed = [
        rouge(HYPOTHESES, REFERENCES, **option)
        for option in (
            {"stem": False},
            {"sentence_mark": "##"},
            {"sentence_mark": ""},
            {"split_sentences": False},
            {"split_sentences": False, "sentence_mark": ""},
            {"bootstrap": 10},
            {"seed": 1},
        )
    ]
    changed += [rouge(HYPOTHESES, [REFERENCES, REFERENCES]), rouge(HYPOTHESES[:2], REFERENCES[:2])]
    assert len({report.signature for report in [base, *changed]}) == len(changed) + 1
    assert rouge(HYPOTHESES, REFERENCES, jobs=2).signature == base.signature
    assert "\n" not in rouge(HYPOTHESES, REFERENCES, sentence_mark="\n").signature


def test_report_is_frozen_and_knows_json():
    report = rouge(HYPOTHESES, REFERENCES)
    assert isinstance(report, RougeReport)
    with pytest.raises(AttributeError):
        report.n = 4
    found = json.loads(json.dumps(report.to_dict()))
    assert found["scores"]["rougeL"]["recall_interval"] == list(report.scores["rougeL"].recall_interval)
    assert (found["n"], found["empty"], found["signature"]) == (3, 0, report.signature)


def test_table_is_aligned():
    header, *rows = rouge(HYPOTHESES, REFERENCES).format_table().split("\n")[:4]
    assert [row.split()[0] for row in rows] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert {row.index("[") for row in rows} == {header.index("95 %")}


@pytest.mark.parametrize(
    "arguments, options, words",
    [
        ((["a", "b"], ["a"]), {}, "hypotheses has 2 .* references 1 has 1"),
        ((["a"], [["a"], ["a", "b"]]), {}, "hypotheses has 1 .* references 2 has 2"),
        (([], []), {}, "hypotheses: empty"),
        ((["a"], []), {}, "references 1: empty"),
        (("a", ["a"]), {}, "not one text"),
        ((["a"], "a"), {}, "not one text"),
        ((["a"], [["a"], "a"]), {}, "not one text"),
        ((["a"], ["a"]), {"bootstrap": 0}, "bootstrap is 0"),
        ((["a"], ["a"]), {"jobs": 0}, "jobs is 0"),
        ((["a"], ["a"]), {"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_arguments_are_refused_in_words(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        rouge(*arguments, **options)


# --- the command ---


def test_command_prints_files_table_and_signature(files, capsys):
    assert main(list(files)) == 0
    out, err = capsys.readouterr()
    report = rouge(HYPOTHESES, REFERENCES)
    assert out == f"hypothesis: {files[0]}\nreference:  {files[1]}\n\n{report.format_table()}\n"
    assert out.endswith(report.signature + "\n")
    assert err == ""  # no progress bar where stderr is no terminal


def test_command_writes_json_to_stdout_and_file(files, tmp_path, capsys):
    saved = tmp_path / "scores.json"
    assert main([*files, files[1], "--format", "json", "--json", str(saved)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(saved.read_text(encoding="utf-8"))
    assert found.pop("hypothesis_file") == files[0]
    assert found.pop("reference_files") == [files[1], files[1]]
    expected = rouge(HYPOTHESES, [REFERENCES, REFERENCES]).to_dict()
    assert found == json.loads(json.dumps(expected))


def test_command_passes_every_option(files, capsys):
    options = ["--no-stem", "--no-sentence-split", "--sentence-mark=##", "--bootstrap=7", "--seed=3", "--jobs=2"]
    assert main([*files, *options]) == 0
    report = rouge(HYPOTHESES, REFERENCES, stem=False, split_sentences=False, sentence_mark="##", bootstrap=7, seed=3)
    assert capsys.readouterr().out.endswith(report.format_table() + "\n")


def test_help_teaches(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    assert "etads-rouge output.txt test.target" in text
    assert "highest F1" in text


def check_error(arguments, capsys, *words):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("etads-rouge: error: ") and err.count("\n") == 1
    assert all(word in err for word in words), err


def test_command_refuses_different_counts(files, tmp_path, capsys):
    short = write(tmp_path / "short.txt", REFERENCES[:2])
    check_error([files[0], short], capsys, f"{files[0]} has 3", f"{short} has 2")
    check_error([files[0], files[1], short], capsys, f"{files[0]} has 3", f"{short} has 2")


def test_command_refuses_missing_and_empty_files(files, tmp_path, capsys):
    missing, empty = str(tmp_path / "missing.txt"), write(tmp_path / "empty.txt", [])
    check_error([files[0], missing], capsys, missing, "No such file")
    check_error([str(tmp_path), files[1]], capsys, str(tmp_path))
    check_error([empty, files[1]], capsys, f"{empty}: empty")
    check_error([files[0], empty], capsys, f"{empty}: empty")


def test_command_refuses_invalid_utf8(files, tmp_path, capsys):
    latin1 = tmp_path / "latin1.txt"
    latin1.write_bytes("one\ncaf\u00e9\nthree\n".encode("latin-1"))
    check_error([str(latin1), files[1]], capsys, f"{latin1}, line 2: not UTF-8")


def test_command_refuses_wrong_numbers(files, capsys):
    check_error([*files, "--bootstrap", "0"], capsys, "bootstrap is 0")


def test_files_that_cannot_be_written_are_refused_before_scoring(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "pair_scores", lambda *_, **__: pytest.fail("scored first"))
    check_error(
        [*files, "--per-example", "o.csv"], capsys, '--per-example "o.csv": the name must end in .jsonl or .tsv'
    )
    for option, name in (("--json", tmp_path), ("--json", tmp_path / "a" / "b"), ("--per-example", "no/x.tsv")):
        check_error([*files, option, str(name)], capsys, f'{option} "{name}": no file can be written there')
    assert command.compare_main([*files, files[1], "--json", str(tmp_path)]) == 2
    assert f'--json "{tmp_path}"' in capsys.readouterr().err


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("a\u2028b\x0cc\r\n\nd".encode())
    assert read_lines(str(path)) == ["a\u2028b\x0cc", "", "d"]
    path.write_bytes(b"\n")
    assert read_lines(str(path)) == [""]
