"""Characters of a raw text for each of its tokens, despite all changes by cleaning and tokenising."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_etads.summarizer import summary
from fairseq_etads.summarizer.summary import WINDOW, align_tokens, fold_for_alignment, guess_token_spelling
from fairseq_etads.text.documents import join_to_one_line
from fairseq_etads.text.tokenizer import TextTokenizer, TextTokenizerConfig
from fairseq_etads.text.words import WORD_KINDS

TOKENIZERS = {kind: TextTokenizer(TextTokenizerConfig(text_words=kind)) for kind in WORD_KINDS}


def aligned(text, kind="moses"):
    """Pair each token with the characters that it is said to come from."""
    tokens = TOKENIZERS[kind].encode(join_to_one_line(text)).split()
    spans = align_tokens(text, [guess_token_spelling(token, kind, None) for token in tokens])
    return [(token, None if span is None else text[slice(*span)]) for token, span in zip(tokens, spans)]


@pytest.mark.parametrize(
    "text,pairs",
    [
        ("A well-known Game.", ["A", "well", "-", "known", "Game", "."]),
        ("don't “quote” it … now", ["don", "'t", "“", "quote", "”", "it", "…", "now"]),
        ("cafe\u0301 CAFE\u0301 café", ["cafe\u0301", "CAFE\u0301", "café"]),
        ("\u0130stanbul STRASSE Straße", ["\u0130stanbul", "STRASSE", "Straße"]),
        ("soft\u00adhyphen zero\u200bwidth", ["soft\u00adhyphen", "zero\u200bwidth"]),
        ("😀 two😀😀 end", ["😀", "two", "😀", "😀", "end"]),
        ("ﬁne ① ½ tab\tand\0end", ["ﬁne", "①", "½", "tab", "and", "end"]),
        ("half \ud83d surrogate", ["half", "\ud83d", "surrogate"]),
        ("one <q> two", ["one", "two"]),
    ],
)
def test_words_are_found_where_they_stand(text, pairs):
    assert [found for _, found in aligned(text)] == pairs


def test_changed_signs_and_single_characters_are_found():
    tokens, found = zip(*aligned('He said "yes" (twice) – don\'t.', "ptb"))
    assert " ".join(tokens) == "he said `` yes '' -lrb- twice -rrb- -- do n't ."
    assert " ".join(found) == 'He said " yes " ( twice ) – do n\'t .'
    assert [text for _, text in aligned("中文 abc文", "characters")] == ["中", "文", "abc", "文"]


def test_subwords_have_parts_of_words():
    text = "Unknown Words"
    for kind, tokens in (
        ("subword_nmt", ["un@@", "know@@", "n", "words"]),
        ("sentencepiece", ["▁un", "know", "n", "▁", "words"]),
    ):
        spans = align_tokens(text, [guess_token_spelling(token, "raw", kind) for token in tokens])
        assert [text[slice(*span)] for span in spans if span] == ["Un", "know", "n", "Words"], kind


def test_what_is_not_in_the_text_is_left_out_and_what_follows_is_found():
    assert align_tokens("one two three four five", ["one", "zwei", "three", "four", "five"])[1:3] == [None, (8, 13)]
    # The token is not in its place, and occurs in two other places.
    assert align_tokens("a b c b d", ["x", "b"]) == [None, None]
    assert align_tokens("a b c d", ["x", "b"]) == [None, (2, 3)]
    # The tokens after it tell which of two places is its own.
    assert align_tokens("a b c b delta epsilon", ["x", "b", "delta", "epsilon"])[:2] == [None, (6, 7)]
    assert align_tokens("", ["a"]) == [None]
    far = "x " * (2 * WINDOW) + "the very last words"
    assert align_tokens(far, ["the", "very", "last", "words"]) == [None] * 4
    # A mark between sentences has no spelling.
    assert align_tokens("One bee. Two dogs.", ["one", "bee", ".", "", "two"]) == [(0, 3), (4, 7), (7, 8), None, (9, 12)]


@pytest.mark.parametrize("kind", WORD_KINDS)
@given(text=st.text(max_size=60))
def test_any_text_is_aligned_in_order_and_inside(kind, text):
    tokens = TOKENIZERS[kind].encode(join_to_one_line(text)).split()
    spans = align_tokens(text, [guess_token_spelling(token, kind, None) for token in tokens])
    assert len(spans) == len(tokens)
    found = [span for span in spans if span is not None]
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert found == sorted(found)
    for token, span in zip(tokens, spans):
        if span is not None:
            assert fold_for_alignment(guess_token_spelling(token, kind, None)) in fold_for_alignment(text[slice(*span)])


def test_a_long_text_is_only_folded_as_far_as_its_tokens_go(monkeypatch):
    folded = []
    plain = summary.fold_for_alignment
    monkeypatch.setattr(summary, "fold_for_alignment", lambda text: folded.append(text) or plain(text))
    assert align_tokens("word " * 100_000, ["word"] * 10)[-1] == (45, 49)
    assert sum(map(len, folded)) < 50_000
