"""The rules of a search step one by one, compared with loops over documents, beams and words; the search's source."""

import math

import pytest
import torch

from fairseq_etads.search.hypotheses import ActiveHypotheses
from fairseq_etads.search.rules import (
    EndAtGreatestLength,
    LeastSentences,
    NGramBlocker,
    Source,
    Step,
    UnknownWordPenalty,
    end_at_source_length,
    keep_to_prefix,
    suppress_words,
)
from fairseq_etads.search.settings import SpecialTokens

PAD, EOS, UNK, MARK, WORDS = 1, 2, 3, 4, 9
SPECIAL = SpecialTokens(pad=PAD, unk=UNK, eos=EOS, suppressed=(6, 8), sentence_mark=MARK)
NONE = -math.inf


def make_step(seed, number, documents=4, beam=3, dictated=None, first=False, longest=(3, 5, 4, 9)):
    """A step with random words so far and random log-probabilities."""
    generator = torch.Generator().manual_seed(seed)
    live = ActiveHypotheses(documents, beam, 12, EOS, torch.device("cpu"), keep_ancestors=False)
    live.tokens[:, :, 1 : number + 1] = torch.randint(MARK, WORDS, (documents, beam, number), generator=generator)
    live.tokens[:, :, number + 1 :] = MARK  # words that a step must not read
    lprobs = torch.randn(documents, 1 if first else beam, WORDS, generator=generator)
    source = Source(None, torch.tensor([2, 6, 4, 3]), 6)
    dictated = None if dictated is None else torch.tensor(dictated)
    return Step(number, lprobs, live, source, torch.tensor(longest), SPECIAL, dictated)


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


@pytest.mark.parametrize("penalty", [0.75, -2.0, math.inf])
def test_the_unknown_word_alone_is_penalised(penalty):
    assert check(make_step(0, 2), UnknownWordPenalty(penalty), lambda d, b, w, s: s - penalty if w == UNK else s)


@pytest.mark.parametrize("dictated", PREFIXES)
@pytest.mark.parametrize("number", range(8))
def test_a_summary_as_long_as_its_source_ends_unless_the_prefix_continues(number, dictated):
    step = make_step(number, number, dictated=dictated)
    step.end = step.end + 1.0  # the score before any rule, which may have forbidden the end

    def expected(document, beam, word, score):
        if step.number < [2, 6, 4, 3][document] or is_forced(step, document):
            return score
        return float(step.end[document, beam]) if word == EOS else NONE

    assert check(step, end_at_source_length, expected) == (number >= (3 if dictated else 2))


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("number", range(6))
def test_the_greatest_length_ends_a_summary_with_the_models_score_or_for_free(number, free):
    step = make_step(number, number)
    step.end = step.end + 1.0

    def expected(document, beam, word, score):
        if number < int(step.longest[document]):
            return score
        return NONE if word != EOS else 0.0 if free else float(step.end[document, beam])

    assert check(step, EndAtGreatestLength(3, free), expected) == (number >= 3)


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
        changed += check(step, LeastSentences(least), expected)
        kept += bool((step.lprobs[..., EOS] == before).any())
    assert changed and (kept or first)


@pytest.mark.parametrize("dictated", PREFIXES)
def test_suppressed_words_are_written_only_where_the_prefix_has_a_word(dictated):
    step = make_step(3, 2, dictated=dictated)
    assert check(
        step, suppress_words, lambda d, b, w, s: NONE if w in SPECIAL.suppressed and not is_forced(step, d) else s
    )


@pytest.mark.parametrize("dictated", PREFIXES)
@pytest.mark.parametrize("size", [1, 2])
def test_each_beam_is_blocked_by_its_own_words_unless_its_document_must_end_or_is_forced(size, dictated):
    changed = 0
    for seed in range(12):
        step = make_step(seed, seed % 8, dictated=dictated)
        words = step.live.tokens[:, :, 1 : step.number + 1].tolist()

        def expected(document, beam, word, score, step=step, words=words):
            said = words[document][beam]
            ngrams = [said[place : place + size] for place in range(len(said) - size + 1)]
            again = len(said) >= size and [*said[len(said) - size + 1 :], word] in ngrams
            must = step.number >= int(step.longest[document]) or is_forced(step, document)
            return NONE if again and not must else score

        changed += check(step, NGramBlocker(size), expected)
    assert changed > 4


def test_the_first_step_of_blocking_changes_nothing():
    assert not check(make_step(1, 0, first=True), NGramBlocker(1), lambda d, b, w, s: s)


def test_a_prefix_leaves_the_dictated_word_alone():
    dictated = [5, PAD, 7, 6]
    step = make_step(4, 4, dictated=dictated)  # the first document has its greatest length, the second no prefix
    forced = [False, False, False, True]
    assert check(step, keep_to_prefix, lambda d, b, w, s: s if not forced[d] or w == dictated[d] else NONE)


DOCUMENTS = torch.tensor([[PAD, PAD, 5, 6, EOS], [7, 8, 5, 9, EOS], [7, EOS, PAD, PAD, PAD]])


def test_a_source_of_words_has_their_padding_and_the_given_lengths():
    given = torch.tensor([3, 5, 2])
    source = Source.of({"src_tokens": DOCUMENTS, "src_lengths": given}, EOS, PAD)
    assert source.padding.tolist() == (DOCUMENTS == PAD).tolist()
    assert source.lengths is given
    assert source.width == 5
    assert Source(source.padding, given + 1, 5).token_counts().tolist() == [3, 5, 2]
    assert Source(None, given + 1, 5).token_counts().tolist() == [4, 6, 3]


def test_lengths_that_are_not_given_count_words_without_the_end_symbol():
    source = Source.of({"src_tokens": DOCUMENTS}, EOS, PAD)
    assert source.lengths.tolist() == [2, 4, 1]
    assert source.lengths.dtype == torch.long


def test_a_source_of_vectors_under_the_name_of_words_has_no_padding():
    given = torch.tensor([4, 2])
    source = Source.of({"src_tokens": torch.ones(2, 4, 3), "src_lengths": given}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.width) == ([4, 2], 4)


@pytest.mark.parametrize("name", ["source", "features"])
def test_speech_is_counted_like_fairseqs(name):
    """Without a mask, fairseq takes the last dimension of the input; with one, its width less the padding."""
    frames = torch.zeros(2, 7, 5, 4)
    source = Source.of({name: frames, "padding_mask": None}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.lengths.dtype, source.width) == ([4, 4], torch.long, 7)
    mask = torch.zeros(2, 3, 7, dtype=torch.bool)
    mask[0, :, 5:] = mask[1, 1, :] = True
    source = Source.of({name: frames, "padding_mask": mask}, EOS, PAD)
    assert source.padding is None
    assert (source.lengths.tolist(), source.width) == ([[5, 5, 5], [7, 0, 7]], 7)


def test_a_batch_without_a_source_is_refused_with_its_contents():
    with pytest.raises(ValueError) as error:
        Source.of({"image": torch.ones(1), "target": torch.ones(1)}, EOS, PAD)
    assert str(error.value) == "expected src_tokens, source or features in net_input, which has image, target"


@pytest.mark.parametrize("has_padding", [True, False])
def test_selected_documents_keep_their_padding_and_lengths(has_padding):
    order = [2, 0]
    source = Source((DOCUMENTS == PAD) if has_padding else None, torch.tensor([3, 5, 2]), 5)
    chosen = source.select(torch.tensor(order))
    assert chosen.lengths.tolist() == [2, 3]
    assert chosen.width == 5
    if has_padding:
        assert chosen.padding.tolist() == (DOCUMENTS == PAD)[order].tolist()
    else:
        assert chosen.padding is None
