"""Small models of ABS, and their inputs."""

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import make_task, model_config
from recurrent import DOCUMENTS, TAIL, V, log_probs  # noqa: F401  # for the tests

SIZES = {"encoder_embed_dim": 12, "decoder_embed_dim": 10, "decoder_context_dim": 8, "decoder_hidden_size": 14}
KINDS = {
    "plain": {},
    "no marks": {"source_marks": 0, "encoder_window": 3, "context_size": 2},
    "soft": {"pointer": "soft"},
    "switch": {"pointer": "switch", "pointer_continue": True},
}
"""Models for the tests: options of each."""


def abs_task(**options):
    """A task with a dictionary of 44 known words, the last "<q>", and 9 more to copy."""
    return make_task(tail=TAIL, mark=True, **options)


def abs_model(kind="plain", task=None, sharp=True, **options):
    """A small model in evaluation mode; with ``sharp``, its predictions are confident."""
    task = task or abs_task()
    torch.manual_seed(1)
    model = ARCH_MODEL_REGISTRY["abs"].build_model(model_config("abs", **{**SIZES, **KINDS[kind], **options}), task)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if sharp and not name.startswith("decoder.pointer"):
                parameter.mul_(3)
    return model.eval()
