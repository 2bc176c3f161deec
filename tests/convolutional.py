"""Small models of the convolutional family, and their inputs."""

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import PAD, make_task, model_config
from recurrent import DOCUMENTS, SUMMARIES, TAIL, log_probs  # noqa: F401  # for the tests

from fairseq_etads.vocabulary.dictionary import limit_known_words

SIZES = {
    "encoder_embed_dim": 12,
    "encoder_layers": "[(16, 3)] * 2 + [(20, 4)]",
    "decoder_embed_dim": 12,
    "decoder_layers": "[(14, 3)] + [(16, 2, 0), (16, 3, 2)]",
    "decoder_out_embed_dim": 10,
    "dropout": 0.0,
}
"""Sizes of a small model, with layers that differ: even kernels, projections, residual connections over two layers."""
KINDS = {
    "plain": {},
    "soft": {"pointer": "soft"},
    "switch": {"pointer": "switch", "pointer_continue": True},
    "few": {"decoder_attention": "[False, True, False]", "pointer": "soft"},
    "tied": {"share_input_output_embed": True, "decoder_out_embed_dim": 12},
    "bounded": {"pointer": "soft", "share_input_output_embed": True, "decoder_out_embed_dim": 12},
}
"""Models for the tests: options of each. Summaries of "bounded" know 20 of the documents' 44 words."""
BOUND = 20


def conv_task(**options):
    return make_task(tail=TAIL, mark=True, **options)


def conv(kind="plain", task=None, sharp=True, **options):
    """A small model in evaluation mode; with ``sharp``, its predictions are confident."""
    task = task or conv_task()
    if kind == "bounded":
        task.tgt_dict = limit_known_words(task.src_dict, BOUND)
    torch.manual_seed(1)
    config = model_config("convs2s", **{**SIZES, **KINDS[kind], **options})
    model = ARCH_MODEL_REGISTRY["convs2s"].build_model(config, task)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if sharp and name.endswith("bias"):
                parameter.normal_(std=0.1)
            elif sharp and name.endswith(("embed_tokens.weight", "embed_positions.weight")):
                parameter[2:].normal_(std=0.4)
    return model.eval()


def inputs(tokens):
    return {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
