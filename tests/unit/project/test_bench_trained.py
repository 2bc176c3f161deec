"""Benchmarks of a trained model, and of preparation, run from end to end on tiny data."""

import importlib
import json
import sys

import pytest
import torch
from documented import ROOT
from folders import make_run
from omegaconf import OmegaConf, open_dict
from test_likelihood import write_subset

from fairseq_etads.training.losses import SummarizationNLLConfig

DOCUMENTS, SUMMARIES = [[5, 6, 7], [8, 9], [10, 11, 12, 13]] * 4, [[5], [9, 8], [10, 12]] * 4


@pytest.fixture
def run_benchmark(monkeypatch, tmp_path):
    """A function that runs a script of benchmarks/ and returns its record."""

    def run(name, *arguments):
        output = tmp_path / "record.json"
        monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", "--output", str(output), *map(str, arguments)])
        importlib.import_module(name).main()
        return json.loads(output.read_text(encoding="utf-8"))

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    yield run
    for name in set(sys.modules) - before:
        if (ROOT / "benchmarks" / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work") / "run"
    make_run(folder, "pg_coverage")
    for split in ("train", "test"):
        write_subset(folder / "prepared" / "bin", split, DOCUMENTS, SUMMARIES)
    return folder


def test_rules_of_stopping_are_compared(run_benchmark, work):
    record = run_benchmark("bench_stopping", "--work", work, "--documents", 3)
    rows = {(row["score"], row["longest"], row["early_stopping"]) for row in record["rows"]}
    assert len(rows) == len(record["rows"]) == 18
    for row in record["rows"]:
        assert 1 <= row["steps"] <= row["hypotheses"] and row["seconds"] > 0
        assert row["early_stopping"] != "fairseq" or row["better"] == row["worse"] == 0


def test_number_formats_of_a_trained_model_are_compared(run_benchmark, work):
    record = run_benchmark("bench_trained", "--work", work, "--documents", 3, "--runs", 1, "--formats", "fp32")
    assert record["measured"]["runs"] == 1 and record["rows"]


def add_training_options(checkpoint, target):
    """Copy a checkpoint with the options of its criterion, optimiser and learning rate, as fairseq-train saves them."""
    state = torch.load(checkpoint, weights_only=False)
    cfg = state["cfg"]
    with open_dict(cfg):
        cfg.criterion = {
            **OmegaConf.to_container(OmegaConf.structured(SummarizationNLLConfig)),
            "_name": "summarization_nll",
        }
        cfg.optimizer = {"_name": "sgd", "lr": [1.0], "momentum": 0.0, "weight_decay": 0.0}
        cfg.lr_scheduler = {"_name": "fixed", "lr": [1.0], "warmup_updates": 0, "force_anneal": None, "lr_shrink": 0.1}
    torch.save(state, target)


def test_a_step_with_rewards_is_compared_and_divided_into_parts(run_benchmark, work):
    trained = work / "trained.pt"
    add_training_options(work / "checkpoints" / "checkpoint_best.pt", trained)
    given = ["--data", work / "prepared" / "bin", "--checkpoint", trained]
    small = ["--runs", 2, "--tokens", 12, "--longest", 4, "--threads", 1, "--profile"]
    record = run_benchmark("bench_reward_step", *given, *small)
    parts = record["CPU seconds of each part of a training step with rewards, on one thread"]
    assert sum(seconds for part, seconds in parts.items() if part != "step") <= parts["step"]
    assert parts["likelihood's pass"] > 0


def test_preparation_is_timed(run_benchmark):
    record = run_benchmark("bench_prepare", "--documents", 10, "--runs", 2, "--jobs", 1)
    assert all(milliseconds > 0 for milliseconds in record["processor, ms for a document: sentences, words"])
