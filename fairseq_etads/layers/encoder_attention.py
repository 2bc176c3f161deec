"""Attention modules for documents: focus-attention, and a version of fairseq's attention that uses less memory."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..attention import attention_weights, compute_token_positions, focus_attention
from ..kernels.beam_state import IncrementalState
from ..kernels.dropout import dropout
from ..kernels.fused_kernels import warn_without_fused_kernel
from ..kernels.precision import apply_in_float32, mark_as_float32_layer, widen_to_float32
from .attention_probe import ObservableAttention

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
