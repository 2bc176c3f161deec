"""Aggregation of encoder layers and the gate: against oracles, at the limits of their options."""

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_model, make_task

from fairseq_etads.layers.encoder import EncoderGate, LayerAggregation

WIDTH, HEADS = 8, 2


def pair(linear):
    return linear.weight, linear.bias


def randomise(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.double()


def padded(states, left, width):
    """Batch the documents' tensors (m, d) as (width, B, d), with noise at padding, and return the mask (B, width)."""
    batch, mask = torch.randn(width, len(states), WIDTH, dtype=torch.float64), torch.ones(len(states), width).bool()
    for row, document in enumerate(states):
        place = slice(width - len(document), width) if left else slice(0, len(document))
        batch[place, row], mask[row, place] = document, False
    return batch, mask


def documents_of_states(layers, lengths=(5, 1, 7)):
    return [[torch.randn(length, WIDTH, dtype=torch.float64) for _ in range(layers)] for length in lengths]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind,layers", [("add", 1), ("add", 3), ("proj", 1), ("proj", 3), ("attn", 1), ("attn", 3)])
def test_aggregation_against_the_oracle(kind, layers, left):
    module = randomise(LayerAggregation(WIDTH, HEADS, kind, layers))
    documents = documents_of_states(layers=4)
    states, masks = zip(*(padded([document[layer] for document in documents], left, 9) for layer in range(4)))
    mask = masks[0]
    got = module(states[-1 - layers : -1], states[-1], mask).transpose(0, 1)
    attentions = [[pair(getattr(a, f"{name}_proj")) for name in ("q", "k", "v", "out")] for a in module.attentions]
    projection = None if module.projection is None else pair(module.projection)
    for row, document in enumerate(documents):
        expected = reference.aggregate(kind, document, layers, attentions, HEADS, projection)
        torch.testing.assert_close(got[row][~mask[row]], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("left", [False, True])
def test_the_gate_against_the_oracle(left):
    module = randomise(EncoderGate(WIDTH))
    documents = [document[0] for document in documents_of_states(layers=1)]
    states, mask = padded(documents, left, 9)
    got = module(states, mask).transpose(0, 1)
    joined = torch.cat([module.state_proj.weight, module.document_proj.weight], dim=1)
    for row, document in enumerate(documents):
        expected = reference.encoder_gate(document, joined, module.document_proj.bias)
        torch.testing.assert_close(got[row][~mask[row]], expected, rtol=0, atol=1e-12)


def test_pre_norm_history_is_normalised_like_the_last_layer(documents):
    """Otherwise, states of very different sizes would be added."""
    model = make_model("etads_basic", encoder_layers=3, encoder_normalize_before=True, aggregation="add")
    tokens = make_batch(documents)
    with torch.no_grad():
        out = model.encoder(tokens, return_all_hiddens=True)
        before, last = (model.encoder.layer_norm(states) for states in out["encoder_states"][-2:])
    torch.testing.assert_close(out["encoder_out"][0], before + last)


@pytest.mark.parametrize("gate", [False, True])
def test_the_pointer_reads_the_states_that_are_not_aggregated(gate, documents):
    model = make_model("aggregation_transformer", make_task(tail=20), pointer="soft", encoder_gate=gate)
    tokens, read = make_batch(documents), []
    model.decoder.pointer.register_forward_pre_hook(lambda _, arguments: read.append(arguments[1]))
    with torch.no_grad():
        encoded = model.encoder(tokens, return_all_hiddens=True)
        model.decoder(torch.full((len(tokens), 1), EOS), encoder_out=encoded)
        last, mask = encoded["encoder_states"][-1], tokens.eq(PAD)
        torch.testing.assert_close(read[0], model.encoder.gate(last, mask) if gate else last)
    assert not torch.allclose(read[0], encoded["encoder_out"][0])


@pytest.mark.parametrize("layers", [1, 3])
def test_at_the_limits_the_layers_before_the_last_are_aggregated(layers, documents):
    model = make_model("etads", encoder_layers=4, aggregation="attn", aggregation_layers=layers)
    given = []
    model.encoder.aggregation.register_forward_pre_hook(lambda _, arguments: given.extend(arguments[:2]))
    with torch.no_grad():
        states = model.encoder(make_batch(documents), return_all_hiddens=True)["encoder_states"]
    history, last = given
    assert len(states) == 5 and last is states[4], "the embeddings, then four layers"
    assert [*map(id, history)] == [*map(id, states[4 - layers : 4])]
