"""ROUGE during training by fairseq-train: alone and with two workers, as the figure for choosing checkpoints."""

import re

import pytest
import torch
from helpers import run_command
from toy import PLUGIN, SMALL_MODEL, by_two_workers, summaries

from fairseq_etads.evaluation import rouge

ROUGE = ("rouge1", "rouge2", "rougeL")
BEST = ["--best-checkpoint-metric", "rouge2", "--maximize-best-checkpoint-metric"]


def train(data, save, *options, check=True):
    return run_command(
        ["fairseq-train", str(data), *PLUGIN, "--arch", "etads", *SMALL_MODEL, "--lr", "2e-3"]
        + ["--truncate-source", "20", "--truncate-target", "5", "--save-dir", str(save), *options],
        cwd=data.parent,
        check=check,
    ).stdout


def validations(log):
    """Figures of each validation: updates -> name -> value."""
    found = {}
    for line in log.splitlines():
        match = re.search(r"\| (?:valid|test) \| (epoch .*)", line)
        if match:
            values = dict(part.strip().split(" ", 1) for part in match[1].split("|") if " " in part.strip())
            found[int(values["num_updates"])] = {name: float(values[name]) for name in ROUGE if name in values}
    return found


def generated(data, checkpoint, subset, *options):
    command = ["fairseq-generate", str(data), *PLUGIN, "--path", str(checkpoint), "--gen-subset", subset, "--cpu"]
    output = summaries(run_command([*command, "--max-len-b", "5", *options], cwd=data.parent).stdout)
    return [output[number] for number in sorted(output)]


def test_the_best_checkpoint_is_chosen_by_it_and_nothing_else_changes(corpus, tmp_path):
    """With dropout and validations in the middle of epochs, all parameters are the same as without ROUGE."""
    data = corpus / "bin"
    common = ["--dropout", "0.1", "--max-update", "240", "--save-interval-updates", "60", "--validate-interval", "99"]
    train(data, tmp_path / "without", *common)
    options = ["--eval-rouge", "--eval-rouge-samples", "25", "--eval-rouge-args", '{"beam": 2}', *BEST]
    log = train(data, tmp_path / "with", *common, *options, "--validation-samples", "2")
    for number in range(60, 241, 60):
        plain, scored = (
            torch.load(next((tmp_path / run).glob(f"checkpoint_*_{number}.pt")), weights_only=True)
            for run in ("without", "with")
        )
        for name, value in plain["model"].items():
            assert torch.equal(value, scored["model"][name]), f"{name} after {number} updates"
    found = validations(log)
    assert list(found) == [60, 120, 180, 240]
    assert log.count("sample 0 summary:") == log.count("sample 1 reference:") == 4 and "sample 2 " not in log

    # The figures are the same as from a user's later commands.
    # Of equally good checkpoints, fairseq keeps the last.
    best = max(found, key=lambda updates: (found[updates]["rouge2"], updates))
    hypotheses = generated(data, tmp_path / "with" / "checkpoint_best.pt", "valid", "--beam", "2")[:25]
    references = (corpus / "text" / "valid.target").read_text().splitlines()[:25]
    expected = rouge(hypotheses, references, bootstrap=1)
    for name in ROUGE:
        assert found[best][name] == pytest.approx(expected.scores[name].f1, abs=0.011)
    assert found[best]["rouge2"] > 10, "it has not learnt anything: the test shows little"
    chosen = torch.load(tmp_path / "with" / "checkpoint_best.pt", weights_only=True)
    assert chosen["optimizer_history"][-1]["num_updates"] == best


def test_two_workers_log_the_same_figures(corpus, tmp_path):
    """Both have the same model after one update with the learning rate 0. The 37 documents make uneven batches."""
    data = corpus / "bin"
    options = ["--eval-rouge", "--eval-rouge-samples", "33", "--max-update", "1", "--valid-subset", "test"]
    options += ["--max-tokens-valid", "60", "--validation-samples", "20", *BEST]
    first = train(data, tmp_path / "start", "--dropout", "0", "--max-update", "60", "--disable-validation")
    assert not validations(first)
    start = ["--finetune-from-model", str(tmp_path / "start" / "checkpoint_last.pt"), "--lr", "0"]
    logs = [train(data, tmp_path / "one", *options, *start)]
    logs += by_two_workers(train, data, tmp_path / "two", *options, *start)
    assert "as rank 1" in logs[2], "there were no two workers"
    one, two, _ = (validations(log) for log in logs)
    assert one == two and one[1]["rouge1"] > 0
    texts = [re.findall(r"\| validation sample (.*)", log) for log in logs]
    assert len(texts[0]) == 3 * 20 and set(texts[0]) == {*texts[1], *texts[2]} != set(texts[1]), "each shows its own"


def test_an_unknown_metric_is_refused_before_training(corpus, tmp_path):
    """fairseq ended with a KeyError after the first validation, when an epoch was lost."""
    options = ["--eval-rouge", "--best-checkpoint-metric", "rouge_l", "--max-update", "2"]
    log = train(corpus / "bin", tmp_path / "save", *options, check=False)
    said = "--best-checkpoint-metric rouge_l: not reported by validation; choose from loss, ppl, "
    said += ", ".join(ROUGE)
    assert said in log.strip().splitlines()[-1] and "begin validation" not in log and "sample 0" not in log
