"""Layers of encoders: focus-attention, attention that uses less memory, dropout, aggregation, sharing with the decoder.

On a CPU, PyTorch's dropout needs 8 ns per element, mostly to draw a random number, and stores a float32 factor for the
backward pass. Here, one 64-bit random number is used for four elements, and a mask of bytes is stored for the backward
pass. Probabilities are rounded to multiples of 1/65536. The masks are drawn with PyTorch's random number generator, but
they differ from the masks of PyTorch's dropout.

In the encoder-sharing Transformer (section 3.4), decoder layer l has the same sublayers as encoder layer l. In
addition, it has a causal mask and its own bridge attention between the two sublayers. Each sublayer is shared together
with its layer norm. Encoder and decoder refer to the same tensor objects, so the optimiser, the parameter count and
``half()`` process each shared tensor only once. Checkpoints store it once, under its name in the encoder.

As elsewhere in fairseq's Transformer, states have the shape (S, B, d_m).
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import FairseqDropout, MultiheadAttention
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..attention import attention_weights, compute_token_positions, focus_attention
from ..kernels.beam_state import IncrementalState
from ..kernels.linear import apply_in_float32, mark_as_float32_layer, widen_to_float32
from ..kernels.operators import warn_without_fused_kernel
from .attention_probe import ObservableAttention

LEVELS = 65536
"""Number of possible values of the 16 random bits for each element."""


def draw_mask(x: Tensor, dropped: int) -> Tensor:
    """Draw a random uint8 mask with the shape of ``x``: 0 with probability ``dropped`` / LEVELS, and 1 otherwise."""
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    keep = bits.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2
    return keep.view(x.shape).view(
        torch.uint8
    )  # converting bytes to floating point is four times as fast as converting booleans


class _DropoutFunction(torch.autograd.Function):
    """Multiplies x by a mask and a scale. Only the mask is stored for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return mask.to(x.dtype).mul_(scale).mul_(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None, None]:
        (mask,), (gradient,) = ctx.saved_tensors, gradients
        return mask.to(gradient.dtype).mul_(ctx.scale).mul_(gradient), None, None


def dropout(x: Tensor, p: float) -> Tensor:
    """Apply dropout with probability ``p`` to a tensor of any shape, like ``torch.nn.functional.dropout``."""
    dropped = round(p * LEVELS)
    if x.device.type != "cpu" or not 0 < dropped < LEVELS:
        return F.dropout(x, p)
    result: Tensor = _DropoutFunction.apply(x, draw_mask(x, dropped), 1 / (1 - p))
    return result


class CompactDropout(FairseqDropout):
    """fairseq's dropout module, implemented with :func:`dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """Apply dropout to ``x`` in training or with --retain-dropout, and otherwise return ``x``."""
        active = self.p > 0 and (self.training or self.apply_during_inference)
        return dropout(x, self.p) if active else x


def replace_with_compact_dropout(model: nn.Module) -> None:
    """Replace each fairseq dropout module in a model with a :class:`CompactDropout`."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, CompactDropout(child.p, child.module_name))


CENTERS = ("absolute", "relative")
STRENGTHS = ("fixed", "learned")
SCOPES_HELP = (
    'initial scope (sigma) of focus-attention in tokens, or "half" for half of the document length, as in the ETADS '
    'paper; a list such as "2,2,8,half" assigns scopes to the heads in turn. At a distance of one scope from the '
    "centre, the attention weight is e^-2 = 0.14 times as large as at the centre"
)


def parse_focus_scopes(value: str, heads: int) -> List[int]:
    """Parse the value of --focus-initial-scope, a list of initial scopes; see ``SCOPES_HELP``.

    Returns:
        The initial scope of each head, as a number of tokens, or 0 for half of the document.

    Raises:
        ValueError: the list is malformed or contains more scopes than there are heads.
    """
    option = f'--focus-initial-scope "{value}"'
    scopes = []
    for piece in (piece.strip() for piece in str(value).split(",")):
        if piece != "half" and not (piece.isdecimal() and int(piece) > 0):
            raise ValueError(f'{option}: "{piece}" is not a scope; choose a number of tokens, or "half"')
        scopes.append(0 if piece == "half" else int(piece))
    if len(scopes) > heads:
        raise ValueError(f"{option}: {len(scopes)} scopes for {heads} heads; choose at most one per head")
    return [scopes[head % len(scopes)] for head in range(heads)]


class FocalNetwork(nn.Module):
    """Predicts the centres and scopes of the focal bias from the queries (ETADS, section 3.2, equations 5 and 6).

        u = tanh(Q W_p + G W_g), mu = m sigmoid(<u_h, U_c,h>), sigma = m sigmoid(<u_h, U_d,h>)

    G is the mean of the document's queries, and m is the length of the document. Both are computed from real tokens
    only. mu and sigma share W_p and W_g. All computations use at least float32, even in half-precision models and under
    autocast, because an error of 0.01 in the argument of the sigmoid can move the centre by one token in a document of
    400 tokens.

    Two alternatives to the paper's equations are available. With ``center="relative"``, the centre is predicted
    relative to the position P_i of the query:

        mu_i = P_i + m tanh((o_h + <u_h, U_c,h>) / m)

    Here, U_c is initialised to 0. The learned offset o_h, in tokens, is initialised to 0, -1, 1, -2, 2, … for
    successive heads. With an initial scope of N tokens, U_d is initialised to 0, and the scope is

        sigma = m sigmoid(<u_h, U_d,h> - log(max(m / N, 2) - 1))

    The initial scope is N, or half of the document's length if the document has fewer than 2 N tokens.

    Args:
        num_heads: H, the number of heads. Each head has a separate slice of u and separate vectors U_c and U_d.
        center: the method for predicting the centres, one of ``CENTERS``.
        initial_scope: the initial scopes of the heads, in the format that ``SCOPES_HELP`` describes.
        strength: the type of factor by which the focal bias is multiplied, one of ``STRENGTHS``. With "learned", each
            head has a learned factor, ``strength`` (H,). Initially, the factor is 0, which corresponds to plain
            attention.
    """

    initial_scopes: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        center: str = "absolute",
        initial_scope: str = "half",
        strength: str = "fixed",
    ):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = mark_as_float32_layer(nn.Linear(embed_dim, embed_dim, bias=False))  # W_p
        self.document_proj = mark_as_float32_layer(nn.Linear(embed_dim, embed_dim, bias=False))  # W_g
        head_dim = embed_dim // num_heads
        self.center_weight = nn.Parameter(torch.empty(num_heads, head_dim))  # U_c
        self.scope_weight = nn.Parameter(torch.empty(num_heads, head_dim))  # U_d
        self.center_offset = nn.Parameter(torch.empty(num_heads)) if center == "relative" else None  # o
        self.strength = nn.Parameter(torch.empty(num_heads)) if strength == "learned" else None
        # Store scopes as integers, because half() does not convert integer tensors.
        scopes = torch.tensor(parse_focus_scopes(initial_scope, num_heads))
        self.register_buffer("initial_scopes", scopes, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.query_proj.weight)
        nn.init.xavier_uniform_(self.document_proj.weight)
        nn.init.xavier_uniform_(self.center_weight)
        nn.init.xavier_uniform_(self.scope_weight)
        with torch.no_grad():
            self.scope_weight[self.initial_scopes > 0] = 0.0
            if self.center_offset is not None:
                self.center_weight.zero_()
                heads = torch.arange(self.num_heads)  # centred on the query or on a nearby token: 0, -1, 1, -2, 2, …
                self.center_offset.copy_((heads + 1) // 2 * torch.where(heads % 2 == 1, -1, 1))
            if self.strength is not None:
                self.strength.zero_()

    def forward(self, queries: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Predict centres and scopes (B, H, S) from the queries Q (B, S, d_m).

        The queries must be unscaled and not yet split into heads. The results have float32 or higher precision. If the
        queries are in half precision, the results have errors of up to one token in a document of 400 tokens.
        """
        batch, length, _ = queries.shape
        queries = widen_to_float32(queries)
        positions, lengths = compute_token_positions(key_padding_mask, batch, length, queries.device)
        if key_padding_mask is None:
            document = queries.mean(dim=1, keepdim=True)
        else:
            total = queries.masked_fill(key_padding_mask.unsqueeze(-1), 0.0).sum(dim=1, keepdim=True)
            document = total / lengths[:, None, None]  # G (B, 1, d_m)
        u = torch.tanh(apply_in_float32(self.query_proj, queries) + apply_in_float32(self.document_proj, document))
        u = u.view(batch, length, self.num_heads, -1).transpose(1, 2)  # (B, H, S, D)
        center, scope = (
            (u * widen_to_float32(weight)[:, None]).sum(-1) for weight in (self.center_weight, self.scope_weight)
        )
        m = lengths[:, None, None]
        if self.center_offset is None:
            center = m * torch.sigmoid(center)
        else:
            center = center + widen_to_float32(self.center_offset)[:, None]
            center = positions[:, None] + m * torch.tanh(center / m)
        return center, m * torch.sigmoid(scope - self._compute_scope_shift(m))

    def _compute_scope_shift(self, m: Tensor) -> Tensor:
        """Compute log(max(m / N, 2) - 1) (B, H, 1) for lengths m (B, 1, 1). The result is 0 for the scope "half"."""
        tokens = self.initial_scopes[:, None]
        ratio = torch.where(tokens > 0, m / tokens.clamp(min=1), 2.0)
        return torch.log(ratio.clamp(min=2.0) - 1)


SELF_ATTENTION_INPUTS = ("q_proj", "k_proj", "v_proj")


def project_self_attention_inputs(module: Any, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Compute the queries, keys and values (T, B, d_m) of self-attention over x (T, B, d_m).

    A module in an inference copy of a model may have a layer ``joint_proj``, which computes all three in one product.
    """
    joint = getattr(module, "joint_proj", None)
    if joint is None:
        return module.q_proj(x), module.k_proj(x), module.v_proj(x)
    q, k, v = joint(x).chunk(3, dim=-1)
    return q, k, v


def split_heads(x: Tensor, num_heads: int, documents: Optional[int] = None) -> Tensor:
    """Split x (T, B * beam, H * D) into heads. The beams of B ``documents`` (None: one each) become more queries.

    The result has the shape (B, H, beam * T, D) and is a view if beam is 1.
    """
    length, rows, width = x.shape
    documents = rows if documents is None else documents
    if rows % documents:
        raise ValueError(
            f"{rows} rows of queries for {documents} documents: all documents must have the same number of beams"
        )
    parts = x.view(length, documents, rows // documents, num_heads, width // num_heads)
    return parts.permute(1, 3, 2, 0, 4).flatten(2, 3)


def merge_heads(x: Tensor, rows: Optional[int] = None) -> Tensor:
    """Merge the heads of x (B, H, beam * T, D) into (T, ``rows``, H * D), the inverse of :func:`split_heads`."""
    documents, heads, queries, width = x.shape
    rows = documents if rows is None else rows
    beam = rows // documents
    parts = x.unflatten(2, (beam, queries // beam)).permute(3, 0, 2, 1, 4)
    return parts.reshape(queries // beam, rows, heads * width)


def move_beams_to_rows(x: Tensor, rows: int) -> Tensor:
    """Reshape x (B, H, beam * T, S) to (rows, H, T, S), with one row for each beam.

    The result is a view if beam is 1.
    """
    documents, heads, queries, width = x.shape
    beam = rows // documents
    if beam == 1:
        return x
    return x.view(documents, heads, beam, queries // beam, width).transpose(1, 2).reshape(rows, heads, -1, width)


def make_contiguous(x: Tensor, transposed: bool) -> Tensor:
    """Make a tensor contiguous. With ``transposed``, the columns of each matrix are contiguous instead of the rows.

    If there are only a few queries q, computing q x^T is a third faster with contiguous columns.
    """
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if transposed else x.contiguous()


def get_attention_dropout(module: MultiheadAttention) -> float:
    """Return the dropout probability of the attention weights, which is 0 in evaluation without --retain-dropout."""
    active = module.training or module.dropout_module.apply_during_inference
    return module.dropout_module.p if active else 0.0


def check_unsupported_arguments(module: nn.Module, **unsupported: Any) -> None:
    """Raise NotImplementedError if one of the unsupported arguments is neither None nor False."""
    for name, value in unsupported.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{type(module).__name__} does not support {name}={value!r}")


QUERIES_AT_A_TIME = 128
"""Number of queries per document in one block of :func:`blockwise_attention`."""


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute softmax(q k^T / sqrt(D)) v with dropout on the attention weights.

    The weights are computed for one block of queries (B, H, T, D) at a time, so memory grows with T + S instead of
    T × S. The backward pass recomputes the weights with the same dropout mask. Keys and values are (B, H, S, D), and
    the padding mask (B, S), if any, is True at padding. The output (B, H, T, D) has the dtype of ``v``.
    """
    pieces = [
        checkpoint(
            _attend_blockwise, part, k, v, key_padding_mask, dropout_p, use_reentrant=False, preserve_rng_state=True
        )
        for part in q.split(QUERIES_AT_A_TIME, dim=2)
    ]
    return torch.cat(pieces, dim=2)


def _attend_blockwise(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor], dropout_p: float) -> Tensor:
    weights = attention_weights(q, k, key_padding_mask)
    return torch.matmul(dropout(weights, dropout_p).to(v.dtype), v)


MANY_WEIGHTS = 2**22
"""Minimum number of attention weights (B * H * T * S) for which :class:`EncoderAttention` uses blocks.

This number of float32 values needs 16 MiB. Blockwise attention takes 15 % less time than fairseq's for a document of
1,024 tokens, 29 % less for four such documents, and 2 % less for a document of 400 tokens.
"""


class EncoderAttention(MultiheadAttention):
    """fairseq's attention, but with memory that grows linearly with the document length during training on a CPU.

    On a CPU, PyTorch's fused attention does not support dropout, and fairseq's attention would store several copies of
    all attention weights.
    """

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, **options: Any
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Run fairseq's forward pass, or :func:`blockwise_attention` if there are many attention weights.

        The remaining arguments of fairseq's forward pass must be passed as keyword arguments.
        """
        if not self._can_use_blocks(query, key, **options):
            if not options.get("need_weights", True):
                warn_without_fused_kernel(
                    query, self.head_dim, get_attention_dropout(self), masked=key_padding_mask is not None
                )
            return super().forward(query, key, value, key_padding_mask, **options)
        q, k, v = (
            split_heads(projected, self.num_heads)
            for projected in (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        )
        out = blockwise_attention(q, k, v, key_padding_mask, get_attention_dropout(self))
        return self.out_proj(merge_heads(out)), None

    def _can_use_blocks(self, query: Tensor, key: Tensor, need_weights: bool = True, **options: Any) -> bool:
        """Return whether to use blocks: on a CPU with many weights, dropout and gradients, if not all are needed."""
        if need_weights or any(value is not None for value in options.values()):
            return False
        drops = get_attention_dropout(self) > 0 and torch.is_grad_enabled() and query.is_cpu
        return drops and query.size(0) * query.size(1) * key.size(0) * self.num_heads >= MANY_WEIGHTS


def is_plain_attention(module: Optional[nn.Module]) -> bool:
    """Return whether a module computes fairseq's attention without additional mechanisms from this project.

    fairseq's attention accesses the weights of its linear layers directly instead of calling the layers.
    """
    return type(module) in (MultiheadAttention, EncoderAttention)


class FocusAttention(ObservableAttention, MultiheadAttention):
    """Encoder self-attention with the focal bias (ETADS, section 3.2).

    ``focal`` are the keyword arguments for :class:`FocalNetwork` (None: the paper's equations), and ``kernel`` is one
    of :data:`fairseq_etads.attention.KERNELS`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        focal: Optional[Dict[str, str]] = None,
        kernel: str = "auto",
        **kwargs: Any,
    ):
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self.kernel = kernel
        mark_as_float32_layer(self.q_proj)  # because mu and sigma are computed from the queries
        self.focal = FocalNetwork(embed_dim, num_heads, **(focal or {}))

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
    ) -> Tuple[Tensor, None]:
        """Compute self-attention for ``query`` (S, B, d_m), which is also used as key and value.

        Returns the attention output (S, B, d_m) and None, because attention weights are not available.
        """
        check_unsupported_arguments(
            self, attn_mask=attn_mask, need_weights=need_weights, incremental_state=incremental_state
        )
        q, k, v = apply_in_float32(self.q_proj, query), self.k_proj(query), self.v_proj(query)
        center, scope = self.focal(q.transpose(0, 1), key_padding_mask)
        strength = self.focal.strength
        if self.observer is not None:
            self.observer.receive_focus_parameters(center, scope, strength, key_padding_mask)
        out = focus_attention(
            split_heads(q, self.num_heads),
            split_heads(k, self.num_heads),
            split_heads(v, self.num_heads),
            center,
            scope,
            key_padding_mask,
            dropout_p=get_attention_dropout(self),
            strength=None if strength is None else widen_to_float32(strength),
            kernel=self.kernel,
        )
        return self.out_proj(merge_heads(out).to(v.dtype)), None


AGGREGATIONS = ("none", "add", "proj", "attn")


class LayerAggregation(nn.Module):
    """Combines the states of the last encoder layers (Aggregation Transformer, section 3.4).

    Let h^l be the states of layer l in an encoder with N layers. The history consists of the states of the L
    layers before the last one (L = ``layers``). The aggregated states are::

        add:   h^N + h^(N-L) + ... + h^(N-1)
        proj:  MultiHead(Q=H, K=V=h^N),  H = W [h^(N-L); ...; h^(N-1)] + b                            (eq. 15, 16)
        attn:  MultiHead(Q=H, K=V=h^N),  H = h^(N-L), then H = MultiHead(Q=H, K=V=h^l), l = N-L+1 ... N-1   (eq. 17)

    As in the paper, the attention has no residual connection and no layer norm. "add" has no parameters. "proj" has the
    matrix W, the bias b and one attention module. "attn" has L attention modules.

    Args:
        kind: the type of aggregation, "add", "proj" or "attn".
        layers: L, the number of layers in the history, from 1 to N - 1.
        attention: additional keyword arguments for fairseq's ``MultiheadAttention``.
    """

    def __init__(self, embed_dim: int, num_heads: int, kind: str, layers: int, **attention: Any):
        super().__init__()
        self.kind, self.history_layers = kind, layers
        self.projection: Optional[nn.Linear] = nn.Linear(layers * embed_dim, embed_dim) if kind == "proj" else None
        count = {"add": 0, "proj": 1, "attn": layers}[kind]
        self.attentions = nn.ModuleList(
            EncoderAttention(embed_dim, num_heads, kdim=embed_dim, vdim=embed_dim, **attention) for _ in range(count)
        )

    def forward(self, history: Sequence[Tensor], states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """Aggregate the states h^N (S, B, d_m) with the states of the L layers below, from the lowest upwards.

        The padding mask (B, S), if any, is True at padding.
        """
        if self.kind == "add":
            return torch.stack([states, *history]).sum(dim=0)
        if self.projection is not None:
            query, attended = self.projection(torch.cat([*history], dim=-1)), [states]
        else:
            query, attended = history[0], [*history[1:], states]
        for attention, memory in zip(self.attentions, attended):
            query, _ = attention(query, memory, memory, key_padding_mask=padding_mask, need_weights=False)
        return query  # (S, B, d_m)


class EncoderGate(nn.Module):
    """Applies a gate to each encoder state before the decoder reads the states (Gated ES-Trans, equations 4 and 5).

    The gated states are h'_i = g_i * h_i with g_i = sigmoid(W_g [h_i; s] + b). The state s of the last real token,
    which is the end symbol, represents the whole document. W_g is stored as two matrices, so that the product with s is
    computed only once per document.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.state_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.document_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """Apply the gate to states (S, B, d_m). The padding mask (B, S), if any, is True at padding."""
        return self.apply_gate(states, select_last_real_state(states, padding_mask))

    def apply_gate(self, states: Tensor, document: Tensor) -> Tensor:
        """Compute g * h for states h (…, d_m). The document vectors s are broadcast to the shape of the states."""
        return states * torch.sigmoid(self.state_proj(states) + self.document_proj(document))


def select_last_real_state(states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
    """Return the state (B, d_m) of the last real token in each document. Padding may be on either side.

    If a document consists only of padding, its first state is returned. The states have the shape (S, B, d_m), and the
    padding mask (B, S), if any, is True at padding.
    """
    if padding_mask is None:
        return states[-1]
    positions = torch.arange(states.size(0), device=states.device)
    last = (positions * ~padding_mask).argmax(dim=1)
    return states[last, torch.arange(states.size(1), device=states.device)]


PROJECTIONS = (*SELF_ATTENTION_INPUTS, "out_proj")
SUBLAYERS = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def share_sublayers(encoder_layer: Any, decoder_layer: Any) -> None:
    """Share an encoder layer's self-attention and feed-forward sublayers with a decoder layer.

    With focus-attention, only the projections are shared. The network that predicts centres and scopes belongs only to
    the encoder.

    Raises:
        ValueError: the encoder layer is wrapped for fully_sharded, which splits the parameters of each layer.
    """
    if not isinstance(encoder_layer, TransformerEncoderLayerBase):
        raise ValueError(
            "--share-encoder-decoder-layers does not work with --ddp-backend fully_sharded, because it splits the "
            "parameters of each layer separately: choose another backend"
        )
    for name in PROJECTIONS:
        setattr(decoder_layer.self_attn, name, getattr(encoder_layer.self_attn, name))
    for name in SUBLAYERS:
        setattr(decoder_layer, name, getattr(encoder_layer, name))


def map_shared_names(model: nn.Module) -> Dict[str, str]:
    """Return a dictionary that maps the decoder's names of shared parameters to the encoder's names."""
    originals: Dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith("encoder.layers."):
            originals[id(parameter)] = name
        elif name.startswith("decoder.layers.") and id(parameter) in originals:
            shared[name] = originals[id(parameter)]
    return shared


def remove_shared_entries(model: nn.Module, state_dict: Dict[str, Any], prefix: str, _: Any) -> None:
    """Remove the decoder's entries for shared tensors from a state dictionary (a hook for ``state_dict``).

    Shared tensors are then stored only once, even in checkpoints that were saved on a GPU.
    """
    for name in map_shared_names(model):
        state_dict.pop(prefix + name, None)


def restore_shared_entries(model: nn.Module, state_dict: Dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Add the decoder's entries for shared tensors to a state dictionary (a hook for ``load_state_dict``).

    Raises:
        ValueError: the checkpoint was trained with shared layers, but the model was built without them, or vice versa.
    """
    shared = map_shared_names(model)
    for name, original in shared.items():
        if prefix + original not in state_dict:
            continue
        own, theirs = state_dict.get(prefix + name), state_dict[prefix + original]
        if own is not None and not torch.allclose(own, theirs, rtol=0, atol=0, equal_nan=True):
            raise ValueError(
                f"--share-encoder-decoder-layers: the checkpoint has different weights in {name} and {original}, so it "
                "was trained without sharing"
            )
        state_dict[prefix + name] = theirs
    sublayer = "decoder.layers.0.fc1.weight"
    if not shared and f"{prefix}encoder.layers.0.fc1.weight" in state_dict and prefix + sublayer not in state_dict:
        raise ValueError(
            f"the checkpoint has no {sublayer}: it was trained with --share-encoder-decoder-layers, but this model "
            "does not have this option"
        )
