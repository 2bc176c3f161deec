"""Terms of the search: objects that change the scores of words at every step, or the scores of finished hypotheses.

A :class:`SearchTerm` belongs to a generator. For each batch, the term creates an :class:`ActiveTerm`, which the search
calls at every step. The language model (``--lm-path``) is a term. The features of ABS (``--extractive-weights``) are
another term, which the ABS system registers with :func:`register_option_term`. Additional terms can be passed as
``SummaryGenerator(..., terms=[...])``.
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
    """The batch of B documents in a search.

    Attributes:
        net_input: input of the models, where "src_tokens" (B, S) contains ids of the documents' dictionary.
        vocabulary: object that translates between ids of the dictionary and search ids; None if they are the same.
        dictionary: the summaries' dictionary.
    """

    net_input: Dict[str, Any]
    vocabulary: Optional[OutputVocabulary]
    dictionary: Any

    def search_ids(self, words: Tensor) -> Tensor:
        """Translate ids of the dictionary (B, n) to search ids, which index the log-probabilities.

        Words that can be neither generated nor copied become the unknown word.
        """
        return words if self.vocabulary is None else self.vocabulary.search_ids(words)


class ActiveTerm(abc.ABC):
    """A term in one search. B is the number of unfinished documents, and beam is 1 in the first step.

    Attributes:
        largest_gain: upper bound for the amount that the term adds to the score of a word in one step. Early stopping
            relies on this bound. The default, infinity, is always correct, but prevents searches with
            ``--early-stopping admissible`` from ending early.
        scale: positive factor by which the term multiplies the existing scores before it adds its own.
        end_always_counts: whether the score of the end symbol is included even if ``--exact-length`` fixes the length.
    """

    largest_gain: float = math.inf
    scale: float = 1.0
    end_always_counts: bool = False

    @abc.abstractmethod
    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Change the scores of the next words in place.

        Args:
            lprobs: log-probabilities (B, beam, W), indexed by search id.
            tokens: search ids (B, beam, t) of the start symbol and the words so far.
        """

    def select(self, documents: Tensor) -> "ActiveTerm":
        """Return the term for the documents with the given indices (n,).

        Override this method if the term has a state per document.
        """
        return self

    def reorder(self, parents: Tensor) -> None:  # noqa: B027  # optional
        """Give each new hypothesis the state of its parent.

        Override this method if the term has a state per hypothesis.

        Args:
            parents: (B, beam'), index of the parent of each new hypothesis, among the beams in the last call of
                :meth:`add_to`. The documents are the ones that :meth:`select` has kept.
        """


class SearchTerm(abc.ABC):
    """A term that belongs to a generator.

    Attributes:
        reranks: whether :meth:`finish` changes the order of the hypotheses, so that the search must continue until
            ``beam_size`` hypotheses have ended.
    """

    reranks: bool = False

    @property
    def models(self) -> Sequence[nn.Module]:
        """Return the models that the term uses.

        These models are in evaluation mode during a search, and their numbers of positions limit the length of
        summaries.
        """
        return ()

    def check(self, models: Sequence[Any], dictionary: Any) -> None:  # noqa: B027  # optional
        """Raise ValueError if the term is incompatible with the ensemble ``models`` or the summaries' dictionary."""

    @abc.abstractmethod
    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        """Create the term for one search, or return None if the term has no effect on this batch.

        Raises:
            ValueError: the term is incompatible with this batch.
        """

    def finish(self, results: Results, batch: TermBatch) -> None:  # noqa: B027  # optional
        """Add keys to the finished hypotheses, or change their scores and order, in place.

        The "tokens" of hypotheses are ids of the dictionary.
        """


def gain_of(terms: Iterable[ActiveTerm]) -> float:
    """Compute an upper bound for the total amount that the terms add to the log-probability of a word in one step."""
    gain = 0.0
    for term in terms:
        gain = gain * term.scale + term.largest_gain
    return gain


class _OptionTerm(NamedTuple):
    parse: Callable[[Any], Any]
    make: Callable[[Any], SearchTerm]


_OPTION_TERMS: Dict[str, _OptionTerm] = {}


def register_option_term(option: str, parse: Callable[[Any], Any], make: Callable[[Any], SearchTerm]) -> None:
    """Register a decoding option that adds a term to the search.

    Args:
        option: name of a field of :class:`~fairseq_etads.search.settings.SearchSettings`.
        parse: function that converts the given value to the value in the settings, which is falsy if the option is off,
            and that raises ValueError for invalid values.
        make: function that creates the term from the parsed value.
    """
    _OPTION_TERMS[option] = _OptionTerm(parse, make)


def parse_option(option: str, value: Any) -> Any:
    """Convert the given value of a registered option to its value in the settings, which is () if the option is off.

    Raises:
        ValueError: the value is invalid, or the option's system is missing.
    """
    if option in _OPTION_TERMS:
        return _OPTION_TERMS[option].parse(value)
    if value is None or len(value) == 0:
        return ()
    shown = value if isinstance(value, str) else ",".join(map(str, value))
    raise ValueError(f"{belongs_to(f'{flag(option)} {shown}', SYSTEMS[option])}: leave {flag(option)} out")


def option_terms(settings: Any) -> List[SearchTerm]:
    """Create the terms of all registered options that are on."""
    values = ((term, getattr(settings, option)) for option, term in _OPTION_TERMS.items())
    return [term.make(value) for term, value in values if value]
