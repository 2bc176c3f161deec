"""Additive, temporal and hierarchical attention against loops."""

import pytest
import reference
import torch
from test_attention import padding_mask

from fairseq_etads.attention import hierarchical_attention, temporal_attention


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("left", [False, True])
def test_temporal_attention(steps, left):
    scores, mask = 3 * torch.randn(3, steps, 7, dtype=torch.float64), padding_mask([7, 4, 1], left)
    got = temporal_attention(scores, mask)
    assert (got[mask[:, None].expand_as(got)] == 0).all()
    for b in range(3):
        want = reference.temporal_attention(scores[b][:, ~mask[b]])
        torch.testing.assert_close(got[b][:, ~mask[b]], want)


def test_temporal_attention_neither_overflows_nor_vanishes():
    scores = (torch.randn(2, 9, 5) * 1e4).requires_grad_()
    got = temporal_attention(scores)
    torch.testing.assert_close(got.sum(-1), torch.ones(2, 9))
    got.pow(2).sum().backward()
    assert scores.grad.isfinite().all()


def test_hierarchical_attention():
    word, sentence = (torch.randn(2, 3, count, dtype=torch.float64).softmax(-1) for count in (6, 4))
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
