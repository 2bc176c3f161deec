"""A loss's request to a forward pass, and the output of this project's decoders."""

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch.nn.functional as F
from torch import Tensor

from ..kernels.precision import at_least_float32
from ..vocabulary.output import OutputVocabulary
from .pointer import LogVocab, PointerOutput, WordLogProbs
from .sentence_selector import SentenceAttention, SentenceSelection

NetOutput = Tuple[Tensor, Dict[str, Any]]
"""Pair of values that fairseq passes around as a model's output."""


@dataclass
class WordRequest:
    """Request for the words that a loss needs: an argument of a model's forward pass.

    A decoder may answer with the :class:`WordLogProbs` of these words only, and no distribution over all words. The
    request also tells it that the loss depends on its whole output layer. The request is passed with the call, so that
    it reaches the model inside DistributedDataParallel, where the output layer has to be read.

    Attributes:
        target: (N, T), int64, ids of the dictionary.
        without: columns to leave out of the sum over all words, which label smoothing needs; None: no sum is needed.
        whole: whether the loss needs the logits of all words anyway.
    """

    target: Tensor
    without: Optional[Sequence[int]] = None
    whole: bool = False


@dataclass
class DecoderOutput:
    """The output of a decoder for T words of each of N hypotheses.

    fairseq expects a pair of a tensor and a dict. It reads the dict's "attn" and "inner_states", and replaces the
    tensor by its last step. :meth:`pair` makes that pair, and :meth:`of` reads it.

    Attributes:
        logits: (N, T, C), or the output layer's input, (N, T, d), if ``words`` answers a request.
        attention: (N, T, S), or None.
        vocabulary: the words of the columns. None: the output layer's words, as in fairseq's own models.
        pointer: the pointer's decisions; None for a model without one.
        words: the log-probabilities that a :class:`WordRequest` asked for; None: use the logits.
        selection: selection probabilities, from a model that selects sentences.
        sentence_attention: attention to words and sentences, from a model with an extractor.
        closed_book_logits: logits (N, T, V) of the closed-book decoder, in training only.
        inner_states: the states of each layer, in the form of fairseq's decoders.
    """

    logits: Tensor
    attention: Optional[Tensor] = None
    vocabulary: Optional[OutputVocabulary] = None
    pointer: Optional[PointerOutput] = None
    words: Optional[WordLogProbs] = None
    selection: Optional[SentenceSelection] = None
    sentence_attention: Optional[SentenceAttention] = None
    closed_book_logits: Optional[Tensor] = None
    inner_states: Optional[List[Tensor]] = None

    @classmethod
    def of(cls, net_output: Sequence[Any]) -> "DecoderOutput":
        """Parse the pair that any fairseq model's forward pass returns."""
        logits, extra = net_output[0], net_output[1] if len(net_output) > 1 else None
        if isinstance(extra, dict) and "output" in extra:
            output: DecoderOutput = extra["output"]
            return replace(output, logits=logits)
        # older decoders return only the attention, or None
        attention = extra.get("attn") if isinstance(extra, dict) else extra
        if isinstance(attention, (list, tuple)):
            attention = attention[0] if attention else None
        return cls(logits, attention)

    def pair(self) -> NetOutput:
        """Return the output as the pair that fairseq expects."""
        return self.logits, {"attn": [self.attention], "inner_states": self.inner_states, "output": self}

    def mixed(self) -> "DecoderOutput":
        """Return the same output with generating and copying mixed where a hard switch would choose one."""
        return self if self.pointer is None else replace(self, pointer=self.pointer.mixed())

    def log_vocab(self) -> LogVocab:
        """Return log P_vocab in float32 or better, for all words (N, T, C) or only for the requested ones."""
        if self.words is not None:
            return self.words
        return F.log_softmax(at_least_float32(self.logits), dim=-1)
