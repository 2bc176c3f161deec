"""Finished hypotheses, best extensions, compared with loops, and the post-processing of results made by hand."""

import math

import pytest
import torch
from helpers import EOS, PAD, make_dictionary

from fairseq_etads.search.generator import replace_unknown_words
from fairseq_etads.search.hypotheses import (
    FinishedHypotheses,
    find_best_extensions,
    find_top_values,
    recombine_extensions,
)
from fairseq_etads.search.options import DecodingOptions
from fairseq_etads.search.search_rules import SpecialTokens

CPU, NONE = torch.device("cpu"), -math.inf


def generator_of(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "documents,beam,width,k", [(3, 4, 5003, 20), (2, 1, 1024, 1), (2, 1, 1023, 1), (1, 3, 40, 6), (1, 1, 300, 20)]
)
def test_the_largest_values_are_found_in_blocks(documents, beam, width, k):
    """1,024 words are eight blocks, the fewest that are searched for one value; 1,023 are sorted directly."""
    generator = generator_of(0)
    x = torch.randn(documents, beam, width, generator=generator).round(decimals=3)
    offset = torch.randn(documents, beam, 1, generator=generator)
    with torch.device("meta"):  # tensors are not created on the default device
        values, index = find_top_values(x, k, offset)
    want = (x + offset).flatten(1).sort(dim=1, descending=True).values[:, :k]
    torch.testing.assert_close(values, want, rtol=0, atol=0)
    torch.testing.assert_close((x + offset).flatten(1).gather(1, index), want, rtol=0, atol=0)


@pytest.mark.parametrize("costs", [None, (0.0, 3.0, 0.5), (0.0, math.inf, 0.5)])
@pytest.mark.parametrize("width", [9, 3000])
def test_the_best_extensions_are_those_of_a_loop(costs, width):
    generator = generator_of(1)
    lprobs = torch.randn(4, 3, width, generator=generator)
    lprobs[0, :, 4:] = lprobs[1] = NONE
    before = torch.randn(4, 3, generator=generator)
    cost = None if costs is None else torch.tensor(costs).expand(4, 3)
    found = find_best_extensions(lprobs, before, 6, cost)
    for document in range(4):
        candidates = [
            (
                float(before[document, beam] - (0.0 if costs is None else costs[beam]) + lprobs[document, beam, word]),
                float(before[document, beam] + lprobs[document, beam, word]),
                word,
                beam,
            )
            for beam in range(3)
            for word in range(width)
            if lprobs[document, beam, word] > NONE and (costs is None or costs[beam] < math.inf)
        ]
        best = sorted(candidates, reverse=True)[:6]
        columns = [column[document].tolist() for column in found]
        assert list(zip(*columns))[: len(best)] == [
            (pytest.approx(score, abs=1e-5), pytest.approx(log_prob, abs=1e-5), word, beam)
            for score, log_prob, word, beam in best
        ]
        for scores in columns[:2]:
            assert scores[len(best) :] == [NONE] * (6 - len(best))


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_recombined_extensions_are_those_of_a_loop(words, seed):
    """Of the extensions with the same last words only the best is kept, but all that end are."""
    documents, beam, width, count = 5, 4, 6, 8
    generator = generator_of(seed)
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
DICTIONARY = make_dictionary()
SPECIAL = SpecialTokens.from_dictionary(DICTIONARY, DecodingOptions())


def result(tokens, attention):
    """One hypothesis; ``attention`` has a row for each token of the summary."""
    return [{"tokens": torch.tensor(tokens), "attention": torch.tensor(attention).t()}]


@pytest.mark.parametrize("padding", [0, 2])
def test_unknown_words_become_the_most_attended_known_one(padding):
    """The unknown word and the end symbol are never chosen, and positions do not count padding."""
    source = torch.tensor([[PAD] * padding + [UNK, 7, 8, EOS]])
    rows = [[0.6, 0.1, 0.2, 0.1], [0.1, 0.2, 0.1, 0.6], [0.2, 0.2, 0.5, 0.1]]
    results = [result([UNK, 9, EOS], [[0.0] * padding + row for row in rows])]
    replace_unknown_words(results, source, SPECIAL, DICTIONARY, DICTIONARY)
    assert results[0][0]["tokens"].tolist() == [8, 9, EOS]
    assert results[0][0]["alignment"].tolist() == [2, 1, 2]


def test_a_source_without_known_words_leaves_the_summary_as_it_is():
    results = [result([UNK, EOS], [[0.2, 0.8], [0.5, 0.5]])]
    replace_unknown_words(results, torch.tensor([[UNK, EOS]]), SPECIAL, DICTIONARY, DICTIONARY)
    assert results[0][0]["tokens"].tolist() == [UNK, EOS]
    assert results[0][0]["alignment"].tolist() == [0, 0]


def test_words_change_their_dictionary_or_are_only_aligned():
    source_dictionary, target_dictionary = make_dictionary(tail=1), make_dictionary(words=5)
    source = torch.tensor([[44, 6, EOS]])  # "rare0", and a word that both have
    attention = [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]]
    replaced, aligned = [result([UNK, UNK, EOS], attention)], [result([UNK, UNK, EOS], attention)]
    replace_unknown_words(replaced, source, SPECIAL, source_dictionary, target_dictionary)
    assert target_dictionary.string(replaced[0][0]["tokens"]) == "rare0 w2"
    replace_unknown_words(aligned, source, SPECIAL, None, target_dictionary)
    assert aligned[0][0]["tokens"].tolist() == [UNK, UNK, EOS]
    assert aligned[0][0]["alignment"].tolist()[:2] == [0, 1]
