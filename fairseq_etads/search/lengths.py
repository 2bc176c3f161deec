"""Length statistics of training texts, and limits of the lengths of summaries.

This module imports neither torch nor fairseq.
"""

import math
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..platform.errors import InputError
from ..text.words import count_words

REMEMBERED = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""Percentiles of length that are stored in checkpoints, model folders and recipe records."""
LONG = 40
"""Minimum median length in tokens for which beam search is assumed to end summaries too early."""


class TextLengths:
    """The lengths of a collection of texts in tokens, without end symbols. Raises ValueError if there are no texts."""

    def __init__(self, counts: Iterable[int]):
        self._ordered = sorted(counts)
        if not self._ordered:
            raise ValueError("lengths of an empty list of texts")

    def compute_mean(self, longest: Optional[int] = None) -> float:
        """Return the mean length of the texts after truncating them to ``longest`` tokens."""
        kept = self._ordered if longest is None else [min(length, longest) for length in self._ordered]
        return sum(kept) / len(kept)

    def get_percentile(self, percent: int) -> int:
        """Return a percentile of the lengths, the length that ``percent`` per cent of the texts do not exceed."""
        return int(self._ordered[round(percent / 100 * (len(self._ordered) - 1))])

    def get_percentiles(self) -> Dict[str, int]:
        """Return a dictionary that maps the percentages in :data:`REMEMBERED`, as strings, to percentiles of length."""
        return {str(percent): self.get_percentile(percent) for percent in REMEMBERED}


def are_percentiles(value: Any, percents: Sequence[int] = REMEMBERED, kinds: Sequence[type] = (int,)) -> bool:
    """Return whether a value maps the percentages, as strings, to ascending numbers of these types, not below 0."""
    if not isinstance(value, dict) or list(value) != [str(percent) for percent in percents]:
        return False
    found: Sequence[Any] = list(value.values())
    return all(type(number) in kinds and 0 <= number < math.inf for number in found) and sorted(found) == found


def choose_length_bounds(percentiles: Dict[str, int], longest: Optional[int] = None) -> Dict[str, int]:
    """Choose the minimum and maximum length of generated summaries from percentiles of training summaries' lengths.

    Beam search tends to end long summaries too early. If the training summaries are long, the minimum length is
    therefore their median length, so that generated summaries have a similar length. The length of a short summary
    depends on its content. If the training summaries are short, the limits therefore exclude only the lengths of the
    shortest 10 % and the longest 1 %. The model can produce at most ``longest`` tokens.
    """
    median = percentiles["50"]
    if median < LONG:
        found = {"min_len": max(percentiles["10"], 1), "max_len": max(percentiles["99"], median + 5)}
    else:
        found = {"min_len": median, "max_len": max(percentiles["90"], median * 3 // 2)}
    return {name: min(length, longest) if longest else length for name, length in found.items()}


class LimitError(InputError):
    """Error about a document without a summary that keeps to the limits of its length."""


class SummaryLimits(NamedTuple):
    """Limits of the summary of one document, which consists of whole sentences."""

    sentences: float = math.inf  # maximum number, or infinity
    words: float = math.inf
    texts: Tuple[str, ...] = ()  # which the summary must contain, in any case
    described: str = ""  # the limit of words as the user gave it, for messages

    @classmethod
    def for_document(cls, options: Any, text: str) -> "SummaryLimits":
        """Return the limits that decoding options set for the summary of a text."""
        words, described = options.words or math.inf, f"--words {options.words}" if options.words else ""
        if options.percent:
            length = count_words(text)
            share = int(length * options.percent / 100)
            if share < words:
                words, described = share, f"--percent {options.percent:g}, {share} of {length} words"
        return cls(options.sentences or math.inf, words, tuple(options.must_include or ()), described)

    @property
    def are_set(self) -> bool:
        """Whether there is any limit."""
        return self != NO_LIMITS

    def allow(self, sentences: Sequence[str]) -> bool:
        """Return whether a summary has neither too many sentences nor too many words."""
        return len(sentences) <= self.sentences and sum(map(count_words, sentences)) <= self.words

    def list_missing(self, sentences: Sequence[str]) -> List[str]:
        """Return the texts that a summary must contain but that none of its sentences contains as whole words."""
        folded = [" ".join(sentence.casefold().split()) for sentence in sentences]
        patterns = [rf"(?<!\w){re.escape(' '.join(text.casefold().split()))}(?!\w)" for text in self.texts]
        return [
            text
            for text, pattern in zip(self.texts, patterns)
            if not any(re.search(pattern, sentence) for sentence in folded)
        ]

    def choose_required(self, candidates: Sequence[str]) -> List[int]:
        """Return the indices of sentences that together contain all texts, with as few and short ones as possible.

        Raises:
            LimitError: there are no such sentences within the limits.
        """
        chosen: List[int] = []
        while missing := self.list_missing([candidates[number] for number in chosen]):
            wanted = self._replace(texts=tuple(missing))
            left = [(len(wanted.list_missing([text])), count_words(text), n) for n, text in enumerate(candidates)]
            number = min((one for one in left if one[0] < len(missing)), default=(0, 0, -1))[2]
            if number < 0:
                raise LimitError(
                    f'--must-include "{missing[0]}": neither the summaries of the model nor the document contain it in '
                    "a sentence"
                )
            chosen.append(number)
        if not self.allow([candidates[number] for number in chosen]):
            raise LimitError(
                f"the shortest sentences that contain {', '.join(self.texts)} are {len(chosen)} with "
                f"{sum(count_words(candidates[number]) for number in chosen)} words; {self._describe()}"
            )
        return sorted(chosen)

    def make_error(self, candidates: Sequence[str]) -> LimitError:
        """Return the error about candidates each of which is too long on its own."""
        shortest = min(map(count_words, candidates), default=0)
        return LimitError(f"no sentence is short enough, as the shortest has {shortest} words; {self._describe()}")

    def _describe(self) -> str:
        counts = [f"--sentences {self.sentences}"] if self.sentences < math.inf else []
        return f"choose more than {' and '.join(filter(None, [*counts, self.described]))}"

    def choose_among(self, hypotheses: Sequence[Sequence[str]], document: Sequence[str]) -> List[Tuple[int, int]]:
        """Choose the first hypothesis within the limits, or else sentences of the hypotheses that are.

        The hypotheses are given from best to worst, as sentences. Those of the document are chosen only for texts that
        no hypothesis contains. Returns the hypothesis and the index in it of each chosen sentence; the document counts
        as the last hypothesis.
        """
        for number, sentences in enumerate(hypotheses):
            if sentences and self.allow(sentences) and not self.list_missing(sentences):
                return [(number, place) for place in range(len(sentences))]
        places = [(n, place) for n, one in enumerate([*hypotheses, document]) for place in range(len(one))]
        texts = [text for one in [*hypotheses, document] for text in one]
        chosen = self.choose_required(texts)
        for number, (of, _) in enumerate(places):
            kept = [texts[one] for one in chosen]
            is_candidate = of == 0 or (not chosen and of < len(hypotheses))
            if is_candidate and texts[number] not in kept and self.allow([*kept, texts[number]]):
                chosen.append(number)
        if not chosen:
            raise self.make_error([text for one in hypotheses for text in one])
        return [places[number] for number in sorted(chosen)]


NO_LIMITS = SummaryLimits()
