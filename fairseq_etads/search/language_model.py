"""Fusion with a language model (``--lm-path``): its log-probabilities are added to those of the ensemble."""

from typing import Any, Optional

from torch import Tensor, nn

from ..vocabulary.output import OutputVocabulary


def check_dictionary(model: nn.Module, dictionary: Any, words: int) -> None:
    """Raise ValueError if a language model does not begin with the summaries' words; unchecked if it has no dictionary.

    Args:
        dictionary: the target's. words: how many entries both must share: V, or all for models without a copy tail.
    """
    own = getattr(getattr(model, "decoder", None), "dictionary", None)
    if own is None or own.symbols[:words] == dictionary.symbols[:words]:
        return
    pairs = zip(own.symbols, dictionary.symbols[:words])
    first = next((number for number, (mine, other) in enumerate(pairs) if mine != other), len(own))
    found = f'"{own.symbols[first]}"' if first < len(own) else "nothing"
    raise ValueError(
        f"--lm-path: the language model must have the {words:,} known words of the summaries' dictionary, in the same "
        f'order, and has {found} in the place of entry {first}, "{dictionary.symbols[first]}"; train it on data made '
        "with --srcdict and that dictionary"
    )


class LanguageModel:
    """A language model in one search.

    It reads and scores known words only. A word of the document that is copied counts as the unknown word, both as
    the next word and among the words before.

    Args:
        model: one of fairseq's, in evaluation mode. weight: of its log-probabilities.
        vocabulary: of the search; None: the ensemble's ids are the dictionary's, and the model has them all.
    """

    def __init__(self, model: Any, weight: float, vocabulary: Optional[OutputVocabulary]):
        self.model, self.weight, self.vocabulary = model, weight, vocabulary

    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Add the next words' weighted log-probabilities, in place.

        Args:
            lprobs: (B, beam, V + K), by search id. tokens: (B, beam, t), search ids, start symbol included.

        Raises:
            ValueError: the model has fewer words than the ensemble.
        """
        documents, beam, width = lprobs.shape
        vocabulary = self.vocabulary or OutputVocabulary(width, unk=0)
        output = self.model(vocabulary.known_ids(tokens).flatten(0, 1))
        scores = self.model.get_normalized_probs(output, log_probs=True, sample=None)[:, -1]
        if scores.size(-1) < vocabulary.known_words:
            raise ValueError(
                f"--lm-path: the language model has {scores.size(-1):,} words, and the summaries' dictionary "
                f"{vocabulary.known_words:,} known ones"
            )
        vocabulary.add_known_scores(lprobs, (scores * self.weight).view(documents, beam, -1))
