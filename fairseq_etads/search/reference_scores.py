"""Compute the likelihoods of reference summaries (``--score-reference``)."""

from typing import Any, Callable, Dict, List

from fairseq import utils
from torch import Tensor, nn

from ..layers.decoder_output import DecoderOutput
from .ensemble import make_output_vocabulary

Hypotheses = List[List[Dict[str, Any]]]


class _ScoringModel:
    """A model wrapper for scoring references, which gives every reference a positive probability.

    For this purpose, a pointer with a switch mixes generating and copying instead of choosing one of them. Unless
    ``width`` is 0, distributions are padded to ``width`` words with a probability of 0.
    """

    def __init__(self, model: Any, width: int):
        self.model, self.width = model, width
        self.eval = model.eval

    def __call__(self, **net_input: Any) -> Any:
        return self.model(**net_input)

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any) -> Tensor:
        mixed = DecoderOutput.from_fairseq_output(net_output).to_mixture()
        if mixed.pointer is not None:
            net_output = mixed.to_fairseq_output()
        if self.width == 0:
            scores: Tensor = self.model.get_normalized_probs(net_output, log_probs=log_probs, sample=sample)
            return scores
        probs: Tensor = self.model.get_normalized_probs(net_output, log_probs=False, sample=sample)
        probs = nn.functional.pad(probs, (0, max(0, self.width - probs.size(-1))))
        return probs.log() if log_probs else probs  # ensembles average probabilities before computing the logarithm


def score_references(
    models: List[Any], sample: Dict[str, Any], pad: int, score: Callable[[List[Any], Dict[str, Any]], Hypotheses]
) -> Hypotheses:
    """Score the reference summaries of a batch, whose "target" (B, T) contains their dictionary ids.

    ``score`` runs fairseq's scorer, given a list of models and a batch with extended ids in "target". Its output is
    returned: for each document, a list with one hypothesis, whose "tokens" are the dictionary ids of the reference.

    Raises:
        ValueError: the batch contains no references.
    """
    references = sample.get("target")
    if references is None:
        raise ValueError("--score-reference: no references found; fairseq-generate scores the references in its data")
    target, width = references, 0
    vocabulary = make_output_vocabulary(models, sample["net_input"])
    if vocabulary is not None:
        # As in training, words that the model cannot produce are replaced with the unknown word. Otherwise, a reference
        # with such a word would have probability 0.
        target = vocabulary.convert_to_producible_ids(references)
        if len(models) > 1:
            width = int(target.max()) + 1
    scored = score([_ScoringModel(model, width) for model in models], {**sample, "target": target})
    for hypotheses, reference in zip(scored, references):
        hypotheses[0]["tokens"] = utils.strip_pad(reference, pad)
    return scored
