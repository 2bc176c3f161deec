"""Attention to long documents in training: blocks of queries change nothing but the memory."""

import pytest
import torch
from helpers import PAD, make_batch, make_model

from fairseq_etads.layers import encoder
from fairseq_etads.layers.encoder import EncoderAttention, blockwise_attention

WIDTH, HEADS, LENGTH = 8, 2, 7
HARDLY = 1e-9
"""A dropout probability that is not zero but drops nothing."""


def in_blocks(monkeypatch):
    """Compute every attention in blocks of three queries; returns the list of calls."""
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 3)
    monkeypatch.setattr(encoder, "MANY_WEIGHTS", 1)
    calls, plain = [], blockwise_attention
    monkeypatch.setattr(encoder, "blockwise_attention", lambda *args: calls.append(1) or plain(*args))
    return calls


def test_the_backward_pass_has_the_same_dropout(monkeypatch):
    """The loss and all gradients equal the ones of the same blocks without recomputation."""
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 3)
    q, k, v = (torch.randn(2, HEADS, length, 4, requires_grad=True) for length in (LENGTH, 5, 5))
    mask = torch.tensor([[False] * 5, [True, False, False, False, True]])

    def outcome():
        torch.manual_seed(1)
        out = blockwise_attention(q, k, v, mask, 0.5)
        torch.manual_seed(2)  # other random draws before the backward pass
        return (out, *torch.autograd.grad((out * out.detach().cos()).sum(), (q, k, v)))

    found = outcome()
    monkeypatch.setattr(encoder, "checkpoint", lambda function, *args, **_: function(*args))
    for got, want in zip(found, outcome()):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_no_weights_are_kept(monkeypatch):
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 4)
    q, k, v = (torch.randn(1, 1, 64, 2, requires_grad=True) for _ in range(3))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        blockwise_attention(q, k, v, None, 0.1).sum()
    assert sizes and max(sizes) <= 64 * 2, "one of a block's weights has 4 x 64 numbers"


@pytest.mark.parametrize(
    "dropout, training, gradient, many, expected",
    [
        *((0.0, True, True, 0, 0), (0.5, False, True, 0, 0), (0.5, True, False, 0, 0)),
        *((0.5, True, True, 1, 0), (0.5, True, True, 0, 1)),
    ],
)
def test_blocks_are_for_many_weights_in_training_with_dropout(dropout, training, gradient, many, expected, monkeypatch):
    calls, states = in_blocks(monkeypatch), torch.randn(LENGTH, 2, WIDTH)
    monkeypatch.setattr(encoder, "MANY_WEIGHTS", LENGTH * LENGTH * 2 * HEADS + many)
    attention = EncoderAttention(WIDTH, HEADS, dropout=dropout, self_attention=True).train(training)
    with torch.set_grad_enabled(gradient):
        attention(states, states, states, need_weights=False)
    assert len(calls) == expected


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind,attentions", [("proj", 1), ("attn", 1), ("none", 0)])
def test_encoders_have_it_in_their_layers_and_in_the_aggregation(kind, attentions, left, documents, monkeypatch):
    """Outputs and gradients are those of fairseq's attention."""
    model = make_model("etads_basic", aggregation=kind, attention_dropout=HARDLY, dropout=0.0).train()
    tokens, previous = make_batch(documents, left=left), make_batch([[5, 6, 7]] * len(documents))

    def outcome():
        out, _ = model(tokens, tokens.ne(PAD).sum(1), previous)
        return out, *torch.autograd.grad(out.log_softmax(2)[..., 7].sum(), [*model.parameters()])

    expected, calls = outcome(), in_blocks(monkeypatch)
    torch.testing.assert_close(outcome(), expected, rtol=1e-3, atol=1e-4)
    assert len(calls) == len(model.encoder.layers) + attentions
