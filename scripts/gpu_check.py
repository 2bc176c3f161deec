"""Implementation of gpu_check.sh: run tests/gpu, measure training steps and searches, and write a report.

python scripts/gpu_check.py REPORT.json
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / folder) for folder in ("tests", "tests/e2e", "tests/gpu", "benchmarks")]

from helpers import make_dictionary, make_task, model_config  # noqa: E402
from machines import describe_machine  # noqa: E402

import fairseq_etads  # noqa: E402
from fairseq_etads.generation import SummaryGenerator  # noqa: E402

PRETENDED = "pretended_gpu" in sys.modules
WORDS, DOCUMENT, SUMMARY, BATCH = (200, 30, 6, 2) if PRETENDED else (50_000, 400, 60, 32)
"""Number of words in the dictionary, tokens per document, tokens per summary, and pairs per batch."""
WARM_UPS, TIMES = (0, 1) if PRETENDED else (2, 20)
SIZES = {
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 1 if PRETENDED else 6),
    **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), 32 if PRETENDED else 512),
    **dict.fromkeys(("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"), 32 if PRETENDED else 2048),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2 if PRETENDED else 8),
    "dropout": 0.1,
    "share_all_embeddings": True,
}
MODELS = {
    "etads_basic": {},
    "etads": {},
    "etads, pointer": {"pointer": "soft"},
    "etads, FlexAttention": {"attention_kernel": "flex"},
}
"""Mapping from names of models of this project to their options.

The first word of each name is the preset. etads_basic is a plain Transformer.
"""
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FAIRSEQ = "fairseq's transformer"


def run_tests():
    """Run tests/gpu. Return the number of tests per outcome, the names of failed tests and the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.xml")
        pytest.main([str(ROOT / "tests" / "gpu"), "-q", "-p", "no:cacheprovider", f"--junitxml={path}"])
        suite = ElementTree.parse(path).getroot().find("testsuite")
    failed, figures = [], {}
    for case in suite.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        figures.update({f"{case.get('name')}: {p.get('name')}": p.get("value") for p in case.iter("property")})
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    return {**counts, "failed": failed, "figures": figures}


def make_measurement_task():
    task = make_task(truncate_source=DOCUMENT, truncate_target=SUMMARY)
    task.src_dict = task.tgt_dict = make_dictionary(words=WORDS)
    return task


def build_model(name, task):
    """Build a model of this project, or fairseq's Transformer of the same size, on the GPU."""
    torch.manual_seed(1)
    if name == FAIRSEQ:
        args = Namespace(arch="transformer", **SIZES)
        ARCH_CONFIG_REGISTRY["transformer"](args)
        return ARCH_MODEL_REGISTRY["transformer"].build_model(args, task).cuda()
    return task.build_model(model_config(name.partition(",")[0], **SIZES, **MODELS[name])).cuda()


def create_batch():
    """Create a batch of random documents and summaries on the GPU."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, WORDS, (BATCH, DOCUMENT), generator=generator)
    target = torch.randint(4, WORDS, (BATCH, SUMMARY), generator=generator)
    net_input = {"src_tokens": source, "src_lengths": torch.full((BATCH,), DOCUMENT), "prev_output_tokens": target}
    net_input = {key: value.cuda() for key, value in net_input.items()}
    return {"id": torch.arange(BATCH), "net_input": net_input, "target": target.cuda(), "ntokens": target.numel()}


def measure_median_time(step):
    """Measure the median time of a call in milliseconds, after warm-up calls that are not measured."""
    times = []
    for number in range(WARM_UPS + TIMES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if number >= WARM_UPS:
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def measure_peak_memory(step):
    """Measure the peak GPU memory of a call in MiB, not counting the memory allocated before the call.

    On a simulated GPU, the result is 0.
    """
    if PRETENDED:
        return 0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return round((torch.cuda.max_memory_allocated() - before) / 2**20)


def measure_training(task, name, dtype):
    """Measure the time and memory of the forward and backward passes for a batch, in milliseconds and megabytes."""
    model, sample = build_model(name, task).train(), create_batch()
    model = model if dtype == torch.float32 else model.to(dtype)
    options = {"label_smoothing": 0.1}
    criterion = task.build_criterion(make_criterion_options(name, options))

    def train_step():
        model.zero_grad(set_to_none=True)
        criterion(model, sample)[0].backward()

    return measure_median_time(train_step), measure_peak_memory(train_step)


def make_criterion_options(name, options):
    """Return the options of the criterion for a model. fairseq's model is trained with fairseq's criterion."""
    from device_steps import options_of_criterion

    kind = "label_smoothed_cross_entropy" if name == FAIRSEQ else "summarization_nll"
    return options_of_criterion(kind, **options)


def measure_search(task, name, dtype):
    """Measure the time and memory of a search, in milliseconds and megabytes.

    The beam size is 5, and all summaries have the maximum length.
    """
    model, sample = build_model(name, task).eval(), create_batch()
    model = model if dtype == torch.float32 else model.to(dtype)
    sample["net_input"].pop("prev_output_tokens")
    options = {"beam_size": 5, "max_len_b": SUMMARY, "min_len": SUMMARY}
    kind = SequenceGenerator if name == FAIRSEQ else SummaryGenerator
    generator = kind([model], task.target_dictionary, **options)
    with torch.no_grad():
        return measure_median_time(lambda: generator.generate([model], sample)), measure_peak_memory(
            lambda: generator.generate([model], sample)
        )


def measure_training_and_search():
    """Measure the milliseconds (or the error message) and the megabytes for each table row and model.

    The name of a row has the form "what, format".
    """
    rows, memory = {}, {}
    for what, measure in (("training step", measure_training), ("search", measure_search)):
        for number_format, dtype in FORMATS.items():
            row = f"{what}, {number_format}"
            rows[row], memory[row] = {}, {}
            for name in (FAIRSEQ, *MODELS):
                try:
                    milliseconds, memory[row][name] = measure(make_measurement_task(), name, dtype)
                    rows[row][name] = round(milliseconds, 2)
                except RuntimeError as error:  # the memory is too small, or the GPU does not support the format
                    rows[row][name] = str(error).splitlines()[0]
    return rows, memory


def format_report(report):
    """Format the report as text."""
    tests = report["tests"]
    yield f"{report['gpu']['name']}, capability {report['gpu']['capability']}, torch {report['machine']['torch']}"
    bad = tests["failures"] + tests["errors"]
    yield f"tests: {tests['tests'] - bad - tests['skipped']} passed, {bad} failed, {tests['skipped']} skipped"
    yield from (f"  failed: {name}" for name in tests["failed"])
    yield "milliseconds, medians" + (" (THE GPU IS PRETENDED: these times mean nothing)" if PRETENDED else "")
    names = [FAIRSEQ, *MODELS]
    yield " ".join([f"{'':22}", *(f"{name:>22}" for name in names)])
    for row, values in report["milliseconds"].items():
        yield " ".join([f"{row:22}", *(f"{values[name]!s:>22.22}" for name in names)])
    yield "megabytes of a step at most, beyond weights"
    for row, values in report["megabytes"].items():
        yield " ".join([f"{row:22}", *(f"{values.get(name, '-')!s:>22}" for name in names)])
    for name, value in sorted(tests["figures"].items()):
        if "waits" in name:
            yield f"waits: {value}"
        elif "kernels" in name:
            yield f"kernels of torch: {value}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "gpu_check: torch finds no GPU here; --pretended tests this script on a simulated GPU\n")
    logging.disable(logging.INFO)
    started = time.time()
    capability = ".".join(map(str, torch.cuda.get_device_capability()))
    properties = torch.cuda.get_device_properties(0)
    milliseconds, megabytes = measure_training_and_search()
    report = {
        "gpu": {"name": properties.name, "capability": capability, "memory": properties.total_memory},
        "pretended": PRETENDED,
        "machine": describe_machine(),
        "fairseq_etads": fairseq_etads.__version__,
        "sizes": {"words": WORDS, "document": DOCUMENT, "summary": SUMMARY, "batch": BATCH, **SIZES},
        "milliseconds": milliseconds,
        "megabytes": megabytes,
        "tests": run_tests(),
    }
    report["seconds"] = round(time.time() - started, 1)
    args.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print("\n".join(format_report(report)))
    print(f"the report: {args.report}")
    sys.exit(bool(report["tests"]["failures"] + report["tests"]["errors"]))


if __name__ == "__main__":
    main()
