"""Create inference copies of models. The copies can use other dtypes, faster matrix products and a shortlist of words.

A copy has the same structure as the model and shares its parameters, unless they must be converted to another dtype.
The original model is not modified and can still be trained. If its parameters have changed, :class:`InferenceModel`
creates a new copy. On a CPU, the linear layers of the copy use packed weights (:class:`PackedLinear`,
:class:`Int8Linear`, :class:`BlockedOutputProjection`).

With a shortlist, each document has a list of words. The softmax of a document is computed over its own list, so that
its summary does not depend on other documents in the batch. The words of a batch are the union of these lists. During
the search, a word is represented by its column in the union.
"""

import copy
import functools
import logging
import math
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq import search as fairseq_search
from fairseq.modules import LinearizedConvolution, MultiheadAttention
from torch import Tensor, nn

from ..kernels import operators as kernels
from ..kernels.linear import (
    BlockedOutputProjection,
    Int8Linear,
    PackedLinear,
    count_optimizer_steps,
    divide_into_blocks,
    is_plain_linear,
    iterate_normalised_weights,
    keeps_float32,
    remove_weight_normalisation,
)
from ..layers.decoder_output import get_decoder_capabilities
from ..layers.embedding import SharedTableOutput
from ..layers.encoder import (
    SELF_ATTENTION_INPUTS,
    check_unsupported_arguments,
    get_attention_dropout,
    is_plain_attention,
    merge_heads,
    project_self_attention_inputs,
    split_heads,
)
from ..layers.recurrent import OutputLayer
from ..platform.command_options import check_option_choice
from ..vocabulary.output import CandidateWords, OutputVocabulary
from ..vocabulary.shortlist import Shortlist
from .options import INFER_DTYPES
from .search_rules import SpecialTokens


class DocumentAttention(nn.Module):
    """Self-attention over a document, with the linear layers of an encoder layer's attention module.

    It calls the layers, whereas fairseq's module reads their weights.
    """

    takes_joint_projection = True

    def __init__(self, attention: MultiheadAttention):
        super().__init__()
        self.num_heads = attention.num_heads
        self.q_proj, self.k_proj, self.v_proj = attention.q_proj, attention.k_proj, attention.v_proj
        self.out_proj = attention.out_proj
        self.dropout_p = get_attention_dropout(attention)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, **options: Any
    ) -> Tuple[Tensor, None]:
        """Compute self-attention for ``query`` (S, B, d_m), which is also used as key and value.

        ``key_padding_mask`` (B, S) is True at padding. Returns the attention output (S, B, d_m) and None.
        """
        check_unsupported_arguments(self, **options)
        q, k, v = (split_heads(projected, self.num_heads) for projected in project_self_attention_inputs(self, query))
        attend = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=self.dropout_p)
        return self.out_proj(merge_heads(out).to(query.dtype)), None


logger = logging.getLogger(__name__)

_FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_WITH_BFLOAT16, _WITH_FLOAT16 = (8, 0), (7, 0)
"""Minimum CUDA compute capabilities for matrix products at full speed in bfloat16 (Ampere) and float16 (Volta)."""


def copy_model_structure(model: nn.Module, cast: Optional[Callable[[Tensor], Tensor]] = None) -> nn.Module:
    """Copy the modules of a model without copying its tensors, and set the copy to evaluation mode.

    In the copy, weights that are computed by weight normalisation are replaced with their current values. ``cast``
    converts floating-point parameters and buffers, each only once, so that tied weights remain tied. If it is None, all
    tensors are shared. The model itself is not modified.
    """
    shared: Dict[int, Any] = {}
    for parameter in model.parameters():
        shared[id(parameter)] = parameter
        if cast is not None and parameter.is_floating_point():
            shared[id(parameter)] = nn.Parameter(cast(parameter.detach()), requires_grad=False)
    for buffer in model.buffers():
        shared[id(buffer)] = cast(buffer) if cast is not None and buffer.is_floating_point() else buffer
    # dictionaries are large and never change
    dictionaries = [getattr(module, "dictionary", None) for module in model.modules()]
    shared.update((id(dictionary), dictionary) for dictionary in dictionaries)
    shared.update((id(weight), weight) for weight in iterate_normalised_weights(model))
    result = copy.deepcopy(model, shared)
    remove_weight_normalisation(result)
    for module in result.modules():
        if isinstance(module, LinearizedConvolution):  # otherwise, fairseq would transpose the weight at every step
            module._linearized_weight = module._get_linearized_weight()
    result.eval()  # not chained, because eval() returns None after fairseq has prepared the model for generation
    return result


def _replace_linears(module: nn.Module, make: Callable[[nn.Module, str, nn.Linear], nn.Module]) -> None:
    """Replace each linear layer inside ``module`` with ``make(parent, name, layer)``.

    Layers with a single output are not replaced.
    """
    for name, child in list(module.named_children()):
        if not is_plain_linear(child):  # also skip subclasses, which may compute other functions
            _replace_linears(child, make)
        elif child.out_features > 1:
            setattr(module, name, make(module, name, child))


@functools.cache
def _log_products(level: int, infer_dtype: Optional[str], what: str) -> None:
    """Log a message about the matrix products. Each message is logged only once per process."""
    logger.log(level, f"--infer-dtype {infer_dtype}: {what}" if infer_dtype else f"generation: {what}")


class _MatrixProductSettings(NamedTuple):
    """The implementation of matrix products that an inference copy uses on this processor."""

    dtype: torch.dtype  # of all products except 8-bit integer products
    packed: bool  # whether the weights of these products are packed
    int8: bool  # whether 8-bit integer products are used
    memory: torch.dtype  # of cached keys and values


def _choose_cpu_products(infer_dtype: Optional[str]) -> _MatrixProductSettings:
    """Choose the implementation of matrix products for ``infer_dtype`` on this processor, and log the choice."""
    levels = kernels.find_exact_int8_levels() if infer_dtype == "int8" else None
    has_bfloat16 = infer_dtype in ("bf16", "int8") and kernels.can_pack_weights(torch.bfloat16)
    narrow = (("int8", levels, "8-bit integer"), ("bf16", has_bfloat16, "bfloat16"), ("fp16", False, "float16"))
    for wanted, there, name in narrow:
        if infer_dtype == wanted and not there:
            _log_products(
                logging.WARNING, wanted, f"this processor or torch has no fast {name} products, so float32 is used"
            )
    dtype = torch.bfloat16 if has_bfloat16 and infer_dtype == "bf16" else torch.float32
    memory = torch.bfloat16 if has_bfloat16 and (levels or infer_dtype == "bf16") else torch.float32
    packed = kernels.can_pack_weights(dtype)
    kernel = f"{'packed ' if packed else ''}{str(dtype).split('.')[1]} products{' of oneDNN' if packed else ''}"
    if levels:
        keys = f"keys and values in {str(memory).split('.')[1]}"
        kernel = f"8-bit integer products of FBGEMM, inputs rounded to 1/{levels} of their largest; {keys}"
    _log_products(logging.INFO, infer_dtype, kernel)
    return _MatrixProductSettings(dtype, packed, bool(levels), memory)


PROBE_ROWS = 40
"""Number of hypotheses for which matrix products are timed to compare dtypes."""
PROBE_GAIN = 1.1
"""Minimum speed-up factor that is required to choose a narrower dtype. Smaller differences may be due to chance."""


def _count_products_per_step(decoder: nn.Module) -> Tuple[Tuple[Tuple[int, int], int], ...]:
    """Count the matrix products in a decoder step. Returns pairs of a size (outputs, inputs) and its count."""
    counts: Dict[Tuple[int, int], int] = {}
    for layer in decoder.modules():
        if isinstance(layer, (nn.Linear, OutputLayer, SharedTableOutput)):
            outputs, inputs = layer.weight.shape
            for start, end in divide_into_blocks(outputs):
                size = (end - start, inputs)
                counts[size] = counts.get(size, 0) + 1
    return tuple(sorted(counts.items()))


@functools.cache
def find_fastest_cpu_dtype(products: Tuple[Tuple[Tuple[int, int], int], ...]) -> str:
    """Measure the time of matrix products, and return the name of the fastest dtype on this processor.

    ``products`` contains pairs of a size (outputs, inputs) and the number of products of this size. The result is
    cached, so equal arguments always lead to the same dtype within a process.
    """
    seconds: Dict[str, float] = {}
    for (outputs, inputs), count in products:
        for name, least in _time_matrix_product_dtypes(outputs, inputs).items():
            seconds[name] = seconds.get(name, 0.0) + count * least
    best = "fp32"
    for name in seconds:
        if seconds[name] * PROBE_GAIN < seconds[best]:
            best = name
    times = ", ".join(f"{name} {value * 1000:.2f} ms" for name, value in seconds.items())
    _log_products(logging.INFO, "auto", f"{best} (the products of a step for {PROBE_ROWS} hypotheses: {times})")
    return best


def _time_matrix_product_dtypes(outputs: int, inputs: int) -> Dict[str, float]:
    """Return the shortest time of a matrix product in seconds for each available dtype, "fp32" first."""
    x = torch.linspace(-1, 1, PROBE_ROWS * inputs).view(PROBE_ROWS, inputs)
    weight = torch.ones(outputs, inputs)
    layers: Dict[str, nn.Module] = {"fp32": nn.Linear(inputs, outputs, bias=False)}
    if kernels.can_pack_weights(torch.float32):
        layers["fp32"] = PackedLinear(weight, None, torch.float32)
    if kernels.can_pack_weights(torch.bfloat16):
        layers["bf16"] = PackedLinear(weight, None, torch.bfloat16)
    if kernels.find_exact_int8_levels():
        layers["int8"] = Int8Linear(weight, None)
    seconds = dict.fromkeys(layers, math.inf)
    with torch.no_grad():
        # Time the dtypes in turn, so that other programs slow down all of them equally. The first round is a warm-up.
        for _ in range(10):
            for name, layer in layers.items():
                started = time.perf_counter()
                layer(x)
                seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds


def _choose_inference_dtype(infer_dtype: Optional[str], model: Any) -> Optional[str]:
    """Replace "auto" with the fastest dtype on the model's device, or None if that is the model's own."""
    if infer_dtype != "auto":
        return infer_dtype
    device = next(model.parameters()).device
    if device.type == "cpu":
        return find_fastest_cpu_dtype(_count_products_per_step(model.decoder))
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    found = "bf16" if capability >= _WITH_BFLOAT16 else "fp16" if capability >= _WITH_FLOAT16 else None
    _log_products(logging.INFO, "auto", f"{found or 'the format of the model'} on {device}")
    return found


def _copy_model_for_cpu(model: Any, infer_dtype: Optional[str]) -> nn.Module:
    """Create a float32 copy for a CPU, in which matrix products may use a narrower dtype to be faster."""
    parameter = next(model.parameters())
    if infer_dtype is None and parameter.dtype != torch.float32:
        return copy_model_structure(model)
    result: Any = copy_model_structure(model, None if parameter.dtype == torch.float32 else Tensor.float)
    products = _choose_cpu_products(infer_dtype)
    if not (products.packed or products.int8):
        return result
    result.memory_dtype = products.memory
    _replace_output_layer(result.decoder, products)
    for layer in getattr(result.encoder, "layers", []):
        if is_plain_attention(getattr(layer, "self_attn", None)):
            layer.self_attn = DocumentAttention(layer.self_attn)
    for module in list(result.modules()):
        if getattr(module, "takes_joint_projection", False):
            _join_projections(module)
    _replace_linears(result, functools.partial(_make_product_layer, products))
    return result


@torch.no_grad()
def _join_projections(attention: Any) -> None:
    """Add a joint layer for queries, keys and values to a self-attention module.

    :func:`project_self_attention_inputs` uses this layer. In a search, the three separate products are small, so a
    single joint product is faster. In addition, the inputs of 8-bit products are then quantised only once.
    """
    parts = [getattr(attention, name) for name in SELF_ATTENTION_INPUTS]
    if not all(is_plain_linear(part) and part.bias is not None and not keeps_float32(part) for part in parts):
        return
    weight = torch.cat([part.weight for part in parts])
    joint = nn.Linear(weight.size(1), len(weight), device="meta")  # draws no random numbers on this device
    joint.weight = nn.Parameter(weight)
    joint.bias = nn.Parameter(torch.cat([part.bias for part in parts]))
    attention.joint_proj = joint


def _make_product_layer(products: _MatrixProductSettings, parent: nn.Module, name: str, linear: nn.Linear) -> nn.Module:
    """Create the layer that replaces a linear layer in an inference copy, or return a layer that stays as it is."""
    if name in SELF_ATTENTION_INPUTS and hasattr(parent, "joint_proj"):
        return linear
    # fairseq's attention accesses its layers' weights directly instead of calling the layers. In a search, this
    # project's attention modules call them.
    reads_weights = is_plain_attention(parent)
    if products.int8 and not (keeps_float32(linear) or reads_weights):
        return Int8Linear(linear.weight, linear.bias, relu=_fuse_following_relu(parent, name))
    if not products.packed:
        return linear
    if keeps_float32(linear):
        return PackedLinear(linear.weight, linear.bias, torch.float32)
    relu = _fuse_following_relu(parent, name)
    # A Transformer's first feed-forward layer keeps its output in the dtype in which the second layer computes.
    formats = {"fc1": products.dtype, "fc2": torch.float32} if hasattr(parent, "activation_fn") else {}
    out = formats.get(name)
    return PackedLinear(linear.weight, linear.bias, products.dtype, out, relu)


def _fuse_following_relu(layer: Any, name: str) -> bool:
    """Return whether a linear layer can apply the ReLU that follows it, which saves a pass. If so, remove the ReLU."""
    activation = getattr(layer, "activation_fn", None)
    takes_over = name == "fc1" and (activation is nn.functional.relu or activation is torch.relu_)
    if takes_over:
        layer.activation_fn = nn.Identity()
    return takes_over


def _replace_output_layer(decoder: Any, products: _MatrixProductSettings) -> None:
    """Replace an output projection for all known words with a :class:`BlockedOutputProjection`."""

    def make_block(weight: Tensor, bias: Optional[Tensor]) -> nn.Module:
        if products.int8:
            return Int8Linear(weight, bias)
        return PackedLinear(weight, bias, products.dtype, products.dtype)

    output = getattr(decoder, "output_projection", None)
    wide = functools.partial(BlockedOutputProjection, make=make_block)
    if isinstance(output, SharedTableOutput):
        output = decoder.output_projection = output.as_linear()
    if is_plain_linear(output):
        decoder.output_projection = wide(output.weight, output.bias)
    elif type(output) is OutputLayer and not getattr(decoder, "large_vocabulary_trick", 0):
        decoder.output_projection = wide(output.weight[: len(output.bias)], output.bias[:, 0])


def _make_inference_copy(model: nn.Module, infer_dtype: Optional[str]) -> nn.Module:
    """Create a copy of the model in the requested dtype on the same device."""
    parameter = next(model.parameters())
    infer_dtype = _choose_inference_dtype(infer_dtype, model)
    if parameter.is_cpu:
        return _copy_model_for_cpu(model, infer_dtype)
    if infer_dtype == "int8":
        raise ValueError(f"--infer-dtype int8 requires a CPU: choose fp32, bf16, fp16 or auto on {parameter.device}")
    if infer_dtype == "bf16" and parameter.is_cuda:
        capability = torch.cuda.get_device_capability(parameter.device)
        if capability < _WITH_BFLOAT16:
            raise ValueError(
                f"--infer-dtype bf16: {parameter.device} has capability {capability[0]}.{capability[1]}, and GPUs "
                "before 8.0 (Ampere) only emulate bfloat16; choose fp16, fp32 or auto"
            )
    dtype = parameter.dtype if infer_dtype is None else _FLOATS[infer_dtype]
    return copy_model_structure(model, None if dtype == parameter.dtype else lambda x: x.to(dtype))


class InferenceModel:
    """A model and its inference copy, which is created on demand and replaced when the model has changed.

    Several threads can share the copy, because a forward pass changes only buffers that are separate for each thread
    (:class:`BlockedOutputProjection`). Packed weights cannot be unpacked, so the copy is dropped when this object is
    pickled or deep-copied. The new object creates another copy on demand.

    The copy has the dtype ``infer_dtype``: "fp32", "bf16", "fp16" (for GPUs), "int8" (for CPUs), "auto" for the fastest
    of these, or None for the model's own. Raises ValueError if the dtype is unknown or, when the copy is created, not
    supported by the model's device.
    """

    def __init__(self, model: nn.Module, infer_dtype: Optional[str] = None):
        if infer_dtype is not None:
            check_option_choice("--infer-dtype", infer_dtype, INFER_DTYPES)
        self.__setstate__({"model": model, "infer_dtype": infer_dtype})

    def __getstate__(self) -> Dict[str, Any]:
        return {"model": self.model, "infer_dtype": self.infer_dtype}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.model: nn.Module = state["model"]
        self.infer_dtype: Optional[str] = state["infer_dtype"]
        self._lock = threading.Lock()  # ensures that concurrent threads share one copy
        self._copy: Optional[nn.Module] = None
        self._made_of: Optional[Tuple[int, List[Tuple[int, int]]]] = None  # state of the copied parameters

    def get_current_copy(self) -> nn.Module:
        """Return a copy of the model with its current parameters."""
        # Loading a checkpoint replaces tensors or modifies them in place, which increments their version counter.
        # Tensors that were created in inference mode have no such counter.
        versions = [(x.data_ptr(), -1 if x.is_inference() else x._version) for x in self.model.parameters()]
        now = (count_optimizer_steps(), versions)
        with self._lock:
            if self._copy is None or now != self._made_of:
                self._copy = _make_inference_copy(self.model, self.infer_dtype)
                self._made_of = now
            return self._copy


def check_shortlist_support(models: Sequence[Any], strategy: Any) -> None:
    """Raise ValueError if the models of the ensemble or fairseq's search object do not support shortlists."""
    for model in models:
        capabilities = get_decoder_capabilities(model)
        output = getattr(getattr(model, "decoder", None), "output_projection", None)
        if not capabilities.has_output_vocabulary:
            raise ValueError(f"--shortlist works only with models of this project, not with {type(model).__name__}")
        if capabilities.large_vocabulary_trick:
            raise ValueError(
                f"--shortlist does not go with --large-vocabulary-trick {capabilities.large_vocabulary_trick}, which "
                "already restricts the softmax to its own list: leave it out"
            )
        if capabilities.has_adaptive_softmax or not (
            is_plain_linear(output) or isinstance(output, (SharedTableOutput, OutputLayer))
        ):
            raise ValueError(
                "--shortlist needs a model with one output layer over all words, without --adaptive-softmax-cutoff"
            )
    if isinstance(strategy, fairseq_search.PrefixConstrainedBeamSearch):
        raise ValueError("--shortlist does not go with prefix_allowed_tokens_fn, which may need other words")


def find_batch_candidates(
    shortlist: Shortlist,
    net_input: Dict[str, Tensor],
    prefix: Optional[Tensor],
    constraints: Optional[Tensor],
    special: SpecialTokens,
    start: int,
    beam: int,
) -> CandidateWords:
    """Return the words over which the softmax is computed for a batch.

    Each document's list includes the words of its prefix (B, T) and packed constraints (B, n), if there are any. All
    lists include the special tokens and the start symbol.
    """
    extra = [] if prefix is None else [prefix]
    if constraints is not None:
        extra.append(constraints[:, 1:])  # the first number is the number of constraints, and zeros separate them
    marks = () if special.sentence_mark < 0 else (special.sentence_mark,)
    always = (start, special.eos, *special.suppressed, *special.may_repeat, *marks)
    least = 2 * beam + 1  # enough words, so that the beam size does not depend on other documents
    words = torch.cat(extra, dim=1).long() if extra else None
    return shortlist.choose_candidates(net_input["src_tokens"], least, words, always)


def convert_to_search_ids(special: SpecialTokens, start: int, candidates: CandidateWords) -> Tuple[SpecialTokens, int]:
    """Convert the special tokens and the start symbol, which all lists contain, to search ids."""
    column = {word: number for number, word in enumerate(candidates.words.tolist())}.__getitem__
    columns = replace(
        special,
        eos=column(special.eos),
        suppressed=tuple(map(column, special.suppressed)),
        may_repeat=tuple(map(column, special.may_repeat)),
        sentence_mark=column(special.sentence_mark) if special.sentence_mark >= 0 else -1,
    )
    return columns, column(start)


def restrict_softmax(model: Any, src_tokens: Tensor, candidates: CandidateWords) -> Dict[str, Any]:
    """Create the additional encoder outputs that restrict the softmax of a model of this project to the candidates."""
    decoder = model.decoder
    has_pointer = get_decoder_capabilities(model).pointer is not None
    vocabulary = OutputVocabulary.from_source(src_tokens, decoder.dictionary, has_pointer, candidates)
    output = _make_output_layer(decoder.output_projection, candidates)
    return {"vocabulary": vocabulary._replace(by_column=True), "candidate_output": output}


def _make_output_layer(output: Any, candidates: CandidateWords) -> Callable[[Tensor], Tensor]:
    """Create an output layer that computes the logits (…, C) of only the candidates from states (…, in)."""
    words = candidates.words
    if len(words) == candidates.known_words:
        layer: Callable[[Tensor], Tensor] = output
        return layer
    if isinstance(output, (BlockedOutputProjection, OutputLayer)):
        return output.restrict_to_words(words)
    bias = None if output.bias is None else output.bias[words]
    return functools.partial(F.linear, weight=output.weight[words], bias=bias)
