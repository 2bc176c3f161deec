"""A search term that adds the log-probabilities of a language model (``--lm-path``)."""

import math
from typing import Any, Optional, Sequence

from torch import Tensor, nn

from ..layers.decoder_output import get_decoder_capabilities
from ..vocabulary.dictionary import count_known_words
from ..vocabulary.output import OutputVocabulary
from .terms import ActiveTerm, SearchTerm, TermBatch


class LanguageModelTerm(SearchTerm):
    """A term that adds the weighted log-probabilities of a language model.

    Args:
        model: a fairseq language model.
        weight: the weight of the language model's log-probabilities (``--lm-weight``).
    """

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

    Args:
        model: the language model, in evaluation mode.
        weight: the weight of the language model's log-probabilities.
        vocabulary: the output vocabulary of the batch, as in :class:`TermBatch`, or None.
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
