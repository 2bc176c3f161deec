"""The decoding options through fairseq's own commands."""

import re

import pytest
from helpers import run_command
from test_commands import generate
from toy import PLUGIN, WORDS, summaries


@pytest.mark.parametrize(
    "options, message",
    [
        (["--sampling", "--sampling-topk", "5"], "--sampling: give --nbest 5 or --beam 1"),
        (["--results-path", "/dev/null"], "--results-path /dev/null: is not a folder"),
        ([], 'data folder (DATA) "nowhere" does not exist; create it with etads-prepare or fairseq-preprocess'),
    ],
)
def test_wrong_options_of_fairseqs_commands_are_answered_in_one_line(options, message, tmp_path):
    command = ["fairseq-generate", "nowhere", *PLUGIN, "--path", "x.pt", "--cpu", *options]
    result = run_command(command, cwd=tmp_path, check=False)
    assert result.returncode == 1 and "Traceback" not in result.stdout
    assert result.stdout.endswith(f"fairseq-generate: error: {message}\n")


PAPER = [
    *("--coverage-penalty", "1", "--length-penalty-type", "wu", "--lenpen", "0.9"),
    *("--no-repeat-ngram-size", "3", "--ngram-ignore-tokens", f"{WORDS[0]} {WORDS[1]}"),
]


@pytest.mark.parametrize(
    "options", [PAPER, ["--infer-dtype", "int8", "--print-alignment", "hard"]], ids=["paper", "int8"]
)
def test_a_learnt_task_stays_solved(options, trained, corpus):
    found = summaries(generate(corpus / "bin", trained / "checkpoint_best.pt", *options).stdout)
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    assert sorted(found) == list(range(len(expected)))
    right = sum(found[n] == target for n, target in enumerate(expected))
    assert right >= 0.85 * len(expected), f"{right} of {len(expected)}"


def test_a_learnt_task_stays_solved_with_a_shortlist(trained, corpus, tmp_path):
    """All words that a summary needs are in its document; the lists have few others."""
    file = tmp_path / "list.safetensors"
    said = run_command(
        ["etads-shortlist", str(corpus / "bin"), "--frequent", "1", "--per-word", "1", "--out", str(file)], cwd=tmp_path
    ).stdout
    length, words = map(int, re.search(r"validation: (\d+) of (\d+) words are on the list", said).groups())
    assert length < words - 5 and "100.00% of the known words" in said
    options = ["--shortlist", str(file), "--infer-dtype", "int8", "--beam", "3"]
    found = summaries(generate(corpus / "bin", trained / "checkpoint_best.pt", *options).stdout)
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    right = sum(found[n] == target for n, target in enumerate(expected))
    assert right >= 0.85 * len(expected), f"{right} of {len(expected)}"
    listed = [set(document.split()) for document in (corpus / "text" / "test.source").read_text().splitlines()]
    foreign = sum(bool(set(found[n].split()) - words) for n, words in enumerate(listed))
    assert foreign <= 0.05 * len(listed)
