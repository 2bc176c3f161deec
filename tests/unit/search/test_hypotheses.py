"""Hypotheses: penalties and bounds by oracles, the end of a search, finished, recombined and reported ones by loops."""

import functools
import itertools
import math
from types import SimpleNamespace

import pytest
import reference
import torch
from decoding import DICTIONARY, make_sample
from folders import make_folder
from helpers import EOS, PAD, make_batch, make_dictionary, make_task
from scripted import scripted_model

from fairseq_etads import Summarizer
from fairseq_etads.generation import SummaryGenerator, coverage_penalty, length_penalty
from fairseq_etads.search.generator import replace_unknown_words
from fairseq_etads.search.hypotheses import (
    ActiveHypotheses,
    FinishedHypotheses,
    HypothesisScorer,
    find_best_extensions,
    find_best_hypotheses,
    find_top_values,
    recombine_extensions,
)
from fairseq_etads.search.options import DecodingOptions
from fairseq_etads.search.search_rules import SpecialTokens


@pytest.mark.parametrize("kind", ["avg", "wu"])
@pytest.mark.parametrize("alpha", [0.0, 0.9, 2.0, -1.0])
def test_length_penalty(kind, alpha):
    lengths = torch.arange(1, 30)
    got = length_penalty(lengths.float(), alpha, 4.0, kind)
    expected = [reference.length_penalty(n, alpha, 4.0, kind) for n in lengths.tolist()]
    torch.testing.assert_close(got, torch.tensor(expected))
    assert length_penalty(7, alpha, 4.0, kind) == pytest.approx(expected[6])
    assert length_penalty(13, 0.9) == pytest.approx((18 / 6) ** 0.9), "the paper's kind is the default"


@pytest.mark.parametrize("kind", ["summary", "wu"])
def test_coverage_penalty_ignores_padding(kind):
    coverage = torch.rand(3, 4, 6) * 2
    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[1, 4:] = mask[2, :3] = True
    got = coverage_penalty(coverage, 0.7, kind, mask)
    for b in range(3):
        for k in range(4):
            expected = reference.coverage_penalty(coverage[b, k][~mask[b]].tolist(), 0.7, kind)
            assert got[b, k].item() == pytest.approx(expected, rel=1e-5)
    assert coverage_penalty(coverage[0, 0], 0.7, kind).dim() == 0
    assert coverage_penalty(torch.tensor([2.5, 0.5]), 2.0).item() == 3.0, "reading twice is the default kind"


@pytest.mark.parametrize("options", [{}, {"unnormalized": True}, {"length_penalty_type": "wu", "lenpen": 0.7}])
@pytest.mark.parametrize("gain", [0.0, 0.5, math.inf])
def test_each_document_can_have_its_own_greatest_length(options, gain):
    """The bound is above each score that words with a gain can reach, and without one it is the best score."""
    scoring = HypothesisScorer(DecodingOptions(**{"length_penalty_beta": 4.0, **options}))
    log_probs = torch.tensor([[-1.0, -9.5, -math.inf], [-3.0, -2.5, -0.5], [-4.0, -1.0, -7.0]])
    longest = torch.tensor([3, 12, 40])
    together = scoring.compute_upper_bound(log_probs, 3, longest, None, None, gain)
    assert together.dtype == log_probs.dtype and not together.isnan().any()
    for row, most, bounds in zip(log_probs, longest.tolist(), together):
        torch.testing.assert_close(bounds, scoring.compute_upper_bound(row[None], 3, most, None, None, gain)[0])
        for value, bound in zip(row.tolist(), bounds.tolist()):
            gained = [(value + gain * (n - 2)) / scoring.compute_length_penalty(n) for n in range(3, most + 1)]
            # the words that are gained may all come, and the summary be as short as possible
            best = -math.inf if value == -math.inf else max(gained)
            assert bound >= best - 1e-5 and (gain or bound == pytest.approx(best, rel=1e-5))
            assert (bound == -math.inf) == (value == -math.inf)


CPU, NONE = torch.device("cpu"), -math.inf


@pytest.mark.parametrize(
    "documents,beam,width,k", [(3, 4, 5003, 20), (2, 1, 1024, 1), (2, 1, 1023, 1), (1, 3, 40, 6), (1, 1, 300, 20)]
)
def test_the_largest_values_are_found_in_blocks(documents, beam, width, k):
    """1,024 words are eight blocks, the fewest that are searched for one value; 1,023 are sorted directly."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(documents, beam, width, generator=generator).round(decimals=3)
    offset = torch.randn(documents, beam, 1, generator=generator)
    with torch.device("meta"):  # tensors are not created on the default device
        values, index = find_top_values(x, k, offset)
    want = (x + offset).flatten(1).sort(dim=1, descending=True).values[:, :k]
    torch.testing.assert_close(values, want, rtol=0, atol=0)
    torch.testing.assert_close((x + offset).flatten(1).gather(1, index), want, rtol=0, atol=0)


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_recombined_extensions_are_those_of_a_loop(words, seed):
    """Of the extensions with the same last words only the best is kept, but all that end are."""
    documents, beam, width, count = 5, 4, 6, 8
    generator = torch.Generator().manual_seed(seed)
    lprobs = torch.randn(documents, beam, width, generator=generator)
    lprobs[0, :, 4:] = NONE
    lprobs[1, :, EOS] += 3
    tokens = torch.randint(4, width, (documents, beam, 3), generator=generator)
    before = torch.randn(documents, beam, generator=generator)
    asked = []

    def best(n):
        asked.append(n)
        return find_best_extensions(lprobs, before, n)

    most = beam * width - 1
    found = recombine_extensions(best, tokens, words, EOS, count, most)
    every = find_best_extensions(lprobs, before, most)
    assert asked[0] <= most
    for document in range(documents):
        kept, seen = [], set()
        for score, _, word, parent in zip(*(column[document].tolist() for column in every)):
            last = (*tokens[document, parent].tolist(), word)[-words:]
            if score > NONE and (word == EOS or last not in seen):
                kept.append((score, score, word, parent))
                seen.add(last)
        rows = list(zip(*(column[document].tolist() for column in found)))
        assert len(rows) == count
        assert rows[: len(kept)] == kept[:count]
        assert all(row[:2] == (NONE, NONE) for row in rows[len(kept) :])


@pytest.mark.parametrize("by_score", [True, False])
@pytest.mark.parametrize("score", [NONE, math.nan])
def test_impossible_hypotheses_are_results(score, by_score):
    """A hypothesis with probability 0 precedes missing ones, and its steps are impossible, not NaN."""
    done = FinishedHypotheses(1, 3, 4, CPU, by_score)
    rows, tokens = torch.tensor([0]), torch.tensor([[[4, 5, EOS], [6, 7, EOS]]])
    sums = torch.tensor([[[-1.0, NONE, NONE], [-1.0, -2.0, -3.0]]])
    done.add(rows, torch.tensor([[True, True]]), torch.tensor([[score, -1e30]]), tokens, sums, None)
    (found,) = done.collect_results()
    by_tokens = {tuple(one["tokens"].tolist()): one for one in found}
    assert by_tokens.keys() == {(4, 5, EOS), (6, 7, EOS)}
    assert by_tokens[4, 5, EOS]["positional_scores"].tolist() == [-1.0, NONE, NONE]
    assert by_tokens[6, 7, EOS]["positional_scores"].tolist() == [-1.0, -1.0, -1.0]
    if score == NONE:
        assert [one["tokens"][0].item() for one in found] == [6, 4]
    done.add(rows, torch.tensor([[True, True]]), torch.tensor([[5.0, 4.0]]), tokens + 10, sums, None)
    assert done.length.gt(0).all()
    if by_score:
        assert [float(one["score"]) for one in done.collect_results()[0]] == [5.0, 4.0, pytest.approx(-1e30)]


UNK = 3
COPYING = make_dictionary(tail=1)
SPECIAL = SpecialTokens.from_dictionary(COPYING, DecodingOptions())


def replaced(source, tokens, attention, source_dictionary=COPYING, target_dictionary=COPYING):
    """Words and alignment of a hypothesis; ``attention`` has a row for each of its tokens."""
    hypothesis = {"tokens": torch.tensor(tokens), "attention": torch.tensor(attention).t()}
    replace_unknown_words([[hypothesis]], torch.tensor([source]), SPECIAL, source_dictionary, target_dictionary)
    return hypothesis["tokens"].tolist(), hypothesis["alignment"].tolist()


@pytest.mark.parametrize("padding", [0, 2])
def test_unknown_words_become_the_most_attended_known_one(padding):
    """The unknown word and the end symbol are never chosen, and positions do not count padding."""
    rows = [[0.6, 0.1, 0.2, 0.1], [0.1, 0.2, 0.1, 0.6], [0.2, 0.2, 0.5, 0.1]]
    attention = [[0.0] * padding + row for row in rows]
    assert replaced([PAD] * padding + [UNK, 7, 8, EOS], [UNK, 9, EOS], attention) == ([8, 9, EOS], [2, 1, 2])
    assert replaced([UNK, EOS], [UNK, EOS], [[0.2, 0.8], [0.5, 0.5]]) == ([UNK, EOS], [0, 0]), "there is none"


def test_words_change_their_dictionary_or_are_only_aligned():
    target, source = make_dictionary(words=5), [44, 6, EOS]  # "rare0", and a word that both have
    attention = [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]]
    tokens, _ = replaced(source, [UNK, UNK, EOS], attention, target_dictionary=target)
    assert target.string(torch.tensor(tokens)) == "rare0 w2"
    tokens, alignment = replaced(source, [UNK, UNK, EOS], attention, None)
    assert tokens == [UNK, UNK, EOS] and alignment[:2] == [0, 1]


SOURCES = ((5, 6, 7), tuple(range(4, 34)), (9,) * 12)
BEAM, LONGEST, WEIGHT = 4, 9, 0.3


@functools.cache
def scripted(seed, end):
    return scripted_model(DICTIONARY, seed, end=end)


@functools.cache
def slow_search(model, document, **options):
    """Hypotheses of the oracle, and what remained after each step."""
    source, history = make_batch([document]), []

    def predict(words):
        with torch.no_grad():
            out, extra = model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))
        return out[0, -1].double().log_softmax(-1).tolist(), extra["attn"][0][0, -1].double().tolist()

    found = reference.beam_search(
        predict, beam=BEAM, longest=LONGEST, eos=EOS, pad=PAD, weight=WEIGHT, history=history, **options
    )
    return found, history


def search(model, document, alpha, length_kind, coverage_kind, **options):
    penalties = {"len_penalty": alpha, "length_penalty_type": length_kind, "coverage_penalty_type": coverage_kind}
    options.update(penalties, max_len_b=LONGEST, coverage_penalty=WEIGHT)
    return SummaryGenerator([model], DICTIONARY, BEAM, **options).generate(None, make_sample([document]))[0]


def steps_needed(history, nbest, source_length, rule, **scoring):
    """The first step after which no unfinished hypothesis can become one of the n best, or the last step."""
    for step, (finished, unfinished) in enumerate(history):
        lengths = range(step + 2, LONGEST + 2 if rule == "admissible" else min(step + 3, LONGEST + 2))
        if len(finished) >= nbest and lengths:
            wanted = sorted(finished)[-nbest]
            bounds = [
                reference.best_possible_score(
                    log_prob, cost, lengths, weight=WEIGHT, source_length=source_length, **scoring
                )
                for log_prob, cost in unfinished
            ]
            if wanted >= max(bounds):
                return step + 1
    return len(history)


@pytest.mark.parametrize("length_kind,alpha", [("avg", 1.0), ("wu", 0.9), ("wu", 0.0), ("avg", -0.5)])
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
def test_a_document_ends_as_soon_as_the_rule_lets_it(monkeypatch, coverage_kind, length_kind, alpha):
    """The admissible rule never ends a document before it is decided."""
    calls, early = [], set()
    scoring = {"alpha": alpha, "length_kind": length_kind, "coverage_kind": coverage_kind}
    for seed, end, document in itertools.product(range(2), (2.0, 6.0, 10.0), SOURCES):
        model = scripted(seed, end)
        want, history = slow_search(model, document, **scoring)
        forward = model.decoder.forward
        with monkeypatch.context() as patch:
            patch.setattr(model.decoder, "forward", lambda *a, f=forward, **k: calls.append(1) or f(*a, **k))
            for rule, nbest in itertools.product(("admissible", "heuristic"), (1, 3)):
                calls.clear()
                got = search(model, document, **scoring, nbest=nbest, early_stopping=rule)
                for mine, (words, log_prob, score) in zip(got[:nbest], want):
                    assert mine["score"].item() <= score + 2e-4
                    if rule == "admissible":
                        assert mine["tokens"].tolist() == words
                        assert mine["score"].item() == pytest.approx(score, abs=2e-4)
                        assert mine["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)
                needed = steps_needed(history, nbest, len(document) + 1, rule, beta=5.0, **scoring)
                assert len(calls) == needed, (rule, nbest)
                early |= {rule} if needed <= LONGEST else set()
    assert early == {"admissible", "heuristic"}, "nothing is decided early: nothing is shown"


TEXTS = ["w1 w2 New w3 new other w9", "W5 w6 Zebra yak w20", "", "only unknown words here", "w9 w8 " * 20]


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory):
    return Summarizer.load(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0], device="cpu")


def watch(summarizer, texts, **decoding):
    """The summaries, and what was reported of each text."""
    seen = {}
    found = summarizer.summarize(
        texts, on_step=lambda partial: seen.setdefault(partial.number, []).append(partial), **decoding
    )
    return found, seen


@pytest.mark.parametrize(
    "decoding",
    [{}, {"beam": 1}, {"early_stopping": "fairseq"}, {"stepwise_coverage_penalty": True, "coverage_penalty": 2.0}],
)
def test_watching_changes_nothing_and_no_report_is_better_than_the_summary(summarizer, decoding):
    found, seen = watch(summarizer, TEXTS, **decoding)
    assert found == summarizer.summarize(TEXTS, **decoding)
    assert sorted(seen) == [0, 1, 3, 4], "nothing is searched for in an empty text"
    for number, partials in seen.items():
        for step, partial in enumerate(partials, 1):
            assert partial.score <= found[number].score + 1e-6 if partial.has_ended else len(partial.tokens) == step
            assert partial.text == summarizer._texts.join(partial.tokens)
            assert [TEXTS[number][slice(*span)] for span in partial.spans] == TEXTS[number].split()


def test_the_best_of_living_and_ended_hypotheses_is_reported():
    """Two documents, rows 1 and 3 of the batch: the second beam leads in one, an ended hypothesis in the other."""
    live = ActiveHypotheses(2, beam=2, longest=4, start=2, device=CPU, keep_ancestors=False)
    live.batch_rows = torch.tensor([1, 3])
    live.tokens[:, :, 1:3] = torch.tensor([[[10, 11], [12, 13]], [[20, 21], [22, 23]]])
    done = FinishedHypotheses(4, 2, 4, CPU, by_score=False)
    done.score[[1, 3, 3], [0, 0, 1]] = torch.tensor([-5.0, -9.0, -1.5])
    done.length[[1, 3, 3], [0, 0, 1]] = 2
    done.tokens[[1, 3, 3], [0, 0, 1], :2] = torch.tensor([[30, 2], [31, 2], [32, 2]])
    scores, parents = torch.tensor([[-4.0, -3.0], [-2.0, -math.inf]]), torch.tensor([[1, 0], [0, 0]])
    attention = torch.tensor([[[0.1, 0.9], [0.8, 0.2]], [[0.5, 0.5], [0.4, 0.6]]])
    vocabulary = SimpleNamespace(convert_to_dictionary_ids=lambda tokens, row: tokens + 100 * row)
    first, second = find_best_hypotheses(1, live, done, scores, parents, (attention, None), vocabulary)
    assert (first.row, first.tokens.tolist(), first.score) == (1, [112, 113], -3.0)
    assert first.attention.tolist() == attention[0, 0].tolist(), "of the beam that it continues"
    assert (second.row, second.tokens.tolist(), second.score, second.attention) == (3, [332, 302], -1.5, None)
    live, done = ActiveHypotheses(1, 2, 4, 2, CPU, keep_ancestors=False), FinishedHypotheses(1, 2, 4, CPU, True)
    (only,) = find_best_hypotheses(0, live, done, scores[:1], parents[:1], (None, attention[:1, :1]), None)
    assert only.copying.tolist() == attention[0, 0].tolist(), "in the first step there is one beam"


@pytest.mark.parametrize("left", [False, True])
def test_attention_and_copying_are_those_of_the_last_word_for_each_token_that_was_read(tmp_path, left):
    """Equal to the results of a single pass over document and summary."""
    task = make_task(60, 20, tail=3, left_pad_source=left)
    summarizer = Summarizer.load(make_folder(tmp_path, pointer="soft", task=task)[0], "cpu")
    found, seen = watch(summarizer, TEXTS[:2], beam=1, min_len=3)
    for number, summary in enumerate(found):
        explanation = summary.explain()
        partials = [partial for partial in seen[number] if not partial.has_ended]
        assert len(partials) >= 3
        for place, partial in enumerate(partials):
            assert partial.attention == pytest.approx(explanation.attention[place][:-1], abs=1e-5)
            assert partial.copying == pytest.approx(explanation.copying[place][:-1], abs=1e-5)
            assert partial.attention != pytest.approx(partial.copying, abs=1e-3)
