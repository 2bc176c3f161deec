"""Likelihoods of given summaries (``--score-reference``)."""

from typing import Any, Callable, Dict, List

from fairseq import utils
from torch import Tensor, nn

from ..layers.pointer import mixing_pointers
from .ensemble import output_vocabulary

Hypotheses = List[List[Dict[str, Any]]]


class _Padded:
    """A model whose distributions have at least ``width`` words; those beyond its own have probability 0."""

    def __init__(self, model: Any, width: int):
        self.model, self.width = model, width
        self.eval = model.eval

    def __call__(self, **net_input: Any) -> Any:
        return self.model(**net_input)

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any) -> Tensor:
        probs: Tensor = self.model.get_normalized_probs(net_output, log_probs=False, sample=sample)
        probs = nn.functional.pad(probs, (0, max(0, self.width - probs.size(-1))))
        return probs.log() if log_probs else probs  # an ensemble's are averaged before the logarithm


def score_references(
    models: List[Any], sample: Dict[str, Any], pad: int, score: Callable[[List[Any], Dict[str, Any]], Hypotheses]
) -> Hypotheses:
    """Score the references of a batch.

    Args:
        models: an ensemble. sample: a batch with references, "target" (B, T), in ids of the dictionary.
        pad: id of padding. score: fairseq's scorer, given the models and the batch with "target" as extended ids.

    Raises:
        ValueError: the batch has no references.

    Returns:
        the scorer's hypotheses, one a document, with the references' own ids as "tokens".
    """
    references = sample.get("target")
    if references is None:
        raise ValueError("--score-reference: there are no references; fairseq-generate scores those of its data")
    target, padded = references, models
    vocabulary = output_vocabulary(models, sample["net_input"])
    if vocabulary is not None:
        # as in training; otherwise a reference with one word that is no candidate would have no probability
        target = vocabulary.producible_ids(references)
        if len(models) > 1:
            padded = [_Padded(model, int(target.max()) + 1) for model in models]
    with mixing_pointers():  # so that every reference has a probability
        scored = score(padded, {**sample, "target": target})
    for hypotheses, reference in zip(scored, references):
        hypotheses[0]["tokens"] = utils.strip_pad(reference, pad)
    return scored
