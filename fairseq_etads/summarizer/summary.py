"""Data classes for the results of :class:`Summarizer`, and the words of the raw text that summaries and tokens spell.

Cleaning and tokenisation can change the case, compose accents, remove invisible characters, rewrite quotes and dashes,
and insert spaces. For this reason, the text and the tokens are *folded* before they are compared, i.e. converted to a
form that does not depend on these changes. This module imports neither torch nor fairseq.
"""

import itertools
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple

from ..text.documents import SURROGATE
from ..text.subsequences import WordRuns
from ..text.words import SENTENCE_ENDS, count_words, is_tokenised
from .explanation import ChosenSentence, Explanation, Selection, describe_choice
from .surprisal import Surprisal

if TYPE_CHECKING:
    from ..evaluation.evidence import Evidence

Span = Tuple[int, int]
"""Span of characters: the index of its first character, and the index after its last character."""

WINDOW = 2000
"""Number of folded characters in which to search for a token that is not at its expected position."""
_CERTAIN = 12
"""Minimum number of matching folded characters, in a token and the tokens after it, for a match to be certain."""
_BLOCK = 4096
_FOLDED = {**dict.fromkeys('"“”„', "''"), **dict.fromkeys("’‘´`", "'"), **dict.fromkeys("–—―", "--")}
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""Mapping from the bracket tokens of the Penn Treebank to the brackets themselves."""
_TOKEN = re.compile(r"``|''|\.\.\.|--|\w+|[^\w\s]")
_MOST_PLACES = 200
"""Maximum number of a word's occurrences that are compared, so that time is linear in the length of the document."""


def fold_for_alignment(text: str) -> str:
    """Convert a word, or a character with its accents, to a form that cleaning and tokenisation do not change."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    cleaned = SURROGATE.sub("\ufffd", decomposed)
    return "".join(c for c in cleaned if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf"))


def guess_token_spelling(token: str, words: str, subwords: Optional[str]) -> str:
    """Return the approximate spelling of a token in the raw text. It is accurate enough for :func:`fold_for_alignment`.

    The tokenisation is given by ``words``, one of WORD_KINDS, and ``subwords``, "subword_nmt", "sentencepiece" or None.
    """
    if subwords == "subword_nmt" and token.endswith("@@"):
        token = token[:-2]
    elif subwords == "sentencepiece":
        token = token.replace("▁", "")
    if words == "moses" and token == "@-@":
        return "-"
    return _BRACKETS.get(token.lower(), token) if words == "ptb" else token


def _iterate_character_spans(text: str) -> Iterator[Span]:
    """Yield the span of each character, including the combining accents after it."""
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and not text[end].isascii() and unicodedata.combining(text[end]):
            end += 1
        yield start, end
        start = end


def align_tokens(text: str, spelled: Sequence[str]) -> List[Optional[Span]]:
    """Return the span of each token in ``text``, or None for tokens with an unknown span.

    The tokens, which may end before the text does, are given as :func:`guess_token_spelling` spells them, and as empty
    strings if they do not occur in the text.
    """
    characters = _iterate_character_spans(text)
    tokens = [fold_for_alignment(token) for token in spelled]
    folded = ""
    spans: List[Span] = []  # of the original character of each folded one
    found: List[Optional[Span]] = []
    place = 0
    for number, token in enumerate(tokens):
        if not token:
            found.append(None)
            continue
        # Only as much of the text is folded as the tokens need.
        while len(folded) < place + WINDOW + len(token) and (block := list(itertools.islice(characters, _BLOCK))):
            pieces = [fold_for_alignment(text[start:end]) for start, end in block]
            folded += "".join(pieces)
            spans += [span for span, piece in zip(block, pieces) for _ in piece]
        start = place if folded.startswith(token, place) else _find_later_token(folded, place, tokens, number)
        if start < 0:
            found.append(None)
            continue
        place = start + len(token)
        found.append((spans[start][0], spans[place - 1][1]))
    return found


def _find_later_token(folded: str, place: int, tokens: Sequence[str], number: int) -> int:
    """Search the text after ``place`` for a token and the tokens that follow it."""
    wanted = ""
    for token in tokens[number:]:
        wanted += token
        if len(wanted) >= _CERTAIN:
            break
    end = place + WINDOW + len(wanted)
    start = folded.find(wanted, place, end)
    is_certain = len(wanted) >= _CERTAIN or folded.find(wanted, start + 1, end) < 0
    return start if is_certain else -1


class DocumentSpelling:
    """The spelling of the words in a raw text. Restored sentences begin with a capital letter if ``capitalises``."""

    def __init__(self, text: str, capitalises: bool):
        self._text, self._capitalises = SURROGATE.sub("\ufffd", text), capitalises
        self._keeps_spaces = not is_tokenised(text)
        self._tokens = list(_TOKEN.finditer(self._text))
        self._runs = WordRuns([fold_for_alignment(found.group()) for found in self._tokens], _MOST_PLACES)

    def restore(self, sentence: str) -> str:
        """Return a sentence with its words spelled and spaced as in the document, where the document has them.

        The longest sequences of words that both have in common are taken over. The number of words never grows.
        """
        tokens = list(_TOKEN.finditer(sentence))
        folded = [fold_for_alignment(found.group()) for found in tokens]
        pieces: List[str] = []
        number = 0
        while number < len(tokens):
            place, length = self._runs.find_longest(folded, number)
            if number:
                pieces.append(sentence[tokens[number - 1].end() : tokens[number].start()])
            if length < 2 or not self._keeps_spaces:
                length = 1
                pieces.append(self._spell_word(tokens[number].group(), folded[number]))
            else:
                first = self._tokens[place]
                start = first.start() if number == 0 or not self._is_first(place) else first.end()
                if start == first.end():
                    pieces.append(self._spell_word(tokens[number].group(), folded[number]))
                pieces.append(self._text[start : self._tokens[place + length - 1].end()])
            number += length
        restored = " ".join("".join(pieces).split())
        if count_words(restored) > count_words(sentence):
            restored = sentence
        return restored[:1].upper() + restored[1:] if self._capitalises else restored

    def _is_first(self, place: int) -> bool:
        """Return whether a token is the first of a sentence or quotation, where it has a capital letter."""
        return place == 0 or self._tokens[place - 1].group() in (*SENTENCE_ENDS, ":", '"', "“", "``", "'", "‘")

    def _spell_word(self, token: str, folded: str) -> str:
        """Return the most frequent spelling of a word inside sentences of the document, or its own."""
        found = Counter(
            self._tokens[place].group()
            for place in self._runs.places.get(folded, ())[:_MOST_PLACES]
            if token[0].isalnum() and not self._is_first(place)
        )
        return found.most_common(1)[0][0] if found else token


@dataclass(frozen=True)
class CopiedWord:
    """A summary word that the model copied from the document.

    A word is considered copied if it is not in the model's vocabulary, or if copying contributed more to its
    probability than generation. If the word occurs several times in the document, the position refers to the occurrence
    with the highest copy attention.

    Attributes:
        word: the copied word, with its subwords joined.
        first, last: indices of the word's first and last tokens in :attr:`Summary.tokens`.
        start, end: position text[start:end] of the word in the raw document. Both are None if tokenisation changed the
            text too much to determine the position.
    """

    word: str
    first: int
    last: int
    start: Optional[int]
    end: Optional[int]


@dataclass(frozen=True)
class Truncation:
    """Numbers of document tokens that the model read and did not read.

    With an extractor, only the tokens of selected sentences are counted as ``left_out``.
    """

    read: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Summary:
    """A summary of a document with its score and details.

    Attributes:
        text: text of the summary, as the model writes it. If the model was trained to mark sentences, they are
            separated by "<q>".
        score: normalised log-probability of the summary, minus penalties. If a content model chose the sentences, the
            score is the expected ROUGE-1 plus twice the expected ROUGE-2, both on a scale from 0 to 1. Scores are
            comparable only if they are of the same type and belong to the same document.
        tokens: summary tokens as the model generated them.
        copied: copied words, in the order of the summary. They include all words in sentences that were chosen from the
            document. Other words are included only if the model has a pointer.
        truncation: numbers of document tokens that the model read and did not read.
        problem: reason why the document could not be summarised, or an empty string.
        picked: sentences that the extractor in the model folder selected from the document, with their probabilities.
            None without an extractor.
        surprisal: surprisal of the document compared with the training documents. None if the document is too short, or
            if the model folder does not contain the surprisals of the training documents.
        chosen: sentences of the summary, if a content model chose them from the document and all hypotheses
            (``choose="content"``), or if a limit such as ``words`` did. None if the summary is a hypothesis of the
            model.
        sentences: sentences of the summary, with the case and spacing of the document's words.
    """

    text: str
    score: float = 0.0
    tokens: Tuple[str, ...] = ()
    copied: Tuple[CopiedWord, ...] = ()
    truncation: Truncation = Truncation()
    problem: str = ""
    picked: Optional[Selection] = None
    surprisal: Optional[Surprisal] = None
    chosen: Optional[Tuple[ChosenSentence, ...]] = None
    sentences: Tuple[str, ...] = ()

    # The summariser sets this attribute on each instance. It is not a field, so that copies and pickles of a summary
    # contain only data.
    _make_explanation: ClassVar[Any] = None
    _document: ClassVar[Optional[str]] = None

    def explain(self) -> Explanation:
        """Explain this summary (see :meth:`Summarizer.explain`). Notebooks display the explanation as an HTML page.

        For this purpose, a summary stores references to its document and to the summariser. Copied and unpickled
        summaries do not contain these references and cannot be explained.

        Raises:
            ValueError: the summary was copied or unpickled, or the document could not be summarised (see
                :attr:`problem`).
        """
        if self.problem:
            raise ValueError(f"there is no summary to explain: {self.problem}")
        if self._make_explanation is None:
            raise ValueError(
                "this copy of a summary has no reference to its summariser and document: call "
                "summarizer.explain(document, summary=summary.text)"
            )
        explanation: Explanation = self._make_explanation()
        return explanation

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_make_explanation", "_document")}

    @property
    def evidence(self) -> "List[Evidence]":
        """Return the evidence for each sentence, with positions in the raw document.

        It says how directly a sentence is copied, not whether it is true. Computing it takes some milliseconds.

        Raises:
            ValueError: the summary was copied, unpickled, or made from prepared data, and has no reference to its
                document (see :func:`fairseq_etads.evaluation.evidence.find_evidence`).
        """
        if self._document is None:
            raise ValueError("this summary has no reference to its document: call find_evidence(document, sentences)")
        from ..evaluation.evidence import find_evidence  # numpy is imported here because --help does not need it

        return find_evidence(self._document, self.sentences)

    def to_dict(self) -> Dict[str, Any]:
        """Convert the summary to a dictionary of JSON types."""
        return {
            "summary": self.text,
            "sentences": list(self.sentences),
            "score": self.score if math.isfinite(self.score) else None,
            "copied": [{"word": c.word, "start": c.start, "end": c.end} for c in self.copied],
            "read": self.truncation.read,
            "left_out": self.truncation.left_out,
            **describe_choice(self),
        }


@dataclass(frozen=True)
class PartialSummary:
    """The best summary of a document that the search has found so far. Later summaries may begin with other words.

    Attributes:
        number: index of the document in the input.
        text, tokens: text and tokens of the summary, as in :class:`Summary`.
        score: score of the summary, as in :class:`Summary`. For an unfinished summary, this is the score that it would
            receive if it ended here.
        has_ended: whether the summary is complete. The search continues as long as a better summary is possible.
        spans: position text[start:end] of each token that the model read, or None for unknown positions.
        attention: attention weights of these document tokens at the decoding step that generated the last token of the
            summary. Together with the weight of the document's end symbol, they sum to 1. None if the summary is
            complete, or if the model does not return attention weights.
        copying: copy distribution over these tokens at the same step. None if the summary is complete, or if the model
            has no pointer.
    """

    number: int
    text: str
    tokens: Tuple[str, ...]
    score: float
    has_ended: bool
    spans: Tuple[Optional[Span], ...]
    attention: Optional[Tuple[float, ...]]
    copying: Optional[Tuple[float, ...]]


OnPartialSummary = Callable[[PartialSummary], None]
