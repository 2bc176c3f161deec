"""Attention to sentences by a sentence extractor inside a summariser's encoder (Hsu et al. 2018)."""

from argparse import Namespace
from typing import Any, Dict, List, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from ..attention import inconsistency_loss
from ..kernels.focus import PADDING_SCORE
from ..kernels.precision import at_least_float32
from .common import check_marks
from .selector import SelectorOutput, SentenceExtractor

KINDS = ("none", "extractor")
"""Values of ``--sentence-attention``."""
UNREAD = PADDING_SCORE / 2
"""log β of sentences that the extractor does not read: as attention exactly 0, and yet above that of padding."""


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


class SentenceAttention(NamedTuple):
    """What the losses of a summariser with an extractor need to know.

    Attributes:
        log_word: log of the attention to words α (N, T, S), before it is combined with β.
        log_selected: log β of each word's sentence (B, S). extraction: what the extractor says of B documents.
    """

    log_word: Tensor
    log_selected: Tensor
    extraction: SelectorOutput

    @classmethod
    def of(cls, log_word: Tensor, encoder_out: Dict[str, Any]) -> "SentenceAttention":
        """From the decoder's attention and the encoder's output."""
        return cls(log_word, encoder_out["log_selected"][0], SelectorOutput(*encoder_out["extraction"]))

    def inconsistency(self, top: int) -> Tensor:
        """The inconsistency loss of each word (N, T); words of sentences that are not read are not among the top."""
        log_word = self.log_word.masked_fill((self.log_selected <= UNREAD)[:, None], PADDING_SCORE)
        return inconsistency_loss(log_word, self.log_selected, top)
