"""Attention to long documents in training: blocks of queries change nothing but the memory."""

import functools

import pytest
import torch
from fairseq.modules import MultiheadAttention
from helpers import PAD, make_batch, make_model

from fairseq_etads.layers import encoder_attention
from fairseq_etads.layers.encoder_attention import EncoderAttention, blockwise_attention

WIDTH, HEADS, LENGTH = 8, 2, 7
HARDLY = 1e-9
"""A dropout probability that is not zero but drops nothing."""


def in_blocks(monkeypatch):
    """Compute every attention in blocks of three queries; returns the list of calls."""
    monkeypatch.setattr(encoder_attention, "QUERIES_AT_A_TIME", 3)
    monkeypatch.setattr(encoder_attention, "MANY_WEIGHTS", 1)
    calls, plain = [], blockwise_attention
    monkeypatch.setattr(encoder_attention, "blockwise_attention", lambda *args: calls.append(1) or plain(*args))
    return calls


def test_the_backward_pass_has_the_same_dropout(monkeypatch):
    """The loss and all gradients equal the ones of the same blocks without recomputation."""
    monkeypatch.setattr(encoder_attention, "QUERIES_AT_A_TIME", 3)
    q, k, v = (torch.randn(2, HEADS, length, 4, requires_grad=True) for length in (LENGTH, 5, 5))
    mask = torch.tensor([[False] * 5, [True, False, False, False, True]])

    def outcome():
        torch.manual_seed(1)
        out = blockwise_attention(q, k, v, mask, 0.5)
        torch.manual_seed(2)  # other random draws before the backward pass
        return (out, *torch.autograd.grad((out * out.detach().cos()).sum(), (q, k, v)))

    found = outcome()
    monkeypatch.setattr(encoder_attention, "checkpoint", lambda function, *args, **_: function(*args))
    for got, want in zip(found, outcome()):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_no_weights_are_kept(monkeypatch):
    monkeypatch.setattr(encoder_attention, "QUERIES_AT_A_TIME", 4)
    q, k, v = (torch.randn(1, 1, 64, 2, requires_grad=True) for _ in range(3))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        blockwise_attention(q, k, v, None, 0.1).sum()
    assert sizes and max(sizes) <= 64 * 2, "one of a block's weights has 4 x 64 numbers"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("self_attention", [True, False])
def test_the_module_computes_what_fairseqs_does(self_attention, side, monkeypatch):
    ours = EncoderAttention(WIDTH, HEADS, dropout=HARDLY, self_attention=self_attention)
    theirs = MultiheadAttention(WIDTH, HEADS, self_attention=self_attention)
    theirs.load_state_dict(ours.state_dict())
    states = torch.randn(LENGTH, 2, WIDTH)
    memory = states if self_attention else torch.randn(LENGTH, 2, WIDTH)
    mask = torch.zeros(2, LENGTH, dtype=torch.bool)
    mask[1, slice(2) if side == "left" else slice(5, None)] = True
    call = {"key_padding_mask": mask, "need_weights": False}
    plain, _ = ours(states, memory, memory, **call)
    calls = in_blocks(monkeypatch)
    blocks, weights = ours(states, memory, memory, **call)
    assert len(calls) == 1 and weights is None
    want, _ = theirs(states, memory, memory, **call)
    torch.testing.assert_close(blocks, want)
    torch.testing.assert_close(plain, want)
    gradients = (
        torch.autograd.grad(out.sum(), [*module.parameters()]) for out, module in ((blocks, ours), (want, theirs))
    )
    for one, other in zip(*gradients):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_blocks_are_for_many_weights_in_training_with_dropout(monkeypatch):
    calls = in_blocks(monkeypatch)
    states = torch.randn(LENGTH, 2, WIDTH)
    attend = functools.partial(EncoderAttention, WIDTH, HEADS, self_attention=True)
    attend(dropout=0.0)(states, states, states, need_weights=False)
    attend(dropout=0.5).eval()(states, states, states, need_weights=False)
    with torch.no_grad():
        attend(dropout=0.5)(states, states, states, need_weights=False)
    monkeypatch.setattr(encoder_attention, "MANY_WEIGHTS", LENGTH * LENGTH * 2 * HEADS + 1)
    attend(dropout=0.5)(states, states, states, need_weights=False)
    assert not calls
    monkeypatch.setattr(encoder_attention, "MANY_WEIGHTS", LENGTH * LENGTH * 2 * HEADS)
    attend(dropout=0.5)(states, states, states, need_weights=False)
    assert len(calls) == 1


@pytest.mark.parametrize("kind,attentions", [("proj", 1), ("attn", 1), ("none", 0)])
def test_encoders_have_it_in_their_layers_and_in_the_aggregation(kind, attentions, documents, monkeypatch):
    model = make_model("etads_basic", aggregation=kind, attention_dropout=HARDLY, dropout=0.0).train()
    tokens, previous = make_batch(documents), make_batch([[5, 6, 7]] * len(documents))
    plain, _ = model(tokens, tokens.ne(PAD).sum(1), previous)
    calls = in_blocks(monkeypatch)
    blocks, _ = model(tokens, tokens.ne(PAD).sum(1), previous)
    assert len(calls) == len(model.encoder.layers) + attentions
    torch.testing.assert_close(blocks, plain, rtol=1e-4, atol=1e-5)
