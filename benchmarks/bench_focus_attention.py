"""Measure the time of focus-attention compared with plain fused attention, and the error compared with float64.

    python benchmarks/bench_focus_attention.py [--output benchmarks/results/focus_attention.json]
    python benchmarks/bench_focus_attention.py --simulate-tf32

"plain" is torch's scaled_dot_product_attention without any bias, "direct" adds the S x S bias of equation 7, "two
columns" is the rank-2 identity without splitting the coefficients, and "focus" is fairseq_etads.kernels.focus. Times
are medians of interleaved forward and backward passes, and errors are maxima over the output. With ``--simulate-tf32``,
the script measures only the errors of the forms in fairseq_etads.kernels.focus. It replaces fused attention with a
function that multiplies float32 numbers in split TF32, in which each number is the sum of two 11-bit numbers.
"""

import argparse
import math
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from benchmark_records import compare_with_reference_system, write_record

from fairseq_etads.kernels.focus import FOCUS_FORMS, focal_bias, focus_attention


def attend_without_bias(q, k, v, center, scope):
    return F.scaled_dot_product_attention(q, k, v)


def attend_with_bias_matrix(q, k, v, center, scope):
    positions = torch.arange(k.size(2), dtype=q.dtype)[None]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + focal_bias(center, scope, positions)
    return torch.softmax(scores, dim=-1) @ v


def attend_with_two_columns(q, k, v, center, scope):
    """Compute focus-attention with 8 additional columns per head, six of them padding.

    The columns add -2/s² t² + 4c/s² t to the scores, where the positions t are centred and scaled.
    """
    length, width = k.shape[2:]
    t = (torch.arange(length, dtype=q.dtype) - (length - 1) / 2) / length
    c, s = (center - (length - 1) / 2) / length, scope / length
    queries = F.pad(torch.stack([-2 / s**2, 4 * c / s**2], dim=-1) * math.sqrt(width), (0, 6))
    keys = F.pad(torch.stack([t * t, t], dim=-1), (0, 6)).expand(*k.shape[:2], length, 8)
    out = F.scaled_dot_product_attention(
        torch.cat([q, queries], -1), torch.cat([k, keys], -1), F.pad(v, (0, 8)), scale=1 / math.sqrt(width)
    )
    return out[..., :width]


FORMS = {
    "plain": attend_without_bias,
    "direct": attend_with_bias_matrix,
    "two columns": attend_with_two_columns,
    "focus": focus_attention,
}


def time_implementations(batch, heads, length, width, runs):
    """Return a dictionary from each implementation to the seconds of each run. The implementations alternate."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(batch, heads, length, width, generator=generator).requires_grad_() for _ in range(3)]
    inputs.append((torch.rand(batch, heads, length, generator=generator) * length).requires_grad_())
    inputs.append((torch.rand(batch, heads, length, generator=generator) * length + 1).requires_grad_())
    seconds = {name: [] for name in FORMS}
    for run in range(runs + 1):
        for name, form in FORMS.items():
            started = time.perf_counter()
            form(*inputs).sum().backward()
            if run:  # the first run is a warm-up
                seconds[name].append(time.perf_counter() - started)
    return seconds


def measure_attention_errors(length, scope, heads=8, width=64):
    """Measure the largest error of each implementation's output compared with float64.

    The scopes are random numbers between ``scope`` and twice ``scope``.
    """
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, width, generator=generator) for _ in range(3))
    center = torch.rand(1, heads, length, generator=generator) * length
    sigma = scope * (1 + torch.rand(1, heads, length, generator=generator))
    exact = attend_with_bias_matrix(*(x.double() for x in (q, k, v, center, sigma)))
    forms = {name: form for name, form in FORMS.items() if name != "plain"}
    with torch.no_grad():
        return {name: float((form(q, k, v, center, sigma) - exact).abs().max()) for name, form in forms.items()}


def multiply_in_split_tf32(a, b):
    """Compute a @ b as three products of 11-bit numbers, like the float32 kernels on NVIDIA GPUs since Ampere."""
    halves = []
    for x in (a, b):
        high = ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
        low = (((x - high).view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
        halves.append((high, low))
    (a_high, a_low), (b_high, b_low) = halves
    return a_low @ b_high + a_high @ b_low + a_high @ b_high


def attend_in_split_tf32(q, k, v, attn_mask=None, dropout_p=0.0, scale=None):
    scores = multiply_in_split_tf32(q * (q.size(-1) ** -0.5 if scale is None else scale), k.transpose(-1, -2))
    return multiply_in_split_tf32((scores if attn_mask is None else scores + attn_mask).softmax(-1), v)


def measure_tf32_errors(length, scope, heads=4, width=64):
    """Measure the same errors as :func:`measure_attention_errors`, but with split TF32 products."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, width, generator=generator) for _ in range(3))
    center = torch.rand(1, heads, length, generator=generator) * length
    sigma = scope * (1 + torch.rand(1, heads, length, generator=generator))
    exact = attend_with_bias_matrix(*(x.double() for x in (q, k, v, center, sigma)))
    kernel = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = attend_in_split_tf32
    try:
        with torch.no_grad():
            forms = {form: focus_attention(q, k, v, center, sigma, form=form) for form in FOCUS_FORMS}
    finally:
        F.scaled_dot_product_attention = kernel
    return {form: float(f"{float((out - exact).abs().max()):.1e}") for form, out in forms.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "focus_attention.json")
    parser.add_argument(
        "--runs", type=int, default=15, help="number of timed runs per implementation (default: %(default)s)"
    )
    parser.add_argument(
        "--simulate-tf32",
        action="store_true",
        help="measure only the numerical errors, and simulate split-TF32 multiplication",
    )
    args = parser.parse_args()
    if args.simulate_tf32:
        for length in (400, 1024):
            for scope in (0.1, 0.3, 1, 5, 20):
                print(f"S={length}, sigma {scope}-{2 * scope}: {measure_tf32_errors(length, scope)}", flush=True)
        return
    report = {
        "shape": "B=8, H=8, D=64, float32, forward and backward",
        "seconds": {},
        "compared with plain": {},
        "errors": {},
    }
    for length in (400, 1024):
        taken = time_implementations(8, 8, length, 64, args.runs)
        medians = {name: statistics.median(s) for name, s in taken.items()}
        ratios = {f"{name} / plain": round(medians[name] / medians["plain"], 2) for name in FORMS if name != "plain"}
        report["seconds"][length] = {**{name: round(value, 4) for name, value in medians.items()}, **ratios}
        report["compared with plain"][length] = compare_with_reference_system(taken, "plain")
        print(f"S={length}: {report['seconds'][length]}", flush=True)
        report["errors"][length] = {
            scope: {k: float(f"{e:.1e}") for k, e in measure_attention_errors(length, scope).items()}
            for scope in (0.1, 0.3, 1, 5, 20)
        }
        for scope, found in report["errors"][length].items():
            print(f"S={length}, sigma {scope}-{2 * scope}: {found}", flush=True)
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
