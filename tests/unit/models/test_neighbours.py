"""``--encoder-neighbours`` and ``--decoder-neighbours`` against the loop."""

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_model

from fairseq_etads.models.transformer import NeighbourProjections


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


@pytest.mark.parametrize("learned", [True, False])
def test_the_inputs_of_the_first_layers_are_those_of_the_loop(learned, documents):
    """Inside a model, the inputs of encoder and decoder have its scale and positions; without the maps, it is plain."""
    positions = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos"), learned)
    plain = make_model("etads", **positions)
    model = make_model("etads", encoder_neighbours=2, decoder_neighbours=2, **positions)
    missing = model.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert missing and all(".neighbours.maps." in name for name in missing)
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    assert torch.equal(run(model, tokens, previous), run(plain, tokens, previous))
    seen = {}
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        for linear in part.neighbours.maps:
            torch.nn.init.normal_(linear.weight, std=0.3)
        part.layers[0].register_forward_pre_hook(lambda _, inputs, side=side: seen.update({side: inputs[0]}))
    run(model, tokens, previous)
    for side, ids, offsets in (("encoder", tokens, [-1, 1, -2, 2]), ("decoder", previous, [-1, -2])):
        part = getattr(model, side)
        for row, text in enumerate(ids):
            text = text[text.ne(PAD)]
            maps = [linear.weight for linear in part.neighbours.maps]
            expected = part.embed_scale * reference.neighbour_inputs(part.embed_tokens(text), maps, offsets)
            places = type(part.embed_positions).forward(part.embed_positions, text[None])[0]
            torch.testing.assert_close(seen[side][: len(text), row], expected + places, rtol=1e-4, atol=1e-5)
