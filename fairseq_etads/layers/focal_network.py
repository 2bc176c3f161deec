"""The network that predicts the centres and scopes of focus-attention from its queries, and its initial values."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..kernels.focus import document_positions
from ..kernels.precision import at_least_float32, in_float32, keep_float32

CENTERS = ("absolute", "relative")
STRENGTHS = ("fixed", "learned")
SCOPES_HELP = (
    'an initial scope (sigma) in tokens, or "half" of the document as in the paper; a list such as "2,2,8,half" gives '
    "the heads' values in turn. At the distance of the scope, attention is e^-2 = 0.14 times its value at the centre"
)


def parse_scopes(value: str, heads: int) -> List[int]:
    """Parse the initial scope of each head in tokens, 0 for half of the document; see ``SCOPES_HELP``.

    Raises:
        ValueError: the list is malformed, or longer than there are heads.
    """
    option = f'--focus-initial-scope "{value}"'
    scopes = []
    for piece in (piece.strip() for piece in str(value).split(",")):
        if piece != "half" and not (piece.isdecimal() and int(piece) > 0):
            raise ValueError(f'{option}: "{piece}" is not a scope; choose tokens, or "half"')
        scopes.append(0 if piece == "half" else int(piece))
    if len(scopes) > heads:
        raise ValueError(f"{option}: {len(scopes)} scopes for {heads} heads; choose at most one per head")
    return [scopes[head % len(scopes)] for head in range(heads)]


def initial_offset(head: int) -> int:
    """Return the initial offset of a head with relative centres: 0, -1, 1, -2, 2, … for the heads in turn.

    So the heads start at the query itself and at its neighbours.
    """
    distance = (head + 1) // 2
    return -distance if head % 2 else distance


class FocalNetwork(nn.Module):
    """Predicts centre and scope of the focal bias from the queries (ETADS, section 3.2, equations 5 and 6).

        u = tanh(Q W_p + G W_g), mu = m sigmoid(<u_h, U_c,h>), sigma = m sigmoid(<u_h, U_d,h>)

    G is the mean query of the document and m its length, both over real tokens. W_p and W_g are shared by mu and sigma.
    Everything is computed in float32 or better, even in half-precision models and under autocast, because an error of
    0.01 in the argument of the sigmoid is one token in 400.

    There are other forms than the paper's. With ``center="relative"``, for the query's position P_i,

        mu_i = P_i + m tanh((o_h + <u_h, U_c,h>) / m)

    where U_c starts at 0, and the learned offset o_h, in tokens, at 0, -1, 1, -2, 2, … for the heads in turn. With an
    initial scope of N tokens, U_d starts at 0 and

        sigma = m sigmoid(<u_h, U_d,h> - log(max(m / N, 2) - 1))

    which starts at N, or at half of the length of a document shorter than 2 N.

    Args:
        embed_dim: d_m, the width of the states.
        num_heads: H; each head has its own slice of u and its own vectors U_c and U_d.
        center: one of ``CENTERS``.
        initial_scope: the initial scope of each head; see ``SCOPES_HELP``.
        strength: one of ``STRENGTHS``; "learned": a factor of the bias for each head, ``strength`` (H,), which starts
            at 0 (plain attention).
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
        self.query_proj = keep_float32(nn.Linear(embed_dim, embed_dim, bias=False))  # W_p
        self.document_proj = keep_float32(nn.Linear(embed_dim, embed_dim, bias=False))  # W_g
        head_dim = embed_dim // num_heads
        self.center_weight = nn.Parameter(torch.empty(num_heads, head_dim))  # U_c
        self.scope_weight = nn.Parameter(torch.empty(num_heads, head_dim))  # U_d
        self.center_offset = nn.Parameter(torch.empty(num_heads)) if center == "relative" else None  # o
        self.strength = nn.Parameter(torch.empty(num_heads)) if strength == "learned" else None
        # The scopes are integers because half() leaves these as they are.
        scopes = torch.tensor(parse_scopes(initial_scope, num_heads))
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
                self.center_offset.copy_(torch.tensor([initial_offset(head) for head in range(self.num_heads)]))
            if self.strength is not None:
                self.strength.zero_()

    def forward(self, queries: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Predict ``center`` and ``scope`` (B, H, S) from unscaled queries Q (B, S, d_m), before the split into heads.

        The result is at least float32, but half-precision queries already cause errors of up to one token in 400.
        """
        batch, length, _ = queries.shape
        queries = at_least_float32(queries)
        positions, lengths = document_positions(key_padding_mask, batch, length, queries.device)
        if key_padding_mask is None:
            document = queries.mean(dim=1, keepdim=True)
        else:
            total = queries.masked_fill(key_padding_mask.unsqueeze(-1), 0.0).sum(dim=1, keepdim=True)
            document = total / lengths[:, None, None]  # G (B, 1, d_m)
        u = torch.tanh(in_float32(self.query_proj, queries) + in_float32(self.document_proj, document))
        u = u.view(batch, length, self.num_heads, -1).transpose(1, 2)  # (B, H, S, D)
        center, scope = (
            (u * at_least_float32(weight)[:, None]).sum(-1) for weight in (self.center_weight, self.scope_weight)
        )
        m = lengths[:, None, None]
        if self.center_offset is None:
            center = m * torch.sigmoid(center)
        else:
            center = center + at_least_float32(self.center_offset)[:, None]
            center = positions[:, None] + m * torch.tanh(center / m)
        return center, m * torch.sigmoid(scope - self._scope_shift(m))

    def _scope_shift(self, m: Tensor) -> Tensor:
        """Compute log(max(m / N, 2) - 1) (B, H, 1) for lengths m (B, 1, 1) and each head's N; 0 for "half"."""
        tokens = self.initial_scopes[:, None]
        ratio = torch.where(tokens > 0, m / tokens.clamp(min=1), 2.0)
        return torch.log(ratio.clamp(min=2.0) - 1)


def focal_options(cfg: Any) -> Dict[str, str]:
    """Return the arguments of :class:`FocalNetwork` that are options in SummarizationTransformerConfig."""
    return {
        "center": str(cfg.focus_center),
        "initial_scope": str(cfg.focus_initial_scope),
        "strength": str(cfg.focus_strength),
    }
