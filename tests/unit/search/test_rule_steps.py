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
    enforce_minimum_length,
    enforce_minimum_sentences,
    enforce_pointer_switch,
    force_prefix,
    limit_to_source_length,
    suppress_words,
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


@pytest.mark.parametrize("dictated", PREFIXES)
@pytest.mark.parametrize("number", range(8))
def test_a_summary_ends_between_the_least_length_and_that_of_its_source_unless_the_prefix_continues(number, dictated):
    step = make_step(number, number, dictated=dictated)

    def not_too_short(document, beam, word, score):
        may_end = number >= min(6, int(step.longest[document])) or is_forced(step, document)
        return score if word != EOS or may_end else NONE

    def not_too_long(document, beam, word, score):
        if number < [2, 6, 4, 3][document] or is_forced(step, document):
            return score
        return float(step.end[document, beam]) if word == EOS else NONE

    assert check(step, partial(enforce_minimum_length, tokens=6), not_too_short) == (number < 6)
    step.end = step.end + 1.0  # the score before any rule, which may have forbidden the end
    assert check(step, limit_to_source_length, not_too_long) == (number >= (3 if dictated else 2))


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


@pytest.mark.parametrize("dictated", PREFIXES)
def test_suppressed_words_are_written_only_where_the_prefix_has_a_word(dictated):
    step = make_step(3, 2, dictated=dictated)
    assert check(step, suppress_words, lambda d, b, w, s: NONE if w in (6, 8) and not is_forced(step, d) else s)


@pytest.mark.parametrize("dictated", PREFIXES)
@pytest.mark.parametrize("size, ignored", [(1, []), (2, []), (3, []), (1, [5]), (2, [5, 7])])
def test_each_beam_is_blocked_by_its_own_words_unless_none_is_left_or_its_document_must_end(size, ignored, dictated):
    """Some words are forbidden already, so that some beams use up all others. A forced word is never blocked."""
    changed, used_up = 0, 0
    for seed in range(40):
        step = make_step(seed, seed % 8, dictated=dictated)
        step.lprobs[2:, :, :MARK] = NONE
        words, scores = step.live.tokens[:, :, 1 : step.number + 1].tolist(), step.lprobs.tolist()

        def is_repeated(document, beam, word, words=words):
            said = [*words[document][beam], word]
            ngrams = [said[place : place + size] for place in range(len(said) - size + 1)]
            return bool(ngrams) and ngrams[-1] in ngrams[:-1] and not set(ngrams[-1]) & set(ignored)

        def expected(document, beam, word, score, step=step, scores=scores):
            nonlocal used_up
            must = step.number >= int(step.longest[document]) or is_forced(step, document)
            if must or not is_repeated(document, beam, word):
                return score
            possible = [word for word, score in enumerate(scores[document][beam]) if score > NONE]
            has_word = any(not is_repeated(document, beam, word) for word in possible)
            used_up += not has_word
            return NONE if has_word else score

        changed += check(step, NGramBlocker(size, ignored), expected)
    assert changed > 5 and (used_up or size > 1 or ignored)


def test_the_prefix_dictates_a_word_with_its_own_score_or_the_unknown_words():
    """An end in the prefix ends all beams like the first one."""
    dictated = [5, PAD, EOS, 6]
    step = make_step(4, 4, dictated=dictated, longest=(4, 9, 5, 9))  # the first document has its greatest length
    step.lprobs[3, 1, 6] = NONE
    step.unknown = step.unknown + 1.0  # the score before any rule, which may have forbidden the unknown word
    step.live.log_probs.copy_(torch.randn(step.live.log_probs.shape))
    forced, ends = [False, False, True, True], [False, False, True, False]
    scores, words, sums = step.lprobs.tolist(), step.live.tokens.tolist(), step.live.log_probs.tolist()

    def expected(document, beam, word, score):
        if not forced[document]:
            return score
        if word != dictated[document]:
            return NONE
        own = scores[document][0 if ends[document] else beam][word]
        return float(step.unknown[document, beam]) if own == NONE else own

    assert check(step, force_prefix, expected)
    for document in range(4):
        for beam in range(3):
            origin = 0 if ends[document] else beam
            assert step.live.tokens[document, beam].tolist() == words[document][origin]
            torch.testing.assert_close(step.live.log_probs[document, beam], torch.tensor(sums[document][origin]))


@pytest.mark.parametrize("has_constraints", [False, True])
def test_words_against_the_switch_are_forbidden_unless_none_is_left_or_they_are_required(has_constraints):
    against = torch.rand(4, 3, WORDS, generator=torch.Generator().manual_seed(7)) < 0.5
    step = make_step(5, 3)
    against[1, 2] = True  # no word is left ...
    step.lprobs[2, 0, ~against[2, 0]] = NONE  # ... nor here, where other rules have forbidden the rest
    against[:, :, 0] = True  # 0 only separates constraints
    packed = torch.tensor([[2, 5, 0, 0], [0, 0, 0, 0], [1, 8, 0, 0], [3, 6, 0, 7]])  # their number, then words and 0
    step.decided_against, step.constraints = against, packed if has_constraints else None
    scores = step.lprobs.tolist()

    def kept(document, beam, word):
        required = has_constraints and word and word in packed[document, 1:].tolist()
        return required or not against[document, beam, word]

    def expected(document, beam, word, score):
        has_word = any(scores[document][beam][w] > NONE and kept(document, beam, w) for w in range(WORDS))
        return score if kept(document, beam, word) or not has_word else NONE

    assert check(step, enforce_pointer_switch, expected)
    first = make_step(6, 0, first=True)
    first.decided_against, first.constraints = against[:, :1], step.constraints
    assert check(first, enforce_pointer_switch, lambda d, b, w, score: score if kept(d, b, w) else NONE)
    step = make_step(5, 3)
    assert not check(step, enforce_pointer_switch, lambda d, b, w, s: s), "without a switch nothing is forbidden"


@pytest.mark.parametrize("name", ["source", "features"])
def test_lengths_of_a_source_are_counted_like_fairseqs(name):
    """Without given lengths, words count and the end symbol does not. For speech without a mask, fairseq takes the last
    dimension of the input; with one, its width less the padding.
    """

    def count(**net_input):
        source = SourceLengths.from_net_input(net_input, EOS, PAD)
        return source.padding is not None, source.lengths.tolist(), source.lengths.dtype, source.width

    tokens = torch.tensor([[PAD, PAD, 5, 6, EOS], [7, 8, 5, 9, EOS], [7, EOS, PAD, PAD, PAD]])
    assert count(src_tokens=tokens) == (True, [2, 4, 1], torch.long, 5)
    vectors = {"src_tokens": torch.ones(2, 4, 3), "src_lengths": torch.tensor([4, 2])}
    assert count(**vectors) == (False, [4, 2], torch.long, 4)
    frames, mask = torch.zeros(2, 7, 5, 4), torch.zeros(2, 3, 7, dtype=torch.bool)
    mask[0, :, 5:] = mask[1, 1, :] = True
    assert count(**{name: frames, "padding_mask": None}) == (False, [4, 4], torch.long, 7)
    assert count(**{name: frames, "padding_mask": mask}) == (False, [[5, 5, 5], [7, 0, 7]], torch.long, 7)
