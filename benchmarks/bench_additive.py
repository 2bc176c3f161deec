"""Measure the training cost of long documents for recurrent models on a CPU, compared with plain torch code.

    python benchmarks/bench_additive.py [--output benchmarks/results/additive.json]

- Attention: 100 steps over 50 documents of 400 words. The query of each step depends on the result of the previous
  step. Keys have width 200 and states have width 400, as in the paper for CNN/Daily Mail. "plain" is the formula with
  autograd, and "stepwise" is fairseq_etads.layers.additive.
- GRU: a bidirectional GRU over documents of 200 to 400 words. "packed" is torch's GRU with packed sequences, and "both
  ways" is the method of fairseq_etads.models.rnn_encoder on a CPU.

A run consists of a forward pass and a backward pass. The implementations alternate, and times are medians. Peak memory
is not measured.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from benchmark_records import compare_with_reference_system, write_record

from fairseq_etads.layers.additive import SharedKeys, SharedStates
from fairseq_etads.layers.recurrent import BidirectionalGRU

DOCUMENTS, WORDS, STEPS, HIDDEN = 50, 400, 100, 200


def create_plain_attention(keys, states, weight):
    def compute_scores(query):
        return torch.tanh(query[:, :, None] + keys[:, None]) @ weight

    return compute_scores, lambda shares: torch.bmm(shares, states)


def create_stepwise_attention(keys, states, weight):
    steps, memory = SharedKeys(keys), SharedStates(states)
    return lambda query: steps.compute_scores(query, weight), memory.compute_weighted_sum


def run_attention_steps(readers, inputs):
    """Run all attention steps.

    Each query is a part of the previous context vector, so that each step depends on the previous step.
    """
    scores, read = readers(*inputs)
    query, total = torch.zeros(DOCUMENTS, 1, HIDDEN), torch.zeros(())
    for _ in range(STEPS):
        context = read(scores(query).softmax(dim=-1))
        query, total = context[..., :HIDDEN], total + context.sum()
    return total


def time_implementations(forms, runs):
    """Return a dictionary from each implementation to the seconds of each run.

    Each function must return a scalar that requires a gradient.
    """
    seconds = {name: [] for name in forms}
    for run in range(runs + 1):
        for name, form in forms.items():
            started = time.perf_counter()
            form().backward()
            if run:  # the first run is a warm-up
                seconds[name].append(time.perf_counter() - started)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "additive.json")
    parser.add_argument(
        "--runs", type=int, default=5, help="number of timed runs per implementation (default: %(default)s)"
    )
    args = parser.parse_args()
    torch.manual_seed(0)
    inputs = [torch.randn(DOCUMENTS, WORDS, width).requires_grad_() for width in (HIDDEN, 2 * HIDDEN)]
    inputs.append(torch.randn(HIDDEN).requires_grad_())
    attention = time_implementations(
        {
            "plain": lambda: run_attention_steps(create_plain_attention, inputs),
            "stepwise": lambda: run_attention_steps(create_stepwise_attention, inputs),
        },
        args.runs,
    )
    gru, words = BidirectionalGRU(HIDDEN // 2, HIDDEN), torch.randn(DOCUMENTS, WORDS, HIDDEN // 2).requires_grad_()
    lengths = torch.linspace(WORDS // 2, WORDS, DOCUMENTS).long()
    recurrent = time_implementations(
        {
            "packed": lambda: gru._run_packed(words, lengths)[0].sum(),
            "both ways": lambda: gru._run_directions(words, lengths)[0].sum(),
        },
        args.runs,
    )
    report = {
        "run": f"{DOCUMENTS} documents of {WORDS} words, {STEPS} steps, width {HIDDEN}, float32, forward and backward",
        "runs": args.runs,
        "seconds of attention": compare_with_reference_system(attention, "stepwise"),
        "seconds of the GRU": compare_with_reference_system(recurrent, "both ways"),
    }
    print(json.dumps(report, indent=2))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
