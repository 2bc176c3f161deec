"""N-gram blocking: no repeats, tokens that may repeat, forced words, and rows that would be left without a word."""

import math

import pytest
import torch

from fairseq_etads.search.search_rules import NGramBlocker


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("ignored", [[], [2], [0, 3]])
def test_a_loop_forbids_the_same_words(size, ignored):
    """There are so few words that some rows use them up; some rows are exempt."""
    generator = torch.Generator().manual_seed(size)
    width, seen = 5, {"forbidden": 0, "kept whole": 0, "exempt": 0}
    for length in range(12):
        tokens = torch.randint(0, width, (40, length), generator=generator)
        lprobs = torch.randn(40, width, generator=generator)
        lprobs[:20, 4] = -math.inf  # forbidden already
        exempt = torch.rand(40, generator=generator) < 0.2
        got = lprobs.clone()
        NGramBlocker(size, ignored).block_repeats(tokens, got, exempt)
        for said, before, after, is_exempt in zip(tokens.tolist(), lprobs, got, exempt.tolist()):
            ngrams = [said[i : i + size] for i in range(length - size + 1)]
            context = said[len(said) - size + 1 :]
            forbidden = [
                word for word in range(width) if [*context, word] in ngrams and not {*context, word} & set(ignored)
            ]
            want = before.clone()
            if not is_exempt:
                want[forbidden] = -math.inf
            if want.max() == -math.inf:
                want = before
                seen["kept whole"] += 1
            seen["forbidden"] += bool(forbidden)
            seen["exempt"] += bool(forbidden) and is_exempt
            assert torch.equal(after, want), (said, before, after)
    assert seen["forbidden"] and seen["exempt"]
    assert seen["kept whole"] or size > 1 or ignored


def test_everything_is_on_the_words_device():
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    tokens, lprobs = torch.tensor([[4, 5, 4]]), torch.zeros(1, 9)
    with torch.device("meta"):
        NGramBlocker(2, [7]).block_repeats(tokens, lprobs)
    assert lprobs.isneginf().nonzero().tolist() == [[0, 5]]
