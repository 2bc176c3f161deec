"""The mechanisms have the numbers of parameters in docs/options.md: its formulas in small models, and its numbers."""

import re

import convolutional
import language_models
import pytest
import torch
from documented import ROOT
from helpers import RECURRENT, SMALL, make_dictionary, make_model, make_task

PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
ARCHS = ("etads_basic", "gru_seq2seq", "convs2s", "abs")
SECTIONS = dict(zip(ARCHS, re.split("^## (?=The |ABS)", PAGE, flags=re.MULTILINE)[1:]))
MODELS = {
    "etads_basic": {**SMALL, "encoder_neighbours": 0, "decoder_neighbours": 0},
    "gru_seq2seq": {**RECURRENT, "decoder_hidden_size": RECURRENT["encoder_hidden_size"] + 2},
    "convs2s": {**convolutional.SIZES, "decoder_out_embed_dim": 12},  # as wide as word vectors, to share their table
    "abs": language_models.SIZES,
}
SMALL_SIZES = {
    "etads_basic": {"d": 32, "f": 48, "H": 4, "N": 2, "L": 1, "V": 44, "n": 10, "w": 3},
    "gru_seq2seq": {
        **{"h": 12, "g": 14, "a": 10, "e": 16, "V": 44, "n": 10, "w": 3, "x": 6, "k": 5},
        **{"q": 5, "r": 7, "m": 9},
    },
    "convs2s": {"e": 12, "r": 12, "w": 16, "V": 44},
    "abs": {"D": 12, "e": 10, "g": 8, "h": 14, "C": 5, "V": 44},
}
PAGES_SIZES = {
    "etads_basic": {"d": 512, "f": 2048, "H": 8, "N": 4, "L": 1, "V": 50000, "n": 50, "w": 10},
    "gru_seq2seq": {
        **{"h": 400, "g": 400, "a": 400, "e": 200, "V": 50000, "n": 50, "w": 10, "x": 128, "k": 200},
        **{"q": 5, "r": 200, "m": 400},
    },
    "convs2s": {"e": 512, "r": 256, "w": 512, "V": 50000},
    "abs": {"D": 200, "e": 200, "g": 200, "h": 400, "C": 5, "V": 50000},
}
VALUES = {
    **{"focus_layers": "all", "saliency_layers": "all", "source_factors": "pos:3", "embed_from_text": False},
    **{"focus_initial_scope": "2", "attention_kernel": "plain", "pointer_initial_generate": 0.9},
    **{"encoder_neighbours": 1, "decoder_neighbours": 1, "encoder_layers": 2, "large_vocabulary_trick": 25},
    **{"readout_dim": 7, "encoder_projection": 9, "uniform_init": 0.1, "output_bias_init": "zeros"},
    **{"dropout_at": "state", "decoder_attention": "[True, False, True]"},
}
"""Values of options that the page names without one, and that are no switches."""
OF_SENTENCES = {"hierarchical_attention": True}
FOCUS, SALIENCY, SWITCH = {"focus_layers": "all"}, {"saliency_layers": "all"}, {"pointer": "switch"}
NEEDS = {
    **{"focus_center": FOCUS, "focus_initial_scope": FOCUS, "focus_strength": FOCUS, "saliency_gate": SALIENCY},
    **{"pointer_initial_generate": SWITCH, "pointer_continue": SWITCH, "output_bias_init": {"output_bias": True}},
    **dict.fromkeys(("encoder_by_sentence", "sentence_gate", "sentence_selector"), OF_SENTENCES),
    **{"attention_kernel": FOCUS, "encoder": {"bridge": "zero"}},
    "input_feed": {"attention_query": "after", "readout_dim": 7},
}
"""Options that others need; without them, an option would be refused."""
EXTRACTOR = {"extractor_embed_dim": 6, "extractor_hidden_size": 5}
"""Sizes that belong to --sentence-attention."""
WITH_LSTM = {
    **{"source_factors": "2 h w", "encoder_layers": "6h² - 4h", "hierarchical_attention": "g a", "pointer": "g"},
    **{"pointer_continue": "3g", "closed_book_decoder": "g (e + g) - 2g", "sentence_selector": "g² - g a"},
    "merge_input": "-2g h",
}
"""What an option costs more with --rnn-cell lstm, as the page says."""


def evaluate(formula, sizes):
    """Value of a formula as people write it: letters are sizes, and what stands side by side is multiplied."""
    tokens = re.findall(r"\d+|[a-zA-Z]²?|[()+-]", formula)
    pairs = zip(tokens, [*tokens[1:], "+"])
    text = "".join(a + "*" * ((a.isalnum() or a == ")") and (b.isalnum() or b == "(")) for a, b in pairs)
    return eval(text.replace("²", "**2"), dict(sizes))


def rows(arch):
    """Options of a row of the page with their value, its formula, and its number."""
    for cells in re.findall(r"^\| (`--.+?) \| (.+?) \| (-?[\d,]+).* \|$", SECTIONS[arch], re.MULTILINE):
        names = re.findall(r"`(?:--([\w-]+))?(?: ?(\w+))?`", cells[0].partition(", with `")[0])
        option = None
        for name, value in names:
            option = name.replace("-", "_") or option
            option, given = (option[3:], False) if option.startswith("no_") else (option, value)
            yield option, given if given != "" else VALUES.get(option, True), cells


def count(arch, **options):
    """Parameters of a small model."""
    task = make_task(tail=20, mark=True)
    task.factor_dictionaries = {"pos": make_dictionary(words=6)}
    with torch.device("meta"):
        model = make_model(arch, task, **{**MODELS[arch], **options})
    return sum(parameter.numel() for parameter in model.parameters())


def cost(arch, option, value, **beside):
    base = {**beside, **NEEDS.get(option, {})}
    return count(arch, **{**base, **(EXTRACTOR if option == "sentence_attention" else {}), option: value}) - count(
        arch, **base
    )


@pytest.mark.parametrize("arch", SECTIONS)
def test_options_cost_what_the_page_says(arch):
    found = [*rows(arch)]
    assert len(found) > (20 if arch in ARCHS[:2] else 3)
    for option, value, (name, formula, number) in found:
        layers = MODELS[arch]["encoder_layers"] if name.endswith("for each layer") else 1
        text = formula.rpartition(": ")[2].replace(" for each layer", "")
        spent = count(arch) if option == "arch" else cost(arch, option, value)
        assert spent == layers * evaluate(text, SMALL_SIZES[arch]), name
        assert evaluate(text, PAGES_SIZES[arch]) == int(number.replace(",", "")), name


def test_options_cost_more_with_lstms():
    for option, formula in WITH_LSTM.items():
        value = "soft" if option == "pointer" else VALUES.get(option, True)
        more = cost("gru_seq2seq", option, value, rnn_cell="lstm") - cost("gru_seq2seq", option, value)
        assert more == evaluate(formula, SMALL_SIZES["gru_seq2seq"]), option
