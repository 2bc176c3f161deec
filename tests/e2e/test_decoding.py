"""The decoding options through fairseq's own commands."""

import random
import re

import pytest
import reference
from helpers import run_command
from test_commands import generate
from toy import PLUGIN, WORDS, hypotheses, summaries


@pytest.mark.parametrize(
    "options, message",
    [
        (["--sampling", "--sampling-topk", "5"], "--sampling: give --nbest 5 or --beam 1"),
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
    "options",
    [
        PAPER,
        ["--infer-dtype", "int8", "--print-alignment", "hard"],
    ],
    ids=["paper", "int8"],
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


def test_the_same_as_fairseqs_own_generator(trained, corpus, tmp_path):
    """A second plugin restores fairseq's generator; scores must agree, and words, too, except for equally good ones."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "__init__.py").write_text(
        "from fairseq.sequence_generator import SequenceGenerator\n"
        "from fairseq_etads.training.task import SummarizationTask\n"
        "build = SummarizationTask.build_generator\n"
        "def plain(self, models, args, seq_gen_cls=None, **kwargs):\n"
        "    return build(self, models, args, seq_gen_cls=SequenceGenerator, **kwargs)\n"
        "SummarizationTask.build_generator = plain\n"
    )
    common = ["--nbest", "3", "--batch-size", "7", "--prefix-size", "1", "--max-len-b", "3"]
    checkpoint = trained / "checkpoint_best.pt"
    ours = hypotheses(generate(corpus / "bin", checkpoint, *common).stdout)
    theirs = hypotheses(generate(corpus / "bin", checkpoint, *common, "--user-dir", str(tmp_path / "plain")).stdout)
    assert sorted(ours) == sorted(theirs)
    # only ours ends a summary at the length of its document
    documents = (corpus / "text" / "test.source").read_text().splitlines()
    ours = {number: rows for number, rows in ours.items() if len(documents[number].split()) > 3}
    assert len(ours) >= len(documents) / 2
    for number, rows in ours.items():
        assert [score for score, _ in rows] == pytest.approx([score for score, _ in theirs[number]], abs=1e-3)
    same = sum([words for _, words in rows] == [words for _, words in theirs[number]] for number, rows in ours.items())
    assert same >= 0.95 * len(ours), f"{same} of {len(ours)}"


def test_interactive_blocks_and_counts(trained, corpus):
    r = random.Random(3)
    documents = [r.sample(WORDS, 5) for _ in range(30)]
    options = ["--exact-length", "5", "--no-repeat-ngram-size", "1", "--ngram-ignore-tokens", WORDS[0]]
    output = generate(
        corpus / "bin",
        trained / "checkpoint_best.pt",
        *options,
        "--buffer-size",
        "30",
        "--batch-size",
        "30",
        command="fairseq-interactive",
        input="".join(" ".join(document) + "\n" for document in documents),
    ).stdout
    found = [words.split() for _, words in sorted(summaries(output).items())]
    assert len(found) == 30
    for words in found:
        assert len(words) == 5 and not reference.repeats([word for word in words if word != WORDS[0]], 1)
    right = sum(words[:2] == document[:2] for words, document in zip(found, documents))
    assert right >= 0.8 * 30, f"{right} of 30"


def test_scoring_the_references_still_works(trained, corpus):
    output = generate(corpus / "bin", trained / "checkpoint_best.pt", "--score-reference").stdout
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    found = summaries(output)
    assert all(found[number] == target for number, target in enumerate(expected))
