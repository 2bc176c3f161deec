"""Training that begins with another model's weights, and options given through Hydra, by the real commands."""

import re

import torch
from helpers import run_command
from toy import PLUGIN

SIZES = {"encoder_embed_dim": 16, "encoder_hidden_size": 12, "attention_dim": 10, "pointer": "soft"}


def weights(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


def test_a_coverage_model_begins_with_a_pointer_generator_trained_through_hydra(corpus, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    sizes = ", ".join(f"{name}: {value}" for name, value in SIZES.items())
    (tmp_path / "small.yaml").write_text(
        f"""# @package _group_
common: {{user_dir: fairseq_etads, cpu: true, seed: 7}}
task: {{_name: summarization, data: {corpus / "bin"}, truncate_source: 8}}
model: {{_name: gru_seq2seq, {sizes}}}
criterion: {{_name: summarization_nll}}
optimizer: {{_name: lazy_adagrad, initial_accumulator: 0.1}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.15], max_update: 3}}
dataset: {{max_tokens: 400, num_workers: 0, disable_validation: true}}
checkpoint: {{save_dir: {first}, no_epoch_checkpoints: true}}
"""
    )
    run_command(["fairseq-hydra-train", "--config-dir", str(tmp_path), "--config-name", "small"], cwd=tmp_path)
    state = weights(first)
    sums = [value["sum"].min().item() for value in state["last_optimizer_state"]["state"].values()]
    assert state["optimizer_history"][-1]["num_updates"] == 3 and min(sums) >= 0.1 - 1e-6

    command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", "gru_seq2seq", "--coverage", "--cpu"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    command += ["--criterion", "summarization_nll", "--optimizer", "lazy_adadelta", "--lr", "0", "--max-tokens", "400"]
    command += ["--save-dir", str(second), "--no-epoch-checkpoints", "--disable-validation", "--num-workers", "0"]
    command += ["--truncate-source", "8", "--init-from", str(first / "checkpoint_last.pt")]
    log = run_command([*command, "--max-update", "1"], cwd=tmp_path).stdout
    report = re.search(r"--init-from \S+: loaded ([\d,]+) of ([\d,]+) parameters .*", log)
    loaded, total = (int(number.replace(",", "")) for number in report.groups())
    assert total - loaded == SIZES["attention_dim"] and "do not" not in report[0]
    assert "new, because the checkpoint does not have them: decoder.coverage_weight" in report[0]
    begun = weights(second)
    assert begun["optimizer_history"][-1]["num_updates"] == 1, "steps begin anew"
    for name, value in state["model"].items():
        assert torch.equal(begun["model"][name], value), f"{name}: a learning rate of 0 changes nothing"

    (first / "checkpoint_last.pt").unlink()  # no longer needed when the run resumes
    log = run_command([*command, "--max-update", "2"], cwd=tmp_path).stdout
    assert "parameters (" not in log and weights(second)["optimizer_history"][-1]["num_updates"] == 2
