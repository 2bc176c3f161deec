"""Lengths of summaries in training, the bounds that follow from them, and random limits that hold or are refused."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_etads.search.lengths import LimitError, SummaryLimits, TextLengths, are_percentiles, choose_length_bounds
from fairseq_etads.search.sentence_choosing import ExpectedNgrams, choose_sentence_set

SENTENCES = st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=7)
OPTIONS = st.builds(
    SimpleNamespace,
    sentences=st.integers(0, 3),
    words=st.integers(0, 12),
    percent=st.sampled_from([0.0, 20.0, 60.0]),
    must_include=st.lists(st.sampled_from(["a b", "C", "g", "x"]), max_size=2),
)


def holds(text, sentences):
    return any(f" {text.lower()} " in f" {sentence} " for sentence in sentences)


def check(chosen, document, options):
    """The limits hold, as counted here."""
    words = sum(len(one.split()) for one in chosen)
    assert not options.sentences or len(chosen) <= options.sentences
    assert not options.words or words <= options.words
    assert not options.percent or words <= options.percent / 100 * sum(len(one.split()) for one in document)
    assert all(holds(text, chosen) for text in options.must_include)


def check_refusal(error, candidates, document, options):
    """The message is about a limit that cannot hold."""
    if "neither" in str(error):
        missing = [text for text in options.must_include if not holds(text, [*candidates, *document])]
        assert missing and missing[0] in str(error)
    elif "shortest sentences that contain" in str(error):
        assert options.must_include
    else:
        share = int(sum(len(one.split()) for one in document) * options.percent / 100) if options.percent else 99
        shortest = min(len(one.split()) for one in candidates)
        assert shortest > min(options.words or 99, share) and f"the shortest has {shortest} words" in str(error)


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3), OPTIONS)
def test_sentences_of_hypotheses_keep_to_the_limits(document, hypotheses, options):
    try:
        places = SummaryLimits.for_document(options, " ".join(document)).choose_among(hypotheses, document)
    except LimitError as error:
        check_refusal(error, [one for sentences in hypotheses for one in sentences], document, options)
    else:
        assert places == sorted(places)
        check([[*hypotheses, document][number][place] for number, place in places], document, options)


@given(SENTENCES, OPTIONS)
def test_sentences_that_a_content_model_chooses_keep_to_the_limits(document, options):
    limits = SummaryLimits.for_document(options, " ".join(document))
    expected = ExpectedNgrams({(("a",), 1): 0.9, (("b", "c"), 1): 0.5, (("d",), 1): 0.2}, 5.0)
    try:
        chosen = choose_sentence_set([one.split() for one in document], expected, 1e9, limits=limits, written=document)
    except LimitError as error:
        check_refusal(error, document, document, options)
    else:
        assert chosen == sorted(set(chosen)) and chosen
        check([document[number] for number in chosen], document, options)


def test_as_many_sentences_as_wanted_are_chosen_even_if_fewer_would_score_better():
    document = ["a b c", "x y z", "u v w"]
    expected = ExpectedNgrams({(("a",), 1): 1.0}, 3.0)
    words = [one.split() for one in document]
    assert choose_sentence_set(words, expected, 1e9, limits=SummaryLimits(), written=document) == [0]
    assert len(choose_sentence_set(words, expected, 1e9, limits=SummaryLimits(sentences=3), written=document)) == 3


def test_a_text_is_found_as_whole_words_in_any_case():
    limits = SummaryLimits(texts=("New  York", "art"))
    assert limits.list_missing(["a party in new york"]) == ["art"]
    with pytest.raises(LimitError, match='--must-include "art": neither'):
        limits.choose_required(["a party in new york"])


def test_percentiles_and_means_by_hand():
    lengths = TextLengths(range(101, 0, -1))
    assert [lengths.get_percentile(percent) for percent in (0, 1, 50, 99, 100)] == [1, 2, 51, 100, 101]
    assert (lengths.compute_mean(), lengths.compute_mean(longest=1)) == (51, 1)
    assert TextLengths([1, 5, 9]).compute_mean(longest=6) == 4
    found = lengths.get_percentiles()
    assert found == {str(percent): percent + 1 for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    assert are_percentiles(json.loads(json.dumps(found)))
    for other in ([], {}, None, {**found, "50": -1}, {**found, "50": 51.5}, {**found, "1": 99}, {**found, "2": 5}):
        assert not are_percentiles(other)
    with pytest.raises(ValueError):
        TextLengths([])


def test_short_summaries_lose_only_odd_lengths_and_long_ones_have_the_median_at_least():
    short = TextLengths([3] * 8 + [7] * 80 + [11] * 11 + [40]).get_percentiles()
    assert choose_length_bounds(short) == {"min_len": 7, "max_len": 12}
    long = TextLengths([50, 66, 85, 108, 128]).get_percentiles()
    assert choose_length_bounds(long) == {"min_len": 85, "max_len": 128}
    assert choose_length_bounds(long, longest=100) == {"min_len": 85, "max_len": 100}
    assert choose_length_bounds(long, longest=60) == {"min_len": 60, "max_len": 60}
    assert choose_length_bounds(TextLengths([0, 0, 1]).get_percentiles()) == {"min_len": 1, "max_len": 5}
