"""Terms of the search: objects that change the score of every word at every step, or of finished hypotheses.

A :class:`SearchTerm` belongs to a generator. For each batch it makes an :class:`ActiveTerm`, which the search calls at
every step. The language model (``--lm-path``) is a term. So are the features of ABS (``--extractive-weights``), which
their system registers with :func:`register_option_term`. ``SummaryGenerator(..., terms=[...])`` takes further ones.
"""

import abc
import math
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from torch import Tensor, nn

from ..platform.systems import belongs_to
from ..vocabulary.output import OutputVocabulary
from .hypotheses import Results
from .options import SYSTEMS, flag


class TermBatch(NamedTuple):
    """The batch of B documents of one search.

    Attributes:
        net_input: the models' input; "src_tokens" (B, S) are ids of the documents' dictionary.
        vocabulary: translates between ids of the dictionary and search ids; None: they are the same.
        dictionary: the summaries' dictionary.
    """

    net_input: Dict[str, Any]
    vocabulary: Optional[OutputVocabulary]
    dictionary: Any

    def search_ids(self, words: Tensor) -> Tensor:
        """Translate ids of the dictionary (B, n) to search ids, the indices of log-probabilities.

        A word that can be neither generated nor copied becomes the unknown word.
        """
        return words if self.vocabulary is None else self.vocabulary.search_ids(words)


class ActiveTerm(abc.ABC):
    """A term in one search. B is the number of unfinished documents; beam is 1 in the first step.

    Attributes:
        largest_gain: upper bound of the term's addition to a word's score in one step. Early stopping relies on it. The
            default, infinity, is always correct, but prevents searches with ``--early-stopping admissible`` from ending
            early.
        scale: factor, above 0, by which the term multiplies the given scores before it adds to them.
        end_always_counts: whether the end symbol's score counts even if ``--exact-length`` gives the length.
    """

    largest_gain: float = math.inf
    scale: float = 1.0
    end_always_counts: bool = False

    @abc.abstractmethod
    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Change the scores of the next words in place.

        Args:
            lprobs: log-probabilities (B, beam, W) by search id.
            tokens: search ids (B, beam, t) of the words so far, the start symbol first.
        """

    def select(self, documents: Tensor) -> "ActiveTerm":
        """Return the term for the documents with indices (n,). Override it if the term has a state per document."""
        return self

    def reorder(self, parents: Tensor) -> None:  # noqa: B027  # optional
        """Let each hypothesis continue another one. Override it if the term has a state per hypothesis.

        Args:
            parents: (B, beam'), index of each new hypothesis's parent among the beams of the last :meth:`add_to`, after
                :meth:`select`.
        """


class SearchTerm(abc.ABC):
    """A term of a generator.

    Attributes:
        reranks: whether :meth:`finish` changes the order of the hypotheses. The search then continues until it has
            ``beam_size`` of them.
    """

    reranks: bool = False

    @property
    def models(self) -> Sequence[nn.Module]:
        """Return the models that the term runs.

        They are in evaluation mode during a search, and their numbers of positions limit its summaries.
        """
        return ()

    def check(self, models: Sequence[Any], dictionary: Any) -> None:  # noqa: B027  # optional
        """Raise ValueError if the term is incompatible with the ensemble ``models`` or the summaries' dictionary."""

    @abc.abstractmethod
    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        """Make the term for one search, or None if it adds nothing to this batch.

        Raises:
            ValueError: the term is incompatible with this data.
        """

    def finish(self, results: Results, batch: TermBatch) -> None:  # noqa: B027  # optional
        """Add keys to the finished hypotheses, or change their scores and order, in place.

        Their "tokens" are ids of the dictionary.
        """


def gain_of(terms: Iterable[ActiveTerm]) -> float:
    """Compute an upper bound of the total that the terms, in order, add to a word's log-probability in a step."""
    gain = 0.0
    for term in terms:
        gain = gain * term.scale + term.largest_gain
    return gain


class _OptionTerm(NamedTuple):
    parse: Callable[[Any], Any]
    make: Callable[[Any], SearchTerm]


_OPTION_TERMS: Dict[str, _OptionTerm] = {}


def register_option_term(option: str, parse: Callable[[Any], Any], make: Callable[[Any], SearchTerm]) -> None:
    """Let a decoding option add a term to the search.

    Args:
        option: name of a field of :class:`~fairseq_etads.search.settings.SearchSettings`.
        parse: function from the given value to the value in the settings, which is false if the option is off; it
            raises ValueError for an impossible value.
        make: function from the parsed value to the term.
    """
    _OPTION_TERMS[option] = _OptionTerm(parse, make)


def parse_option(option: str, value: Any) -> Any:
    """Return the value of a registered option in the settings; () if the option is off.

    Raises:
        ValueError: the value is impossible, or the system that the option belongs to is missing.
    """
    if option in _OPTION_TERMS:
        return _OPTION_TERMS[option].parse(value)
    if value is None or len(value) == 0:
        return ()
    shown = value if isinstance(value, str) else ",".join(map(str, value))
    raise ValueError(f"{belongs_to(f'{flag(option)} {shown}', SYSTEMS[option])}: leave {flag(option)} out")


def option_terms(settings: Any) -> List[SearchTerm]:
    """Make the terms of the registered options that are on."""
    values = ((term, getattr(settings, option)) for option, term in _OPTION_TERMS.items())
    return [term.make(value) for term, value in values if value]
