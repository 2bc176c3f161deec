"""Post-processing of finished summaries from their source, on results made by hand."""

import pytest
import torch
from helpers import EOS, PAD, make_dictionary

from fairseq_etads.search.generator import replace_unknown_words
from fairseq_etads.search.options import DecodingOptions
from fairseq_etads.search.search_rules import SpecialTokens

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
