"""Additive, temporal and hierarchical attention against loops."""

import pytest
import reference
import torch
from test_attention import padding_mask

from fairseq_etads.attention import hierarchical_attention, temporal_attention


def random(*shape, seed=0, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("left", [False, True])
def test_temporal_attention(steps, left):
    scores, mask = random(3, steps, 7, scale=3.0), padding_mask([7, 4, 1], left)
    got = temporal_attention(scores, mask)
    assert (got[mask[:, None].expand_as(got)] == 0).all()
    for b in range(3):
        want = reference.temporal_attention(scores[b][:, ~mask[b]])
        torch.testing.assert_close(got[b][:, ~mask[b]], want)


def test_temporal_attention_neither_overflows_nor_vanishes():
    scores = (random(2, 9, 5) * 1e4).float().requires_grad_()
    got = temporal_attention(scores)
    torch.testing.assert_close(got.sum(-1), torch.ones(2, 9))
    got.pow(2).sum().backward()
    assert scores.grad.isfinite().all()


def test_hierarchical_attention():
    word, sentence = random(2, 3, 6).softmax(-1), random(2, 3, 4, seed=1).softmax(-1)
    word[1, :, 4:] = 0  # padding
    ids = torch.tensor([[0, 0, 1, 2, 2, 3], [0, 1, 1, 1, 0, 3]])
    got = hierarchical_attention(word, sentence, ids)
    for b in range(2):
        want = reference.hierarchical_attention(word[b], sentence[b], ids[b].tolist())
        torch.testing.assert_close(got[b], want)


def test_hierarchical_attention_at_its_edges():
    """A single word has probability 1; words in a sentence of probability 0 get none, however tiny the others are."""
    one, ids = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[0, 1]])
    assert hierarchical_attention(one, torch.tensor([[[0.5, 0.5]]]), ids).tolist() == [[[1, 0]]]
    even = torch.tensor([[[0.5, 0.5]]])
    assert hierarchical_attention(even, torch.tensor([[[0.0, 1e-30]]]), ids).tolist() == [[[0, 1]]]
