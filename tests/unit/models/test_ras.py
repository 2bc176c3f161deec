"""RAS-Elman and RAS-LSTM (Chopra et al. 2016): equations against loops, dependencies of attention, initial weights."""

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, make_batch, make_task, model_config
from recurrent import DOCUMENTS, SUMMARIES, encode, log_probs, recurrent

from fairseq_etads.layers.additive import DotAttention, DotKeys
from fairseq_etads.models.rnn_encoder import SOURCE_POSITIONS

RAS = ["ras_elman", "ras_lstm"]


def convolved(vectors, weight, bias):
    """z of each of the vectors: sums of products over the window around it, zeros outside. weight (D, D, q)."""
    reach, found = weight.shape[2] // 2, []
    for i in range(len(vectors)):
        z = bias.clone()
        for k in range(-reach, reach + 1):
            if 0 <= i + k < len(vectors):
                z = z + weight[:, :, k + reach] @ vectors[i + k]
        found.append(z)
    return found


def elman_step(x, h, w_x, w_h):
    """h_t = σ(W [y; c] + U h), element by element."""
    return torch.stack([torch.sigmoid(w_x[i] @ x + w_h[i] @ h) for i in range(len(h))])


@pytest.mark.parametrize("arch", RAS)
def test_it_is_the_papers_equations(arch):
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
                h = elman_step(x, h, decoder.cell.from_input.weight, decoder.cell.from_hidden.weight)
            else:
                names = ("weight_ih", "weight_hh", "bias_ih")
                h, c = reference.lstm_step(x, h, c, *(getattr(decoder.cell, name) for name in names))
            output = decoder.output_projection
            w_h, w_c = output.weight.split([12, 16], dim=1)
            torch.testing.assert_close(extra["attn"][0][0, t], weights)
            torch.testing.assert_close(got[0, t], w_h @ h + w_c @ context + output.bias[:, 0])
            assert t == 0 or weights.max() - weights.min() > 0.05


def test_without_positions_and_with_a_window_of_one_word_order_does_not_matter():
    """Attention moves with the words; with positions or a larger window, it does not."""
    order = torch.tensor([3, 0, 4, 1, 2, 5])  # the end symbol stays where it is
    document = torch.tensor([[5, 6, 7, 8, 9, EOS]])
    previous = torch.tensor([[EOS, 5, 6, 7]])
    for positions, window, same in ((False, 1, True), (True, 1, False), (False, 5, False)):
        model = recurrent("ras_elman", encoder_window=window)
        with torch.no_grad():
            model.encoder.convolution.weight.mul_(5)
            if not positions:
                model.encoder.positions.weight.zero_()
        scores, extra = log_probs(model, document, previous)
        other_scores, other = log_probs(model, document[:, order], previous)
        close = torch.allclose(other["attn"][0], extra["attn"][0][:, :, order], atol=1e-5)
        assert close == same and torch.allclose(other_scores, scores, atol=1e-5) == same


def test_with_a_window_of_one_and_an_identity_it_is_plain_dot_attention():
    model = recurrent("ras_elman", encoder_window=1, encoder_embed_dim=12)
    with torch.no_grad():
        model.encoder.positions.weight.zero_()
        model.encoder.convolution.weight.copy_(torch.eye(12)[:, :, None])
        model.encoder.convolution.bias.zero_()
    encoded = encode(model, make_batch(DOCUMENTS))
    torch.testing.assert_close(encoded["keys"][0], encoded["encoder_out"][0])


def test_the_decoder_sees_the_convolution_by_attention_alone():
    """With a convolution of zeros, attention is even and the context the mean of the word vectors."""
    model = recurrent("ras_lstm")
    with torch.no_grad():
        model.encoder.convolution.weight.zero_()
        model.encoder.convolution.bias.zero_()
    tokens, previous = make_batch(DOCUMENTS, left=True), make_batch(SUMMARIES)
    scores, extra = log_probs(model, tokens, previous)
    real = tokens.ne(PAD)
    even = real / real.sum(1, keepdim=True)
    torch.testing.assert_close(extra["attn"][0], even[:, None].expand(-1, previous.shape[1], -1))
    with torch.no_grad():
        model.encoder.positions.weight.add_(7.0)
    assert torch.equal(log_probs(model, tokens, previous)[0], scores)


def test_words_behind_the_last_position_share_its_vector():
    model = recurrent("ras_elman")
    document = [5, 6] * SOURCE_POSITIONS
    encoded = encode(model, make_batch([document]))
    keys = encoded["keys"][0][0]
    torch.testing.assert_close(keys[SOURCE_POSITIONS + 3], keys[SOURCE_POSITIONS + 5], rtol=0, atol=1e-5)
    assert not torch.allclose(keys[7], keys[9], atol=1e-2)


def test_dot_attention_has_the_gradient_of_the_plain_product():
    """The projection is computed once for all steps, and works in two backward passes."""
    torch.manual_seed(1)
    plain = torch.randn(2, 5, 3, requires_grad=True)
    hidden = torch.randn(4, 2, 3, requires_grad=True)  # steps, documents
    for _ in range(2):
        shared = DotKeys(plain)
        steps = [DotAttention()(step, None, shared).softmax(1) for step in hidden]
        found = torch.autograd.grad(torch.stack(steps).pow(2).sum(), [plain, hidden])
        expected = torch.einsum("tbd,bsd->tbs", hidden, plain).softmax(2)
        want = torch.autograd.grad(expected.pow(2).sum(), [plain, hidden])
        torch.testing.assert_close(torch.stack(steps), expected)
        torch.testing.assert_close(found, want)


@pytest.mark.parametrize("arch", RAS)
def test_it_begins_with_uniform_weights_of_the_papers_sizes(arch):
    model = ARCH_MODEL_REGISTRY[arch].build_model(model_config(arch), make_task())
    for name, parameter in model.named_parameters():
        assert 0.04 < parameter.abs().max() <= 0.05, name
    assert model.encoder.convolution.weight.shape == (512, 512, 5)
    assert model.encoder.positions.weight.shape == (200, 512)
    assert model.decoder.output_projection.weight.shape == (44, 1024)
    assert not model.encoder.embed_tokens.weight[PAD].any()
