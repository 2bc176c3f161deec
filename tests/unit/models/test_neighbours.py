"""``--encoder-neighbours`` and ``--decoder-neighbours``: the loop, invariances, gradients, decoding with a cache."""

import copy

import pytest
import reference
import torch
from decoding import TASK, assert_same, generate, make_sample
from fairseq.sequence_generator import SequenceGenerator
from helpers import EOS, PAD, make_batch, make_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.models.transformer import NeighbourProjections, list_decoder_offsets, list_encoder_offsets

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


def test_offsets_begin_with_the_nearest_words():
    assert list(list_encoder_offsets(2)) == [-1, 1, -2, 2] and list(list_decoder_offsets(2)) == [-1, -2]


@pytest.mark.parametrize("offsets", [list_encoder_offsets(1), list_encoder_offsets(3), list_decoder_offsets(2)])
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


def test_padding_on_either_side_and_other_texts_of_a_batch_change_nothing(documents):
    model = with_neighbours()
    for document, summary in zip(documents, SUMMARIES):
        previous = torch.tensor([[EOS, *summary]])
        alone = run(model, make_batch([document]), previous)
        for left in (False, True):
            tokens = make_batch([document, documents[0]], left=left, width=25)
            others = torch.tensor([[EOS, *summary], [EOS, *reversed(summary)]])
            padding = torch.full((2, 3), PAD)
            padded = torch.cat([padding, others] if left else [others, padding], dim=1)
            got = run(model, tokens, padded)[:1]
            got = got[:, 3:] if left else got[:, :-3]
            torch.testing.assert_close(got, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_every_map_receives_gradient(shared, documents):
    """The maps get a gradient even if they are zero, as at the start."""
    model = make_model("etads", share_all_embeddings=shared, **BOTH).train()
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    out = model(tokens, tokens.ne(PAD).sum(1), previous)[0]
    out.log_softmax(-1)[..., 7].sum().backward()
    maps = {name: weight.grad for name, weight in model.named_parameters() if ".neighbours." in name}
    assert len(maps) == 6
    for name, gradient in maps.items():
        assert gradient is not None and gradient.abs().sum() > 0, name


def test_the_gradient_of_word_vectors_is_the_numerical_one(documents):
    """The decoder looks each word up twice, in a table that is the output layer, too."""
    model = with_neighbours().double()
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    table = model.encoder.embed_tokens.weight

    def loss():
        return model(tokens, tokens.ne(PAD).sum(1), previous)[0].log_softmax(-1)[previous.ne(PAD)][:, 9].sum()

    loss().backward()
    for word, place in ((5, 3), (10, 0), (9, 7)):
        with torch.no_grad():
            values = []
            for step in (1e-6, -2e-6):
                table[word, place] += step
                values.append(loss().item())
            table[word, place] += 1e-6
        assert table.grad[word, place].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("left", [False, True])
def test_cached_decoding_equals_uncached_decoding(left, documents):
    model = with_neighbours()
    tokens = make_batch(documents, left=left)
    previous = torch.tensor([[EOS, 5, 6, 7, 8, 9]]).expand(len(documents), -1)
    with torch.no_grad():
        encoded = model.encoder(tokens, src_lengths=tokens.ne(PAD).sum(1))
        full, _ = model.decoder(previous, encoder_out=encoded)
        state = {}
        for step in range(previous.shape[1]):
            out, _ = model.decoder(previous[:, : step + 1], encoder_out=encoded, incremental_state=state)
            torch.testing.assert_close(out[:, 0], full[:, step], rtol=0, atol=5e-6)


def test_reordered_beams_have_the_neighbours_of_their_own_words(documents):
    model = with_neighbours()
    tokens, order = make_batch(documents), torch.tensor([3, 0, 0, 4, 1])
    first = torch.tensor([[EOS, number] for number in range(5, 5 + len(documents))])
    both = torch.cat([first[order], torch.arange(20, 25)[:, None]], dim=1)
    state = {}
    with torch.no_grad():
        encoded = model.encoder(tokens, src_lengths=tokens.ne(PAD).sum(1))
        for step in (1, 2):
            model.decoder(first[:, :step], encoder_out=encoded, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, order)
        again = model.encoder(tokens[order], src_lengths=tokens[order].ne(PAD).sum(1))
        cached, _ = model.decoder(both, encoder_out=again, incremental_state=state)
    torch.testing.assert_close(cached[:, 0], run(model, tokens[order], both)[:, -1], rtol=0, atol=5e-6)


def test_the_search_finds_what_fairseqs_finds_without_a_shared_state(documents):
    """Our search keeps a row per document and a column of the past per beam; fairseq's copies everything."""
    model = with_neighbours(task=TASK, share_all_embeddings=False)
    torch.manual_seed(1)
    with torch.no_grad():
        model.decoder.output_projection.weight.normal_(std=0.5)
    options = {"beam_size": 4, "max_len_b": 12}
    sample = make_sample(documents)
    ours, fairseqs = (
        generate(kind, [copy.deepcopy(model)], sample, options) for kind in (SummaryGenerator, SequenceGenerator)
    )
    assert_same(ours, fairseqs)
    assert len({tuple(row[0]["tokens"].tolist()) for row in ours}) > 1


def test_a_copy_of_a_model_has_its_own_neighbours(documents):
    """The decoder adds them in a hook, which must not lead back to the original of a copied model."""
    model = with_neighbours()
    other = copy.deepcopy(model)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    before = run(other, tokens, previous)
    with torch.no_grad():
        for linear in model.decoder.neighbours.maps:
            linear.weight.zero_()
    assert torch.equal(run(other, tokens, previous), before)
    assert not torch.allclose(run(model, tokens, previous), before, atol=1e-3)
