"""Benchmarks record the conditions of a measurement, and compare systems by medians with their ranges."""

import argparse
import importlib
import json
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest
import torch
from documented import ROOT
from folders import make_run
from omegaconf import OmegaConf
from test_likelihood import write_subset

from fairseq_etads.training.losses import SummarizationNLLConfig

SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))
DELEGATING = {"bench_long_documents": "bench_training_step.main"}
"""Scripts that measure by another script, which writes the record."""


@pytest.fixture
def module(monkeypatch):
    """A function that imports a module of benchmarks/; all are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (ROOT / "benchmarks" / f"{name}.py").exists():
            del sys.modules[name]


def test_a_record_has_the_circumstances(module, monkeypatch, tmp_path):
    records = module("benchmark_records")
    monkeypatch.setattr(sys, "argv", ["benchmarks/bench_x.py"])
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "AVX2")
    args = argparse.Namespace(output=tmp_path, runs=7, lengths=[400, 1024], data=Path("data"))
    records.write_record(tmp_path / "new" / "x.json", {"seconds": 1.5, "machine": {"cpu": "another"}}, args)
    record = json.loads((tmp_path / "new" / "x.json").read_text(encoding="utf-8"))
    assert record["seconds"] == 1.5 and record["machine"] == {"cpu": "another"}
    measured = record["measured"]
    assert measured["script"] == "benchmarks/bench_x.py" and measured["runs"] == 7
    assert measured["settings"] == {"runs": 7, "lengths": [400, 1024], "data": "data"}
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", measured["commit"])
    assert datetime.fromisoformat(measured["date"]).tzinfo
    assert set(measured["load average"]) == {"at the start", "at the end"}
    assert measured["processor"]["has"] and measured["environment"]["CT2_FORCE_CPU_ISA"] == "AVX2"
    assert "numpy" in measured["peers"]


def test_systems_are_compared_by_ratios_of_medians_with_ranges(module):
    found = module("benchmark_records").compare_with_reference_system(
        {"peer": [1.0, 2.0, 4.0], "ours": [2.0, 3.0, 2.0]}, "peer"
    )
    assert found["ours"] == {
        "median": 2.0,
        "range": [2.0, 3.0],
        "ratio of medians": 1.0,
        "range of ratios": [0.5, 2.0],
    }
    assert found["peer"]["range of ratios"] == [1.0, 1.0]


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_benchmark_writes_its_record_by_the_helper(script):
    text = (ROOT / "benchmarks" / f"{script}.py").read_text(encoding="utf-8")
    assert ("write_record(" in text) or DELEGATING[script] in text
    assert not re.search(r"write_text\(\s*json", text)


def run(module, monkeypatch, output, script, *arguments, **constants):
    """Run a benchmark with other constants, and return its record."""
    bench = module(script)
    for name, value in constants.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(sys, "argv", [f"benchmarks/{script}.py", "--output", str(output), *map(str, arguments)])
    bench.main()
    return json.loads(output.read_text(encoding="utf-8"))


def test_tiny_runs_write_records(module, monkeypatch, tmp_path):
    small = {"DOCUMENTS": 2, "WORDS": 6, "STEPS": 3, "HIDDEN": 8}
    additive = run(module, monkeypatch, tmp_path / "a.json", "bench_additive", "--runs", "2", **small)
    assert additive["seconds of attention"]["plain"]["ratio of medians"] > 0
    arguments = ["--runs", "2", "--small", "300", "--large", "400"]
    recurrent = run(module, monkeypatch, tmp_path / "r.json", "bench_recurrent", *arguments)
    assert len(recurrent["compared with the long dictionary, lazily"]) == 4
    for record in (additive, recurrent):
        assert record["measured"]["runs"] == 2 and record["machine"]["cpu"]


def test_a_training_step_is_compared_by_the_ratio_of_medians(module, monkeypatch, tmp_path):
    """With given times of three rounds; the first is a warm-up."""
    bench = module("bench_training_step")

    class Given:
        def __init__(self, script, *arguments, **options):
            seconds = [9, 1, 2, 4] if "transformer" in arguments else [9, 2, 3, 2]
            self.answers = iter({"seconds": s, "peak": 10, "before": 5} for s in seconds)

        def ask(self, _):
            return next(self.answers)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(bench, "ScriptProcess", Given)
    output = tmp_path / "t.json"
    bench.main(["--output", str(output), "--lengths", "400", "--systems", "transformer,etads", "--runs", "3"])
    row = json.loads(output.read_text(encoding="utf-8"))["lengths"]["400"]["systems"]["etads"]
    assert row["time ratio"] == 1.0 and row["range of time ratios"] == [0.5, 2.0]


def test_ctranslate2_counts_with_its_better_instructions(module, monkeypatch):
    """Limited to AVX2, it is quicker here in float32, and slower in int8."""
    bench = module("bench_generate")
    speed = {("ctranslate2 float32", "AVX2"): 2.0, ("ctranslate2 int8", "AVX2"): 0.5}

    class Given:
        def __init__(self, system, environment):
            self.per_second = speed.get((system, environment.get("CT2_FORCE_CPU_ISA")), 1.0)
            self.about = {"machine": {"cpu": "x"}, "words": [], "megabytes": {}}

        def measure_seconds(self, count, at_once):
            return count / self.per_second

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(bench, "BenchmarkSystemProcess", Given)
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    args = argparse.Namespace(
        only=["fairseq", "ctranslate2"],
        vocabulary=10,
        beam=1,
        words=1,
        runs=3,
        busy=False,
        processor_time=False,
        documents=2,
    )
    report = bench.measure_all_systems("native", args)
    expected = {"fairseq": 1.0, "ctranslate2 float32": 2.0, "ctranslate2 int8": 1.0}
    assert report["documents per second"] == {"together": expected, "one at a time": expected}
    runs = report["runs, compared with the first system"]["together"]
    assert runs["ctranslate2 float32 (AVX2)"]["ratio of medians"] == 2.0
    assert runs["ctranslate2 float32"]["ratio of medians"] == 1.0


DOCUMENTS, SUMMARIES = [[5, 6, 7], [8, 9], [10, 11, 12, 13]] * 4, [[5], [9, 8], [10, 12]] * 4


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work") / "run"
    make_run(folder, "pg_coverage")
    for split in ("train", "test"):
        write_subset(folder / "prepared" / "bin", split, DOCUMENTS, SUMMARIES)
    return folder


def test_rules_of_stopping_are_compared(module, monkeypatch, tmp_path, work):
    record = run(module, monkeypatch, tmp_path / "record.json", "bench_stopping", "--work", work, "--documents", 3)
    rows = {(row["score"], row["longest"], row["early_stopping"]) for row in record["rows"]}
    assert len(rows) == len(record["rows"]) == 18
    for row in record["rows"]:
        assert 1 <= row["steps"] <= row["hypotheses"] and row["seconds"] > 0
        assert row["early_stopping"] != "fairseq" or row["better"] == row["worse"] == 0


def test_number_formats_of_a_trained_model_are_compared(module, monkeypatch, tmp_path, work):
    record = run(
        module,
        monkeypatch,
        tmp_path / "record.json",
        "bench_trained",
        "--work",
        work,
        "--documents",
        3,
        "--runs",
        1,
        "--formats",
        "fp32",
    )
    assert record["measured"]["runs"] == 1 and record["rows"]


def add_training_options(checkpoint, target):
    """Copy a checkpoint with the options of its criterion, optimiser and learning rate, as fairseq-train saves them."""
    state = torch.load(checkpoint, weights_only=False)
    cfg = state["cfg"]
    defaults = OmegaConf.to_container(OmegaConf.structured(SummarizationNLLConfig))
    cfg["criterion"] = {**defaults, "_name": "summarization_nll"}
    cfg["optimizer"] = {"_name": "sgd", "lr": [1.0], "momentum": 0.0, "weight_decay": 0.0}
    cfg["lr_scheduler"] = {"_name": "fixed", "lr": [1.0], "warmup_updates": 0, "force_anneal": None, "lr_shrink": 0.1}
    torch.save(state, target)


def test_a_step_with_rewards_is_compared_and_divided_into_parts(module, monkeypatch, tmp_path, work):
    trained = work / "trained.pt"
    add_training_options(work / "checkpoints" / "checkpoint_best.pt", trained)
    given = ["--data", work / "prepared" / "bin", "--checkpoint", trained]
    small = ["--runs", 2, "--tokens", 12, "--longest", 4, "--threads", 1, "--profile"]
    record = run(module, monkeypatch, tmp_path / "record.json", "bench_reward_step", *given, *small)
    parts = record["CPU seconds of each part of a training step with rewards, on one thread"]
    assert sum(seconds for part, seconds in parts.items() if part != "step") <= parts["step"]
    assert parts["likelihood's pass"] > 0


def test_preparation_is_timed(module, monkeypatch, tmp_path):
    record = run(
        module, monkeypatch, tmp_path / "record.json", "bench_prepare", "--documents", 10, "--runs", 2, "--jobs", 1
    )
    assert all(milliseconds > 0 for milliseconds in record["processor, ms for a document: sentences, words"])
