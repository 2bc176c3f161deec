"""Combinations of a family's mechanisms run, and have the numbers of parameters in docs/options.md."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from helpers import EOS, PAD, RECURRENT, SMALL, make_batch, make_dictionary, make_model, make_task

from fairseq_etads.layers.decoder_output import get_pointer
from fairseq_etads.vocabulary.dictionary import count_known_words

CHOICES = {
    "focus_layers": ["none", "all"],
    "saliency_layers": ["none", "all"],
    "pointer": ["none", "soft", "switch"],
    "pointer_continue": [False, True],
    "aggregation": ["none", "add", "proj", "attn"],
    "encoder_gate": [False, True],
    "share_encoder_decoder_layers": [False, True],
    "output_bias": [False, True],
    "encoder_neighbours": [0, 1],
    "decoder_neighbours": [0, 1],
}
FORMS = {"focus_center": "relative", "focus_initial_scope": "2", "focus_strength": "learned", "saliency_gate": "open"}
"""Forms of the mechanisms in chosen layers; their parameters do not depend on other options, so all are tried at
once.
"""
D, F, N = SMALL["encoder_embed_dim"], SMALL["encoder_ffn_embed_dim"], SMALL["encoder_layers"]
COSTS = {
    ("focus_layers", "all"): "N * (2 * d**2 + 2 * d)",
    ("saliency_layers", "all"): "N * 2 * d**2",
    ("focus_center", "relative"): "N * H",
    ("focus_initial_scope", "2"): "0",
    ("focus_strength", "learned"): "N * H",
    ("saliency_gate", "open"): "2 * N * H",
    ("pointer", "soft"): "d**2 + 2 * d + 1",
    ("pointer", "switch"): "d**2 + 2 * d + 1",
    ("pointer_continue", True): "3 * d + 5",
    ("pointer_initial_generate", 0.9): "0",
    ("aggregation", "add"): "0",
    ("aggregation", "proj"): "L * d**2 + d + 4 * (d**2 + d)",
    ("aggregation", "attn"): "4 * L * (d**2 + d)",
    ("encoder_gate", True): "2 * d**2 + d",
    ("share_encoder_decoder_layers", True): "-N * (4 * d**2 + 2 * d * f + 9 * d + f)",
    ("output_bias", True): "V",
    ("source_factors", "pos:3"): "(n + d) * w",
    ("encoder_neighbours", 1): "2 * d**2",
    ("decoder_neighbours", 1): "d**2",
}


RECURRENT_CHOICES = {
    "large_vocabulary_trick": [0, 25],
    "source_factors": ["none", "pos:3"],
    "hierarchical_attention": [False, True],
    "encoder_by_sentence": [False, True],
    "sentence_gate": [False, True],
    "sentence_selector": [False, True],
    "temporal_attention": [False, True],
    "sentence_attention": ["none", "extractor"],
    "coverage": [False, True],
    "pointer": ["none", "soft", "switch"],
    "pointer_continue": [False, True],
    "encoder_layers": [1, 2],
    "rnn_cell": ["gru", "lstm"],
    "bridge": ["tanh", "relu"],
    "merge_input": [False, True],
    "attention_query": ["before", "after"],
    "readout": ["tanh", "linear"],
    "paper_init": [False, True],
    "share_input_embeddings": [False, True],
    "share_decoder_input_output_embed": [False, True],
    "share_all_embeddings": [False, True],
}
RECURRENT_COSTS = {
    ("large_vocabulary_trick", 25): "0",
    ("source_factors", "pos:3"): "(n + 6 * h) * w",
    ("hierarchical_attention", True): "18 * h**2 + 12 * h + 3200 + (2 * h + 32) * a + (g + e) * a + 2 * a",
    ("encoder_by_sentence", True): "0",
    ("sentence_gate", True): "8 * h**2 + 2 * h",
    ("sentence_selector", True): "8 * g * h + 7 * g**2 + 6 * g - 3200 - (32 + e) * a",
    ("temporal_attention", True): "0",
    ("sentence_attention", "extractor"): "V * x + 6 * x * k + 30 * k**2 + 27 * k + 1",
    ("coverage", True): "a",
    ("pointer", "soft"): "g + e + 2 * h + 1",
    ("pointer", "switch"): "g + e + 2 * h + 1",
    ("pointer_continue", True): "3 * (g + e + 2 * h) + 5",
    ("encoder_layers", 2): "18 * h**2 + 12 * h",
    ("rnn_cell", "lstm"): "2 * h * (e + h) + g * (e + g + 4 * h + a) - 4 * h - g",
    ("bridge", "relu"): "0",
    ("merge_input", True): "(e + 2 * h) * e + e - 6 * g * h",
    ("attention_query", "after"): "-e * a",
    ("readout", "linear"): "-e * e",
    ("paper_init", True): "0",
    ("share_input_embeddings", True): "-V * e",
    ("share_decoder_input_output_embed", True): "-V * e",
    ("share_all_embeddings", True): "-2 * V * e",
}


RECURRENT_TOGETHER = {
    ("rnn_cell", "source_factors"): "2 * h * w",
    ("rnn_cell", "encoder_layers"): "6 * h**2 - 4 * h",
    ("rnn_cell", "hierarchical_attention"): "g * a",
    ("rnn_cell", "pointer"): "g",
    ("rnn_cell", "pointer_continue"): "3 * g",
    ("rnn_cell", "merge_input"): "-2 * g * h",
    ("attention_query", "hierarchical_attention"): "-e * a",
    ("rnn_cell", "sentence_selector"): "g**2 - g * a",
    ("attention_query", "sentence_selector"): "e * a",
}
"""Additional parameters of two options together."""
OF_SENTENCES = {"encoder_by_sentence", "sentence_gate", "sentence_selector"}
ONE_TABLE = ("share_input_embeddings", "share_decoder_input_output_embed", "share_all_embeddings")


def cost(formula, **sizes):
    """Evaluate a formula of docs/options.md, by its names."""
    return eval(formula, {"d": D, "f": F, "N": N, "H": 4, "L": 1, "V": 44, **sizes})


NAMED = ("pointer", "aggregation", "focus_center", "focus_strength", "saliency_gate")
"""Options with rows for their values on the page."""


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


LAYERS_AND_POINTER = [("none", "none"), ("none", "soft"), ("all", "none"), ("all", "switch")]


@pytest.mark.parametrize("part,layers,pointer", [(part, *other) for part, other in enumerate(LAYERS_AND_POINTER)])
def test_combinations_run_and_their_costs_add_up(part, layers, pointer, documents):
    """All combinations of the other options, a quarter of them with each choice of layers and pointer."""
    task = make_task(tail=20)
    plain = count(make_model("etads_basic", task))
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6]]).expand(len(documents), -1)
    others = list(CHOICES)[4:]
    for places in itertools.product(*(range(len(CHOICES[name])) for name in others)):
        if sum(places) % len(LAYERS_AND_POINTER) != part:
            continue
        options = dict(zip(CHOICES, (layers, layers, pointer, pointer != "none")))
        options.update({name: CHOICES[name][place] for name, place in zip(others, places)})
        if pointer == "switch":
            options.update(FORMS, pointer_initial_generate=0.9)
        model = make_model("etads_basic", task, **options).train()
        expected = plain + sum(cost(COSTS[choice]) for choice in options.items() if choice in COSTS)
        assert count(model) == expected, options
        net_output = model(tokens, tokens.ne(PAD).sum(1), previous)
        log_probs = model.get_normalized_probs(net_output, log_probs=True)
        total = log_probs.exp().sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)
        log_probs[..., 7].sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters()), options
        assert (get_pointer(model) is None) == (options["pointer"] == "none")


def test_the_documents_numbers_are_those_of_the_formulas():
    page = (Path(__file__).parents[3] / "docs" / "options.md").read_text(encoding="utf-8")
    for (option, value), formula in COSTS.items():
        flag = f"--{option.replace('_', '-')}" + (f" {value}" if option in NAMED else "")
        row = next(row for row in page.splitlines() if row.startswith(f"| `{flag}") or f" or `{value}` |" in row)
        layers = 1 if option.startswith(("focus", "saliency")) else 4
        written = int(re.findall(r"-?[\d,]+", row.split("|")[3])[0].replace(",", ""))
        assert written == cost(formula, d=512, f=2048, N=layers, H=8, V=50000, n=50, w=10), row


def test_combinations_of_the_recurrent_family_run_and_their_costs_add_up():
    """Every pair of choices, and everything at once."""
    task = make_task(tail=20, mark=True)
    task.factor_dictionaries = {"pos": make_dictionary(words=6)}
    mark, factor = task.source_dictionary.index("<q>"), task.factor_dictionaries["pos"]
    sizes = {
        "h": RECURRENT["encoder_hidden_size"],
        "g": RECURRENT["encoder_hidden_size"] + 2,
        "a": RECURRENT["attention_dim"],
        "e": RECURRENT["encoder_embed_dim"],
        "V": count_known_words(task.source_dictionary),
        "n": len(factor),
        "w": 3,
    }
    small = {**RECURRENT, "decoder_hidden_size": sizes["g"]}
    sizes.update(x=128, k=200)  # the extractor's defaults
    plain = count(make_model("gru_seq2seq", task, **small))
    tokens = make_batch([[5, 6, mark, 7, 8, mark], [9, len(task.source_dictionary) - 1]])
    previous, values = torch.tensor([[EOS, 5, 6]] * 2), torch.full((*tokens.shape, 1), 5)
    singles = [(name, value) for name, values in RECURRENT_CHOICES.items() for value in values[1:]]
    pairs = [dict(pair) for pair in itertools.combinations(singles, 2) if pair[0][0] != pair[1][0]]
    pairs = [{"pointer": "soft", **pair} if "pointer_continue" in pair else pair for pair in pairs]
    pairs = [{"hierarchical_attention": True, **pair} if OF_SENTENCES & {*pair} else pair for pair in pairs]
    pairs = [pair for pair in pairs if len(set(ONE_TABLE).intersection(pair)) < 2]  # test_recurrent_options.py
    at_once = {name: values[-1] for name, values in RECURRENT_CHOICES.items() if name != ONE_TABLE[0]}
    for options in [*pairs, at_once]:
        model = make_model("gru_seq2seq", task, **{**small, **options}).train()
        costs = [cost(RECURRENT_COSTS[choice], **sizes) for choice in options.items()]
        costs += [cost(RECURRENT_TOGETHER[two], **sizes) for two in RECURRENT_TOGETHER if options.keys() >= {*two}]
        if options.get("share_all_embeddings") and options.get("share_decoder_input_output_embed"):
            costs.remove(-sizes["V"] * sizes["e"])  # what the other has saved
        assert count(model) == plain + sum(costs), options
        given = {"factors": values} if "source_factors" in options else {}
        net_output = model(tokens, tokens.ne(PAD).sum(1), prev_output_tokens=previous, **given)
        total = model.get_normalized_probs(net_output, log_probs=False).sum(-1)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)


def test_the_documents_numbers_of_the_recurrent_family_are_those_of_the_formulas():
    page = (Path(__file__).parents[3] / "docs" / "options.md").read_text(encoding="utf-8")
    page = page[page.index("## The recurrent family") :]
    paper = {"h": 400, "g": 400, "a": 400, "e": 200, "V": 50000, "n": 50, "w": 10, "x": 128, "k": 200}
    for (option, _), formula in RECURRENT_COSTS.items():
        row = next(row for row in page.splitlines() if row.startswith(f"| `--{option.replace('_', '-')}"))
        written = int(re.findall(r"-?[\d,]+", row.split("|")[3])[0].replace(",", ""))
        assert written == cost(formula, **paper), row
