"""Attention to sentences by a sentence extractor inside a summariser's encoder (Hsu et al. 2018)."""

from argparse import Namespace
from typing import Any, Dict, List

import torch.nn.functional as F
from torch import Tensor

from ..kernels.precision import at_least_float32
from ..layers.sentence_selector import UNREAD
from .common import check_marks
from .selector import SentenceExtractor

KINDS = ("none", "extractor")
"""Values of ``--sentence-attention``."""


def make_extractor(config: Any, task: Any) -> SentenceExtractor:
    """The extractor of a summariser's options.

    Raises:
        ValueError: an option has an impossible value, or documents have no sentence marks.
    """
    check_marks("--sentence-attention extractor", task)
    return SentenceExtractor.build_model(
        Namespace(
            encoder_embed_dim=config.extractor_embed_dim,
            encoder_embed_path=None,
            encoder_hidden_size=config.extractor_hidden_size,
            dropout=config.dropout,
            max_sentences=config.max_sentences,
            max_sentence_words=config.max_sentence_words,
        ),
        task,
    )


def extraction(extractor: SentenceExtractor, src_tokens: Tensor) -> Dict[str, List[Tensor]]:
    """What an encoder adds to its output for documents (B, S).

    Returns:
        lists of tensors with a row per document: "extraction", the extractor's logits (B, U) and which of the U
        sentences it reads; "log_selected", log β of each token's sentence (B, S), at least float32. β is 0 in sentences
        that are not read, and 1 everywhere in a document of which none is.
    """
    logits, real = extractor(src_tokens)
    log_beta = F.logsigmoid(at_least_float32(logits).masked_fill(~real, 0.0)).masked_fill(~real, UNREAD)
    log_beta = log_beta.masked_fill(~real.any(dim=1, keepdim=True), 0.0)
    return {"extraction": [logits, real], "log_selected": [extractor.of_tokens(log_beta, src_tokens)]}
