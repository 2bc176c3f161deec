"""``--encoder-neighbours`` and ``--decoder-neighbours``: the loop, gradients, copies."""

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_model

from fairseq_etads.models.transformer import NeighbourProjections

SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]
BOTH = {"encoder_neighbours": 2, "decoder_neighbours": 2}


def with_neighbours(arch="etads", task=None, **options):
    """A model with an effect of neighbours: their maps are as large as a layer's."""
    model = make_model(arch, task, **{**BOTH, **options})
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".neighbours." in name:
                weight.normal_(std=0.3)
    return model


def run(model, tokens, previous):
    with torch.no_grad():
        return model(tokens, tokens.ne(PAD).sum(1), previous)[0]


@pytest.mark.parametrize("offsets", [(-1, 1), (-1, 1, -2, 2, -3, 3), (-1, -2)])
def test_inputs_and_gradients_are_those_of_the_loop(offsets):
    layer = NeighbourProjections(6, offsets).double()
    torch.manual_seed(0)
    for linear in layer.maps:
        torch.nn.init.normal_(linear.weight)
    for length in (1, 2, 5):
        vectors = torch.randn(length, 6, dtype=torch.double, requires_grad=True)
        got = vectors + layer(vectors[None], torch.zeros(1, length, dtype=torch.bool))[0]
        want = reference.neighbour_inputs(vectors, [linear.weight for linear in layer.maps], offsets)
        torch.testing.assert_close(got, want)
        wanted = [vectors, *layer.parameters()]
        gradients = [
            torch.autograd.grad(out.pow(2).sum(), wanted, allow_unused=True, materialize_grads=True)
            for out in (got, want)
        ]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("options", [{}, {"encoder_learned_pos": False, "decoder_learned_pos": False}])
def test_the_inputs_of_the_first_layers_are_those_of_the_loop(options, documents):
    """Inside a model, the inputs of encoder and decoder have its scale and positions, and do not depend on later
    words.
    """
    model = with_neighbours(**options)
    seen = {}
    for side in ("encoder", "decoder"):
        layer = getattr(model, side).layers[0]
        layer.register_forward_pre_hook(lambda _, inputs, side=side: seen.update({side: inputs[0]}))
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    run(model, tokens, previous)
    for side, ids, offsets in (("encoder", tokens, [-1, 1, -2, 2]), ("decoder", previous, [-1, -2])):
        part = getattr(model, side)
        for row, text in enumerate(ids):
            text = text[text.ne(PAD)]
            vectors = part.embed_tokens(text)
            maps = [linear.weight for linear in part.neighbours.maps]
            expected = part.embed_scale * reference.neighbour_inputs(vectors, maps, offsets)
            positions = type(part.embed_positions).forward(part.embed_positions, text[None])[0]
            torch.testing.assert_close(seen[side][: len(text), row], expected + positions, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_zero_maps_are_the_model_without_and_others_are_not(side, documents):
    plain = make_model("etads")
    model = make_model("etads", **{f"{side}_neighbours": 1})
    result = model.load_state_dict(plain.state_dict(), strict=False)
    assert result.missing_keys and all(".neighbours.maps." in name for name in result.missing_keys)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    expected = run(plain, tokens, previous)
    assert torch.equal(run(model, tokens, previous), expected)
    with torch.no_grad():
        getattr(model, side).neighbours.maps[0].weight.normal_(std=0.3)
    changed = run(model, tokens, previous)
    assert (changed - expected).abs().amax(dim=-1)[previous.ne(PAD)].max() > 1e-2
