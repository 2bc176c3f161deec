"""The decoder interface: a decoder's capabilities and output, loss functions' requests, and a mixin for decoders.

Loss functions and the beam search access every model through :func:`get_decoder_capabilities` and
:class:`DecoderOutput`, which :class:`PointingDecoder` computes from decoder states in all model families.

A loss function needs log P of each target word. With label smoothing, it also needs the sum of log P over all words.
With a pointer, it also needs log P of the words in the document. For M summary words and a vocabulary of V words, the
logits are the product of states (M, d) and the transposed output weight (V, d). :func:`compute_word_log_probs` computes
the logits in chunks of columns and stores them once for the backward pass. The softmax, its logarithm and the gradients
exist for only one chunk at a time. A direct computation would store three to five tensors of size M x V.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..kernels.linear import widen_to_float32
from ..kernels.operators import linear_without_gradient
from ..vocabulary.output import CandidateWords, OutputVocabulary
from .embedding import SharedTableOutput, expect_dense_gradient
from .pointer import LogVocab, PointerHead, PointerOutput, WordLogProbs
from .sentence_selector import SentenceAttention, SentenceSelection

CHUNK_ELEMENTS = 2**22
"""Maximum number of logits in a chunk on a CPU. Such a chunk needs 16 MiB in float32 and fits in the CPU's caches."""
GPU_CHUNK_ELEMENTS = 2**26
"""Maximum number of logits in a chunk on a GPU.

Such a chunk needs 256 MiB in float32. Smaller chunks would be slower, because each operation on a chunk launches a
kernel.
"""
NARROWEST_CHUNK = 1024
"""Minimum number of columns in a chunk. Products with fewer columns are slower."""


def _divide_columns(states: Tensor, columns: int) -> Iterator[slice]:
    """Yield slices that divide the columns into chunks, to limit the number of logits (M, chunk) for states (M, d)."""
    most = GPU_CHUNK_ELEMENTS if states.is_cuda else CHUNK_ELEMENTS
    width = max(NARROWEST_CHUNK, most // max(1, len(states)))
    for start in range(0, columns, width):
        yield slice(start, min(start + width, columns))


def _find_columns_in_chunk(columns: Tensor, chunk: slice) -> Tuple[Tensor, Tensor]:
    """Return a mask of the columns inside a chunk, and their positions in the chunk (0 for other columns)."""
    inside = (columns >= chunk.start) & (columns < chunk.stop)
    return inside, (columns - chunk.start).masked_fill(~inside, 0)


def _find_excluded_columns(columns: Sequence[int], chunk: slice) -> List[int]:
    """Return excluded columns relative to a chunk, one by one, because a list would be copied to the GPU."""
    return [column - chunk.start for column in columns if chunk.start <= column < chunk.stop]


class _WordLogProbsFunction(torch.autograd.Function):
    """Computes selected columns of log softmax(states table^T + bias), and the sum over all columns.

    Takes the arguments of :func:`compute_word_log_probs`, for M = N T words. Only one backward pass is possible,
    because it overwrites the logits with their gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Optional[Tensor], columns: Tensor, size: int, without: Any
    ) -> Tuple[Tensor, Tensor]:
        kept: List[Optional[Tensor]] = []
        picked = widen_to_float32(states).new_zeros(columns.shape)
        total = picked.new_zeros(len(states))
        normaliser = picked.new_full((len(states),), -math.inf)
        needs_gradient = any(ctx.needs_input_grad[:3])
        for chunk in _divide_columns(states, size):
            logits = linear_without_gradient(states, table[chunk], None if bias is None else bias[chunk])  # (M, chunk)
            wide = widen_to_float32(logits)
            normaliser = torch.logaddexp(normaliser, wide.logsumexp(dim=1))
            inside, place = _find_columns_in_chunk(columns, chunk)
            picked = torch.where(inside, wide.gather(1, place), picked)
            if without is not None:
                total += wide.sum(dim=1)
                left_out = _find_excluded_columns(without, chunk)
                if left_out:
                    total -= sum(wide[:, column] for column in left_out)
            if needs_gradient:
                kept.append(logits)
        if without is not None:
            total -= (size - len(without)) * normaliser
        ctx.save_for_backward(states, table, columns, normaliser)
        ctx.kept, ctx.size, ctx.without, ctx.has_bias = kept, size, without, bias is not None
        return picked - normaliser[:, None], total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        states, table, columns, normaliser = ctx.saved_tensors
        kept, ctx.kept = ctx.kept, None
        if kept is None:
            raise RuntimeError(
                "only one backward pass through the log-probabilities of words is possible, because it "
                "overwrites their logits"
            )
        of_picked, of_total = gradients
        share = of_picked.sum(dim=1)  # factor of the softmax in the gradient
        if ctx.without is not None:
            share = share + (ctx.size - len(ctx.without)) * of_total
        # Keep this sum in float32. Rounding it to half precision after each chunk would lose most contributions from
        # later chunks.
        of_states = torch.zeros_like(widen_to_float32(states))
        of_table = table.new_empty(table.shape)
        of_table[ctx.size :] = 0
        of_bias = states.new_empty(ctx.size) if ctx.has_bias else None
        for number, chunk in enumerate(_divide_columns(states, ctx.size)):
            gradient = widen_to_float32(kept[number])
            kept[number] = None
            gradient.sub_(normaliser[:, None]).exp_().mul_(-share[:, None])  # (M, chunk)
            if ctx.without is not None:
                gradient.add_(of_total[:, None])
                for column in _find_excluded_columns(ctx.without, chunk):
                    gradient[:, column] -= of_total
            inside, place = _find_columns_in_chunk(columns, chunk)
            gradient.scatter_add_(1, place, of_picked.masked_fill(~inside, 0))
            gradient = gradient.to(states.dtype)
            if of_states.dtype == states.dtype:
                of_states.addmm_(gradient, table[chunk])
            else:
                of_states.add_(gradient.mm(table[chunk]))
            torch.mm(gradient.t(), states, out=of_table[chunk])
            if of_bias is not None:
                torch.sum(gradient, dim=0, out=of_bias[chunk])
        return of_states.to(states.dtype), of_table, of_bias, None, None, None


def compute_word_log_probs(
    states: Tensor,
    table: Tensor,
    bias: Optional[Tensor],
    columns: Tensor,
    size: int,
    without: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor]:
    """Compute selected entries (N, T, K) of log softmax(states table^T + bias), and the sum (N, T) of all entries.

    Both have float32 or higher precision. Only one backward pass through them is possible.

    Args:
        states: the decoder states (N, T, d).
        table: the weight of the output layer, with at least V rows and d columns. Only the first V rows are used.
        bias: the bias of the output layer (V,), or None.
        columns: the indices of the selected columns (N, T, K), int64, below V.
        size: V, the number of words.
        without: the columns to exclude from the sum, or None to return 0 instead of the sum.
    """
    rows = columns.flatten(0, 1)
    dtype, device = states.dtype, states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        values = (None if x is None else x.to(dtype) for x in (states.flatten(0, 1), table, bias))
        picked, total = _WordLogProbsFunction.apply(*values, rows, size, without)
    return picked.view(columns.shape), total.view(columns.shape[:2])


Capabilities = FrozenSet[str]
"""The names of a model's mechanisms. Each name is the option that enables the mechanism, such as "--pointer soft"."""


class TrainingCriterion(NamedTuple):
    """The criterion that trains a model for selecting words or sentences."""

    criterion: str
    model: str  # the model that it requires, for messages, such as "an architecture that selects words or sentences"


class DecoderCapabilities(NamedTuple):
    """The properties of a decoder that a search needs to know. The default values describe fairseq's own decoders.

    Attributes:
        shares_documents: whether the decoder accepts a :class:`~fairseq_etads.kernels.beam_state.BeamState`. The
            encoder output then has one row per document, and the summaries have one row per beam.
        takes_requests: whether the ``forward`` methods of the decoder and its model accept the argument ``request``, a
            :class:`WordRequest`.
        has_output_vocabulary: whether the decoder has a method ``make_output_vocabulary(src_tokens)``, which returns an
            :class:`OutputVocabulary`.
        pointer: the pointer head, or None if the model has no pointer.
        large_vocabulary_trick: the number of words over which the softmax is computed, or 0 for all words.
        is_incremental: whether the decoder is a ``FairseqIncrementalDecoder``.
        has_adaptive_softmax: whether the decoder uses an adaptive softmax, which divides the vocabulary into clusters.
    """

    shares_documents: bool = False
    takes_requests: bool = False
    has_output_vocabulary: bool = False
    pointer: Optional[PointerHead] = None
    large_vocabulary_trick: int = 0
    is_incremental: bool = False
    has_adaptive_softmax: bool = False


def unwrap_model(model: Any) -> Any:
    """Return the model inside DistributedDataParallel and similar wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model


def get_decoder_capabilities(model: Any) -> DecoderCapabilities:
    """Return the capabilities of a model's decoder, or the defaults for a model without a decoder."""
    decoder = getattr(model, "decoder", None)
    return DecoderCapabilities(
        shares_documents=bool(getattr(decoder, "shares_documents", False)),
        takes_requests=bool(getattr(decoder, "takes_requests", False)),
        has_output_vocabulary=hasattr(decoder, "make_output_vocabulary"),
        pointer=getattr(decoder, "pointer", None),
        large_vocabulary_trick=int(getattr(decoder, "large_vocabulary_trick", 0)),
        is_incremental=isinstance(decoder, FairseqIncrementalDecoder),
        has_adaptive_softmax=getattr(decoder, "adaptive_softmax", None) is not None,
    )


def get_pointer(model: Any) -> Optional[PointerHead]:
    """Return the pointer head of a model, or None if it has none."""
    return get_decoder_capabilities(model).pointer


def capabilities_of(model: Any) -> Capabilities:
    """Return the mechanisms of a model. Training options, criterions and searches can require them.

    Models from other packages can list additional mechanisms in an attribute ``capabilities``.
    """
    return frozenset((*_list_mechanisms(model), *getattr(model, "capabilities", ())))


def _list_mechanisms(model: Any) -> Iterator[str]:
    decoder = getattr(model, "decoder", None)
    pointer = get_pointer(model)
    if pointer is not None:
        yield from ("--pointer", f"--pointer {pointer.kind}")
    for option, is_there in (
        ("--large-vocabulary-trick", getattr(decoder, "large_vocabulary_trick", 0)),
        ("--adaptive-softmax-cutoff", getattr(decoder, "adaptive_softmax", None) is not None),
        # a pointer always computes its attention
        ("--decoder-layerdrop", getattr(decoder, "decoder_layerdrop", 0) if pointer is None else 0),
        ("--sentence-attention extractor", getattr(model, "extractor", None) is not None),
        ("--sentence-selector", getattr(decoder, "selector", None) is not None),
        ("--closed-book-decoder", getattr(decoder, "closed_book", None) is not None),
    ):
        if is_there:
            yield option


def get_pointer_kind(capabilities: Capabilities) -> str:
    """Return the value of --pointer for a model with the given capabilities: "none", "soft" or "switch"."""
    return next((kind for kind in ("switch", "soft") if f"--pointer {kind}" in capabilities), "none")


NetOutput = Tuple[Tensor, Dict[str, Any]]
"""The output of a fairseq model, which is a pair of a tensor and a dictionary."""


@dataclass
class WordRequest:
    """A loss function's request for the log-probabilities of certain words, passed to a model's ``forward``.

    A decoder may then return the :class:`WordLogProbs` of only these words instead of a distribution over all words.
    The request also indicates that the loss depends on the whole output layer. The request is an argument of
    ``forward``, because a model wrapped in DistributedDataParallel must use the output layer during the forward pass.

    Attributes:
        target: the dictionary ids of the target words (N, T), int64.
        without: the columns to exclude from the sum of log-probabilities over all words, or None if this sum is not
            needed. Label smoothing needs the sum.
        whole: whether the loss needs the logits of all words rather than only the target words.
    """

    target: Tensor
    without: Optional[Sequence[int]] = None
    whole: bool = False


@dataclass
class DecoderOutput:
    """The output of a decoder for N hypotheses of T words each.

    fairseq expects a pair of a tensor and a dictionary. fairseq reads "attn" and "inner_states" from the dictionary,
    and replaces the tensor with its last step. :meth:`to_fairseq_output` creates such a pair, and
    :meth:`from_fairseq_output` converts it back.

    Attributes:
        logits: the logits (N, T, C), or the input (N, T, d) of the output layer if ``words`` is set.
        attention: the attention weights over the source tokens (N, T, S), or None.
        vocabulary: the words to which the columns of the logits belong, or None if the columns are dictionary ids, as
            in fairseq's own models.
        pointer: the output of the pointer head, or None for a model without a pointer.
        words: the log-probabilities that a :class:`WordRequest` requested, or None if the logits must be used.
        selection: the selection probabilities of the sentences, or None for a model without a sentence selector.
        sentence_attention: the attention to words and sentences, or None for a model without an extractor.
        closed_book_logits: the logits (N, T, V) of the closed-book decoder, which exist only in training, or None.
        inner_states: a list of the states of all layers, in the format that fairseq's decoders return, or None.
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
    def from_fairseq_output(cls, net_output: Sequence[Any]) -> "DecoderOutput":
        """Convert the pair that a fairseq model returns to a :class:`DecoderOutput`."""
        logits, extra = net_output[0], net_output[1] if len(net_output) > 1 else None
        if isinstance(extra, dict) and "output" in extra:
            output: DecoderOutput = extra["output"]
            return replace(output, logits=logits)
        # older decoders return only the attention weights or None instead of a dictionary
        attention = extra.get("attn") if isinstance(extra, dict) else extra
        if isinstance(attention, (list, tuple)):
            attention = attention[0] if attention else None
        return cls(logits, attention)

    def to_fairseq_output(self) -> NetOutput:
        """Return the output in the format that fairseq expects."""
        return self.logits, {"attn": [self.attention], "inner_states": self.inner_states, "output": self}

    def to_mixture(self) -> "DecoderOutput":
        """Return a copy that mixes generation and copying, even if the pointer uses a hard switch."""
        return self if self.pointer is None else replace(self, pointer=self.pointer.to_mixture())

    def compute_vocabulary_log_probs(self) -> LogVocab:
        """Return log P_vocab for all words (N, T, C) or only the requested words, in float32 or higher precision."""
        if self.words is not None:
            return self.words
        return F.log_softmax(widen_to_float32(self.logits), dim=-1)


def multiply_by_document_matrices(queries: Tensor, documents: Tensor) -> Tensor:
    """Multiply queries (N, T, D) by the matrices (B, D, S) of their documents. The product has the shape (N, T, S).

    N is a multiple of B, and rows that belong to the same document are adjacent.
    """
    rows, length, width = queries.shape
    if rows == len(documents):
        return torch.bmm(queries, documents)
    return torch.bmm(queries.reshape(len(documents), -1, width), documents).view(rows, length, -1)


class PointingDecoder:
    """A mixin that adds an output layer and a pointer to a decoder. List it before fairseq's decoder class.

    Attributes:
        pointer: the pointer head, or None.
        dictionary: the dictionary of the known words.
        output_projection: the linear layer that computes a logit for each known word.
    """

    shares_documents = True
    """Whether the decoder accepts a BeamState, in which encoder tensors have one row per document."""
    takes_requests = True
    """Whether the ``forward`` methods of the decoder and the model accept a :class:`WordRequest` as ``request``."""
    pointer: Optional[PointerHead]
    dictionary: Any
    adaptive_softmax: Any
    output_projection: Any

    def choose_candidates(self, src_tokens: Tensor) -> Optional[CandidateWords]:
        """Choose the words over which the softmax for documents (B, S) is computed, or return None for all words."""
        return None

    def make_output_vocabulary(self, src_tokens: Tensor, bounded: bool = False) -> OutputVocabulary:
        """Return the words that the decoder can generate or copy for the documents (B, S).

        For ``bounded``, see :class:`~fairseq_etads.vocabulary.output.BatchVocab`.
        """
        candidates = self.choose_candidates(src_tokens)
        return OutputVocabulary.from_source(src_tokens, self.dictionary, self.pointer is not None, candidates, bounded)

    def output_layer(self, states: Tensor) -> Tensor:
        """Compute logits from decoder states (N, T, d). An adaptive softmax reads the states themselves."""
        return states if self.adaptive_softmax is not None else self.output_projection(states)

    def score_words(
        self,
        output: DecoderOutput,
        memory: Tensor,
        tokens: Tensor,
        encoder_out: Dict[str, Any],
        request: Optional[WordRequest] = None,
        features: Optional[Tensor] = None,
    ) -> DecoderOutput:
        """Replace the decoder states in ``output`` with logits, and set its vocabulary and pointer output.

        Args:
            output: the decoder output, in which ``logits`` contains the input (N, T, d) of the output layer.
            memory: what the pointer reads: the encoder states (S, B, E), or log attention weights (N, T, S).
            tokens: the dictionary ids of the previous words (N, T') with T' ≥ T.
            encoder_out: the encoder output, in which the words of the softmax and the layer for them are stored.
            request: the request from the loss function, or None. If only some words are requested and the output layer
                is linear, ``words`` is set and the states are not replaced with logits.
            features: the vectors (N, T, F) from which p_gen is computed, or None for the decoder states.
        """
        states = output.logits
        if "vocabulary" not in encoder_out:
            bounded = request is not None and not request.whole
            made = encoder_out["vocabulary"] = self.make_output_vocabulary(encoder_out["src_tokens"][0], bounded)
            if made.candidates is not None:
                encoder_out["candidate_output"] = self.output_projection.restrict_to_words(made.candidates.words)
        vocabulary: OutputVocabulary = encoder_out["vocabulary"]
        output.vocabulary = vocabulary
        if self.pointer is not None:
            assert vocabulary.slots is not None
            source, steps = encoder_out["src_tokens"][0], states.shape[1]
            history = self.pointer.compute_copy_history(tokens, source, steps, self.dictionary.unk())
            read = states if features is None else features
            output.pointer = self.pointer(read, memory, vocabulary.slots, history)
        if vocabulary.candidates is not None:
            logits = encoder_out["candidate_output"](states)  # (N, T, C)
            output.logits = vocabulary.candidates.mask_unlisted_words(logits)
            return output
        is_linear = isinstance(self.output_projection, (nn.Linear, SharedTableOutput))
        if request is None or not is_linear:
            output.logits = self.output_layer(states)
        elif request.whole:
            output.logits = self.output_layer(states)
            expect_dense_gradient(output.logits, self.output_projection.weight)
        else:
            output.words = self._compute_requested(request, states, vocabulary, output.pointer)
            expect_dense_gradient(output.words.target, self.output_projection.weight)
        return output

    def _compute_requested(
        self, request: WordRequest, states: Tensor, vocabulary: OutputVocabulary, pointer: Optional[PointerOutput]
    ) -> WordLogProbs:
        """Compute the requested log-probabilities from decoder states (N, T, d) and the output layer."""
        layer = self.output_projection
        size = int(layer.known_words if isinstance(layer, SharedTableOutput) else layer.out_features)
        columns = vocabulary.convert_to_target_columns(request.target)[:, :, None].clamp(max=size - 1)
        if pointer is not None and request.without is not None and pointer.kind == "soft":
            columns = torch.cat([columns, pointer.get_document_columns().clamp(max=size - 1)], dim=2)
        picked, total = compute_word_log_probs(states, layer.weight, layer.bias, columns, size, request.without)
        return WordLogProbs(size, picked[:, :, 0], picked[:, :, 1:], total)

    def get_normalized_probs(
        self, net_output: NetOutput, log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """Return probabilities or log-probabilities (N, T, V), or (N, T, V + K) with a pointer.

        The last dimension is indexed by extended id, and words outside the softmax have probability 0. In a search with
        a shortlist, it is indexed by column, and the shape is (N, T, C), or (N, T, C + K) with a pointer.
        """
        output = DecoderOutput.from_fairseq_output(net_output)
        if output.pointer is not None:
            scores = output.pointer.compute_log_probs(output.logits)
        elif self.adaptive_softmax is not None:
            parent: Any = super()
            scores = parent.get_normalized_probs(net_output, True, sample)
        else:
            scores = F.log_softmax(widen_to_float32(output.logits), dim=-1)
        if output.vocabulary is not None:
            scores = output.vocabulary.reindex_by_search_id(scores)
        return scores if log_probs else scores.exp()
