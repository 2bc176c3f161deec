"""ROUGE against hand-computed values, loops, the official scorer and ROUGE-1.5.5.pl; files of summaries."""

import json
import subprocess
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapped import killed_at_seventy
from rouge_score import rouge_scorer

from fairseq_etads.commands.rouge import main
from fairseq_etads.commands.shared_options import parse_metrics
from fairseq_etads.evaluation import (
    RougeSettings,
    perl_rouge,
    read_lines,
    rouge,
    score_pairs,
    split_summary_into_sentences,
)
from fairseq_etads.evaluation.perl_rouge import find_perl_rouge, read_irregular_forms
from fairseq_etads.evaluation.resampling import compare_pairs, correct_p_values
from fairseq_etads.evaluation.summaries import find_swapped_hypotheses_and_references, truncate_sentences
from fairseq_etads.platform.processes import map_in_processes

try:
    PERL, perl_missing = find_perl_rouge(), ""
except ValueError as error:
    PERL, perl_missing = None, str(error)
needs_perl = pytest.mark.skipif(PERL is None, reason=perl_missing or "ROUGE-1.5.5.pl is there")
METRICS, OFFICIAL = ("rouge1", "rouge2", "rougeL"), ("rouge1", "rouge2", "rougeLsum")
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


def loop_rouge_n(hypothesis, references, n):
    """F1, precision and recall x100 of Lin's ROUGE-N: matched n-grams are struck off a list; references are summed."""
    own = hypothesis.split()
    own_grams = [tuple(own[i : i + n]) for i in range(len(own) - n + 1)]
    hits = wanted = offered = 0
    for reference in list(filter(None, references)) or references[:1]:
        words = reference.split()
        left = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        wanted, offered = wanted + len(left), offered + len(own_grams)
        for gram in own_grams:
            if gram in left:
                left.remove(gram)
                hits += 1
    precision, recall = (100 * hits / count if count else 0.0 for count in (offered, wanted))
    return [f1(precision, recall), precision, recall]


@pytest.mark.parametrize("stem", [True, False])
def test_equals_the_official_scorer(stem):
    scorer = rouge_scorer.RougeScorer(OFFICIAL, use_stemmer=stem)
    hypotheses, references = (
        [text.replace(" . ", " . <q> ").replace("<q> <q>", "<q>") for text in texts]
        for texts in (HYPOTHESES, REFERENCES)
    )
    report = rouge(hypotheses, references, stem=stem)
    official = [scorer.score(r.replace("<q>", "\n"), h.replace("<q>", "\n")) for h, r in zip(hypotheses, references)]
    for ours, theirs in zip(METRICS, OFFICIAL):
        pairs = [(o[theirs].fmeasure, o[theirs].precision, o[theirs].recall) for o in official]
        assert values(report, ours) == pytest.approx((100 * np.mean(pairs, axis=0)).tolist())
    assert parse_metrics("1, 2,Lsum,L,SU4") == ["rouge1", "rouge2", "rougeL", "rougeSU4"]
    joined = rouge(["w1 w2 <q> w3 w4"], ["w3 w4 <q> w1 w2"], metrics=("rougeLjoined", "rougeL")).scores
    assert joined["rougeLjoined"].f1 == 50 and joined["rougeL"].f1 == pytest.approx(100)


def test_empty_texts_score_zero_and_empty_hypotheses_are_counted():
    report = rouge(["w1 w2", "", " <q> "], ["w1 w2", "w1 w2", "w1 w2"])
    assert (report.n, report.empty) == (3, 2)
    assert values(report, "rougeL") == pytest.approx([100 / 3] * 3)
    assert all(values(rouge(["w1"], [""]), metric) == [0, 0, 0] for metric in METRICS)


def test_of_several_references_the_best_counts_for_each_pair_and_metric():
    # in the first pair, set 1 has both words, and set 2 has the bigram, too; in the second pair, only set 1 has any
    report = rouge(["w1 w2", "w5"], [["w2 w1", "w5"], ["w1 w2 w3 w4", ""]])
    assert values(report, "rouge1") == pytest.approx([100, 100, 100])
    assert values(report, "rouge2") == pytest.approx([f1(100, 100 / 3) / 2, 50, 50 / 3])
    best = rouge(["w1 w2 w3 w4 w5 w6"], [["w1"], ["w1 w2 w3 w9"]])
    assert values(best, "rouge1") == pytest.approx([60, 50, 75]), "by F1, although the first has the higher recall"


@pytest.mark.parametrize("backend", ["python", pytest.param("perl", marks=needs_perl)])
@pytest.mark.parametrize("multi", ["best", "average"])
def test_empty_lines_that_pad_a_set_of_references_do_not_count(backend, multi):
    options = {"backend": backend, "multi": multi, "byte_limit": 75, "bootstrap": 1}
    hypotheses, first = ["w1 w2", "w5 w6", "w7 w8"], ["w1 w2 w3", "", "w7 w8"]
    found = rouge(hypotheses, [first, ["", " <q> ", "w7 w9"], ["", "", ""]], **options)
    expected = [rouge(hypotheses[:1], first[:1], **options), None, rouge(["w7 w8"], [["w7 w8"], ["w7 w9"]], **options)]
    for metric in METRICS:
        sums = np.sum([values(report, metric) for report in expected if report], axis=0)
        assert values(found, metric) == pytest.approx((sums / 3).tolist(), abs=0.002)


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=8).map(" ".join), min_size=2, max_size=4))
def test_the_average_over_references_equals_a_loop(texts):
    hypothesis, *references = texts
    options = RougeSettings(metrics=("rouge1", "rouge2"), multi="average")
    found = score_pairs([hypothesis], [[r] for r in references], options)
    assert found[0] == pytest.approx(np.array([loop_rouge_n(hypothesis, references, n) for n in (1, 2)]))


ANY_TEXT = st.text(max_size=60)  # any characters except surrogates
WORDS = st.lists(st.sampled_from(["a", "b", "cats", "cat", ".", "<q>", "don't", "3.5", "é", "@@"]), max_size=14)
PLAIN = st.one_of(ANY_TEXT, WORDS.map(" ".join))
PAIRS = st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=6)


@settings(max_examples=60)
@given(PAIRS)
def test_any_text_scores_between_0_and_100_and_no_line_is_lost(triples):
    hypotheses, *references = zip(*triples)
    for multi in ("best", "average"):
        scores = score_pairs(hypotheses, references, RougeSettings(multi=multi, metrics=("rouge1", "rouge3", "rougeL")))
        assert scores.shape == (len(triples), 3, 3)
        assert (scores >= 0).all() and (scores <= 100 + 1e-9).all()
    assert rouge(hypotheses, references, bootstrap=3).n == len(triples)


@settings(max_examples=15)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=80))
def test_jobs_change_nothing(pairs):
    hypotheses, references = ([" ".join(words) for words in texts] for texts in zip(*pairs))
    expected = score_pairs(hypotheses, [references], RougeSettings())
    assert (score_pairs(hypotheses, [references], RougeSettings(), jobs=2) == expected).all()


def test_signature_names_everything_that_counts():
    base = rouge(HYPOTHESES, REFERENCES)
    options = [{"stem": False}, {"sentence_mark": ""}, {"split_sentences": False}, {"seed": 1}, {"byte_limit": 75}]
    two = [REFERENCES, REFERENCES]
    changed = [rouge(HYPOTHESES, REFERENCES, **option) for option in options]
    changed += [rouge(HYPOTHESES, two), rouge(HYPOTHESES, two, multi="average"), rouge(HYPOTHESES[:2], REFERENCES[:2])]
    assert len({report.signature for report in [base, *changed]}) == len(changed) + 1
    assert rouge(HYPOTHESES, REFERENCES, jobs=2).signature == base.signature
    assert "\n" not in rouge(HYPOTHESES, REFERENCES, sentence_mark="\n").signature


@pytest.mark.parametrize(
    "arguments, options, words",
    [
        ((["a"], [["a"], ["a", "b"]]), {}, "hypotheses has 1 .* references 2 has 2"),
        ((["a"], []), {}, "references 1: empty"),
        ((["a"], "a"), {}, "not one text"),
        ((["a"], ["a"]), {"metrics": ("rougeSU4",)}, 'metric "SU4"'),
        ((["a"], ["a"]), {"byte_limit": 0}, "--bytes 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        rouge(*arguments, **options)


def test_a_killed_process_ends_the_work_with_an_error():
    with pytest.raises(ValueError, match="a process was killed from outside"):
        list(map_in_processes(killed_at_seventy, range(200), 2))
    assert list(map_in_processes(killed_at_seventy, range(70), 2)) == list(range(70))


def test_systems_are_scored_in_one_table_and_tested_against_the_first(tmp_path, capsys):
    texts = {"ref": REFERENCES, "one": HYPOTHESES, "two": REFERENCES[::-1], "same": HYPOTHESES}
    files = {name: str(tmp_path / f"{name}.txt") for name in texts}
    for name, lines in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    systems = [word for name in ("one", "two", "same") for word in ("--system", f"{name}={files[name]}")]
    assert main([files["ref"], *systems, "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())["systems"]
    expected = rouge(HYPOTHESES, REFERENCES)
    assert found["one"]["scores"]["rouge2"]["f1"] == pytest.approx(expected.scores["rouge2"].f1)
    scores = score_pairs(REFERENCES[::-1], [REFERENCES], RougeSettings())[:, :, 0]
    tests = compare_pairs(scores, score_pairs(HYPOTHESES, [REFERENCES], RougeSettings())[:, :, 0], 1000, 12345)
    p_values = [*tests["p_randomisation"], 1, 1, 1]
    assert list(found["two"]["p"].values()) == pytest.approx(correct_p_values(p_values)[:3])
    assert found["one"]["p"] is None and set(found["same"]["p"].values()) == {1}
    assert main([files["one"], files["two"], files["ref"], "--bootstrap", "0"]) == 0
    assert f"{files['two']} may not be references" in capsys.readouterr().err


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("a\u2028b\x0cc\r\n\nd".encode())
    assert read_lines(str(path)) == ["a\u2028b\x0cc", "", "d"]
    path.write_bytes(b"\n")
    assert read_lines(str(path)) == [""]


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("a b . <q>c d .<q>", ["a b .", "c d ."]),
        ("a b . c d . <q> e", ["a b . c d .", "e"]),  # if there are marks, sentences end only there
        ('he said " no . " she left .', ['he said " no . "', "she left ."]),
        ("dr. smith came .", ["dr.", "smith came ."]),  # this is a documented limit of untrained rules
        ("a\nb", ["a b"]),  # a line break counts as white space
    ],
)
def test_split_summary(text, sentences):
    assert split_summary_into_sentences(text) == sentences
    assert split_summary_into_sentences("a . ## b", sentence_mark="##") == ["a .", "b"]
    assert split_summary_into_sentences("a <q> b . c", split_sentences=False) == ["a b . c"]


@settings(max_examples=60)
@given(st.lists(ANY_TEXT, max_size=5), st.integers(1, 90))
def test_bytes_are_counted_as_a_loop_counts_them(sentences, limit):
    kept = truncate_sentences(sentences, limit)
    left, expected = limit, []
    for sentence in sentences:
        kept_length = max(n for n in range(len(sentence) + 1) if len(sentence[:n].encode()) <= left)
        expected.append(sentence[:kept_length])
        left -= len(expected[-1].encode())
        if left == 0 or kept_length < len(sentence):
            break
    assert kept == expected


def test_swapped_files_are_noticed_by_their_names():
    swapped = [("test.target", "out.txt"), ("summaries.txt", "predictions.txt")]
    right = [("out.txt", "test.target"), ("runs/reference/summaries.txt", "test.target")]  # folders do not count
    for hypothesis, reference in (*swapped, *right):
        warnings = list(find_swapped_hypotheses_and_references(hypothesis, [reference], [["a"], ["b"]]))
        assert bool(warnings) == ((hypothesis, reference) in swapped)


@needs_perl
def test_perl_and_python_give_the_same_with_the_same_stems():
    hypotheses = ["the cats sat on the mat . <q> a dog barked .", "police killed the gunman", "", "children were there"]
    first = ["the cat was on the mat . <q> the dogs barked loudly .", "police kill the gunman <q> he ran", "a b", ""]
    second = ["a mat .", "the gunman was killed by police", "", "a child is there"]
    for options in ({"irregular": True}, {"irregular": False}, {"stem": False}, {"byte_limit": 12}):
        for multi in ("best", "average"):
            common = {"metrics": ("rouge1", "rouge2", "rougeL"), "multi": multi, "irregular": False, **options}
            python, perl = (
                score_pairs(hypotheses, [first, second], RougeSettings(backend=backend, **common))
                for backend in ("python", "perl")
            )
            assert np.abs(python - perl).max() < 0.002, (options, multi)  # Perl prints only five digits


@needs_perl
def test_irregular_forms_are_what_perl_adds_by_default():
    found = {backend: rouge(["many children"], ["a child"], backend=backend) for backend in ("python", "perl")}
    assert found["python"].scores["rouge1"].f1 == 0 and found["perl"].scores["rouge1"].f1 == pytest.approx(50)
    assert "stem:irregular+porter" in found["perl"].signature and "backend:ROUGE-1.5.5.pl" in found["perl"].signature
    assert rouge(["many children"], ["a child"], irregular=True).scores["rouge1"].f1 == pytest.approx(50)
    assert read_irregular_forms(PERL)["children"] == "child"


@needs_perl
def test_bytes_are_those_of_perls_own_option(tmp_path):
    """This project cuts the text before the script sees it; -b must have the same effect on ROUGE-N."""
    (tmp_path / "smart_common_words.txt").write_text("")
    make = 'use DB_File; tie %f, "DB_File", $ARGV[0], O_CREAT | O_RDWR, 0640, $DB_HASH'
    subprocess.run(["perl", "-e", make, str(tmp_path / "WordNet-2.0.exc.db")], check=True)
    hypothesis, reference = "one two three <q> four five six seven", "one three four <q> five nine six"
    for name, text in (("h", hypothesis), ("r", reference)):
        (tmp_path / name).write_text(text.replace(" <q> ", "\n") + "\n")
    (tmp_path / "list").write_text("h r\n")
    for limit in (5, 13, 18, 22, 99):
        out = subprocess.run(
            ["perl", "-I", str(PERL), str(PERL / "ROUGE-1.5.5.pl"), "-e", ".", "-z", "SPL", "-n", "1", "-x", "-m"]
            + ["-b", str(limit), "list"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        recall = float(out.split("Average_R: ")[1].split()[0])
        ours = rouge([hypothesis], [reference], metrics=("rouge1",), byte_limit=limit).scores["rouge1"].recall
        assert ours == pytest.approx(100 * recall, abs=0.002), limit


@needs_perl
def test_skip_bigrams_and_jobs_which_leave_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hypotheses, references = ["a b c d", "x y", "c b a"], ["a b c e", "x y", "a b c"]
    one, two = (
        score_pairs(hypotheses, [references], RougeSettings(metrics=("rougeSU4",), backend="perl"), jobs=jobs)
        for jobs in (1, 2)
    )
    # In the first pair, 3 of 6 skip-bigrams match, and all 3 words that the script counts: it leaves out the last.
    assert one[0, 0].tolist() == pytest.approx([100 * 6 / 9] * 3, abs=0.001)
    assert (one == two).all() and one[1, 0, 0] == pytest.approx(100)
    assert not list(tmp_path.iterdir())


@needs_perl
def test_processes_that_share_the_references_of_a_document_score_their_own(monkeypatch):
    """All lists are written before the first is read, as can happen with any threads."""
    run, barrier = perl_rouge._run_perl, threading.Barrier(4, timeout=30)

    def wait_for_all(arguments, **kwargs):
        if "SPL" in arguments:
            barrier.wait()
        return run(arguments, **kwargs)

    monkeypatch.setattr(perl_rouge, "_run_perl", wait_for_all)
    references = [["x y"], ["a b"], ["x b"], ["a c"]]
    (found,) = perl_rouge.score_with_perl(PERL, [[["a b"], *references]], ["rouge1"], True, True, False, jobs=4)
    assert found[:, 0, 0].tolist() == [0, 1, 0.5, 0.5]
