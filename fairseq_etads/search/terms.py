"""Search terms, which change the scores of words at every step or the scores of finished hypotheses.

A :class:`SearchTerm` belongs to a generator. For each batch, it creates an :class:`ActiveTerm`, which the search calls
at every step. For example, one term adds the scores of a language model (``--lm-path``). Another term adds the features
of ABS (``--extractive-weights``), and the ABS system registers it with :func:`register_option_term`. Additional terms
can be passed as ``SummaryGenerator(..., terms=[...])``.
"""

import abc
import math
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from torch import Tensor, nn

from ..layers.decoder_output import get_decoder_capabilities
from ..platform.command_options import format_option_name
from ..platform.optional_parts import explain_missing_system
from ..vocabulary.dictionary import count_known_words
from ..vocabulary.output import OutputVocabulary
from .hypotheses import Results
from .options import SYSTEMS, DecodingOptions


class TermBatch(NamedTuple):
    """A batch of B documents, as terms receive it at the start of a search."""

    net_input: Dict[str, Any]  # model inputs; "src_tokens" (B, S) contains ids of the source dictionary
    vocabulary: Optional[OutputVocabulary]  # converts dictionary ids to search ids, or None if both are the same
    dictionary: Any  # target dictionary

    def search_ids(self, words: Tensor) -> Tensor:
        """Convert dictionary ids (B, n) to search ids, which index the log-probabilities.

        Words that can be neither generated nor copied are replaced with the unknown word.
        """
        return words if self.vocabulary is None else self.vocabulary.convert_to_search_ids(words)


class ActiveTerm(abc.ABC):
    """A term during one search. B is the number of unfinished documents.

    Attributes:
        largest_gain: an upper bound for the amount that the term adds to the score of a word in one step. Early
            stopping relies on this bound. The default, infinity, is always correct, but it prevents searches with
            ``--early-stopping admissible`` from ending early.
        scale: the positive factor by which the term multiplies the existing scores before it adds its own scores.
        end_always_counts: whether the score of the end symbol is included even if ``--exact-length`` fixes the length.
    """

    largest_gain: float = math.inf
    scale: float = 1.0
    end_always_counts: bool = False

    @abc.abstractmethod
    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Change the scores of the next words in place.

        Args:
            lprobs: the log-probabilities of the next words (B, beam, W), indexed by search id. In the first step, the
                beam dimension has size 1.
            tokens: the search ids of the start symbol and the words so far (B, beam, t).
        """

    def select(self, documents: Tensor) -> "ActiveTerm":
        """Return the term for only the documents with the given indices (n,).

        Override this method if the term has a separate state for each document.
        """
        return self

    def reorder(self, parents: Tensor) -> None:  # noqa: B027  # optional
        """Reorder the state of the term, so that each new hypothesis has the state of its parent.

        Override this method if the term has a separate state for each hypothesis.

        Args:
            parents: the beam index of each new hypothesis's parent in the last call of :meth:`add_to`, (B, beam'). Only
                the documents that :meth:`select` has kept are included.
        """


class SearchTerm(abc.ABC):
    """Base class for the search terms of a generator.

    Attributes:
        reranks: whether :meth:`finish` changes the order of the hypotheses. If True, the search continues until
            ``beam_size`` hypotheses have ended.
    """

    reranks: bool = False

    @property
    def models(self) -> Sequence[nn.Module]:
        """Return the models that the term uses.

        These models are in evaluation mode during a search, and their numbers of positions limit the summary length.
        """
        return ()

    def check(self, models: Sequence[Any], dictionary: Any) -> None:  # noqa: B027  # optional
        """Raise ValueError if the term is incompatible with the ensemble ``models`` or the target ``dictionary``."""

    @abc.abstractmethod
    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        """Create the active term for one search, or return None if the term has no effect on this batch.

        Raises:
            ValueError: the term is incompatible with this batch.
        """

    def finish(self, results: Results, batch: TermBatch) -> None:  # noqa: B027  # optional
        """Add keys to the finished hypotheses, or change their scores and order, in place.

        The "tokens" of hypotheses are dictionary ids.
        """


def compute_largest_gain(terms: Iterable[ActiveTerm]) -> float:
    """Compute an upper bound for the amount that all terms together add to a word's log-probability in one step."""
    gain = 0.0
    for term in terms:
        gain = gain * term.scale + term.largest_gain
    return gain


_OPTION_TERMS: Dict[str, Tuple[Callable[[Any], Any], Callable[[Any], SearchTerm]]] = {}


def register_option_term(option: str, parse: Callable[[Any], Any], make: Callable[[Any], SearchTerm]) -> None:
    """Register a decoding option that adds a term to the search.

    Args:
        option: the name of the option's field in :class:`~fairseq_etads.search.options.DecodingOptions`.
        parse: a function that parses the value of the option. The result must be falsy if the option is off. The
            function raises ValueError for invalid values.
        make: a function that creates the term from the parsed value.
    """
    _OPTION_TERMS[option] = parse, make


def make_option_terms(options: DecodingOptions) -> List[SearchTerm]:
    """Create the terms of all registered options that are on.

    Raises ValueError if a value is invalid, or the system to which the option belongs is missing.
    """
    terms = []
    for name, system in SYSTEMS.items():
        value = getattr(options, name)
        if name in _OPTION_TERMS:
            parse, make = _OPTION_TERMS[name]
            terms += [make(parsed)] if (parsed := parse(value)) else []
        elif value is not None and len(value):
            shown = value if isinstance(value, str) else ",".join(map(str, value))
            flag = format_option_name(name)
            raise ValueError(f"{explain_missing_system(f'{flag} {shown}', system)}: leave {flag} out")
    return terms


class LanguageModelTerm(SearchTerm):
    """A term that adds the log-probabilities of a fairseq language model, multiplied by a weight (``--lm-weight``)."""

    def __init__(self, model: nn.Module, weight: float):
        self.model, self.weight = model, weight

    @property
    def models(self) -> Sequence[nn.Module]:
        return (self.model,)

    def check(self, models: Sequence[Any], dictionary: Any) -> None:
        """Raise ValueError unless the language model's dictionary begins with the words of the target dictionary.

        Language models without a dictionary are not checked.
        """
        has_tail = any(get_decoder_capabilities(model).has_output_vocabulary for model in models)
        words = count_known_words(dictionary) if has_tail else len(dictionary)
        own = getattr(getattr(self.model, "decoder", None), "dictionary", None)
        if own is None or own.symbols[:words] == dictionary.symbols[:words]:
            return
        pairs = zip(own.symbols, dictionary.symbols[:words])
        first = next((number for number, (mine, other) in enumerate(pairs) if mine != other), len(own))
        found = f'"{own.symbols[first]}"' if first < len(own) else "nothing"
        raise ValueError(
            f"--lm-path: the language model must have the {words:,} known words of the summaries' dictionary, in the "
            f'same order, but has {found} as entry {first} instead of "{dictionary.symbols[first]}"; train it on data '
            "prepared with --srcdict and that dictionary"
        )

    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        return _ActiveLanguageModelTerm(self.model, self.weight, batch.vocabulary) if self.weight else None


class _ActiveLanguageModelTerm(ActiveTerm):
    """The language model term during one search.

    A language model reads and scores only known words. Other words, which can be copied from the document, are replaced
    with the unknown word, both in the text so far and as candidates for the next word.
    """

    def __init__(self, model: Any, weight: float, vocabulary: Optional[OutputVocabulary]):
        self.model, self.weight, self.vocabulary = model, weight, vocabulary
        # a negative weight can increase scores without limit
        self.largest_gain = 0.0 if weight > 0 else math.inf

    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Add the weighted log-probabilities of the next words to ``lprobs``, in place.

        Raises:
            ValueError: the language model has fewer words than the ensemble.
        """
        documents, beam, width = lprobs.shape
        vocabulary = self.vocabulary or OutputVocabulary(width, unk=0)
        output = self.model(vocabulary.convert_to_known_ids(tokens).flatten(0, 1))
        scores = self.model.get_normalized_probs(output, log_probs=True, sample=None)[:, -1]
        if scores.size(-1) < vocabulary.known_words:
            raise ValueError(
                f"--lm-path: the language model has {scores.size(-1):,} words, but the summaries' dictionary has "
                f"{vocabulary.known_words:,} known ones"
            )
        vocabulary.add_known_scores(lprobs, (scores * self.weight).view(documents, beam, -1))
