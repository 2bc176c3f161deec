"""Likelihoods of given summaries (``--score-reference``)."""

from typing import Any, Callable, Dict, List

from fairseq import utils

from ..layers.capabilities import decoder_capabilities
from ..layers.pointer import mixing_pointers

Hypotheses = List[List[Dict[str, Any]]]


def score_references(
    models: List[Any], sample: Dict[str, Any], pad: int, score: Callable[[Dict[str, Any]], Hypotheses]
) -> Hypotheses:
    """Score the references of a batch.

    Args:
        models: an ensemble. sample: a batch with references, "target" (B, T), in ids of the dictionary.
        pad: id of padding. score: fairseq's scorer, given the batch with "target" as extended ids.

    Raises:
        ValueError: the batch has no references.

    Returns:
        the scorer's hypotheses, one a document, with the references' own ids as "tokens".
    """
    references = sample.get("target")
    if references is None:
        raise ValueError(
            "--score-reference: there are no references; score with fairseq-generate, on data that has some"
        )
    target = references
    if decoder_capabilities(models[0]).has_output_vocabulary:
        # as in training; otherwise a reference with one word that is no candidate would have no probability
        vocabulary = models[0].decoder.output_vocabulary(sample["net_input"]["src_tokens"])
        target = vocabulary.producible_ids(references)
    with mixing_pointers():  # so that every reference has a probability
        scored = score({**sample, "target": target})
    for hypotheses, reference in zip(scored, references):
        hypotheses[0]["tokens"] = utils.strip_pad(reference, pad)
    return scored
