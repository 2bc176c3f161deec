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
from toy import PLUGIN, PREPROCESS, WORDS, hypotheses, summaries, write_pairs


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
    output = generate(
        corpus / "bin",
        trained / "checkpoint_best.pt",
        "--buffer-size",
        "50",
        "--batch-size",
        "4",
        command="fairseq-interactive",
        input="".join(" ".join(document) + "\n" for document in documents),
        anew=True,
    ).stdout
    found = summaries(output)
    assert list(found) == list(range(41)), "not in the order of the input"
    assert found[7] == ""
    assert "1 empty document(s)" in output and "10 of 41 cut to 8 tokens" in output
    right = sum(found[number].split() == document[:2] for number, document in enumerate(documents))
    assert right >= 0.9 * 41, f"{right} of 41"


def test_a_document_is_summarised_the_same_in_any_batch(trained, corpus):
    """The best score is the same. The words are the same, too, unless two summaries have equal scores."""
    one, other = (
        hypotheses(generate(corpus / "bin", trained / "checkpoint_best.pt", *options).stdout)
        for options in (["--batch-size", "1"], ["--batch-size", "16", "--left-pad-source"])
    )
    assert sorted(one) == sorted(other) == list(range(37))
    for number, rows in one.items():
        assert rows[0][0] == pytest.approx(other[number][0][0], abs=1e-3)
    same = sum(rows[0][1] == other[number][0][1] for number, rows in one.items())
    assert same >= 0.95 * 37, f"{same} of 37"


def test_validate_loads_the_checkpoint(trained, corpus):
    """With an untrained model the loss is over 4 bits."""
    output = run_command(
        ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(trained / "checkpoint_best.pt"), "--cpu"]
        + ["--max-tokens", "400"],
        cwd=trained,
        anew=True,
    ).stdout
    assert float(re.search(r"\| loss ([\d.]+) \|", output)[1]) < 1


def test_hydra_train(corpus, tmp_path):
    (tmp_path / "small.yaml").write_text(
        f"""# @package _group_
common: {{user_dir: fairseq_etads, cpu: true, seed: 7}}
task: {{_name: summarization, data: {corpus / "bin"}, truncate_source: 8}}
model:
  {{_name: etads_focus, pointer: soft, encoder_layers: 2, encoder_embed_dim: 32, encoder_ffn_embed_dim: 32,
   focus_layers: "2"}}
criterion: {{_name: summarization_nll, label_smoothing: 0.1}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.001], max_update: 4}}
dataset: {{max_tokens: 400, num_workers: 0}}
checkpoint: {{save_dir: {tmp_path / "checkpoints"}, no_epoch_checkpoints: true}}
"""
    )
    output = run_command(
        ["fairseq-hydra-train", "--config-dir", str(tmp_path), "--config-name", "small", "+model.decoder_layers=1"],
        cwd=tmp_path,
        anew=True,
    ).stdout
    assert output.count("FocusEncoderLayer(") == 1 and "gate_q_proj" not in output
    found = summaries(generate(corpus / "bin", tmp_path / "checkpoints" / "checkpoint_last.pt").stdout)
    assert len(found) == 37


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
