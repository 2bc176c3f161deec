"""The recurrent family: its encoder, and RAS (Chopra et al. 2016)."""

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, RECURRENT, make_batch, make_task, model_config
from recurrent import DOCUMENTS, encode, recurrent

from fairseq_etads.layers.additive import DotAttention, SharedStates
from fairseq_etads.models.rnn_encoder import SOURCE_POSITIONS


def test_the_encoder_is_its_gru_in_both_directions():
    model = recurrent("gru_seq2seq")
    document = make_batch([DOCUMENTS[2]])
    encoded = encode(model, document)
    rnn, x = model.encoder.gru.rnn, model.encoder.embed_tokens(document)[0].detach()
    hidden = RECURRENT["encoder_hidden_size"]
    for suffix, steps, half in (("", range(len(x)), 0), ("_reverse", reversed(range(len(x))), hidden)):
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        gates = [getattr(rnn, name + suffix).detach() for name in names]
        state = torch.zeros(hidden)
        for place in steps:
            state = reference.gru_step(x[place], state, *gates)
            got = encoded["encoder_out"][0][0, place, half : half + hidden]
            torch.testing.assert_close(got, state, rtol=0, atol=1e-5)


def convolved(vectors, weight, bias):
    """z of each of the vectors: sums of products over the window around it, zeros outside. weight (D, D, q)."""
    reach = weight.shape[2] // 2
    outside = [torch.zeros_like(vectors[0])] * reach
    padded = [*outside, *vectors, *outside]
    return [bias + sum(weight[:, :, k] @ padded[i + k] for k in range(2 * reach + 1)) for i in range(len(vectors))]


@pytest.mark.parametrize("arch", ["ras_elman", "ras_lstm"])
def test_ras_is_the_papers_equations(arch):
    model = recurrent(arch).double()
    encoder, decoder, document, previous = model.encoder, model.decoder, DOCUMENTS[0], [EOS, 5, 6, 7]
    with torch.no_grad():
        encoder.convolution.weight.mul_(30)  # attention's preferences should show
        got, extra = model(make_batch([document]), None, torch.tensor([previous]))
        known = [word if word < 44 else 3 for word in [*document, EOS]]
        words = [encoder.embed_tokens.weight[word] for word in known]
        placed = [word + encoder.positions.weight[place] for place, word in enumerate(words)]
        keys = convolved(placed, encoder.convolution.weight, encoder.convolution.bias)
        h = c = torch.zeros(12).double()
        for t, token in enumerate(previous):
            scores = torch.stack([key @ h for key in keys])
            weights = torch.stack(reference.softmax_row(list(scores)))
            context = sum(weight * word for weight, word in zip(weights, words))
            x = torch.cat([decoder.embed_tokens.weight[token], context])
            if arch == "ras_elman":
                h = torch.sigmoid(decoder.cell.from_input.weight @ x + decoder.cell.from_hidden.weight @ h)
            else:
                names = ("weight_ih", "weight_hh", "bias_ih")
                h, c = reference.lstm_step(x, h, c, *(getattr(decoder.cell, name) for name in names))
            output = decoder.output_projection
            w_h, w_c = output.weight.split([12, 16], dim=1)
            torch.testing.assert_close(extra["attn"][0][0, t], weights)
            torch.testing.assert_close(got[0, t], w_h @ h + w_c @ context + output.bias[:, 0])
            assert t == 0 or weights.max() - weights.min() > 0.05


def test_words_behind_the_last_position_share_its_vector():
    model = recurrent("ras_elman")
    keys = encode(model, make_batch([[5, 6] * SOURCE_POSITIONS]))["keys"][0][0]
    torch.testing.assert_close(keys[SOURCE_POSITIONS + 3], keys[SOURCE_POSITIONS + 5], rtol=0, atol=1e-5)
    assert not torch.allclose(keys[7], keys[9], atol=1e-2)


def test_dot_attention_has_the_gradient_of_the_plain_product():
    """The projection is computed once for all steps, and works in two backward passes."""
    plain = torch.randn(2, 5, 3, requires_grad=True)
    hidden = torch.randn(4, 2, 3, requires_grad=True)  # steps, documents
    for _ in range(2):
        shared = SharedStates(plain)
        steps = [DotAttention()(step, None, shared).softmax(1) for step in hidden]
        found = torch.autograd.grad(torch.stack(steps).pow(2).sum(), [plain, hidden])
        expected = torch.einsum("tbd,bsd->tbs", hidden, plain).softmax(2)
        want = torch.autograd.grad(expected.pow(2).sum(), [plain, hidden])
        torch.testing.assert_close(torch.stack(steps), expected)
        torch.testing.assert_close(found, want)


def test_ras_begins_with_uniform_weights():
    model = ARCH_MODEL_REGISTRY["ras_elman"].build_model(model_config("ras_elman"), make_task())
    assert all(0.04 < parameter.abs().max() <= 0.05 for parameter in model.parameters())
    assert not model.encoder.embed_tokens.weight[PAD].any()
