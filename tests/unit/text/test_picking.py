"""Picking sentences to a budget, and the levels of their probabilities."""

import itertools
import random

import pytest

from fairseq_etads.data import labels as module
from fairseq_etads.data.labels import FULL, SHORTEST, SentencePickingSettings, pick_sentences
from fairseq_etads.platform.errors import InputError


def test_the_likeliest_that_fit_are_picked_in_the_documents_order():
    lengths, probabilities = [50, 80, 40, 2, 30], [0.2, 0.9, 0.1, 0.99, 0.5]
    for budget, picked in (
        (202, [0, 1, 2, 3, 4]),  # a document that fits is taken whole
        (201, [0, 1, 2, 4]),  # all but the fragment of two words
        (110, [1, 4]),  # the budget is full
        (100, [1]),  # none of the others fits, and a fragment is not picked
        (79, [2, 4]),  # the likeliest is too long, and so is the third with the second
        (10, [1]),  # not even one fits: the likeliest
    ):
        assert pick_sentences(lengths, probabilities, budget) == picked
    assert pick_sentences([2, 1, 2, 0], [0.1, 0.2, 0.3, 0.9], 3) == [1, 2], "short ones where there are no others"
    assert pick_sentences([5, 5], [0.5, 0.5], 5) == [0] and pick_sentences([5, 5], [None, 0.0], 5) == [1]
    assert pick_sentences([0, 0], [0.5, None], 10) == []


def test_properties_of_a_pick():
    r = random.Random(1)
    for _ in range(500):
        count, budget = r.randint(1, 12), r.randint(3, 60)
        lengths = [r.randint(0, 25) for _ in range(count)]
        probabilities = [r.random() for _ in range(count)]
        found = pick_sentences(lengths, probabilities, budget)
        usable = [n for n in range(count) if lengths[n] >= SHORTEST]
        total = sum(lengths[n] for n in found)
        assert found == sorted(set(found)) and (total <= budget or len(found) == 1)
        if not usable or total > budget or sum(lengths) <= budget:
            continue
        assert set(found) <= set(usable)
        for n in set(usable) - set(found):
            likelier = sum(lengths[m] for m in found if probabilities[m] > probabilities[n])
            assert likelier + lengths[n] > budget or likelier >= FULL * budget, "a likelier one that fits is picked"


def test_levels_are_quantiles_of_the_training():
    values = [number / 1000 for number in range(1000)]
    random.Random(2).shuffle(values)
    edges = module.compute_probability_level_bounds(values)
    assert edges == (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
    picking = SentencePickingSettings(200, edges)
    levels = [int(picking.find_probability_level(value)) for value in sorted(values)]
    assert [(level, len(list(group))) for level, group in itertools.groupby(levels)] == [
        *((1, 150), (2, 150), (3, 150), (4, 150)),
        *((5, 100), (6, 100), (7, 100), (8, 100)),
    ]
    with pytest.raises(InputError, match="no sentences"):
        module.compute_probability_level_bounds([])


def test_a_file_is_read_as_it_was_written_and_words_are_counted_between_white_space(tmp_path):
    picking, path = SentencePickingSettings(6, (0.1, 0.25)), tmp_path / "picking.json"
    path.write_text(picking.to_json())
    assert SentencePickingSettings.read(path, "") == picking
    picked = picking.pick(["one two three.", "four five six seven", "a  b\tc"], [0.1, 0.2, 0.3])
    assert [pick.number for pick in picked] == [0, 2]


@pytest.mark.parametrize("edges", ["[0.2, 0.1]", '"0.1"', '[], "more": 1', "[NaN]"])
def test_a_damaged_file_is_refused(tmp_path, edges):
    path = tmp_path / "picking.json"
    path.write_text(f'{{"words": 200, "edges": {edges}}}')
    with pytest.raises(InputError, match=r"picking.json is damaged .*; make it again"):
        SentencePickingSettings.read(path, "make it again")
