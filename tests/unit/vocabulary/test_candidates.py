"""The large-vocabulary trick: words and columns against a loop."""

import pytest
import reference
import torch

from fairseq_etads.vocabulary.output import CandidateWords

SIZE, UNK, SPECIALS = 60, 3, 4


def random_texts(seed, rows=5, length=9):
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(0, SIZE + 20, (rows, length), generator=generator)
    texts[-1, 4:] = 1  # padding
    return texts


def candidates(texts, limit=12, shared=False):
    return CandidateWords(texts, limit, SIZE, SPECIALS, UNK, shared=shared)


@pytest.mark.parametrize("limit", [1, 4, 10, 25, 59, 60, 200])
@pytest.mark.parametrize("seed", range(4))
def test_lists_are_those_of_the_loop(seed, limit):
    texts = random_texts(seed)
    found = candidates(texts, limit, shared=True)
    assert found.words.tolist() == reference.candidates(texts.tolist(), limit, SIZE, SPECIALS)
    assert found.allowed is None
    found = candidates(texts, limit)
    together = set()
    for text, allowed in zip(texts.tolist(), found.allowed):
        own = reference.candidates([text], limit, SIZE, SPECIALS)
        assert found.words[allowed].tolist() == own
        together |= set(own)
    assert found.words.tolist() == sorted(together)


@pytest.mark.parametrize("gradient", [True, False])
def test_logits_are_restricted_in_place_only_where_no_gradient_is_wanted(gradient):
    found = candidates(random_texts(1))
    logits = torch.zeros(len(found.allowed), 1, len(found))
    with torch.set_grad_enabled(gradient):
        restricted = found.mask_unlisted_words(logits)
    assert torch.equal(restricted[:, 0].isinf(), ~found.allowed)
    assert bool(logits.isinf().any()) is not gradient
    assert candidates(random_texts(1), shared=True).mask_unlisted_words(logits) is logits


@pytest.mark.parametrize("shared", [False, True])
def test_scores_are_spread_over_the_words_that_they_belong_to_on_the_texts_device(shared):
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    texts, scores = random_texts(1), torch.randn(5, 3, 200)
    with torch.device("meta"):
        found = candidates(texts, shared=shared)
        scores = scores[:, :, : len(found) + 2]
        wide = found.reindex_by_extended_id(scores)
    assert wide.shape == (5, 3, SIZE + 2)
    assert torch.equal(wide[:, :, [*found.words.tolist(), SIZE, SIZE + 1]], scores)
    assert wide.isfinite().sum() == scores.numel()
    assert found.words.device == found.convert_to_columns(texts).device == texts.device
