"""Files of summaries: lines, sentences, limits in bytes, and warnings about suspicious files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.punkt import PunktSentenceTokenizer
from test_rouge import ANY_TEXT

from fairseq_etads.evaluation import read_lines, split_summary_into_sentences, summaries
from fairseq_etads.evaluation.summaries import (
    find_leftover_marks_and_symbols,
    find_swapped_hypotheses_and_references,
    truncate_sentences,
)
from fairseq_etads.text.words import BLOCK


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
        ("The cat sat. It slept! Why?", ["The cat sat.", "It slept!", "Why?"]),
        ("J. Smith came .", ["J. Smith came ."]),  # an initial
        ('he said " no . " she left .', ['he said " no . "', "she left ."]),
        ("it costs 3.5 dollars .", ["it costs 3.5 dollars ."]),
        ("dr. smith came .", ["dr.", "smith came ."]),  # this is a documented limit of untrained rules
        ("a\nb", ["a b"]),  # a line break counts as white space
        (" <q> ", []),
    ],
)
def test_split_summary(text, sentences):
    assert split_summary_into_sentences(text) == sentences


def test_long_lines_are_split_in_blocks(monkeypatch):
    """nltk refuses lines on which its regular expression runs for more than five seconds."""
    lengths = []

    class Punkt(PunktSentenceTokenizer):
        def tokenize(self, text, *given):
            lengths.append(len(text))
            return super().tokenize(text, *given)

    monkeypatch.setattr(summaries, "_make_untrained_punkt", Punkt)
    sentences = [f"Sentence {number} has some words, and it ends." for number in range(2500)]
    assert split_summary_into_sentences(" ".join(sentences)) == sentences
    assert max(lengths) < 2 * BLOCK and len(lengths) > 4


def test_split_summary_options():
    assert split_summary_into_sentences("a . ## b", sentence_mark="##") == ["a .", "b"]
    assert split_summary_into_sentences("a <q> b . c", sentence_mark="") == ["a <q> b .", "c"]
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
    assert sum(len(sentence.encode()) for sentence in kept) <= limit


def test_leftovers_are_found_and_counted():
    lines = ["a b@@ c", "ends b@@", "▁a b", "x <unk> y", "mail a@@b", "</s>", "a < b"]
    found = list(find_leftover_marks_and_symbols("f", lines))
    assert len(found) == 3 and "2 of 7 lines" in found[0] and "line 3" in found[1] and "line 4" in found[2]
    assert not list(find_leftover_marks_and_symbols("f", ["a b", "", "e-mail @@ home <q>"][:2]))


def test_swapped_files_are_noticed_by_their_names():
    names = [("test.target", "out.txt"), ("ref.txt", "hyp.txt"), ("summaries.txt", "predictions.txt")]
    right = [("out.txt", "test.target"), ("runs/reference/summaries.txt", "test.target")]  # folders do not count
    for hypothesis, reference in (*names, *right):
        warnings = list(find_swapped_hypotheses_and_references(hypothesis, [reference], [["a"], ["b"]]))
        assert bool(warnings) == ((hypothesis, reference) in names)
