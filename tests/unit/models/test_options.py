"""The mechanisms have the numbers of parameters in docs/options.md, alone and together."""

import re
from pathlib import Path

import pytest
import torch
from helpers import EOS, PAD, RECURRENT, SMALL, make_batch, make_dictionary, make_model, make_task

from fairseq_etads.vocabulary.dictionary import count_known_words

PAGE = (Path(__file__).parents[3] / "docs" / "options.md").read_text(encoding="utf-8")
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
LAYERS_AND_POINTER = [("none", "none"), ("none", "soft"), ("all", "none"), ("all", "switch")]
FOCUS, SALIENCY, SWITCH = {"focus_layers": "all"}, {"saliency_layers": "all"}, {"pointer": "switch"}
OF_SENTENCES = {"hierarchical_attention": True}
NEEDS = {
    **{"focus_center": FOCUS, "focus_initial_scope": FOCUS, "focus_strength": FOCUS, "saliency_gate": SALIENCY},
    **{"pointer_initial_generate": SWITCH, "pointer_continue": SWITCH, "encoder_by_sentence": OF_SENTENCES},
    **{"sentence_gate": OF_SENTENCES, "sentence_selector": OF_SENTENCES},
    **{"encoder": {"bridge": "zero"}, "input_feed": {"attention_query": "after"}},
}
"""Options that others need beside them."""
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
OTHER_RECURRENT_COSTS = {
    ("bridge", "zero"): "-(2 * h + 1) * g",
    ("attention_score", "dot"): "-(g + e + 2) * a + 2 * h * (g - a)",
    ("readout", "none"): "-(g + e + 2 * h + 1) * e + V * (g + 2 * h - e)",
    ("readout", "luong"): "-(e + 1) * e",
    ("encoder", "conv"): "-6*h*(e + h) - 12*h - 2*h*(a + 3*g + e) + 200*e + (5*e + 1)*a + 3*e*g + e**2",
    ("encoder_gate", "selective"): "8 * h**2 + 2 * h",
    ("input_feed", "readout"): "3 * g * (e - 2 * h)",
    ("output_bias", False): "-V",
}
"""Choices beside those of RECURRENT_COSTS, all of which go together."""
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
TABLES = ("share_input_embeddings", "share_decoder_input_output_embed", "share_all_embeddings")


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def cost(options, formulas, together, sizes):
    """Sum the formulas of options, and of pairs of them."""
    found = [formulas[choice] for choice in options.items() if choice in formulas]
    found += [formula for pair, formula in together.items() if options.keys() >= {*pair}]
    return sum(eval(formula, dict(sizes)) for formula in found)


def with_needs(name, value):
    return {**NEEDS.get(name, {}), name: value}


def assert_sums_to_one(model, net_output):
    total = model.get_normalized_probs(net_output, log_probs=False).sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers,pointer", LAYERS_AND_POINTER)
def test_costs_of_transformers_add_up(layers, pointer, documents):
    """Each option alone and all at once, with each choice of layers and pointer."""
    task = make_task(tail=20)
    sizes = {"d": SMALL["encoder_embed_dim"], "f": SMALL["encoder_ffn_embed_dim"], "N": SMALL["encoder_layers"]}
    sizes.update(H=4, L=1, V=44, n=0, w=0)
    base = {"focus_layers": layers, "saliency_layers": layers, "pointer": pointer}
    others = dict(choice for choice in COSTS if choice[0] not in (*base, "source_factors"))
    plain = count(make_model("etads_basic", task))
    singles = [choice for choice in COSTS if choice[0] not in (*base, "source_factors")]
    for options in [*(with_needs(*choice) for choice in singles), {**SALIENCY, **FOCUS, **SWITCH, **others}]:
        chosen = {**base, **options}
        expected = plain + cost(chosen, COSTS, {}, sizes)
        assert count(make_model("etads_basic", task, **chosen)) == expected, chosen
    model = make_model("etads_basic", task, **chosen).train()
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6]]).expand(len(documents), -1)
    assert_sums_to_one(model, model(tokens, tokens.ne(PAD).sum(1), previous))


def test_costs_of_the_recurrent_family_add_up():
    """Each option alone, pairs with a formula of their own, and everything at once."""
    task = make_task(tail=20, mark=True)
    task.factor_dictionaries = {"pos": make_dictionary(words=6)}
    mark, factor = task.source_dictionary.index("<q>"), task.factor_dictionaries["pos"]
    sizes = {"h": RECURRENT["encoder_hidden_size"], "g": RECURRENT["encoder_hidden_size"] + 2}
    sizes.update(a=RECURRENT["attention_dim"], e=RECURRENT["encoder_embed_dim"], n=len(factor), w=3, x=128, k=200)
    sizes["V"] = count_known_words(task.source_dictionary)
    small = {**RECURRENT, "decoder_hidden_size": sizes["g"]}
    formulas, values = {**RECURRENT_COSTS, **OTHER_RECURRENT_COSTS}, dict(iter(RECURRENT_COSTS))
    plain = count(make_model("gru_seq2seq", task, **small))
    singles = [with_needs(*choice) for choice in formulas]
    pairs = [{**with_needs(a, values[a]), **with_needs(b, values[b])} for a, b in RECURRENT_TOGETHER]
    at_once = {name: value for name, value in values.items() if name != TABLES[0]}
    for options in [*singles, *pairs, at_once]:
        model = make_model("gru_seq2seq", task, **{**small, **options}).train()
        expected = plain + cost(options, formulas, RECURRENT_TOGETHER, sizes)
        if options.keys() >= {*TABLES[1:]}:
            expected += sizes["V"] * sizes["e"]  # what the other has saved
        assert count(model) == expected, options
    tokens = make_batch([[5, 6, mark, 7, 8, mark], [9, len(task.source_dictionary) - 1]])
    net_input = {"factors": torch.full((*tokens.shape, 1), 5), "prev_output_tokens": torch.tensor([[EOS, 5, 6]] * 2)}
    assert_sums_to_one(model, model(tokens, tokens.ne(PAD).sum(1), **net_input))


def find_number(page, option, value):
    """The number of parameters in the row of an option, or of its value where it has a row of its own."""
    name = option.replace("_", "-")
    names = [f"| `--no-{name}`" if value is False else f"| `--{name} {value}`", f" or `{value}` |", f"| `--{name}"]
    rows = page.splitlines()
    row = next(row for wanted in names for row in rows if wanted in row)
    return int(re.findall(r"-?[\d,]+", row.split("|")[3])[0].replace(",", "")), row


def test_the_documents_numbers_are_those_of_the_formulas():
    transformers, recurrent = PAGE.split("## The recurrent family")
    sizes = {"d": 512, "f": 2048, "H": 8, "L": 1, "V": 50000, "n": 50, "w": 10}
    for (option, value), formula in COSTS.items():
        written, row = find_number(transformers, option, value)
        layers = 1 if option.startswith(("focus", "saliency")) else 4
        assert written == eval(formula, {**sizes, "N": layers}), row
    sizes = {"h": 400, "g": 400, "a": 400, "e": 200, "V": 50000, "n": 50, "w": 10, "x": 128, "k": 200}
    for (option, value), formula in {**RECURRENT_COSTS, **OTHER_RECURRENT_COSTS}.items():
        written, row = find_number(recurrent, option, value)
        assert written == eval(formula, dict(sizes)), row
