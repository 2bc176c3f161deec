"""--tokenizer etads: what it does to a line, and back."""

from argparse import Namespace

import pytest
from fairseq.data import encoders

import fairseq_etads  # noqa: F401


def build(**options):
    return encoders.build_tokenizer(Namespace(tokenizer="etads", **options))


def test_moses_words_in_lower_case():
    tokenizer = build()
    assert tokenizer.encode("It doesn't <play> MP3-files & co.") == "it doesn 't < play > mp3 @-@ files & co ."
    assert tokenizer.decode("it doesn 't play mp3 @-@ files & co .") == "it doesn't play mp3-files & co."


@pytest.mark.parametrize("line", ["", "  ", "\t\0"])
def test_nothing_stays_nothing(line):
    assert build().encode(line) == build(text_words="raw").encode(line) == ""
    assert build().decode("") == ""


def test_raw_text_keeps_its_words_and_case_if_asked():
    tokenizer = build(text_words="raw", text_keep_case=True)
    assert tokenizer.encode("  A\tB\u00a0 C\0d. \n") == "A B C d."
    assert tokenizer.decode("A B.") == "A B."
