"""ROUGE during training by fairseq-train: alone and with two workers, as the figure for choosing checkpoints."""

import re

import pytest
import torch
from toy import by_two_workers, checkpoint, generate, summaries, train

from fairseq_etads.evaluation import rouge

ROUGE = ("rouge1", "rouge2", "rougeL")
START = ["--truncate-source", "8", "--truncate-target", "5", "--finetune-from-model"]
EXACT = ["--beam", "2", "--max-len-b", "5"]
BEST = ["--best-checkpoint-metric", "rouge2", "--maximize-best-checkpoint-metric"]


def validations(log):
    """Figures of each validation: updates -> name -> value."""
    found = {}
    for line in log.splitlines():
        match = re.search(r"\| (?:valid|test) \| (epoch .*)", line)
        if match:
            values = dict(part.strip().split(" ", 1) for part in match[1].split("|") if " " in part.strip())
            found[int(values["num_updates"])] = {name: float(values[name]) for name in ROUGE if name in values}
    return found


def test_the_best_checkpoint_is_chosen_by_it_and_nothing_else_changes(corpus, trained, tmp_path):
    """With dropout and validations in the middle of epochs, all parameters are the same as without ROUGE."""
    data = corpus / "bin"
    common = [*START, str(trained / "checkpoint_best.pt"), "--dropout", "0.1", "--lr", "2e-3", "--max-update", "16"]
    common += ["--save-interval-updates", "4", "--validate-interval", "99"]
    train(data, tmp_path / "without", *common)
    options = ["--eval-rouge", "--eval-rouge-samples", "25", "--eval-rouge-args", '{"beam": 2}', *BEST]
    log = train(data, tmp_path / "with", *common, *options, "--validation-samples", "2")
    for number in range(4, 17, 4):
        plain, scored = (
            torch.load(next((tmp_path / run).glob(f"checkpoint_*_{number}.pt")), weights_only=True)
            for run in ("without", "with")
        )
        for name, value in plain["model"].items():
            assert torch.equal(value, scored["model"][name]), f"{name} after {number} updates"
    found = validations(log)
    assert list(found) == [4, 8, 12, 16]
    assert log.count("sample 0 summary:") == log.count("sample 1 reference:") == 4 and "sample 2 " not in log

    # The figures are the same as from a user's later commands.
    # Of equally good checkpoints, fairseq keeps the last.
    best = max(found, key=lambda updates: (found[updates]["rouge2"], updates))
    output = generate(data, tmp_path / "with" / "checkpoint_best.pt", "--gen-subset", "valid", *EXACT)
    hypotheses = [words for _, words in sorted(summaries(output).items())][:25]
    references = (corpus / "text" / "valid.target").read_text().splitlines()[:25]
    expected = rouge(hypotheses, references, bootstrap=1)
    for name in ROUGE:
        assert found[best][name] == pytest.approx(expected.scores[name].f1, abs=0.011)
    assert found[best]["rouge2"] > 10, "it has not learnt anything: the test shows little"
    assert checkpoint(tmp_path / "with", "best")["optimizer_history"][-1]["num_updates"] == best


def test_two_workers_log_the_same_figures(corpus, trained, tmp_path):
    """Both have the same model after one update with the learning rate 0. The 37 documents make uneven batches."""
    data = corpus / "bin"
    options = [*START, str(trained / "checkpoint_last.pt"), "--lr", "0", "--eval-rouge", "--eval-rouge-samples", "33"]
    options += ["--max-update", "1", "--valid-subset", "test", "--max-tokens-valid", "60", *BEST]
    options += ["--validation-samples", "20"]
    logs = [train(data, tmp_path / "one", *options), *by_two_workers(train, data, tmp_path / "two", *options)]
    assert "as rank 1" in logs[2], "there were no two workers"
    one, two, _ = (validations(log) for log in logs)
    assert one == two and one[1]["rouge1"] > 0
    texts = [re.findall(r"\| validation sample (.*)", log) for log in logs]
    assert len(texts[0]) == 3 * 20 and set(texts[0]) == {*texts[1], *texts[2]} != set(texts[1]), "each shows its own"
