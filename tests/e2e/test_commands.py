"""fairseq's own commands on the plugin: learn, generate, validate, Hydra, shards, refusals.

Each command is started at least once as users start it; command_server.py runs the others.
"""

import os
import re
from pathlib import Path

import pytest
from helpers import run_command
from toy import PLUGIN, PREPROCESS, SMALL_MODEL, WORDS, generate, hypotheses, summaries, write_pairs

CONFIGS = str(Path(__file__).parents[2] / "configs")
PAPER = ["--coverage-penalty", "1", "--length-penalty-type", "wu", "--lenpen", "0.9", "--no-repeat-ngram-size", "3"]
PAPER += ["--ngram-ignore-tokens", f"{WORDS[0]} {WORDS[1]}", "--infer-dtype", "int8", "--print-alignment", "hard"]


@pytest.mark.parametrize(
    "options, share",
    [([], 0.9), (PAPER, 0.85), (["--shortlist", "list.safetensors", "--infer-dtype", "int8"], 0.85)],
    ids=["plain", "paper", "shortlist"],
)
def test_a_learnt_task_is_solved_and_every_document_is_summarised(options, share, corpus, trained, tmp_path):
    """All words that a summary needs are in its document; a shortlist has few others."""
    if "--shortlist" in options:
        options = [str(tmp_path / word) if "." in word else word for word in options]
        command = ["etads-shortlist", str(corpus / "bin"), "--frequent", "1", "--per-word", "1", "--out", options[1]]
        said = run_command(command, cwd=tmp_path).stdout
        length, words = map(int, re.search(r"validation: (\d+) of (\d+) words are on the list", said).groups())
        assert length < words - 5 and "100.00% of the known words" in said
    found = summaries(generate(corpus / "bin", trained / "checkpoint_best.pt", *options, anew=not options))
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    assert sorted(found) == list(range(len(expected))), "documents were skipped"
    right = sum(found[number] == target for number, target in enumerate(expected))
    assert right >= share * len(expected), f"{right} of {len(expected)}"


def test_validate_loads_the_checkpoint(trained, corpus):
    """With an untrained model the loss is over 4 bits."""
    command = ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(trained / "checkpoint_best.pt"), "--cpu"]
    output = run_command([*command, "--max-tokens", "400"], cwd=trained, anew=True).stdout
    assert float(re.search(r"\| loss ([\d.]+) \|", output)[1]) < 1


def test_hydra_trains_from_a_configuration_and_the_log_has_samples_and_curves(corpus, tmp_path):
    """An epoch has two updates, and there are two more of the next."""
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 32}
    sizes |= {"encoder_attention_heads": 2, "pointer": "soft"}
    options = [f"task.data={corpus / 'bin'}", *(f"model.{name}={value}" for name, value in sizes.items())]
    options += ["optimization.max_update=4", "dataset.max_tokens=2700", "common.log_interval=1"]
    options += ["task.truncate_source=8", "++task.validation_samples=2", "++model.decoder_attention_heads=2"]
    options += ["++model.focus_layers=none", "++dataset.num_workers=0", "++common.cpu=true"]
    command = ["fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", "etads", *options]
    run_command([*command, f"hydra.run.dir={tmp_path / 'run'}"], cwd=tmp_path, anew=True)
    (log,) = (tmp_path / "run").glob("*train.log")
    text = log.read_text()
    validations = text.count("valid on 'valid' subset")
    assert validations >= 2, "only one epoch: nothing was set up again"
    assert len(re.findall(r"validation sample [01] summary: +\S", text)) == 2 * validations
    assert "gate_q_proj" in text and "FocusAttention(" not in text
    (checkpoint,) = (tmp_path / "run").rglob("checkpoint_last.pt")
    assert len(summaries(generate(corpus / "bin", checkpoint))) == 37
    pytest.importorskip("matplotlib")
    said = run_command(["etads-plot", str(tmp_path / "run")], cwd=tmp_path).stdout
    assert f"run: 4 updates; {validations} validations on valid, lowest loss" in said
    assert (tmp_path / "run" / "curves.png").stat().st_size > 20_000


def test_processes_share_the_documents_of_fairseq_generate(corpus, trained, tmp_path, monkeypatch):
    """By --num-shards and under torchrun, even with more processes than batches; none is lost or repeated."""

    def share(*options):
        options = ["--max-tokens", "100", "--beam", "2", "--max-len-b", "6", *options]
        return generate(corpus / "bin", trained / "checkpoint_last.pt", *options)

    first, second = (hypotheses(share("--num-shards", "2", "--shard-id", number)) for number in "01")
    assert sorted([*first, *second]) == list(range(37)) and first and second
    assert not hypotheses(share("--num-shards", "100", "--shard-id", "99"))
    launched = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "RANK": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    share("--results-path", str(tmp_path / "results"))
    assert os.listdir(tmp_path / "results") == ["2-of-2"]
    assert hypotheses((tmp_path / "results" / "2-of-2" / "generate-test.txt").read_text()) == second


SHARDED = ["--distributed-world-size", "2", "--ddp-backend", "fully_sharded", "--update-freq", "2"]
TRAIN = ["fairseq-train", "{data}", *PLUGIN, *SMALL_MODEL, "--lr", "1e-3", "--arch"]
GENERATE = ["fairseq-generate", "nowhere", *PLUGIN, "--path", "x.pt", "--cpu"]
REFUSED = [
    # gradients would be wrong at the end of an epoch
    ([*TRAIN, "etads", *SHARDED], "--update-freq 2 with --ddp-backend fully_sharded"),
    # fairseq ended with a KeyError after the first validation, when an epoch was lost
    (
        [*TRAIN, "etads", "--eval-rouge", "--best-checkpoint-metric", "rouge_l", "--max-update", "2"],
        "--best-checkpoint-metric rouge_l: not reported by validation; choose from loss, ppl, rouge1, rouge2, rougeL",
    ),
    ([*GENERATE, "--sampling", "--sampling-topk", "5"], "^fairseq-generate: error: --sampling: give --nbest 5 or"),
    ([*GENERATE, "--results-path", "/dev/null"], "^fairseq-generate: error: --results-path /dev/null: is not a folder"),
]


@pytest.mark.parametrize("command, words", REFUSED, ids=lambda value: "" if isinstance(value, list) else value[:40])
def test_bad_options_are_refused_in_a_line(command, words, corpus, tmp_path):
    command = [word.format(data=corpus / "bin") for word in command]
    result = run_command(command, cwd=tmp_path, check=False)
    assert result.returncode != 0 and re.search(words, result.stdout.strip().splitlines()[-1]), result.stdout
    assert "Traceback" not in result.stdout or command[0] == "fairseq-train"


def test_another_dictionary_than_the_checkpoints_is_refused_in_words(trained, tmp_path):
    write_pairs(tmp_path, "test", 20, seed=5, words=[*WORDS[:-1], "changed"])
    texts = [f"--{split}pref={tmp_path / 'test'}" for split in ("train", "test")]
    run_command([*PREPROCESS, str(tmp_path / "bin"), *texts], cwd=tmp_path)
    said = generate(tmp_path / "bin", trained / "checkpoint_best.pt", check=False)
    assert re.search("the source dictionary in DATA .*is not the one the checkpoint was trained with", said)
