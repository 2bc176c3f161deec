"""The script around the evaluation commands."""

import json

import pytest
from helpers import run_command
from test_scripts import SCRIPTS

TEXTS = {
    "source": ["the cat sat on the mat . it slept . dogs bark .", "one two three four . five six ."] * 10,
    "target": ["a cat slept .", "five and six ."] * 10,
    "good": ["the cat slept .", "five six ."] * 10,
    "bad": ["dogs .", "one ."] * 10,
    "marked": ["a <q> b c . <q> d"],
    "short": ["a b c"],
    "lr=1,beam=4": ["a b"],
}
ONE = "--summaries good --references target --documents source"


@pytest.fixture
def evaluate(tmp_path):
    for name, lines in TEXTS.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))

    def run(words, refused=None):
        result = run_command([str(SCRIPTS / "evaluate.sh"), *words.split()], cwd=tmp_path, check=refused is None)
        assert refused is None or (result.returncode == 2 and refused in result.stdout)
        return result.stdout

    return run


def test_it_scores_compares_and_analyses(evaluate, tmp_path):
    output = evaluate(f"{ONE} --show 1 --summaries bad --compare --analyse -- --metrics 1")
    # ROUGE-1 stands with both systems, the first words and the comparison.
    assert output.count("ROUGE-1 ") == 4 and "ROUGE-2" not in output
    comparison = next(line for line in output.split("p rand.")[1].splitlines() if line.startswith("ROUGE-1"))
    assert comparison.split()[-2:] == ["0.0001", "0.0001"] and "A: good" in output and "B: bad" in output
    for row in ("| good", "| bad", "| lead-8-words", "| oracle"):
        assert output.count(row) == 2
    output = evaluate(f"{ONE} -- --metrics 1 --json out --bootstrap 5")
    scores = json.loads((tmp_path / "out").read_text())
    assert scores["lead"]["scores"]["rouge1"]["f1"] != scores["scores"]["rouge1"]["f1"]
    assert output.count("\nreference  ") == output.count("\ndocument   ") == output.count("\nsummary    ") == 3


def test_sentence_marks_are_not_scored_as_words_and_names_may_have_any_characters(evaluate):
    options = "--lead 3 --documents marked --analyse --show 0 -- --metrics 1"
    output = evaluate(f"--summaries lr=1,beam=4 --references short {options}")
    first = output.split("hypothesis: first 3 words of marked\n")[1]
    assert first.split("ROUGE-1 ")[1].split()[:3] == ["100.00"] * 3
    assert output.count("| lr:1,beam:4") == 2 and "\nreference  " not in output


@pytest.mark.parametrize(
    "words, message",
    [
        ("--summaries good --references target --compare", "--compare needs"),
        ("--summaries good --references target --analyse --summaries bad", "--analyse needs"),
        (f"{ONE} --summaries bad -- --json out", "several commands would write this file"),
        (f"{ONE} --analyse -- --per-example=out.tsv", "several commands would write this file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, message, evaluate):
    evaluate(words, message)
