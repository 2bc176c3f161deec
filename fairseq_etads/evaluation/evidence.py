"""Find the sentences of a document from which each sentence of a summary was copied, and what the document lacks.

The measure is the cost of writing a sentence by copying words from the document one after the other. The next word of
the document is free; jumps cost more the further they lead, and words of one's own, above all numbers, cost most. A
sentence that was copied word for word has the support 1; a sentence that has nothing in common with the document, a
support near 0.

The measure says how directly a sentence is copied, not whether it is true. It must not be used to rank systems, because
it rewards copying: a summary in a system's own words has little support and may be right.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import regex

from ..text.words import WORD, split_marked_sentences
from .rouge import RougeSettings
from .summaries import SENTENCE_MARK, SentenceMark, unify_sentence_marks

NOTICE = "Support says how directly a sentence is copied from the document, not whether it is true."
"""Sentence that everything that shows evidence must also show."""

_WORD = regex.compile(
    r"(?P<number>\p{Nd}{1,3}(?:, ?\p{Nd}{3})+(?!\p{Nd})|\p{Nd}++(?:\.\p{Nd}+)?+(?!\p{L}))"  # 235,000 or 235, 000 or 2.5
    rf"|(?<=\p{{L}} ?)n't\b|\p{{L}}+?(?=n't\b)|(?:{WORD})"
)
_SMALL_NUMBERS = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty",
)
_NUMBERS = {word: str(number) for number, word in enumerate(_SMALL_NUMBERS)}
_FUNCTION_WORDS = set(
    re.findall(
        r"\w+",
        "a about above across after again against all along also although am among an and another any are around as "
        "at be because been before behind being below beneath beside between beyond both but by can could despite did "
        "do does doing down during each either else even ever every few for from further had has have having he her "
        "here hers herself him himself his how however i if in inside into is it its itself just less many may me "
        "might mine more most much must my myself near neither never no nobody none nor not nothing now of off often "
        "on once only onto or other others ought our ours out outside over own per quite rather s same shall she "
        "should since so some somebody someone something still such than that the their theirs them themselves then "
        "there therefore these they this those though through throughout thus till to together too toward towards "
        "under unless until up upon us very was we were what whatever when where whether which while who whom whose "
        "why will with within without would yet you your yours yourself",
    )
)
# Costs of a word, by the place from which it is copied. The first costs were guessed before the measure was compared
# with people's judgements; only the cost of a number was raised afterwards, from 5 to 10.
_FORWARD, _FORWARD_STEP, _LONGEST_GAP = 1.0, 0.1, 20  # a later word of the same sentence
_BACKWARD = 2.0
_OTHER_SENTENCE, _OTHER_SENTENCE_FUNCTION_WORD = 3.0, 1.5
_OWN_FUNCTION_WORD, _OWN_WORD, _OWN_NUMBER = 1.0, 5.0, 10.0
_STATES = 60  # cheapest places that are kept after each word


class _Word(NamedTuple):
    """A word of a text, with its position and the key by which words are compared."""

    key: str
    start: int
    end: int
    is_number: bool
    is_content: bool


@dataclass(frozen=True)
class Source:
    """A sentence of the document from which a sentence of the summary was copied.

    Attributes:
        number: index of the sentence in the document, starting at 0.
        start, end: position document[start:end] of the sentence.
        words: number of content words that were copied from it.
    """

    number: int
    start: int
    end: int
    words: int


@dataclass(frozen=True)
class NewWord:
    """A word of a summary's sentence that the document does not contain.

    Attributes:
        word: the word as the summary spells it.
        start, end: position sentence[start:end] of the word.
        kind: "number", "name" (a capitalised word that does not begin the sentence) or "word".
    """

    word: str
    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Evidence:
    """Evidence in the document for a sentence of a summary.

    Attributes:
        sentence: the sentence of the summary.
        support: how directly the sentence is copied, from 0 to 1 (word for word). It does not say whether it is true.
        sources: sentences of the document from which the sentence was copied, most content words first. The first has
            at least one of them, the others at least two.
        new: content words, numbers and names that the document does not contain.
    """

    sentence: str
    support: float
    sources: Tuple[Source, ...]
    new: Tuple[NewWord, ...]

    @property
    def joined(self) -> bool:
        """Return whether the sentence joins words from several sentences of the document."""
        return len(self.sources) > 1

    def to_dict(self) -> Dict[str, Any]:
        """Convert the evidence to a dictionary of JSON types."""
        return {**asdict(self), "joined": self.joined}


def _find_words(text: str) -> List[_Word]:
    """Return the words of a text. Numbers, negations and apostrophes of different spellings have equal keys."""
    stem = RougeSettings(tokens="words").tokenizer.tokenize
    words = []
    for found in _WORD.finditer(regex.sub("[’‘`]", "'", text)):
        key = found.group().lower()
        key = "not" if key == "n't" else _NUMBERS.get(key, key)
        is_number = key.isdecimal() or found["number"] is not None
        is_content = is_number or key not in _FUNCTION_WORDS
        if is_number:
            key = key.replace(",", "").replace(" ", "")
        elif is_content:
            key = " ".join(stem(key)) or key
        words.append(_Word(key, found.start(), found.end(), is_number, is_content))
    return words


class EvidenceFinder:
    """A document in which the evidence for sentences is searched.

    Args:
        document: text of the document, in which sentences may be separated by sentence marks.
        sentence_mark: mark or marks between two sentences.
    """

    def __init__(self, document: str, sentence_mark: SentenceMark = SENTENCE_MARK):
        self._spans: List[Tuple[int, int]] = []
        places: Dict[str, List[int]] = {}
        ids: List[int] = []
        end = start_of_gap = 0
        number_before = ""
        for number, sentence in enumerate(split_marked_sentences(unify_sentence_marks(document, sentence_mark))):
            # Splitting can change the white space in a sentence, but not its words.
            parts = sentence.split()
            start = document.index(parts[0], end)
            for part in parts:
                end = document.index(part, end) + len(part)
            self._spans.append((start, end))
            for word in _find_words(document[start:end]):
                places.setdefault(word.key, []).append(len(ids))
                between = document[start_of_gap : start + word.start]
                if word.is_number and number_before and between in (". ", " . "):
                    # "31. 8" is one number, or the end of a sentence and the beginning of the next
                    places.setdefault(f"{number_before}.{word.key}", []).append(len(ids))
                ids.append(number)
                number_before, start_of_gap = word.key if word.is_number else "", start + word.end
        self._sentence_ids = np.array(ids, dtype=int)
        self._places = {key: np.array(found) for key, found in places.items()}

    def find(self, sentence: str) -> Evidence:
        """Find the evidence for a sentence of a summary. Takes some milliseconds."""
        words = _find_words(sentence)
        content = sum(word.is_content for word in words)
        cost, path = self._find_cheapest_path(words)
        counts: Dict[int, int] = {}
        for word, position in zip(words, path):
            if word.is_content and position is not None:
                number = int(self._sentence_ids[position])
                counts[number] = counts.get(number, 0) + 1
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        sources = [
            Source(number, *self._spans[number], count)
            for rank, (number, count) in enumerate(ranked)
            if rank == 0 or count > 1
        ]
        new = []
        for index, word in enumerate(words):
            if word.is_content and word.key not in self._places:
                text = sentence[word.start : word.end]
                kind = "number" if word.is_number else "name" if index and text[0].isupper() else "word"
                new.append(NewWord(text, word.start, word.end, kind))
        return Evidence(sentence, math.exp(-cost / max(1, content)), tuple(sources), tuple(new))

    def _find_cheapest_path(self, words: Sequence[_Word]) -> Tuple[float, List[Optional[int]]]:
        """Return the lowest cost of writing words, and the position from which each is copied (None: own word).

        A state is the last copied position, or -1 before the first one.
        """
        states, costs = np.array([-1]), np.zeros(1)
        steps: List[Tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for word in words:
            own = _OWN_NUMBER if word.is_number else _OWN_WORD if word.is_content else _OWN_FUNCTION_WORD
            new_states, new_costs, origins = states, costs + own, np.arange(len(states))
            copied = np.zeros(len(states), dtype=bool)
            places = self._places.get(word.key)
            if places is not None:
                gap = places - states[:, None]
                same = self._sentence_ids[places] == self._sentence_ids[states][:, None]
                price = np.where(gap > 0, _FORWARD + _FORWARD_STEP * np.minimum(gap - 1, _LONGEST_GAP), _BACKWARD)
                price = np.where(same, price, _OTHER_SENTENCE if word.is_content else _OTHER_SENTENCE_FUNCTION_WORD)
                price[(gap == 1) | (states == -1)[:, None]] = 0
                total = costs[:, None] + price
                best = total.argmin(axis=0)
                new_states = np.concatenate([new_states, places])
                new_costs = np.concatenate([new_costs, total[best, np.arange(len(places))]])
                origins = np.concatenate([origins, best])
                copied = np.concatenate([copied, np.ones(len(places), dtype=bool)])
            kept = new_costs.argsort(kind="stable")[:_STATES]
            states, costs = new_states[kept], new_costs[kept]
            steps.append((origins[kept], copied[kept], states))
        path: List[Optional[int]] = []
        index = int(costs.argmin())
        cost = float(costs[index])
        for origins, copied, places in reversed(steps):
            path.append(int(places[index]) if copied[index] else None)
            index = int(origins[index])
        return cost, path[::-1]


def find_evidence(
    document: str, sentences: Sequence[str], sentence_mark: SentenceMark = SENTENCE_MARK
) -> List[Evidence]:
    """Find the evidence in a document for each sentence of its summary; see :class:`EvidenceFinder`."""
    finder = EvidenceFinder(document, sentence_mark)
    return [finder.find(sentence) for sentence in sentences]
