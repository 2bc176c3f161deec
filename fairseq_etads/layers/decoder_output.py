"""The interface of decoders: their capabilities, the request of a loss, their output, and a mixin that makes it.

Losses and searches read any model through :func:`decoder_capabilities` and :class:`DecoderOutput`.
:class:`PointingDecoder` computes the output from decoder states for all families except the recurrent one.
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
"""A model's mechanisms, each named by the option that enables it: "--pointer", "--pointer soft", …"""


class TrainedBy(NamedTuple):
    """The criterion of a model that selects words or sentences.

    Attributes:
        criterion: its name.
        model: the kind of model, for messages: "an architecture that selects words or sentences".
    """

    criterion: str
    model: str


class DecoderCapabilities(NamedTuple):
    """Properties of a decoder that a search depends on; the defaults fit fairseq's own decoders.

    Attributes:
        shares_documents: it accepts a :class:`BeamState` and encoder output with one row per document, while the
            summaries have one row per beam.
        takes_requests: its forward pass, and its model's, have the argument ``request``, a :class:`WordRequest`.
        has_output_vocabulary: it has ``output_vocabulary(src_tokens)``, an :class:`OutputVocabulary`.
        pointer: its pointer head, or None.
        large_vocabulary_trick: number of words in its softmax; 0: all.
        is_incremental: it is one of fairseq's incremental decoders.
        has_adaptive_softmax: its words are in clusters, each with its own softmax.
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
    """Find the capabilities of a model's decoder; the defaults for a model without a decoder."""
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
    """List the mechanisms of a model that options of a training, a criterion or a search can require.

    A model from another package can name further ones in an attribute ``capabilities``.
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
    """Kind of pointer in a model's capabilities, as --pointer names it: "none", "soft" or "switch"."""
    return next((kind for kind in ("switch", "soft") if f"--pointer {kind}" in capabilities), "none")


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


def multiply_by_documents(queries: Tensor, documents: Tensor) -> Tensor:
    """Multiply queries (N, T, D) by their documents (B, D, S). Returns (N, T, S).

    N is a multiple of B; rows of the same document are adjacent.
    """
    rows, length, width = queries.shape
    if rows == len(documents):
        return torch.bmm(queries, documents)
    return torch.bmm(queries.reshape(len(documents), -1, width), documents).view(rows, length, -1)


class PointingDecoder:
    """A mixin for a decoder, inherited before one of fairseq's decoder classes.

    Attributes:
        pointer: the pointer head, or None.
        dictionary: the dictionary of known words.
        output_projection: a linear layer over the known words.
        output_layer: function that computes the logits of states (N, T, d).
    """

    shares_documents = True
    """Accepts a BeamState: documents stay single rows while prev_output_tokens has one row per beam."""
    takes_requests = True
    """Accepts the argument ``request``, a :class:`WordRequest`, in its and its model's forward pass."""
    pointer: Optional[Pointer]
    dictionary: Any
    output_projection: Any
    output_layer: Any

    def output_vocabulary(self, src_tokens: Tensor, bounded: bool = False) -> OutputVocabulary:
        """Make the vocabulary of the distributions for documents (B, S); ``bounded``: see :class:`BatchVocab`."""
        return OutputVocabulary.of(src_tokens, self.dictionary, pointer=self.pointer is not None, bounded=bounded)

    def score_words(
        self,
        output: DecoderOutput,
        memory: Tensor,
        tokens: Tensor,
        encoder_out: Dict[str, Any],
        request: Optional[WordRequest] = None,
    ) -> DecoderOutput:
        """Replace the output's states by logits, and add the batch's vocabulary and a pointer's decisions.

        Args:
            output: the decoder's output, with states (N, T, d), the output layer's input, in place of logits.
            memory: encoder states (S, B, E) for the pointer.
            tokens: ids of the previous words (N, T or more) in the dictionary.
            encoder_out: the encoder's output.
            request: the request of a loss. The output then has ``words``, and states in place of logits.
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
        """Compute the log-probabilities that a loss requests, from states (N, T, d) and a layer over known words."""
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
        """Compute (log-)probabilities (N, T, V), or with a pointer (N, T, V + K) by extended id.

        In a search with a shortlist they are (N, T, C) or (N, T, C + K), by column.
        """
        output = DecoderOutput.of(net_output)
        if output.pointer is None:
            parent: Any = super()
            probs: Tensor = parent.get_normalized_probs(net_output, log_probs, sample)
            return probs
        scores = output.pointer.log_probs(output.logits)
        return scores if log_probs else scores.exp()
