"""Text that is already split into tokens, as released corpora are: ``he did n't say so , " she added . "``."""

import re
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from .marks import SENTENCE_ENDS, SPEAKING_VERBS

_LONE_STOP = re.compile(r"(?<!\S)[.](?!\S)")
_LONE_COMMA = re.compile(r"(?<!\S),(?!\S)")
_ATTACHED = re.compile(r"(?:\w{3}[.]|\w,)(?!\S)")
_JOINED_HYPHEN = re.compile(r"\w-\w")
_ENDS = frozenset((*SENTENCE_ENDS, "...", "…"))
_CLOSING = frozenset(("''", "”", "’", ")", "]", "-rrb-", "-RRB-"))
_STRAIGHT: Dict[str, Tuple[str, str]] = {'"': ("``", "''"), "'": ("`", "'")}
_ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "st", "vs", "no"))


def is_tokenised(text: str) -> bool:
    """Return whether most full stops and commas in a text are tokens of their own, which no writer puts there."""
    stops = len(_LONE_STOP.findall(text))
    return stops > 0 and stops + len(_LONE_COMMA.findall(text)) > 2 * len(_ATTACHED.findall(text))


def _mark_quotes(tokens: List[str]) -> Iterator[str]:
    """Yield tokens in which straight quotes are the Penn Treebank's opening and closing ones.

    Quotes alternate, but one after a comma closes and one after ``said ,`` or a colon opens, so that a quote without
    a partner does not turn those after it.
    """
    is_open = dict.fromkeys(_STRAIGHT, False)
    for number, token in enumerate(tokens):
        if token not in _STRAIGHT:
            yield token
            continue
        before, word = tokens[number - 1] if number else "", tokens[number - 2].lower() if number > 1 else ""
        if token == "'" and not is_open[token] and before.endswith("s") and before != "'s":  # players ' union
            yield token
            continue
        opens = word in SPEAKING_VERBS or number == 1 if before == "," else before == ":" or not is_open[token]
        is_open[token] = opens
        yield _STRAIGHT[token][not opens]


Decode = Callable[[List[str]], str]


def split_tokenised_sentences(text: str, join: Optional[Decode] = None) -> List[str]:
    """Split tokenised text into sentences.

    A sentence ends after each full stop, question mark or exclamation mark that is a token, except after an
    abbreviation such as "mr", and includes closing quotes and brackets. ``join`` joins the Penn Treebank tokens of a
    sentence as people write them; without it, the tokens are kept.
    """
    if join is not None and not _JOINED_HYPHEN.search(text):  # some editions split words at hyphens: 35 - year - old
        text = re.sub(r"(?<=\w) - (?=\w)", "-", text)
    tokens = text.split()
    sentences: List[List[Tuple[str, str]]] = [[]]
    ended, before = False, ""
    for token, marked in zip(tokens, _mark_quotes(tokens)):
        closes = marked in _CLOSING or (token == "'" == marked)
        if ended and not closes and token not in _ENDS:
            sentences.append([])
            ended = False
        sentences[-1].append((token, marked))
        ended = ended or (token in _ENDS and not (token == "." and before in _ABBREVIATIONS))
        before = token.lower()
    if join is None:
        return [" ".join(token for token, _ in sentence) for sentence in sentences if sentence]
    return [_join_tokens([marked for _, marked in sentence], join) for sentence in sentences if sentence]


def _join_tokens(tokens: List[str], join: Decode) -> str:
    ended = [token for before, token in zip(["", *tokens], tokens) if token != "." or not before.endswith(".")]
    text = join(ended)
    text = re.sub(r"(?<!\S)[`‘] (?=\S)", lambda quote: "‘" if quote[0] == "‘ " else "'", text)
    text = re.sub(r"(?<=\S) (?=’(?:(?:s|t|m|d|re|ve|ll)\b|\W|$))", "", text)
    return re.sub(r"(?<!\S)([£$€#@]) (?=\w)", r"\1", text)
