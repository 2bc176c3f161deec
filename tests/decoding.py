"""Shared parts of the tests of decoding: confident models, batches, and comparisons with fairseq."""

import itertools
from argparse import Namespace

import torch
from helpers import EOS, PAD, make_batch, make_model, make_task

TASK = make_task()
DICTIONARY = TASK.target_dictionary


def sharpened(arch="etads", seed=1, task=TASK, **options):
    """A random model with confident predictions, sometimes of the end."""
    return sharpen(make_model(arch, task, share_all_embeddings=False, **options), seed)


def sharpen(model, seed=1):
    """Scale the output weights, so that predictions differ more."""
    torch.manual_seed(seed)
    with torch.no_grad():
        model.decoder.output_projection.weight.normal_(std=0.5)
        model.decoder.output_projection.weight[EOS] *= 1.5
    return model


def make_sample(documents, **options):
    tokens = make_batch(documents, **options)
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}, "id": torch.arange(len(tokens))}


def options(**changes):
    """Options that fairseq's commands pass to ``build_generator``."""
    values = {"beam": 3, "max_len_b": 6, "max_len_a": 0, "replace_unk": None, "print_alignment": None}
    return Namespace(**{**values, "constraints": None, **changes})


def generate(cls, models, sample, options, seed=0, **arguments):
    torch.manual_seed(seed)  # for sampling
    options = {name: value() if name == "search_strategy" else value for name, value in options.items()}
    return cls(models, DICTIONARY, **options).generate(models, sample, **arguments)


def assert_same(got, want, rtol=1e-4, atol=1e-4):
    assert [len(row) for row in got] == [len(row) for row in want]
    for mine, other in zip(itertools.chain(*got), itertools.chain(*want)):
        assert mine["tokens"].tolist() == other["tokens"].tolist()
        for name in ("score", "positional_scores", "attention"):
            torch.testing.assert_close(mine[name], other[name], rtol=rtol, atol=atol)
