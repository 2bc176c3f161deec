"""Lengths of summaries in training, and the bounds of a search that follow from them."""

import json

import pytest

from fairseq_etads.search.lengths import TextLengths, are_percentiles, choose_length_bounds


def test_percentiles_and_means_by_hand():
    lengths = TextLengths(range(101, 0, -1))
    assert [lengths.get_percentile(percent) for percent in (0, 1, 50, 99, 100)] == [1, 2, 51, 100, 101]
    assert (
        lengths.compute_mean() == 51
        and lengths.compute_mean(longest=1) == 1
        and TextLengths([1, 5, 9]).compute_mean(longest=6) == 4
    )
    assert lengths.get_percentiles() == {str(percent): percent + 1 for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    with pytest.raises(ValueError):
        TextLengths([])


def test_what_is_written_is_recognised_and_what_is_not_is_not():
    found = TextLengths([4, 7, 7, 12]).get_percentiles()
    assert are_percentiles(json.loads(json.dumps(found)))
    for other in ([], {}, None, {**found, "50": -1}, {**found, "50": 6.5}, {**found, "1": 99}, {**found, "2": 5}):
        assert not are_percentiles(other)


def test_short_summaries_lose_only_odd_lengths_and_long_ones_have_the_median_at_least():
    short = TextLengths([3] * 8 + [7] * 80 + [11] * 11 + [40]).get_percentiles()
    assert choose_length_bounds(short) == {"min_len": 7, "max_len": 12}
    long = TextLengths([50, 66, 85, 108, 128]).get_percentiles()
    assert choose_length_bounds(long) == {"min_len": 85, "max_len": 128}
    assert choose_length_bounds(long, longest=100) == {"min_len": 85, "max_len": 100}
    assert choose_length_bounds(long, longest=60) == {"min_len": 60, "max_len": 60}
    assert choose_length_bounds(TextLengths([0, 0, 1]).get_percentiles()) == {"min_len": 1, "max_len": 5}
