"""Hand-made shortlists, and models that cannot write other words."""

import math

import numpy as np
import torch

from fairseq_etads.vocabulary.dictionary import count_known_words
from fairseq_etads.vocabulary.shortlist import Shortlist


def make_shortlist(task, frequent=2, together=None):
    """Make lists of the first ``frequent`` words after the special symbols, and of associated words given by a dict."""
    source, target = task.source_dictionary, task.target_dictionary
    width = max(map(len, (together or {0: []}).values()))
    table = np.full((count_known_words(source), width), -1, dtype=np.int32)
    for word, others in (together or {}).items():
        table[word, : len(others)] = others
    first = np.arange(target.nspecial, min(target.nspecial + frequent, count_known_words(target)), dtype=np.int32)
    return Shortlist.from_arrays(first, table, source, target)


def random_shortlist(task, frequent=2, per_word=2, seed=0):
    words = count_known_words(task.target_dictionary)
    drawn = torch.randint(
        4, words, (count_known_words(task.source_dictionary), per_word), generator=torch.Generator().manual_seed(seed)
    )
    return make_shortlist(task, frequent, dict(enumerate(drawn.tolist())))


def write_only(model, words):
    """Give a model with a bias in its output layer a probability of 0 for generating other words than these."""
    bias = model.decoder.output_projection.bias
    forbidden = torch.ones(len(bias), dtype=torch.bool)
    forbidden[list(words)] = False
    with torch.no_grad():
        bias[forbidden] = -math.inf
    return model
