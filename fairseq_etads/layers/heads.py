"""Compute attention's queries, keys and values, split them into heads, and merge heads."""

from typing import Any, Optional, Tuple

from torch import Tensor

SELF_ATTENTION_INPUTS = ("q_proj", "k_proj", "v_proj")


def self_attention_inputs(module: Any, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Compute the queries, keys and values (T, B, d_m) of self-attention over x (T, B, d_m).

    Copies for inference may have a ``joint_proj``, which computes all three in one product.
    """
    joint = getattr(module, "joint_proj", None)
    if joint is None:
        return module.q_proj(x), module.k_proj(x), module.v_proj(x)
    q, k, v = joint(x).chunk(3, dim=-1)
    return q, k, v


def split_heads(x: Tensor, num_heads: int, documents: Optional[int] = None) -> Tensor:
    """Split x (T, B * beam, H * D) into heads. Returns (B, H, beam * T, D), a view if beam is 1.

    The beams of a document become further queries.

    Args:
        documents: B, the number of documents; None: beam is 1.
    """
    length, rows, width = x.shape
    documents = rows if documents is None else documents
    if rows % documents:
        raise ValueError(
            f"{rows} rows of queries for {documents} documents: every document needs the same number of beams"
        )
    parts = x.view(length, documents, rows // documents, num_heads, width // num_heads)
    return parts.permute(1, 3, 2, 0, 4).flatten(2, 3)


def merge_heads(x: Tensor, rows: Optional[int] = None) -> Tensor:
    """Merge the heads of x (B, H, beam * T, D). Returns (T, B * beam, H * D): the inverse of :func:`split_heads`.

    Args:
        rows: B * beam, the number of rows; None: beam is 1.
    """
    documents, heads, queries, width = x.shape
    rows = documents if rows is None else rows
    beam = rows // documents
    parts = x.unflatten(2, (beam, queries // beam)).permute(3, 0, 2, 1, 4)
    return parts.reshape(queries // beam, rows, heads * width)


def queries_to_beams(x: Tensor, rows: int) -> Tensor:
    """Reshape x (B, H, beam * T, S) to (rows, H, T, S), with a row for each beam; a view if beam is 1."""
    documents, heads, queries, width = x.shape
    beam = rows // documents
    if beam == 1:
        return x
    return x.view(documents, heads, beam, queries // beam, width).transpose(1, 2).reshape(rows, heads, -1, width)


def laid_out(x: Tensor, transposed: bool) -> Tensor:
    """Make a tensor contiguous, row by row; with ``transposed``, column by column in each matrix.

    For a few queries q, the product q x^T is a third faster with contiguous columns.
    """
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if transposed else x.contiguous()
