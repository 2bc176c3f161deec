"""The rules of a search step against loops over documents, beams and words; searches with a switch by a slow one."""

import math
from functools import partial

import pytest
import reference
import torch
from decoding import make_sample, sharpened
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_task

from fairseq_etads.generation import SummaryGenerator
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

UNK, MARK, WORDS = 3, 4, 9
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


KNOWN = 44
TASK = make_task(tail=30)
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 60, 62, 63], [70, 71, 70, 12], [52]]


def switching(seed=1, bias=0.0, pointer="switch"):
    """A model with decisions that change from word to word; with a positive bias it prefers generating."""
    model = sharpened("etads", seed, TASK, pointer=pointer)
    if pointer != "none":
        with torch.no_grad():
            gate = model.decoder.pointer.gate
            gate.weight.normal_(std=1.5, generator=torch.Generator().manual_seed(seed))
            gate.bias.fill_(bias)
    return model


def forced(model, source, words):
    """Output of the model when it reads the words (ids of the dictionary or extended ids) from the start."""
    with torch.no_grad():
        return model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))


def slow_prediction(models, document):
    """For the oracle's search: log P of the next word, attention, and the words that no model's decision allows."""
    source = make_batch([document])
    extended, own = reference.extended_ids(document, KNOWN)
    size = KNOWN + len(own)

    def predict_alone(model, words):
        """Probabilities by the decision and of the mixture, and attention."""
        logits, extra = forced(model, source, words)
        vocabulary, pointer = logits[0, -1].double().softmax(-1), extra["output"].pointer
        attention = extra["attn"][0][0, -1].double()
        if pointer is None:
            return [*vocabulary.tolist(), *[0.0] * len(own)], [*vocabulary.tolist(), *[0.0] * len(own)], attention
        copied, gate = pointer.log_copy[0, -1].double().exp(), pointer.gate[0, -1].double().sigmoid().item()
        arguments = (vocabulary, copied, gate, extended, size)
        return reference.switch_decision(*arguments), reference.pointer_mixture(*arguments), attention

    def predict(words):
        decisions, mixtures, attentions = zip(*(predict_alone(model, words) for model in models))
        decided, mixture = ([sum(of_word) / len(models) for of_word in zip(*each)] for each in (decisions, mixtures))
        against = {word for word in range(size) if decided[word] == 0.0}
        values = [p or mixture[word] for word, p in enumerate(decided)]
        log_probs = [math.log(p) if p > 0 and word not in (UNK, PAD) else -math.inf for word, p in enumerate(values)]
        return log_probs, torch.stack(attentions).mean(0).tolist(), against

    return predict


NAMES = {
    **{"shortest": "min_len", "alpha": "len_penalty", "length_kind": "length_penalty_type"},
    **{"weight": "coverage_penalty", "coverage_kind": "coverage_penalty_type"},
    **{"stepwise": "stepwise_coverage_penalty", "block": "no_repeat_ngram_size"},
}
"""Options of the oracle's search, which has the same defaults, and their names in the generator."""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"length_kind": "wu", "alpha": 0.9, "weight": 0.3},
        {"alpha": 2.0, "block": 1, "shortest": 3},
        {"alpha": 0.0, "weight": 0.5, "coverage_kind": "wu", "stepwise": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("pointers,bias", [(("switch",), -2.0), (("none", "switch"), 0.0)])
def test_the_search_equals_a_slow_one(pointers, bias, options):
    """If the end is forced, or every word of the document is blocked, the decision cannot be followed."""
    models = [switching(seed, bias, pointer=pointer) for seed, pointer in enumerate(pointers, 1)]
    arguments = {NAMES[name]: value for name, value in options.items()}
    generator = SummaryGenerator(
        models, TASK.target_dictionary, 3, max_len_b=5, nbest=3, early_stopping="admissible", **arguments
    )
    for document, row in zip(DOCUMENTS, generator.generate(None, make_sample(DOCUMENTS))):
        want = reference.beam_search(slow_prediction(models, document), 3, 5, eos=EOS, pad=PAD, **options)
        assert len(row) == min(3, len(want))
        own = reference.extended_ids(document, KNOWN)[1]
        for hypothesis, (tokens, log_prob, score) in zip(row, want):
            assert hypothesis["tokens"].tolist() == [own[w - KNOWN] if w >= KNOWN else w for w in tokens]
            assert hypothesis["score"].item() == pytest.approx(score, abs=2e-4) and score > -1000
            assert hypothesis["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)


def check_scores(model, document, hypothesis):
    """A word has the log-probability of the decision, or that of the mixture where the switch decided against it.
    Returns whether it decided for each word.
    """
    tokens = hypothesis["tokens"].tolist()
    output = forced(model, make_batch([document]), tokens[:-1])[1]["output"]
    words = output.vocabulary.convert_to_extended_ids(torch.tensor([tokens]))[:, :, None]
    decided, mixed = (
        model.get_normalized_probs(each.to_fairseq_output(), log_probs=True).gather(2, words)[0, :, 0]
        for each in (output, output.to_mixture())
    )
    log_probs = torch.where(decided.isfinite(), decided, mixed)
    torch.testing.assert_close(hypothesis["positional_scores"], log_probs, rtol=1e-4, atol=1e-4)
    return decided.isfinite().tolist()


STRATEGIES = {
    "beam": lambda: search.BeamSearch(TASK.target_dictionary),
    "sampling": lambda: search.Sampling(TASK.target_dictionary),
    "nucleus": lambda: search.Sampling(TASK.target_dictionary, sampling_topp=0.8),
    "diverse": lambda: search.DiverseBeamSearch(TASK.target_dictionary, num_groups=2, diversity_strength=0.0),
    "siblings": lambda: search.DiverseSiblingsSearch(TASK.target_dictionary, diversity_rate=0.0),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_keeps_to_the_decisions(strategy):
    """All words except a forced end are the ones decided for, however improbable the others are."""
    model, kinds = switching(), set()
    torch.manual_seed(0)
    generator = SummaryGenerator(
        [model], TASK.target_dictionary, 4, max_len_b=6, search_strategy=STRATEGIES[strategy]()
    )
    for document, row in zip(DOCUMENTS, generator.generate(None, make_sample(DOCUMENTS))):
        for hypothesis in row:
            kept = check_scores(model, document, hypothesis)
            assert all(kept[:-1]) and (kept[-1] or len(kept) == 7)
            kinds |= {kept[-1], *(word >= KNOWN for word in hypothesis["tokens"].tolist())}
    assert kinds == {True, False}, "nothing was pointed at, or nothing generated: nothing was shown"


def test_a_prefix_and_constraints_go_before_decisions():
    model, document = switching(bias=-30.0), DOCUMENTS[0]  # points, always

    def search_with(strategy=None, **given):
        generator = SummaryGenerator([model], TASK.target_dictionary, 4, max_len_b=4, search_strategy=strategy)
        hypothesis = generator.generate(None, make_sample([document]), **given)[0][0]
        return hypothesis["tokens"].tolist(), check_scores(model, document, hypothesis)

    words, kept = search_with(prefix_tokens=torch.tensor([[12]]))
    assert words[0] == 12 and not kept[0] and all(kept[1:-1])
    strategy = search.LexicallyConstrainedBeamSearch(TASK.target_dictionary, "unordered")
    words, _ = search_with(strategy, constraints=pack_constraints([[torch.tensor([12])]]))
    assert 12 in words and set(words) <= {*document, 12, EOS}
