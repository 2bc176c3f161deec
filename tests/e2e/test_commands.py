"""fairseq's own commands on the plugin: learn, generate, interactive, validate, Hydra, resume, refuse.

Each command is started at least once as users start it; command_server.py runs the others.
"""

import os
import random
import re
from pathlib import Path

import pytest
import torch
from helpers import run_command
from toy import PLUGIN, PREPROCESS, WORDS, summaries, write_pairs


def generate(data, checkpoint, *options, check=True, command="fairseq-generate", **kwargs):
    return run_command(
        [command, str(data), *PLUGIN, "--path", str(checkpoint), "--beam", "3", "--max-len-b", "8", "--cpu", *options],
        cwd=Path(checkpoint).parent,
        check=check,
        **kwargs,
    )


def test_it_learns_and_every_document_is_summarised(corpus, trained):
    found = summaries(generate(corpus / "bin", trained / "checkpoint_best.pt", anew=True).stdout)
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    assert sorted(found) == list(range(len(expected))), "documents were skipped"
    right = sum(found[number] == target for number, target in enumerate(expected))
    assert right >= 0.9 * len(expected), f"{right} of {len(expected)}"


def test_interactive_truncates_keeps_the_order_and_answers_empty_lines(trained, corpus):
    r = random.Random(5)
    documents = [r.sample(WORDS, r.randint(2, 8)) for _ in range(30)]
    documents += [r.sample(WORDS, 8) + r.choices(WORDS, k=300) for _ in range(10)]
    r.shuffle(documents)
    documents.insert(7, [])
    options = ("--buffer-size", "50", "--batch-size", "4")
    given = {"input": "".join(" ".join(document) + "\n" for document in documents), "anew": True}
    checkpoint = trained / "checkpoint_best.pt"
    output = generate(corpus / "bin", checkpoint, *options, command="fairseq-interactive", **given).stdout
    found = summaries(output)
    assert list(found) == list(range(41)), "not in the order of the input"
    assert found[7] == ""
    assert "1 empty document(s)" in output and "10 of 41 cut to 8 tokens" in output
    right = sum(found[number].split() == document[:2] for number, document in enumerate(documents))
    assert right >= 0.9 * 41, f"{right} of 41"


def test_validate_loads_the_checkpoint(trained, corpus):
    """With an untrained model the loss is over 4 bits."""
    output = run_command(
        ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(trained / "checkpoint_best.pt"), "--cpu"]
        + ["--max-tokens", "400"],
        cwd=trained,
        anew=True,
    ).stdout
    assert float(re.search(r"\| loss ([\d.]+) \|", output)[1]) < 1


@pytest.mark.parametrize(
    "options,words",
    [
        (["--arch", "etads", "--encoder-layers", "4", "--focus-layers", "5-9"], ["--focus-layers", "5-9", "1-4"]),
        (["--arch", "etads", "--train-subset", "trian"], ["trian", "it has: test, train, valid"]),
        (["--arch", "etadz"], ["etadz", "etads_basic"]),
    ],
)
def test_bad_options_are_refused_in_words(corpus, tmp_path, options, words):
    result = run_command(
        ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--max-tokens", "400", "--cpu", *options],
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode != 0
    last = result.stdout.strip().splitlines()[-1]
    for word in words:
        assert word in last, last


@pytest.mark.parametrize("words", [WORDS[:-9], [*WORDS[:-1], "changed"]])
def test_another_dictionary_than_the_checkpoints_is_refused_in_words(trained, tmp_path, words):
    write_pairs(tmp_path, "test", 20, seed=5, words=words)
    run_command(
        [*PREPROCESS, str(tmp_path / "bin")] + [f"--trainpref={tmp_path / 'test'}", f"--testpref={tmp_path / 'test'}"],
        cwd=tmp_path,
    )
    result = generate(tmp_path / "bin", trained / "checkpoint_best.pt", check=False)
    assert result.returncode != 0
    assert (
        "the source dictionary in DATA" in result.stdout
        and "is not the one the checkpoint was trained with" in result.stdout
    )


def test_a_hostile_checkpoint_is_refused_by_the_command(corpus, tmp_path):
    class RunsCode:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "victim"),))

    torch.save({"model": RunsCode(), "args": None, "cfg": None}, tmp_path / "hostile.pt")
    result = generate(corpus / "bin", tmp_path / "hostile.pt", check=False)
    assert result.returncode != 0 and "hostile.pt: refused" in result.stdout
    assert not (tmp_path / "victim").exists()
