"""The interface of decoders: capabilities, requests of losses, the output, and a mixin that computes it.

Losses and searches access all models through :func:`decoder_capabilities` and :class:`DecoderOutput`. In all families
except the recurrent one, :class:`PointingDecoder` computes the output from decoder states.
"""

from dataclasses import dataclass, replace
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..kernels.lookup import expect_dense_gradient
from ..kernels.precision import at_least_float32
from ..kernels.word_log_probs import word_log_probs
from ..vocabulary.output import OutputVocabulary
from .embedding import SharedTableOutput
from .pointer import LogVocab, Pointer, PointerHead, PointerOutput, WordLogProbs
from .sentence_selector import SentenceAttention, SentenceSelection

Capabilities = FrozenSet[str]
"""Mechanisms of a model, named after the options that enable them: "--pointer", "--pointer soft", …"""


class TrainedBy(NamedTuple):
    """The criterion that trains a model for selecting words or sentences.

    Attributes:
        criterion: name of the criterion.
        model: kind of model, for messages, such as "an architecture that selects words or sentences".
    """

    criterion: str
    model: str


class DecoderCapabilities(NamedTuple):
    """Properties of a decoder that are important for a search. The defaults describe fairseq's own decoders.

    Attributes:
        shares_documents: whether the decoder accepts a :class:`BeamState` and encoder output with one row per document,
            while the summaries have one row per beam.
        takes_requests: whether the forward passes of the decoder and its model accept the argument ``request``, a
            :class:`WordRequest`.
        has_output_vocabulary: whether the decoder has a method ``output_vocabulary(src_tokens)``, which returns an
            :class:`OutputVocabulary`.
        pointer: the pointer head, or None.
        large_vocabulary_trick: number of words in the softmax, or 0 for all.
        is_incremental: whether the decoder is one of fairseq's incremental decoders.
        has_adaptive_softmax: whether words are divided into clusters, each with its own softmax.
    """

    shares_documents: bool = False
    takes_requests: bool = False
    has_output_vocabulary: bool = False
    pointer: Optional[PointerHead] = None
    large_vocabulary_trick: int = 0
    is_incremental: bool = False
    has_adaptive_softmax: bool = False


def unwrapped(model: Any) -> Any:
    """Return the model inside DistributedDataParallel and similar wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model


def decoder_capabilities(model: Any) -> DecoderCapabilities:
    """Return the capabilities of a model's decoder, or the defaults for a model without a decoder."""
    decoder = getattr(model, "decoder", None)
    return DecoderCapabilities(
        shares_documents=bool(getattr(decoder, "shares_documents", False)),
        takes_requests=bool(getattr(decoder, "takes_requests", False)),
        has_output_vocabulary=hasattr(decoder, "output_vocabulary"),
        pointer=getattr(decoder, "pointer", None),
        large_vocabulary_trick=int(getattr(decoder, "large_vocabulary_trick", 0)),
        is_incremental=isinstance(decoder, FairseqIncrementalDecoder),
        has_adaptive_softmax=getattr(decoder, "adaptive_softmax", None) is not None,
    )


def pointer_of(model: Any) -> Optional[PointerHead]:
    """Return a model's pointer head, or None."""
    return decoder_capabilities(model).pointer


def capabilities_of(model: Any) -> Capabilities:
    """Return the mechanisms of a model that options of training, criterions and searches can require.

    Models from other packages can list additional mechanisms in an attribute ``capabilities``.
    """
    return frozenset((*_mechanisms(model), *getattr(model, "capabilities", ())))


def _mechanisms(model: Any) -> Iterator[str]:
    decoder = getattr(model, "decoder", None)
    pointer = pointer_of(model)
    if pointer is not None:
        yield from ("--pointer", f"--pointer {pointer.kind}")
    for option, is_there in (
        ("--large-vocabulary-trick", getattr(decoder, "large_vocabulary_trick", 0)),
        ("--adaptive-softmax-cutoff", getattr(decoder, "adaptive_softmax", None) is not None),
        ("--decoder-layerdrop", getattr(decoder, "decoder_layerdrop", 0)),
        ("--sentence-attention extractor", getattr(model, "extractor", None) is not None),
        ("--sentence-selector", getattr(decoder, "selector", None) is not None),
        ("--closed-book-decoder", getattr(decoder, "closed_book", None) is not None),
    ):
        if is_there:
            yield option


def pointer_kind(capabilities: Capabilities) -> str:
    """Return the kind of pointer in a model's capabilities, as a value of --pointer: "none", "soft" or "switch"."""
    return next((kind for kind in ("switch", "soft") if f"--pointer {kind}" in capabilities), "none")


NetOutput = Tuple[Tensor, Dict[str, Any]]
"""Pair of values that represents the output of a model in fairseq."""


@dataclass
class WordRequest:
    """Request for the words that a loss needs, passed as an argument of a model's forward pass.

    A decoder may return the :class:`WordLogProbs` of only these words instead of a distribution over all words. The
    request also informs the decoder that the loss depends on the whole output layer. Requests are arguments so that
    they reach a model inside DistributedDataParallel, which must read the output layer during the forward pass.

    Attributes:
        target: (N, T), int64, ids of the dictionary.
        without: columns to leave out of the sum over all words, which label smoothing needs, or None if no sum is
            needed.
        whole: whether the loss needs the logits of all words anyway.
    """

    target: Tensor
    without: Optional[Sequence[int]] = None
    whole: bool = False


@dataclass
class DecoderOutput:
    """The output of a decoder for N hypotheses of T words.

    fairseq expects a pair of a tensor and a dictionary. From the dictionary, fairseq reads "attn" and "inner_states".
    The tensor is replaced with its last step. :meth:`pair` creates such a pair, and :meth:`of` parses it.

    Attributes:
        logits: (N, T, C), or the input of the output layer, (N, T, d), if ``words`` is given.
        attention: (N, T, S), or None.
        vocabulary: words of the columns, or None for the words of the output layer, as in fairseq's own models.
        pointer: decisions of the pointer, or None for a model without a pointer.
        words: log-probabilities requested by a :class:`WordRequest`, or None if the logits must be used.
        selection: selection probabilities, from a model that selects sentences.
        sentence_attention: attention to words and sentences, from a model with an extractor.
        closed_book_logits: logits (N, T, V) of the closed-book decoder, in training only.
        inner_states: states of each layer, in the form that fairseq's decoders return.
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
        """Parse the pair that the forward pass of a fairseq model returns."""
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
        """Return the output in the form that fairseq expects."""
        return self.logits, {"attn": [self.attention], "inner_states": self.inner_states, "output": self}

    def mixed(self) -> "DecoderOutput":
        """Return a copy in which generating and copying are mixed, even if a hard switch would choose one of them."""
        return self if self.pointer is None else replace(self, pointer=self.pointer.mixed())

    def log_vocab(self) -> LogVocab:
        """Return log P_vocab in float32 or better, for all words (N, T, C) or only for the requested ones."""
        if self.words is not None:
            return self.words
        return F.log_softmax(at_least_float32(self.logits), dim=-1)


def multiply_by_documents(queries: Tensor, documents: Tensor) -> Tensor:
    """Multiply queries (N, T, D) by their documents (B, D, S). Returns (N, T, S).

    N is a multiple of B, and the rows of a document are adjacent.
    """
    rows, length, width = queries.shape
    if rows == len(documents):
        return torch.bmm(queries, documents)
    return torch.bmm(queries.reshape(len(documents), -1, width), documents).view(rows, length, -1)


class PointingDecoder:
    """A mixin for decoders. Inherit it before one of fairseq's decoder classes.

    Attributes:
        pointer: the pointer head, or None.
        dictionary: dictionary of the known words.
        output_projection: linear layer over the known words.
        output_layer: function that computes logits from states (N, T, d).
    """

    shares_documents = True
    """The decoder accepts a BeamState: there is one row per document, but prev_output_tokens has one row per beam."""
    takes_requests = True
    """The forward passes of decoder and model accept the argument ``request``, a :class:`WordRequest`."""
    pointer: Optional[Pointer]
    dictionary: Any
    output_projection: Any
    output_layer: Any

    def output_vocabulary(self, src_tokens: Tensor, bounded: bool = False) -> OutputVocabulary:
        """Return the words of the distributions for documents (B, S). For ``bounded``, see :class:`BatchVocab`."""
        return OutputVocabulary.of(src_tokens, self.dictionary, pointer=self.pointer is not None, bounded=bounded)

    def score_words(
        self,
        output: DecoderOutput,
        memory: Tensor,
        tokens: Tensor,
        encoder_out: Dict[str, Any],
        request: Optional[WordRequest] = None,
    ) -> DecoderOutput:
        """Replace the states in the output with logits, and add the batch's vocabulary and the pointer's decisions.

        Args:
            output: output of the decoder, with states (N, T, d), which are the input of the output layer, in place of
                logits.
            memory: encoder states (S, B, E) for the pointer.
            tokens: ids of the previous words in the dictionary (N, T or more).
            encoder_out: output of the encoder.
            request: request of a loss. With a request, ``words`` is set, and states are not replaced with logits.
        """
        states = output.logits
        if "vocabulary" not in encoder_out:
            bounded = request is not None and not request.whole
            encoder_out["vocabulary"] = self.output_vocabulary(encoder_out["src_tokens"][0], bounded)
        vocabulary: OutputVocabulary = encoder_out["vocabulary"]
        output.vocabulary = vocabulary
        if self.pointer is not None:
            assert vocabulary.slots is not None
            source, steps = encoder_out["src_tokens"][0], states.shape[1]
            history = self.pointer.history(tokens, source, steps, self.dictionary.unk())
            output.pointer = self.pointer(states, memory, vocabulary.slots, history)
        if "candidate_output" in encoder_out:  # in a search with a shortlist
            logits = encoder_out["candidate_output"](states)  # (N, T, C)
            assert vocabulary.candidates is not None
            output.logits = vocabulary.candidates.restrict(logits)
            return output
        is_linear = isinstance(self.output_projection, (nn.Linear, SharedTableOutput))
        if request is None or not is_linear:
            output.logits = self.output_layer(states)
        elif request.whole:
            output.logits = self.output_layer(states)
            expect_dense_gradient(output.logits, self.output_projection.weight)
        else:
            output.words = self._requested(request, states, vocabulary, output.pointer)
            expect_dense_gradient(output.words.target, self.output_projection.weight)
        return output

    def _requested(
        self, request: WordRequest, states: Tensor, vocabulary: OutputVocabulary, pointer: Optional[PointerOutput]
    ) -> WordLogProbs:
        """Compute the log-probabilities that a loss requests, from states (N, T, d) and the layer over known words."""
        layer = self.output_projection
        size = int(layer.known_words if isinstance(layer, SharedTableOutput) else layer.out_features)
        columns = vocabulary.target_columns(request.target)[:, :, None].clamp(max=size - 1)
        if pointer is not None and request.without is not None and pointer.kind == "soft":
            columns = torch.cat([columns, pointer.document_columns().clamp(max=size - 1)], dim=2)
        picked, total = word_log_probs(states, layer.weight, layer.bias, columns, size, request.without)
        return WordLogProbs(size, picked[:, :, 0], picked[:, :, 1:], total)

    def get_normalized_probs(
        self, net_output: NetOutput, log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """Compute (log-)probabilities (N, T, V), or (N, T, V + K) with a pointer, indexed by extended id.

        In a search with a shortlist, they are (N, T, C) or (N, T, C + K), indexed by column.
        """
        output = DecoderOutput.of(net_output)
        if output.pointer is None:
            parent: Any = super()
            probs: Tensor = parent.get_normalized_probs(net_output, log_probs, sample)
            return probs
        scores = output.pointer.log_probs(output.logits)
        return scores if log_probs else scores.exp()
