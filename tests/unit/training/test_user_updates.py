"""The examples of docs/extending.md: packages outside this one add a model, an auxiliary task and a criterion."""

import json
import math
import re
import sys
from pathlib import Path

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from helpers import SMALL, model_config, run_command
from steps import make_criterion, steps_task
from toy import PLUGIN, SMALL_MODEL, WORDS, hypotheses, write_pairs

from fairseq_etads.training import extra_updates

DATA = "prepared/bin"
PAGE = Path(__file__).parents[3] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with the packages of the page, toy data in "prepared", and topics."""
    folder = tmp_path_factory.mktemp("user")
    for name, code in re.findall(
        r"^```python\n# the (?:package|module) (my_\S*)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S
    ):
        path = folder / (f"{name.replace('.', '/')}.py" if "." in name else f"{name}/__init__.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    for split, count in (("train", 40), ("valid", 4)):
        write_pairs(folder, split, count, seed=len(split))
    run_command(["etads-prepare", ".", "prepared", "--tokens", "word", "--jobs", "1"], folder)
    (folder / "topics").mkdir()
    rows = [(f"t{n % 2}", " ".join([WORDS[n % 2], *WORDS[5 : 5 + n % 4]])) for n in range(16)]
    (folder / "topics" / "topics.tsv").write_text("".join(f"{topic}\t{text}\n" for topic, text in rows))
    return folder


def test_a_package_of_ones_own_trains_between_the_updates(package):
    options = ["--arch", "etads", "--criterion", "summarization_nll", *SMALL_MODEL, "--lr", "0.01", "--max-update", "8"]
    options += ["--auxiliary-task", "topic", "--auxiliary-data", "topics", "--auxiliary-every", "2:3"]
    options += ["--auxiliary-batch-size", "8", "--log-interval", "2", "--save-dir", "run", "--no-epoch-checkpoints"]
    log = run_command(["fairseq-train", DATA, *PLUGIN, "--user-dir", "my_updates", *options], package).stdout
    losses = [float(loss) for loss in re.findall(r"auxiliary_loss=([\d.]+)", log)]
    assert len(losses) == 4 and losses[-1] < 0.5 * losses[0], "12 updates tell two words apart"
    assert re.search(r"auxiliary_accuracy=1\b", log)
    state = torch.load(package / "run" / "checkpoint_last.pt", weights_only=False)
    assert state["model"]["auxiliary.weight"].shape == (2, 64)
    assert state["optimizer_history"][-1]["num_updates"] == 8
    generate = ["fairseq-generate", DATA, *PLUGIN, "--gen-subset", "valid", "--path", "run/checkpoint_last.pt"]
    assert len(re.findall(r"^H-\d", run_command([*generate, "--beam", "1", "--cpu"], package).stdout, re.M)) == 4


def test_a_model_of_ones_own_is_trained_exported_and_used(package):
    mine, options = ["--user-dir", "my_model"], ["--gate-size", "8", *SMALL_MODEL, "--lr", "0.01", "--max-update", "8"]
    train = ["etads-train", "--prepared", "prepared", "--out", "own", "--arch", "selective"]
    run_command([*train, "--", *mine, *options], package)
    generate = ["fairseq-generate", DATA, *PLUGIN, *mine, "--path", "own/checkpoints/checkpoint_best.pt", "--cpu"]
    log = run_command([*generate, "--gen-subset", "valid", "--min-len", "2", "--max-len-b", "9"], package).stdout
    expected = [rows[0] for _, rows in sorted(hypotheses(log).items())]
    export = ["etads-export", "own", "model", "--min-len", "2", "--max-len", "9"]
    refused = run_command(export, package, check=False)
    assert "--arch selective: unknown; name the package that registers it with --user-dir" in refused.stdout
    run_command([*export, "--beam", "5", *mine], package)
    assert json.loads((package / "model" / "config.json").read_text())["model"]["gate_size"] == 8
    summarize = ["etads-summarize", "model", "valid.source", "--output-format", "jsonl", *mine]
    found = [json.loads(line) for line in re.findall(r"^{.*", run_command(summarize, package).stdout, re.M)]
    assert [each["summary"].lower() for each in found] == [words for _, words in expected]
    assert [each["score"] for each in found] == pytest.approx([score * math.log(2) for score, _ in expected], abs=1e-4)


def test_a_criterion_of_ones_own_says_what_it_needs(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    import my_updates.criterion

    try:
        defaults = {**vars(my_updates.criterion.CopyBonusConfig()), "sentence_avg": False}
        defaults.pop("_name", None)
        for pointer, value, message in (
            ("switch", 0.1, "--copy-bonus 0.1 has no effect without --pointer soft"),
            ("soft", -1.0, "--copy-bonus -1.0: choose a number, at least 0 and below 1"),
        ):
            task = steps_task()
            task.build_model(model_config("etads", **SMALL, pointer=pointer))
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                make_criterion(task, "copy_bonus_nll", **{**defaults, "copy_bonus": value})
        assert make_criterion(task, "copy_bonus_nll", **{**defaults, "copy_bonus": 0.1}).copy_bonus == 0.1
    finally:
        for registry in (CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY):
            registry.pop("copy_bonus_nll", None)
        extra_updates._REGISTERED.pop("topic", None)
        for name in [name for name in sys.modules if name.startswith("my_updates")]:
            del sys.modules[name]
