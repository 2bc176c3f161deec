"""The benchmark of decoding measures fairseq as in fairseq-generate, and the docs show the measured figures."""

import argparse
import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield __import__("bench_generate")
    for name in ("bench_generate", "bench_long_documents", "bench_step", "bench_training_step", "machines"):
        sys.modules.pop(name, None)


@pytest.fixture
def generate_table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return __import__("generate_table")


@pytest.mark.parametrize("as_commanded", [True, False])
def test_fairseqs_product_with_the_vocabulary_is_plain_or_refused(as_commanded, bench, monkeypatch):
    """It used to be a batched product, because the benchmark had switched off the parameters' gradients."""
    if not as_commanded:
        build = bench.build_model
        monkeypatch.setattr(bench, "build_model", lambda *args: build(*args).requires_grad_(False))
    args = argparse.Namespace(vocabulary=600, beam=3, words=4, documents=2)
    dictionary = bench.make_numbered_dictionary(args.vocabulary)
    run = bench.create_summariser("fairseq", args, dictionary)
    source = bench.create_random_documents(args, dictionary)[:, -20:]
    assert [len(words) for words in run(source)] == [4, 4]
    profiled = bench.find_vocabulary_operation(run, source, args.vocabulary)
    if as_commanded:
        bench.check_product_not_batched(profiled)
        assert profiled["product with the vocabulary"]["inputs"] == "[[6, 512], [512, 600]]"
    else:
        with pytest.raises(RuntimeError, match="aten::bmm"):
            bench.check_product_not_batched(profiled)


def test_all_systems_of_an_architecture_have_the_same_weights(bench):
    args = argparse.Namespace(vocabulary=600, beam=3, words=4, documents=1)
    dictionary = bench.make_numbered_dictionary(args.vocabulary)
    source = bench.create_random_documents(args, dictionary)[:, -20:]
    assert torch.equal(source, bench.create_random_documents(args, dictionary)[:, -20:])
    runs = [bench.create_summariser(system, args, dictionary) for system in ("fairseq", "etads_basic fp32")]
    assert runs[0](source) == runs[1](source)


def report(used, **speeds):
    return {
        "machine": {"cpu": "A CPU", "family": "25, model 17", "has": "AVX-512, VNNI"},
        "instructions": used,
        "quiet": used == "native",
        "documents": 8,
        "words": 100 if used == "native" else 10,
        "documents per second": {"together": speeds, "one at a time": {"fairseq": 0.5}},
        "megabytes": {"fairseq": {"before": 1, "peak": 1234}},
    }


def test_the_table_has_a_row_for_each_system_and_names_the_processor(generate_table):
    reports = [report("native", fairseq=0.25, mine=1.0), report("avx2", fairseq=0.2, other=0.1)]
    assert generate_table.format_markdown_table(reports).splitlines() == [
        "| | A CPU (AVX-512, VNNI): 8 at once | 1 at a time | peak GB |"
        " A CPU (AVX2 only), **busy**, 10 words: 8 at once | 1 at a time | peak GB |",
        "|---|---|---|---|---|---|---|",
        "| fairseq | 0.25 (1.0) | 0.50 (1.0) | 1.2 | 0.20 (1.0) | 0.50 (1.0) | 1.2 |",
        "| mine | 1.00 (4.0) | | | | | |",
        "| other | | | | 0.10 (0.5) | | |",
    ]
    names = [generate_table.make_file_name(report(used)) for used in ("native", "avx2")]
    assert names == ["a-cpu-25-model-17-avx-512-vnni.json", "a-cpu-25-model-17-avx2.json"]


def assert_written(page, write, tmp_path, command):
    """Check that ``write`` leaves a copy of the page unchanged."""
    copy = tmp_path / page
    copy.write_text((ROOT / "docs" / page).read_text())
    write(copy)
    assert copy.read_text() == (ROOT / "docs" / page).read_text(), f"run {command} --table --docs docs/{page}"


def test_the_docs_have_the_table_of_what_was_measured(generate_table, tmp_path):
    table = generate_table.format_markdown_table(generate_table.read_reports())
    assert_written(
        "experiments.md", lambda copy: generate_table.replace_table(table, copy), tmp_path, "bench_generate.py"
    )


@pytest.mark.parametrize("name,page", [("bench_long_documents", "experiments.md"), ("bench_step", "experiments.md")])
def test_the_docs_have_the_tables_of_other_benchmarks(name, page, bench, generate_table, tmp_path):
    measured = __import__(name)
    table = measured.format_table(json.loads(measured.RESULTS.read_text()))
    assert_written(page, lambda copy: generate_table.print_table(table, copy, measured.BEGIN), tmp_path, f"{name}.py")


@pytest.mark.parametrize("system", ["etads fp32", "etads int8 + shortlist"])
def test_the_parts_of_a_step_are_timed_each_without_those_inside_it(system, bench, monkeypatch):
    step = __import__("bench_step")
    # Each call of the clock is a second later, so a part has as many seconds as calls.
    ticks = iter(range(10**6))
    monkeypatch.setattr(step.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(bench, "FREQUENT", 50)
    monkeypatch.setattr(bench, "POOL", 100)
    args = argparse.Namespace(vocabulary=600, beam=3, words=2, documents=2)
    dictionary = bench.make_numbered_dictionary(args.vocabulary)
    generator = bench.create_summary_generator(system, args, dictionary)
    clock = step.DecoderTimer(generator._inference_models[0].get_current_copy().decoder)
    bench.create_etads_summariser(generator, args)(bench.create_random_documents(args, dictionary)[:, -20:])
    looks = next(ticks)
    assert all(clock.seconds[part] > 0 for part in step.PARTS if part != step.SEARCH)
    assert clock.seconds[step.VOCABULARY] == 3, "once in each of three steps"
    assert sum(clock.seconds.values()) < looks, "no time is counted twice"


def test_every_system_takes_turns_with_the_first(bench):
    groups = __import__("bench_training_step").divide_systems_into_groups
    assert groups("pabcd", 3) == [["p", "a", "b"], ["p", "c", "d"]]
    assert groups("pabcd", 2) == [["p", "a"], ["p", "b"], ["p", "c"], ["p", "d"]]
    assert groups("p", 3) == [["p"]] and groups("pabcd", 9) == [list("pabcd")]
