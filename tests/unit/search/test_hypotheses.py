"""Finished hypotheses and recombined extensions, compared with loops; unknown words replaced by hand."""

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
DICTIONARY = make_dictionary(tail=1)
SPECIAL = SpecialTokens.from_dictionary(DICTIONARY, DecodingOptions())


def replaced(source, tokens, attention, source_dictionary=DICTIONARY, target_dictionary=DICTIONARY):
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
