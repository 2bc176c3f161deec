"""Training from another model's weights, and options given through Hydra, by the real commands."""

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

    (first / "checkpoint_last.pt").unlink()  # the resumed run does not need this file
    log = run_command([*command, "--max-update", "2"], cwd=tmp_path).stdout
    assert "parameters (" not in log and weights(second)["optimizer_history"][-1]["num_updates"] == 2


def test_stages_go_on_as_if_unbroken_and_coverage_begins_its_optimiser_anew(corpus, tmp_path):
    """Adagrad's sums continue in the next stage, but start from 0.1 again with coverage (See et al. 2017)."""

    def train(name, arch, updates, *options):
        sizes = {**SIZES, "readout_dim": 12}
        command = ["fairseq-train", str(corpus / "bin"), *PLUGIN, "--arch", arch, "--no-paper-init", "--cpu"]
        command += [f"--{option.replace('_', '-')}={value}" for option, value in sizes.items()]
        command += ["--criterion", "summarization_nll", "--length-normalised", "--no-end-if-cut", "--batch-size", "8"]
        command += ["--optimizer", "lazy_adagrad", "--lr", "0.15", "--initial-accumulator", "0.1", "--clip-norm", "2"]
        command += ["--disable-validation", "--no-epoch-checkpoints", "--num-workers", "0", "--sort-within", "10"]
        command += ["--truncate-target", "2", "--max-update", str(updates), "--save-dir", str(tmp_path / name)]
        log = run_command([*command, *options], cwd=tmp_path).stdout
        state = weights(tmp_path / name)
        sums = [value["sum"] for value in state["last_optimizer_state"]["state"].values()]
        return log, state["model"], sums, state["task_state"]

    shorter, first = ("--truncate-source", "5"), str(tmp_path / "first" / "checkpoint_last.pt")
    _, whole, whole_sums, _ = train("whole", "pointer_generator", 4, *shorter)
    _, _, sums, task = train("first", "pointer_generator", 2, *shorter)
    log, model, resumed_sums, _ = train("second", "pointer_generator", 4, *shorter, "--continue-once", first)
    assert "@ 2 updates" in log and task["no_end_if_cut"]
    torch.testing.assert_close(model, whole, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(resumed_sums, whole_sums, rtol=1e-4, atol=1e-6)

    log, model, sums_anew, _ = train(
        "coverage", "pointer_generator_coverage", 1, *shorter, "--init-from", first, "--coverage-loss", "1"
    )
    report = re.search(r"--init-from \S+: loaded ([\d,]+) of ([\d,]+) parameters .*", log)
    loaded, total = (int(number.replace(",", "")) for number in report.groups())
    assert total - loaded == SIZES["attention_dim"]
    assert report[0].endswith("new, because the checkpoint does not have them: decoder.coverage_weight")
    assert model.keys() - whole.keys() == {"decoder.coverage_weight"}
    assert (sums_anew[0] < sums[0] - 1e-7).any(), "the words' vectors, of which these are: they have gone on"
    assert min(x.min() for x in sums_anew) >= 0.1 - 1e-6
