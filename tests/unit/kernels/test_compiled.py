"""torch.compile: each layer of a Transformer is one graph, and compiled models give the same results."""

import pytest
import torch
from helpers import make_model
from steps import make_sample, steps_task

GRAPHS = {"etads": 8, "etads_basic": 8}
"""Largest number of graphs of a whole model, to be lowered. fairseq's encoder and decoder look for padding."""


def inputs_of(layer, model, net_input):
    """Arguments with which a model calls a layer."""
    found = []
    with layer.register_forward_pre_hook(lambda _, args, named: found.append((args, named)), with_kwargs=True):
        model(**net_input)
    return found[0]


@pytest.mark.parametrize("arch", GRAPHS)
def test_layers_are_one_graph_and_models_few(arch):
    model = make_model(arch, steps_task()).train()
    net_input = make_sample(model)["net_input"]
    for layer in (model.encoder.layers[0], model.decoder.layers[0]):
        args, named = inputs_of(layer, model, net_input)
        torch._dynamo.reset()
        found = torch._dynamo.explain(layer)(*args, **named)
        assert (found.graph_count, found.graph_break_count) == (1, 0), [r.user_stack[-1] for r in found.break_reasons]
    torch._dynamo.reset()
    found = torch._dynamo.explain(model)(**net_input)
    assert found.graph_count <= GRAPHS[arch], [r.user_stack[-1] for r in found.break_reasons]
