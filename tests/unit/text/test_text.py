"""--tokenizer etads: from lines of raw text to tokens, and back."""

from argparse import Namespace

import pytest
from fairseq.data import encoders

from fairseq_etads.text.words import SENTENCE_MARK, WORD_KINDS, MosesWordTokenizer, split_sentences


def build(**options):
    return encoders.build_tokenizer(Namespace(tokenizer="etads", **options))


def test_moses_words_in_lower_case():
    tokenizer = build()
    assert tokenizer.encode("It doesn't <play> MP3-files & co.") == "it doesn 't < play > mp3 @-@ files & co ."
    assert tokenizer.decode("it doesn 't play mp3 @-@ files & co .") == "it doesn't play mp3-files & co."


@pytest.mark.parametrize("words", ["moses", "ptb"])
@pytest.mark.parametrize(
    "line", ["The cat sat. The dog ran. It was fine.", "The cat sat. the dog ran. Mr. Hu of the U.S. came! It did."]
)
def test_full_stops_are_split_whether_a_document_is_cut_by_marks_or_raw(words, line):
    marked = f" {SENTENCE_MARK} ".join(split_sentences(line))
    for keep_case in (False, True):
        raw, cut = (build(text_words=words, text_keep_case=keep_case).encode(text) for text in (line, marked))
        assert raw == cut and raw.lower().startswith("the cat sat . the dog ran . ")
    assert MosesWordTokenizer().encode("He sat. He ran.") == ["he sat . he ran ."], "the rules need the capital"


@pytest.mark.parametrize("words", [kind for kind in WORD_KINDS if kind != "spaces"])
def test_chinese_has_the_same_words_with_dropped_marks_and_without_marks(words):
    line = "今天下雨。「真的？」他问。Mr. Hu said no. 明天好！是"
    marked = f" {SENTENCE_MARK} ".join(split_sentences(line))
    assert build(text_words=words).encode(line) == build(text_words=words).encode(marked)


@pytest.mark.parametrize("words", WORD_KINDS)
@pytest.mark.parametrize("keep_case", [False, True])
def test_no_sentence_mark_is_forged(words, keep_case):
    tokenizer = build(text_words=words, text_keep_case=keep_case, text_sentence_marks="keep")
    encoded = tokenizer.encode("a <Q> b <PAD> c")
    assert SENTENCE_MARK not in encoded and encoded.lower() == "a < q > b < pad > c"
    assert SENTENCE_MARK not in tokenizer.decode(encoded.lower())
    decoded = tokenizer.decode("a < q > b < s > c < pad > d <q> e")
    assert decoded == "a < q > b < s > c < pad > d <q> e"


@pytest.mark.parametrize("words", WORD_KINDS)
@pytest.mark.parametrize("line", ["", "\t\0", " <q>  <q> "])
def test_nothing_stays_nothing(words, line):
    assert build(text_words=words, text_sentence_marks="insert").encode(line) == ""
    assert build(text_words=words).decode("") == ""


@pytest.mark.parametrize("words", WORD_KINDS)
def test_sentence_marks_are_one_token_and_survive_detokenisation(words):
    line = "One is here. <q> Two isn't!"
    kept = build(text_words=words, text_sentence_marks="keep")
    encoded = kept.encode(line)
    assert encoded.replace(SENTENCE_MARK, f" {SENTENCE_MARK} ").split().count(SENTENCE_MARK) == 1
    if words != "raw":  # raw text has no space before the mark, because SentencePiece would make a piece of it
        assert SENTENCE_MARK in encoded.split()
    assert f" {SENTENCE_MARK} " in kept.decode(encoded)
    dropped = build(text_words=words).encode(line)
    assert SENTENCE_MARK not in dropped
    assert dropped.split() == encoded.replace(SENTENCE_MARK, " ").split()
    assert build(text_words=words).encode("One is here.") == kept.encode("One is here.")


def test_marks_are_inserted_only_where_a_text_has_none():
    tokenizer = build(text_words="ptb", text_sentence_marks="insert")
    assert tokenizer.encode("Mr. A came. He left.") == "mr. a came . <q> he left ."
    assert tokenizer.encode("Mr. A came. He left. <q> End.") == "mr. a came. he left . <q> end ."
    keeping = build(text_words="ptb", text_sentence_marks="keep")
    assert keeping.encode("He came. He left.") == "he came . he left ."


def test_words_of_the_treebank_of_tokenised_and_of_raw_text():
    assert build(text_words="ptb").encode("He came. She (5) left.") == "he came . she -lrb- 5 -rrb- left ."
    assert build(text_words="ptb").decode("he came . <q> she -lrb- 5 -rrb- left .") == "he came. <q> she (5) left."
    assert build(text_words="spaces").encode("u.s. <unk> don't ( #.# )") == "u.s. <unk> don't ( #.# )"
    tokenizer = build(text_words="raw", text_keep_case=True)
    assert tokenizer.encode("  A\tB\u00a0 C\0d. \n") == "A B C d." and tokenizer.decode("A B.") == "A B."
