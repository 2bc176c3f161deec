"""Constants, sums and softmax in half precision against float64, in documents of 400 to 4,096 tokens."""

import pytest
import torch
from helpers import PAD

from fairseq_etads.attention import (
    combined_attention_log_weights,
    compute_log_attention_weights,
    hierarchical_attention,
    temporal_attention,
)
from fairseq_etads.layers.pointer import PointerHead
from fairseq_etads.training.losses import compute_mean_label_loss, coverage_loss
from fairseq_etads.vocabulary.output import BatchVocab

HALVES = [torch.float16, torch.bfloat16]
LENGTHS = [400, 1024, 4096]


def drawn(*shape, seed=0, size=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * size


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("gate", [-3e4, -20.0, 0.0, 3e4])
@pytest.mark.parametrize("kind", ["soft", "switch"])
def test_a_pointer_is_the_one_of_float64(dtype, length, gate, kind):
    """With saturated gates and attention on one word, only sums and logarithms differ."""
    known, steps = 40, 3
    source = torch.randint(4, 60, (2, length), generator=torch.Generator().manual_seed(1))
    source[1, length // 2 :] = PAD
    vocab = BatchVocab(source, known, pad=PAD, bos=0, eos=2, unk=3)
    head = PointerHead(8, kind).to(dtype).train()
    with torch.no_grad():
        head.gate.weight.fill_(0.01)
        head.gate.bias.fill_(gate)
    states, logits = drawn(2, steps, 8).to(dtype), drawn(2, steps, known, size=4).to(dtype)
    scores = drawn(2, steps, length, size=3)
    scores[:, 0, 5] = 60.0  # all attention on one word
    wide = PointerHead(8, kind).double().train()
    wide.load_state_dict({name: value.double() for name, value in head.state_dict().items()})
    found = head.point(states, scores, vocab)
    exact = wide.point(states.double(), scores.double(), vocab)
    real, mine = exact.compute_log_probs(logits.double()), found.compute_log_probs(logits)
    torch.testing.assert_close(mine.exp().sum(2), torch.ones(2, steps), rtol=0, atol=2e-5)
    assert torch.equal(mine.isneginf(), real.isneginf()) and not mine.isnan().any()
    likely = real > -60  # where float32's smallest number, the floor of the copied words, has no part
    torch.testing.assert_close(mine[likely].double(), real[likely], rtol=1e-4, atol=1e-4)
    target = source[:, :steps].where(source[:, :steps] < known, vocab.source_columns[:, :steps])
    of_target = found.compute_target_log_probs(logits.float().log_softmax(-1), target)
    exact_ones = exact.compute_target_log_probs(logits.double().log_softmax(-1), target)
    for one, other in zip(of_target, exact_ones):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    of_target[0].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_over_a_document_are_those_of_float64(dtype, length):
    """Inputs are in half precision, but sums over them are not."""
    attention = drawn(1, 4, length, size=3).softmax(-1).to(dtype)
    real, there = torch.ones(1, 4, dtype=torch.bool), torch.ones(2, length, dtype=torch.bool)
    labels = (drawn(2, length, seed=2) > 0).long()
    ids = torch.arange(length)[None] // 20
    sentence = drawn(1, 4, int(ids.max()) + 1, size=3).softmax(-1).to(dtype)
    for function, given, rtol, atol in (
        (lambda x: coverage_loss(x, real), [attention], 1e-5, 1e-6),
        (lambda x: compute_mean_label_loss(x, labels, there), [drawn(2, length, size=30).to(dtype)], 1e-5, 0),
        (temporal_attention, [drawn(1, 5, length, size=20).to(dtype)], 1e-3, 1e-6),
        (lambda x, y: hierarchical_attention(x, y, ids), [attention, sentence], 1e-3, 1e-7),
    ):
        exact = function(*(x.double() for x in given))
        torch.testing.assert_close(function(*given).double(), exact, rtol=rtol, atol=atol)
    scores = drawn(1, 5, length, size=20).to(dtype)
    padding = torch.zeros(1, length, dtype=torch.bool)
    padding[:, -length // 3 :] = True
    for function in (compute_log_attention_weights, lambda x, mask: combined_attention_log_weights(x, x[:, 0], mask)):
        wide = function(scores.double(), padding)
        mine = function(scores.float(), padding)
        assert (mine[:, :, -length // 3 :].exp() == 0).all() and mine.isfinite().all()
        kept = ~padding[:, None].expand_as(mine)
        torch.testing.assert_close(mine[kept].double(), wide[kept], rtol=1e-5, atol=1e-4)
