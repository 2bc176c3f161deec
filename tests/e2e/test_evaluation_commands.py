"""The installed evaluation commands, and the script around them."""

import json

from helpers import run_command
from test_scripts import SCRIPTS

DOCUMENTS = ["the cat sat on the mat . it slept . dogs bark .", "one two three four . five six ."] * 10
REFERENCES = ["a cat slept .", "five and six ."] * 10
SYSTEMS = {"good": ["the cat slept .", "five six ."] * 10, "bad": ["dogs .", "one ."] * 10}


def test_the_script_scores_compares_and_analyses(tmp_path):
    for name, lines in {"source": DOCUMENTS, "target": REFERENCES, **SYSTEMS}.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    command = [str(SCRIPTS / "evaluate.sh"), "--references", "target", "--documents", "source", "--show", "1"]
    options = ["--summaries", "good", "--summaries", "bad", "--compare", "--analyse"]
    output = run_command([*command, *options, "--", "--metrics", "1"], cwd=tmp_path).stdout
    # ROUGE-1 stands with both systems, the first words and the comparison.
    assert output.count("ROUGE-1 ") == 4 and "ROUGE-2" not in output
    comparison = next(line for line in output.split("p rand.")[1].splitlines() if line.startswith("ROUGE-1"))
    assert comparison.split()[-2:] == ["0.0001", "0.0001"] and "A: good" in output and "B: bad" in output
    for row in ("| good", "| bad", "| lead-8-words", "| oracle"):
        assert output.count(row) == 2
    for wrong, words in ((["--compare"], "--compare needs"), (["--analyse", "--summaries", "bad"], "--analyse needs")):
        few = ["--summaries", "good", "--references", "target", *wrong]
        result = run_command([command[0], *few], cwd=tmp_path, check=False)
        assert result.returncode == 2 and words in result.stdout


def test_sentence_marks_are_not_scored_as_words_and_names_may_have_any_characters(tmp_path):
    texts = {"source": ["a <q> b c . <q> d"], "target": ["a b c"], "lr=1,beam=4": ["a b"]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    command = [str(SCRIPTS / "evaluate.sh"), "--summaries", "lr=1,beam=4", "--references", "target", "--lead", "3"]
    options = ["--documents", "source", "--analyse", "--show", "0", "--", "--metrics", "1"]
    output = run_command([*command, *options], cwd=tmp_path).stdout
    first = output.split("hypothesis: first 3 words of source\n")[1]
    assert first.split("ROUGE-1 ")[1].split()[:3] == ["100.00"] * 3
    assert output.count("| lr:1,beam:4") == 2 and "\nreference  " not in output


def test_the_script_refuses_to_write_one_file_of_scores_with_several_commands(tmp_path):
    for name, lines in {"source": DOCUMENTS, "target": REFERENCES, **SYSTEMS}.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    command = [str(SCRIPTS / "evaluate.sh"), "--summaries", "good", "--references", "target", "--documents", "source"]
    for more in (["--summaries", "bad"], ["--analyse"]):
        for option in (["--json", "out"], ["--per-example=out.tsv"]):
            result = run_command([*command, *more, "--", *option], cwd=tmp_path, check=False)
            assert result.returncode == 2 and "several commands would write this file" in result.stdout
    output = run_command([*command, "--", "--metrics", "1", "--json", "out", "--bootstrap", "5"], cwd=tmp_path).stdout
    scores = json.loads((tmp_path / "out").read_text())
    assert scores["lead"]["scores"]["rouge1"]["f1"] != scores["scores"]["rouge1"]["f1"]
    assert output.count("\nreference  ") == output.count("\ndocument   ") == output.count("\nsummary    ") == 3
