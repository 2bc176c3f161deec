"""The composable Transformer: equivalence with fairseq's, mechanisms in layers, factors, neighbours, options."""

from collections import Counter

import pytest
import reference
import torch
from helpers import EOS, PAD, SMALL, make_batch, make_dictionary, make_model, make_task, model_config

from fairseq_etads.layers.encoder import FocusAttention
from fairseq_etads.models.transformer import BridgeAttention, NeighbourProjections
from fairseq_etads.models.transformer_options import parse_layer_numbers

SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]


def decode(model, tokens, previous):
    with torch.no_grad():
        return model(tokens, tokens.ne(PAD).sum(1), previous)[0]


@pytest.mark.parametrize("training", [False, True])
def test_with_both_mechanisms_off_it_is_fairseqs_transformer(training, documents):
    """Also in training, when no weights are requested and the bridge uses fused attention."""
    learned = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos", "share_all_embeddings"), True)
    lengths = {"max_source_positions": 401, "max_target_positions": 101}
    ours, fairseqs = make_model("etads_basic"), make_model("transformer", **learned, **lengths)
    fairseqs.load_state_dict(ours.state_dict(), strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    got, want = (model.train(training)(tokens, tokens.ne(PAD).sum(1), previous) for model in (ours, fairseqs))
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=2e-6)
    if not training:
        torch.testing.assert_close(got[1]["attn"][0], want[1]["attn"][0], rtol=0, atol=2e-6)
    for out in (got[0], want[0]):
        out[previous.ne(PAD)].logsumexp(-1).sum().backward()
    other = dict(fairseqs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, other[name].grad, rtol=1e-4, atol=1e-5)


def test_layer_drop_skips_layers_in_training_and_keeps_their_mechanisms(documents):
    """In evaluation, no layer is dropped; in training, each layer takes part in half of all passes."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3}
    whole, model = (make_model("etads", **sizes, encoder_layerdrop=p, decoder_layerdrop=p) for p in (0.0, 0.5))
    model.load_state_dict(whole.state_dict(), strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    assert torch.equal(decode(model, tokens, previous), decode(whole, tokens, previous))
    counts = Counter()
    for name, module in model.named_modules():
        if isinstance(module, (FocusAttention, BridgeAttention)):
            module.register_forward_hook(lambda *_, name=name: counts.update([name]))
    model.train()
    torch.manual_seed(0)
    for _ in range(100):
        decode(model, tokens[:1], previous[:1])
    assert len(counts) == 6 and all(25 <= count <= 75 for count in counts.values()), counts
    assert all(layer.encoder_attn.gate_q_proj is not None for layer in model.decoder.layers.eval())


def test_vectors_of_source_factors_are_added_and_projected_where_they_are_narrower():
    task = make_task(tail=9)
    task.factor_dictionaries = {name: make_dictionary(words=6) for name in ("salience", "pos")}
    chosen = {**SMALL, "source_factors": "salience,pos:3", "share_all_embeddings": False, "pointer": "soft"}
    encoder = task.build_model(model_config("etads", **chosen)).eval().encoder
    assert task.factors.names == ("pos", "salience"), "batches have the factors of the model"
    tokens = make_batch([[5, 6, 7, 45, 9, 10], [30], [21, 22, 50, 23]])
    values = torch.stack([tokens % 6 + 4, tokens % 5 + 4], dim=2).masked_fill(tokens.eq(PAD)[:, :, None], PAD)
    lengths = tokens.ne(PAD).sum(1)
    expected = encoder.embed_tokens(tokens) + encoder.factors["salience"].weight[values[:, :, 1]]
    expected += encoder.factors["pos"].weight[values[:, :, 0]] @ encoder.factor_maps["pos"].weight.T
    by_hand, found = encoder(tokens, token_embeddings=expected), encoder(tokens, lengths, factors=values)
    torch.testing.assert_close(found["encoder_out"][0], by_hand["encoder_out"][0])
    with pytest.raises(ValueError, match=r"reads 2 source factors \(pos, salience\) but the batch has 0"):
        encoder(tokens)


def test_parse_layers():
    assert parse_layer_numbers("all", 4, "--x") == {0, 1, 2, 3}
    assert parse_layer_numbers("none", 4, "--x") == frozenset()
    assert parse_layer_numbers(" 1, 3-4 ", 4, "--x") == {0, 2, 3}


@pytest.mark.parametrize("left", [False, True])
def test_positions_that_are_not_learned_are_those_of_the_equations(left, documents):
    positions = make_model("etads_basic", encoder_learned_pos=False).encoder.embed_positions
    tokens = make_batch(documents, left=left)
    found = positions(tokens).double()
    for row, ids in zip(found, tokens):
        for place, vector in enumerate(row[ids.ne(PAD)]):
            # fairseq counts from the number after the padding symbol's number
            expected = reference.sinusoidal_position(place + PAD + 1, row.shape[1])
            torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
        assert row[ids.eq(PAD)].eq(0).all(), "padding has no position"


@pytest.mark.parametrize("offsets", [(-1, 1), (-1, 1, -2, 2, -3, 3), (-1, -2)])
def test_neighbours_and_their_gradients_are_those_of_the_loop(offsets):
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
        unused = {"allow_unused": True, "materialize_grads": True}
        gradients = (torch.autograd.grad(out.pow(2).sum(), wanted, **unused) for out in (got, want))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("learned", [True, False])
def test_with_neighbours_the_inputs_of_the_first_layers_are_those_of_the_loop(learned, documents):
    """Inside a model, the inputs of encoder and decoder have its scale and positions; without the maps, it is plain."""
    positions = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos"), learned)
    plain = make_model("etads", **positions)
    model = make_model("etads", encoder_neighbours=2, decoder_neighbours=2, **positions)
    missing = model.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert missing and all(".neighbours.maps." in name for name in missing)
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    assert torch.equal(decode(model, tokens, previous), decode(plain, tokens, previous))
    seen = {}
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        for linear in part.neighbours.maps:
            torch.nn.init.normal_(linear.weight, std=0.3)
        part.layers[0].register_forward_pre_hook(lambda _, inputs, side=side: seen.update({side: inputs[0]}))
    decode(model, tokens, previous)
    for side, ids, offsets in (("encoder", tokens, [-1, 1, -2, 2]), ("decoder", previous, [-1, -2])):
        part = getattr(model, side)
        for row, text in enumerate(ids):
            text = text[text.ne(PAD)]
            maps = [linear.weight for linear in part.neighbours.maps]
            expected = part.embed_scale * reference.neighbour_inputs(part.embed_tokens(text), maps, offsets)
            places = type(part.embed_positions).forward(part.embed_positions, text[None])[0]
            torch.testing.assert_close(seen[side][: len(text), row], expected + places, rtol=1e-4, atol=1e-5)
