"""ROUGE-1.5.5.pl against the Python backend, its own option -b, and hand-computed values; skipped without it."""

import subprocess
import threading

import numpy as np
import pytest

from fairseq_etads.evaluation import RougeSettings, perl_rouge, rouge, score_pairs
from fairseq_etads.evaluation.perl_rouge import find_perl_rouge, read_irregular_forms


def perl_missing():
    try:
        find_perl_rouge()
    except ValueError as error:
        return str(error)
    return ""


needs_perl = pytest.mark.skipif(bool(perl_missing()), reason=perl_missing() or "ROUGE-1.5.5.pl is there")


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
    assert read_irregular_forms(find_perl_rouge())["children"] == "child"


@needs_perl
def test_bytes_are_those_of_perls_own_option(tmp_path):
    """This project cuts the text before the script sees it; -b must have the same effect on ROUGE-N."""
    home = find_perl_rouge()
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
    # In the first pair match 3 of 6 skip-bigrams (ab, ac, bc) and all 3 words that the script counts (it leaves out the
    # last).
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
    (found,) = perl_rouge.score_with_perl(
        find_perl_rouge(), [[["a b"], *references]], ["rouge1"], True, True, False, jobs=4
    )
    assert found[:, 0, 0].tolist() == [0, 1, 0.5, 0.5]
