"""Every combination of the Transformer's mechanisms runs, and costs the parameters that docs/options.md says."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from helpers import EOS, PAD, SMALL, make_batch, make_model, make_task

from fairseq_etads.pointer import pointer_of

CHOICES = {
    "focus_layers": ["none", "all"],
    "saliency_layers": ["none", "all"],
    "pointer": ["none", "soft", "switch"],
    "aggregation": ["none", "add", "proj", "attn"],
    "encoder_gate": [False, True],
    "share_encoder_decoder_layers": [False, True],
}
D, F, N = SMALL["encoder_embed_dim"], SMALL["encoder_ffn_embed_dim"], SMALL["encoder_layers"]
COSTS = {
    ("focus_layers", "all"): "N * (2 * d**2 + 2 * d)",
    ("saliency_layers", "all"): "N * 2 * d**2",
    ("pointer", "soft"): "d**2 + 2 * d + 1",
    ("pointer", "switch"): "d**2 + 2 * d + 1",
    ("aggregation", "add"): "0",
    ("aggregation", "proj"): "L * d**2 + d + 4 * (d**2 + d)",
    ("aggregation", "attn"): "4 * L * (d**2 + d)",
    ("encoder_gate", True): "2 * d**2 + d",
    ("share_encoder_decoder_layers", True): "-N * (4 * d**2 + 2 * d * f + 9 * d + f)",
}


def cost(formula, d=D, f=F, N=N, L=1):  # noqa: N803  # the names of docs/options.md
    return eval(formula, {"d": d, "f": f, "N": N, "L": L})


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


MEMORY = list(itertools.product(*(CHOICES[name] for name in list(CHOICES)[3:])))


@pytest.mark.parametrize("layers,pointer", [("none", "none"), ("none", "soft"), ("all", "none"), ("all", "switch")])
def test_combinations_run_and_their_costs_add_up(layers, pointer, documents):
    task = make_task(tail=20)
    plain = count(make_model("etads_basic", task))
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6]]).expand(len(documents), -1)
    for memory in MEMORY:
        options = dict(zip(CHOICES, (layers, layers, pointer, *memory)))
        model = make_model("etads_basic", task, **options).train()
        expected = plain + sum(cost(COSTS[choice]) for choice in options.items() if choice in COSTS)
        assert count(model) == expected, options
        net_output = model(tokens, tokens.ne(PAD).sum(1), previous)
        log_probs = model.get_normalized_probs(net_output, log_probs=True)
        total = log_probs.exp().sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)
        log_probs[..., 7].sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters()), options
        assert (pointer_of(model) is None) == (options["pointer"] == "none")


def test_the_documents_numbers_are_those_of_the_formulas():
    page = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
    for (option, value), formula in COSTS.items():
        flag = f"--{option.replace('_', '-')}" + (f" {value}" if option in ("pointer", "aggregation") else "")
        row = next(row for row in page.splitlines() if row.startswith(f"| `{flag}") or f" or `{value}` |" in row)
        layers = 1 if option in ("focus_layers", "saliency_layers") else 4
        written = int(re.findall(r"-?[\d,]+", row.split("|")[3])[0].replace(",", ""))
        assert written == cost(formula, d=512, f=2048, N=layers), row
