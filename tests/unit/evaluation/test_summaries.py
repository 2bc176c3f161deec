"""Files of summaries: lines, sentences, limits in bytes, and warnings about suspicious files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rouge import ANY_TEXT

from fairseq_etads.evaluation import read_lines, split_summary_into_sentences
from fairseq_etads.evaluation.summaries import find_swapped_hypotheses_and_references, truncate_sentences


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("a\u2028b\x0cc\r\n\nd".encode())
    assert read_lines(str(path)) == ["a\u2028b\x0cc", "", "d"]
    path.write_bytes(b"\n")
    assert read_lines(str(path)) == [""]


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("a b . <q>c d .<q>", ["a b .", "c d ."]),
        ("a b . c d . <q> e", ["a b . c d .", "e"]),  # if there are marks, sentences end only there
        ("a b . c d .", ["a b .", "c d ."]),  # tokenised
        ("J. Smith came .", ["J. Smith came ."]),  # an initial
        ('he said " no . " she left .', ['he said " no . "', "she left ."]),
        ("dr. smith came .", ["dr.", "smith came ."]),  # this is a documented limit of untrained rules
        ("a\nb", ["a b"]),  # a line break counts as white space
        (" <q> ", []),
    ],
)
def test_split_summary(text, sentences):
    assert split_summary_into_sentences(text) == sentences
    assert split_summary_into_sentences("a . ## b", sentence_mark="##") == ["a .", "b"]
    assert split_summary_into_sentences("a <q> b . c", split_sentences=False) == ["a b . c"]


@settings(max_examples=60)
@given(st.lists(ANY_TEXT, max_size=5), st.integers(1, 90))
def test_bytes_are_counted_as_a_loop_counts_them(sentences, limit):
    kept = truncate_sentences(sentences, limit)
    used, expected = 0, []
    for sentence in sentences:
        cut = b""
        for character in sentence:
            data = character.encode()
            if used + len(data) > limit:
                used = limit
                break
            cut += data
            used += len(data)
        expected.append(cut.decode())
        if used >= limit:
            break
    assert kept == expected


def test_swapped_files_are_noticed_by_their_names():
    swapped = [("test.target", "out.txt"), ("summaries.txt", "predictions.txt")]
    right = [("out.txt", "test.target"), ("runs/reference/summaries.txt", "test.target")]  # folders do not count
    for hypothesis, reference in (*swapped, *right):
        warnings = list(find_swapped_hypotheses_and_references(hypothesis, [reference], [["a"], ["b"]]))
        assert bool(warnings) == ((hypothesis, reference) in swapped)
