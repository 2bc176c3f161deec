"""Group subword tokens into words."""

from typing import Dict, List, Sequence, Tuple

from .words import SENTENCE_MARK

SUBWORDS: Dict[str, Dict[str, str]] = {
    "subword_nmt": {"bpe_codes": "codes.bpe"},
    "sentencepiece": {"sentencepiece_model": "sentencepiece.model"},
    "gpt2": {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"},
    "huggingface": {"huggingface_tokenizer": "tokenizer.json"},
}
"""Mapping from values of fairseq's --bpe to its options for files, and their names in data and model folders."""
OPAQUE = {"gpt2": "GPT-2's pieces", "huggingface": "pieces of a Hugging Face tokeniser"}
"""Kinds of subwords of raw text, which only the user's tokeniser can join into words, and their names in messages."""


def find_word_ends(tokens: Sequence[str], subwords: str) -> List[bool]:
    """Return, for each token, whether it is the last token of a word, as all are without known subwords."""
    if subwords == "subword_nmt":
        return [not token.endswith("@@") for token in tokens]
    if subwords != "sentencepiece":
        return [True] * len(tokens)
    # A word ends before a piece that begins the next word. Each sentence mark is a separate word.
    begins = [token.startswith("▁") or token == SENTENCE_MARK for token in tokens]
    after_mark = [False] + [token == SENTENCE_MARK for token in tokens]
    return [begins[i + 1] or after_mark[i + 1] if i + 1 < len(tokens) else True for i in range(len(tokens))]


def join_words(tokens: Sequence[str], subwords: str) -> Tuple[List[str], List[int]]:
    """Join subword tokens of a kind (see :func:`find_word_ends`) into words.

    Returns the words and, for each token, the index of the word that contains it.
    """
    words: List[str] = []
    numbers: List[int] = []
    parts: List[str] = []
    for token, end in zip(tokens, find_word_ends(tokens, subwords)):
        parts.append(token[:-2] if subwords == "subword_nmt" and not end else token)
        numbers.append(len(words))
        if end:
            words.append(_join_subwords(parts, subwords))
            parts = []
    if parts:  # the last token ends in "@@", but no token follows
        words.append(_join_subwords(parts, subwords))
    return words, numbers


def _join_subwords(parts: List[str], subwords: str) -> str:
    return "".join(parts).lstrip("▁") if subwords == "sentencepiece" else "".join(parts)
