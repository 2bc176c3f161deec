"""The mechanisms have the numbers of parameters in docs/options.md."""

import functools
import re

import pytest
import torch
from documented import ROOT
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import make_dictionary, make_task, model_config

PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
ARCHS = ("etads_basic", "gru_seq2seq", "convs2s", "abs")
SECTIONS = dict(zip(ARCHS, re.split("^## (?=The |ABS)", PAGE, flags=re.MULTILINE)[1:]))
FEW_LAYERS = {"convs2s": {"encoder_layers": "[(512, 3)]", "decoder_layers": "[(512, 3)] * 2"}}
"""Of its 40 layers, which take time to build, none matters here."""
VALUES = {
    **{"focus_layers": "1", "saliency_layers": "1", "source_factors": "pos:10", "embed_from_text": False},
    **{"focus_initial_scope": "2", "attention_kernel": "plain", "pointer_initial_generate": 0.9},
    **{"encoder_neighbours": 1, "decoder_neighbours": 1, "encoder_layers": 2, "large_vocabulary_trick": 2000},
    **{"uniform_init": 0.1, "output_bias_init": "zeros", "dropout_at": "state", "decoder_attention": "[False, True]"},
}
"""Values of options that the page names without one, and that are no switches."""
FOCUS, SALIENCY, SWITCH = {"focus_layers": "1"}, {"saliency_layers": "1"}, {"pointer": "switch"}
OF_SENTENCES = {"hierarchical_attention": True}
NEEDS = {
    **{"focus_center": FOCUS, "focus_initial_scope": FOCUS, "focus_strength": FOCUS, "saliency_gate": SALIENCY},
    **{"pointer_initial_generate": SWITCH, "pointer_continue": SWITCH, "output_bias_init": {"output_bias": True}},
    **dict.fromkeys(("encoder_by_sentence", "sentence_gate", "sentence_selector"), OF_SENTENCES),
    **{"attention_kernel": FOCUS, "encoder": {"bridge": "zero"}, "input_feed": {"attention_query": "after"}},
    "share_input_output_embed": {"decoder_out_embed_dim": 512},
}
"""Options that others need; without them, an option would be refused."""


def rows(arch):
    """The options in the rows of a section with their value, and the row's number."""
    for cells in re.findall(r"^\| (`--.+?) \| (-?[\d,]+) \|$", SECTIONS[arch], re.MULTILINE):
        option = None
        for name, value in re.findall(r"`(?:--([\w-]+))?(?: ?(\w+))?`", cells[0].partition(", with ")[0]):
            option = name.replace("-", "_") or option
            option, given = (option[3:], False) if option.startswith("no_") else (option, value)
            yield option, given if given != "" else VALUES.get(option, True), int(cells[1].replace(",", ""))


@functools.cache
def task():
    """A task with 50,000 known words and a factor of 50 values."""
    task = make_task(mark=True, words=49_996)
    task.factor_dictionaries = {"pos": make_dictionary(words=46)}
    return task


def count(arch, **options):
    """Parameters of a model of the architecture's sizes, which are not stored."""
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[arch].build_model(model_config(arch, **FEW_LAYERS.get(arch, {}), **options), task())
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("arch", SECTIONS)
def test_options_cost_what_the_page_says(arch):
    found = [*rows(arch)]
    assert len(found) > (20 if arch in ARCHS[:2] else 3)
    for option, value, number in found:
        needs = NEEDS.get(option, {})
        assert (
            count(arch) if option == "arch" else count(arch, **needs, **{option: value}) - count(arch, **needs)
        ) == number, f"{option} {value}"
