"""The rules of a search step one by one, compared with loops over documents, beams and words; the search's source."""

import math
from functools import partial

import pytest
import torch

from fairseq_etads.search.hypotheses import ActiveHypotheses
from fairseq_etads.search.search_rules import (
    NGramBlocker,
    SearchStep,
    SourceLengths,
    SpecialTokens,
    enforce_minimum_sentences,
    force_prefix,
)

PAD, EOS, UNK, MARK, WORDS = 1, 2, 3, 4, 9
SPECIAL = SpecialTokens(pad=PAD, unk=UNK, eos=EOS, suppressed=(6, 8), sentence_mark=MARK)
NONE = -math.inf


def make_step(seed, number, documents=4, beam=3, dictated=None, first=False, longest=(3, 5, 4, 9)):
    """A step with random words so far and random log-probabilities."""
    generator = torch.Generator().manual_seed(seed)
    live = ActiveHypotheses(documents, beam, 12, EOS, torch.device("cpu"), keep_ancestors=False)
    live.tokens[:, :, 1 : number + 1] = torch.randint(MARK, WORDS, (documents, beam, number), generator=generator)
    live.tokens[:, :, number + 1 :] = 5  # a word that a step must not read
    lprobs = torch.randn(documents, 1 if first else beam, WORDS, generator=generator)
    source = SourceLengths(None, torch.tensor([2, 6, 4, 3]), 6)
    dictated = None if dictated is None else torch.tensor(dictated)
    return SearchStep(number, lprobs, live, source, torch.tensor(longest), SPECIAL, dictated)


def is_forced(step, document):
    """Whether the prefix dictates a word, and the document's summary may still have one."""
    return (
        step.dictated is not None and int(step.dictated[document]) != PAD and int(step.longest[document]) > step.number
    )


def check(step, rule, expected):
    """The rule's result is ``expected(document, beam, word, score)`` for each log-probability; True if one changed."""
    before = step.lprobs.clone()
    rule(step)
    changed = False
    for document, beams in enumerate(before.tolist()):
        for beam, scores in enumerate(beams):
            want = [expected(document, beam, word, score) for word, score in enumerate(scores)]
            torch.testing.assert_close(step.lprobs[document, beam], torch.tensor(want))
            changed |= want != scores
    return changed


PREFIXES = [None, [5, PAD, 7, PAD]]


def sentences(words):
    """Sentences begun: words other than a mark that follow a mark or the start."""
    return sum(word != MARK and before == MARK for before, word in zip([MARK, *words], words))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("dictated", PREFIXES)
@pytest.mark.parametrize("least", [1, 2, 3])
def test_the_end_is_forbidden_before_enough_sentences_have_begun(least, dictated, first):
    changed, kept = 0, 0
    for seed in range(20):
        step = make_step(seed, 0 if first else seed % 8, dictated=dictated, first=first)
        words = step.live.tokens[:, :, 1 : step.number + 1].tolist()

        def expected(document, beam, word, score, step=step, words=words):
            enough = sentences(words[document][beam]) >= least or step.number >= int(step.longest[document])
            return score if word != EOS or enough or is_forced(step, document) else NONE

        before = step.lprobs[..., EOS].clone()
        changed += check(step, partial(enforce_minimum_sentences, sentences=least), expected)
        kept += bool((step.lprobs[..., EOS] == before).any())
    assert changed and (kept or first)


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


def test_a_prefix_is_followed_on_the_words_device():
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    step = make_step(4, 4, dictated=[5, PAD, 7, 6])
    with torch.device("meta"):
        force_prefix(step)
    assert step.live.tokens.device.type == "cpu"


DOCUMENTS = torch.tensor([[PAD, PAD, 5, 6, EOS], [7, 8, 5, 9, EOS], [7, EOS, PAD, PAD, PAD]])


def test_lengths_that_are_not_given_count_words_without_the_end_symbol():
    source = SourceLengths.from_net_input({"src_tokens": DOCUMENTS}, EOS, PAD)
    assert source.lengths.tolist() == [2, 4, 1]
    assert source.lengths.dtype == torch.long


def test_a_source_of_vectors_under_the_name_of_words_has_no_padding():
    given = torch.tensor([4, 2])
    source = SourceLengths.from_net_input({"src_tokens": torch.ones(2, 4, 3), "src_lengths": given}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.width) == ([4, 2], 4)


@pytest.mark.parametrize("name", ["source", "features"])
def test_speech_is_counted_like_fairseqs(name):
    """Without a mask, fairseq takes the last dimension of the input; with one, its width less the padding."""
    frames = torch.zeros(2, 7, 5, 4)
    source = SourceLengths.from_net_input({name: frames, "padding_mask": None}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.lengths.dtype, source.width) == ([4, 4], torch.long, 7)
    mask = torch.zeros(2, 3, 7, dtype=torch.bool)
    mask[0, :, 5:] = mask[1, 1, :] = True
    source = SourceLengths.from_net_input({name: frames, "padding_mask": mask}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.width) == ([[5, 5, 5], [7, 0, 7]], 7)
