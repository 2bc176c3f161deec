"""Extractive features that make the search favour words and phrases from the document (Rush et al. 2015, section 5).

Let x be the document, and a and b the last two words of the summary. The score of the next word w is a sum of five
features, weighted by α:

    log p(w),  1 if w is in x,  1 if (b, w) is in x,  1 if (a, b, w) is in x,  1 if w occurs before b in x

Words are compared by their search ids, so words that can only be copied are treated like all other words. The unknown
word, the end symbol and padding never match.
"""

import copy
import math
from typing import Any, List, Sequence, Set, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...search.hypotheses import Results
from ...search.terms import ActiveTerm, SearchTerm, TermBatch, register_option_term
from ...vocabulary.dictionary import count_known_words
from ...vocabulary.output import OutputVocabulary, number_by_first_occurrence

FEATURES = ("log p", "unigram", "bigram", "trigram", "reordering")
NO_WORD = -1


RELEASE = "release"
"""Value of ``--extractive-weights`` that selects the features and weights of the authors' code."""
RELEASED_WEIGHTS = (1.0, 4.849, 1.213, -13.383, -0.529)


class ExtractiveWeights(tuple):
    """The weights α and the variant of the features for which they are intended.

    ``of_release`` selects the features of the authors' code (NAMAS), where the document's bigrams are (x_(j-2), x_j)
    and its trigrams (x_(j-3), x_(j-2), x_j). They are compared with adjacent words in the summary, so a copied phrase
    does not match. A word counts as reordered if its first occurrence in the document is before the first of the
    preceding word. The log-probability of the end symbol is included even if the summary has a fixed length.
    """

    of_release: bool = False

    @classmethod
    def from_numbers(cls, weights: Sequence[float], of_release: bool) -> "ExtractiveWeights":
        made = cls(weights)
        made.of_release = of_release
        return made

    @property
    def distances(self) -> Tuple[int, int]:
        """Return the distance between the words of a document bigram, and between the outer words of a trigram."""
        return (2, 3) if self.of_release else (1, 2)


def parse_extractive_weights(given: Any) -> Tuple[float, ...]:
    """Parse the weights α from numbers or a string such as "1,4.8,1.2,-13.4,-0.5". Returns () for an empty value.

    "release" selects the weights and features of the authors' code, and "release:" other weights for these features.

    Raises:
        ValueError: the value does not consist of five numbers, or the weight of log p is not above 0.
    """
    if given is None or len(given) == 0:
        return ()
    if isinstance(given, ExtractiveWeights):
        return given
    text, of_release = given, False
    if isinstance(given, str):
        name, _, numbers = given.partition(":")
        of_release = name == RELEASE
        text = numbers if of_release else given
        if of_release and not numbers:
            return ExtractiveWeights.from_numbers(RELEASED_WEIGHTS, True)
    try:
        weights = ExtractiveWeights.from_numbers(
            [float(part) for part in (text.split(",") if isinstance(text, str) else text)], of_release
        )
    except (TypeError, ValueError):
        weights = ExtractiveWeights()
    if len(weights) != len(FEATURES) or not all(map(math.isfinite, weights)) or weights[0] <= 0:
        shown = given if isinstance(given, str) else ",".join(map(str, given))
        raise ValueError(
            f"--extractive-weights {shown}: choose five numbers separated by commas, the weights of {FEATURES[0]} "
            f"(above 0), {', '.join(FEATURES[1:-1])} and {FEATURES[-1]}; or {RELEASE}, or {RELEASE}: and numbers"
        )
    return weights


class ExtractiveSearchTerm(SearchTerm):
    """The scoring term that ``--extractive-weights`` adds to a search."""

    def __init__(self, weights: Sequence[float]):
        self.weights = weights

    def check(self, models: Sequence[Any], dictionary: Any) -> None:
        for model in models:
            own = getattr(getattr(model, "encoder", None), "dictionary", None)
            if own is not None and own.symbols != dictionary.symbols[: len(own.symbols)]:  # ids cannot be compared
                raise ValueError(
                    "--extractive-weights needs one dictionary for documents and summaries, but DATA has two: create "
                    "the data again with etads-prepare, or fairseq-preprocess --joined-dictionary"
                )

    def begin(self, batch: TermBatch) -> ActiveTerm:
        """Prepare the features for the documents. Raises ValueError if these do not consist of words."""
        tokens, dictionary = batch.net_input.get("src_tokens"), batch.dictionary
        if tokens is None or tokens.dim() != 2:
            raise ValueError("--extractive-weights: the documents do not consist of words")
        # without a vocabulary, search ids are the ids of the dictionary, which documents and summaries share
        vocabulary = batch.vocabulary or OutputVocabulary(count_known_words(dictionary), dictionary.unk())
        words = vocabulary.convert_to_search_ids(tokens)
        hidden = _hide_special_symbols(tokens, dictionary).eq(NO_WORD) | words.eq(vocabulary.unk)
        return ExtractiveFeatures(words.masked_fill(hidden, NO_WORD), self.weights)

    def finish(self, results: Results, batch: TermBatch) -> None:
        """Add "features" (5,) to each hypothesis: the sums of log p and of the other features over its words."""
        of_release = getattr(self.weights, "of_release", False)
        documents = _hide_special_symbols(batch.net_input["src_tokens"], batch.dictionary).tolist()
        for document, hypotheses in zip(documents, results):
            for hypothesis in hypotheses:
                words = _hide_special_symbols(hypothesis["tokens"], batch.dictionary).tolist()
                counts = count_extractive_features(document, words, of_release)
                total = float(hypothesis["positional_scores"].sum())
                weighted = sum(weight * count for weight, count in zip(self.weights[1:], counts))
                hypothesis["features"] = torch.tensor([(total - weighted) / self.weights[0], *counts])


register_option_term("extractive_weights", parse_extractive_weights, ExtractiveSearchTerm)


class ExtractiveFeatures(ActiveTerm):
    """The weighted features in a search over B documents of at most U distinct words.

    ``words`` (B, S) are search ids, or :data:`NO_WORD` for tokens that are not words, and ``weights`` are the five α.
    """

    def __init__(self, words: Tensor, weights: Sequence[float]):
        self.weights = weights if isinstance(weights, ExtractiveWeights) else ExtractiveWeights(weights)
        self.scale = weights[0]
        self.largest_gain = sum(max(0.0, weight) for weight in weights[1:])
        self.end_always_counts = self.weights.of_release
        self.words = words
        is_word = words.ne(NO_WORD)
        numbers, distinct = number_by_first_occurrence(words, is_word)
        self.width = max(1, int(distinct.max()))  # U
        # (B, S): index of each word among its document's distinct words, or U for a token that is not a word
        self.numbers = numbers.masked_fill(~is_word, self.width)
        columns = words.new_zeros(len(words), self.width + 1)
        # (B, U): search ids of the distinct words
        self.columns = columns.scatter(1, self.numbers, words)[:, : self.width]
        self.is_filler = torch.arange(self.width, device=words.device) >= distinct[:, None]  # (B, U)
        self.columns = self.columns.masked_fill(self.is_filler, 0)
        places = torch.arange(words.shape[1], device=words.device).expand_as(words)
        first = places.new_full((len(words), self.width + 1), words.shape[1])
        self.first = first.scatter_reduce(1, self.numbers, places, "amin")[:, : self.width]  # (B, U)

    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Multiply the next words' log-probabilities (B, beam, W) by their weight and add the other features, in place.

        ``tokens`` (B, beam, t) are the search ids of the previous words, including the start symbol.
        """
        unigram, bigram, trigram, reordering = self.weights[1:]
        near, far = self.weights.distances
        last = tokens[:, :, -1:]  # (B, beam, 1)
        follows = self._shift_words(near).eq(last)  # (B, beam, S): True at positions preceded by the last word
        added = unigram + bigram * self._convert_positions_to_words(follows)  # (B, beam, U)
        if tokens.size(2) > 1:
            added += trigram * self._convert_positions_to_words(
                follows & self._shift_words(far).eq(tokens[:, :, -2:-1])
            )
        added += reordering * (self.first[:, None] < self._find_last_position(last))
        lprobs.mul_(self.weights[0])
        columns = self.columns[:, None].expand_as(added)
        lprobs.scatter_add_(2, columns, added.masked_fill(self.is_filler[:, None], 0.0).to(lprobs.dtype))

    def _find_last_position(self, last: Tensor) -> Tensor:
        """Return the last position (NAMAS: the first) of each word (B, beam, 1) in its document, or else -1."""
        place = torch.arange(self.words.shape[1], device=last.device)
        is_there = self.words[:, None].eq(last)  # (B, beam, S)
        if not self.weights.of_release:
            return torch.where(is_there, place, -1).amax(dim=2, keepdim=True)
        first = torch.where(is_there, place, len(place)).amin(dim=2, keepdim=True)
        return first.masked_fill(first == len(place), -1)

    def _shift_words(self, places: int) -> Tensor:
        """Return, for each position in the documents, the word ``places`` positions earlier (B, 1, S)."""
        return F.pad(self.words, (places, 0), value=NO_WORD)[:, None, : self.words.shape[1]]

    def _convert_positions_to_words(self, flags: Tensor) -> Tensor:
        """Return 1.0 for distinct words (B, beam, U) if a mask (B, beam, S) is True at one of their positions."""
        numbers = self.numbers[:, None].expand_as(flags)
        found = torch.zeros(*flags.shape[:2], self.width + 1, device=flags.device)
        return found.scatter_reduce(2, numbers, flags.float(), "amax")[:, :, : self.width]

    def select(self, documents: Tensor) -> "ExtractiveFeatures":
        """Return the features for the documents with the given indices (n,)."""
        chosen = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(chosen, name, value.index_select(0, documents))
        return chosen


def _hide_special_symbols(tokens: Tensor, dictionary: Any) -> Tensor:
    """Replace padding, begin symbols, end symbols and the unknown word with :data:`NO_WORD`."""
    symbols = (dictionary.pad(), dictionary.bos(), dictionary.eos(), dictionary.unk())
    return tokens.masked_fill(torch.isin(tokens, torch.tensor(symbols, device=tokens.device)), NO_WORD)


def count_extractive_features(document: Sequence[int], summary: Sequence[int], of_release: bool = False) -> List[int]:
    """Sum each feature except log p over the words of a summary. :data:`NO_WORD` stands for what is not a word."""
    near, far = ExtractiveWeights.from_numbers((), of_release).distances
    ngrams: List[Set[Tuple[int, ...]]] = [set(zip(document)), set(zip(document, document[near:]))]
    ngrams.append(set(zip(document, document[far - near :], document[far:])))
    first = {word: place for place, word in reversed([*enumerate(document)])}
    last = first if of_release else {word: place for place, word in enumerate(document)}
    counts = [0, 0, 0, 0]
    for end in range(1, len(summary) + 1):
        for size, known in enumerate(ngrams, 1):
            ngram = tuple(summary[end - size : end]) if size <= end else ()
            counts[size - 1] += NO_WORD not in ngram and ngram in known
        word, before = summary[end - 1], summary[end - 2] if end > 1 else NO_WORD
        if NO_WORD not in (word, before) and word in first:
            counts[3] += first[word] < last.get(before, -1)
    return counts
