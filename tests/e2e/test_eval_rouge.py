"""ROUGE during training by fairseq-train, as the figure for choosing checkpoints: that of later commands."""

import re

import pytest
from toy import by_two_workers, checkpoint, generate, summaries, train

from fairseq_etads.evaluation import rouge

ROUGE = ("rouge1", "rouge2", "rougeL")


def validations(log):
    """Figures of each validation: updates -> name -> value."""
    found = {}
    for line in log.splitlines():
        match = re.search(r"\| valid \| (epoch .*)", line)
        if match:
            values = dict(part.strip().split(" ", 1) for part in match[1].split("|") if " " in part.strip())
            found[int(values["num_updates"])] = {name: float(values[name]) for name in ROUGE}
    return found


def test_two_workers_log_the_figures_of_later_commands_and_keep_the_best_checkpoint(corpus, trained, tmp_path):
    """Of 25 documents, in uneven batches; both workers show their own samples."""
    data, save = corpus / "bin", tmp_path / "run"
    options = ["--truncate-source", "8", "--truncate-target", "5", "--dropout", "0.1", "--lr", "2e-3"]
    options += ["--finetune-from-model", str(trained / "checkpoint_best.pt"), "--max-update", "8"]
    options += ["--save-interval-updates", "4", "--validate-interval", "99", "--max-tokens-valid", "60"]
    options += ["--eval-rouge", "--eval-rouge-samples", "25", "--eval-rouge-args", '{"beam": 2}']
    options += ["--best-checkpoint-metric", "rouge2", "--maximize-best-checkpoint-metric", "--validation-samples", "20"]
    logs = by_two_workers(train, data, save, *options)
    assert "as rank 1" in logs[1], "there were no two workers"
    found = validations(logs[0])
    assert list(found) == [4, 8]
    texts = [set(re.findall(r"\| validation sample (.*)", log)) for log in logs]
    assert all(texts) and texts[0] != texts[1]

    # Of equally good checkpoints, fairseq keeps the last.
    best = max(found, key=lambda updates: (found[updates]["rouge2"], updates))
    assert checkpoint(save, "best")["optimizer_history"][-1]["num_updates"] == best
    options = ["--gen-subset", "valid", "--beam", "2", "--max-len-b", "5"]
    output = generate(data, save / "checkpoint_best.pt", *options)
    hypotheses = [words for _, words in sorted(summaries(output).items())][:25]
    references = (corpus / "text" / "valid.target").read_text().splitlines()[:25]
    expected = rouge(hypotheses, references, bootstrap=1)
    for name in ROUGE:
        assert found[best][name] == pytest.approx(expected.scores[name].f1, abs=0.011)
    assert found[best]["rouge2"] > 10, "it has not learnt anything: the test shows little"
