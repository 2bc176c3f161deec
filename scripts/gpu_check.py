"""Implementation of gpu_check.sh: time training steps and searches on a GPU, run tests/gpu, and write a report."""

import argparse
import collections
import json
import logging
import sys
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch.utils.benchmark import Timer

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "e2e"), str(TESTS / "gpu")]

from device_steps import PRETENDED, options_of_criterion  # noqa: E402
from helpers import make_dictionary, make_task, model_config  # noqa: E402

import fairseq_etads  # noqa: E402
from fairseq_etads.generation import SummaryGenerator  # noqa: E402

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MODELS = {  # etads_basic is a plain Transformer
    "fairseq's transformer": ("transformer", {}),
    "etads_basic": ("etads_basic", {}),
    "etads": ("etads", {}),
    "etads, pointer": ("etads", {"pointer": "soft"}),
}
WORDS, DOCUMENT, SUMMARY, BATCH, RUNS = (200, 30, 6, 2, 1) if PRETENDED else (50_000, 400, 60, 32, 20)
SIZES = {"layers": 6, "embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
SIZES = {"layers": 1, "embed_dim": 32, "ffn_embed_dim": 32, "attention_heads": 2} if PRETENDED else SIZES
"""Words in the dictionary, tokens per document and summary, pairs per batch, measured runs; sizes of the models."""


class Outcomes(list):
    """A plugin of pytest that collects (outcome, test)."""

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.append((report.outcome, report.nodeid))


def measure(arch, options, dtype):
    """Return the milliseconds of the forward and backward pass of a batch, and of its search with a beam of 5."""
    task = make_task(truncate_source=DOCUMENT, truncate_target=SUMMARY)
    task.src_dict = task.tgt_dict = make_dictionary(words=WORDS)
    torch.manual_seed(1)
    sizes = {f"{part}_{option}": value for part in ("encoder", "decoder") for option, value in SIZES.items()}
    config = model_config(arch, **sizes, **options, dropout=0.1, share_all_embeddings=True)
    if arch == "transformer":
        model, loss = ARCH_MODEL_REGISTRY[arch].build_model(config, task), "label_smoothed_cross_entropy"
    else:
        model, loss = task.build_model(config), "summarization_nll"
    model, criterion = model.to("cuda", dtype), task.build_criterion(options_of_criterion(loss, label_smoothing=0.1))
    documents, summaries = (torch.randint(4, WORDS, (BATCH, length)).cuda() for length in (DOCUMENT, SUMMARY))
    net_input = {"src_tokens": documents, "src_lengths": torch.full((BATCH,), DOCUMENT).cuda()}
    sample = {"id": torch.arange(BATCH), "net_input": {**net_input, "prev_output_tokens": summaries}}
    sample.update(target=summaries, ntokens=summaries.numel())

    def train_step():
        model.zero_grad(set_to_none=True)
        criterion(model, sample)[0].backward()

    training = Timer("run()", globals={"run": train_step}).timeit(RUNS)
    kind = SequenceGenerator if arch == "transformer" else SummaryGenerator
    search = kind([model.eval()], task.target_dictionary, beam_size=5, max_len_b=SUMMARY, min_len=SUMMARY)
    searching = Timer("run()", globals={"run": lambda: search.generate([model], {"net_input": net_input})}).timeit(RUNS)
    return [round(found.mean * 1000, 2) for found in (training, searching)]


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("pytest", nargs="*", help="options of pytest, after --")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "gpu_check.sh: torch finds no GPU here\n")
    logging.disable(logging.INFO)
    report = {"gpu": torch.cuda.get_device_properties(0).name, "capability": torch.cuda.get_device_capability()}
    report.update(torch=torch.__version__, fairseq_etads=fairseq_etads.__version__)
    milliseconds = report["milliseconds"] = {}
    for name, (arch, options) in MODELS.items():
        for number_format, dtype in FORMATS.items():
            try:
                found = measure(arch, options, dtype)
            except RuntimeError as error:  # the memory is too small, or the GPU does not support the format
                found = [str(error).splitlines()[0]] * 2
            for what, value in zip(("training step", "search"), found):
                milliseconds.setdefault(f"{what}, {number_format}", {})[name] = value
    outcomes = Outcomes()
    status = pytest.main([str(TESTS / "gpu"), *args.pytest], plugins=[outcomes])
    report["tests"] = collections.Counter(outcome for outcome, _ in outcomes)
    report["failed"] = [test for outcome, test in outcomes if outcome == "failed"]
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(args.out.read_text(encoding="utf-8"))
    sys.exit(int(status != 0))


if __name__ == "__main__":
    main()
