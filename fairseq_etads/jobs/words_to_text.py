"""The words of prepared data as text, for the commands that write sentences of documents."""

import argparse
from pathlib import Path
from typing import Any

from ..platform.errors import InputError
from ..text.tokenizer import TextTokenizer
from ..vocabulary.kinds import detect_words


def detokenizer_of(dictionary: Any, subwords: str, folder: Path) -> TextTokenizer:
    """What turns words, whose subwords have been joined, into text; sentence marks stay.

    Args:
        dictionary: of the data. subwords: see :func:`~fairseq_etads.text.subwords.word_ends`. folder: for the message.

    Raises:
        InputError: the data has GPT-2's pieces.
    """
    if subwords == "gpt2":
        raise InputError(f"DATA {folder}: it has GPT-2's pieces, which are no words; prepare the text in another way")
    kind = detect_words(dictionary, subwords)
    return TextTokenizer(
        argparse.Namespace(text_words=kind, text_keep_case=True, text_language="en", text_sentence_marks="keep")
    )
