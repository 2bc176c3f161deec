"""Operators of CUDA that torch for CPUs lacks or has in another form, for ``pretended_gpu.py``."""

import math

import torch


def flex_attention(q, k, v, score_mod, block_mask=None):
    """FlexAttention by its definition: keys in full blocks, and keys in other listed blocks that the mask lets pass."""
    sizes = *q.shape[:3], k.shape[2]
    ids = [
        torch.arange(n, device=q.device).view([-1 if d == place else 1 for d in range(4)])
        for place, n in enumerate(sizes)
    ]
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = score_mod(q.to(wide) @ k.to(wide).transpose(-1, -2) * q.shape[3] ** -0.5, *ids)
    if block_mask is not None:
        listed = []
        for counts, indices in (
            (block_mask.kv_num_blocks, block_mask.kv_indices),
            (block_mask.full_kv_num_blocks, block_mask.full_kv_indices),
        ):
            used = torch.arange(indices.shape[3], device=q.device) < counts.unsqueeze(3)
            blocks = torch.zeros_like(used).scatter(3, indices.long(), used)
            for dim, size in zip((2, 3), block_mask.BLOCK_SIZE):
                blocks = blocks.repeat_interleave(size, dim)
            listed.append(blocks[:, :, : sizes[2], : sizes[3]])
        partial, full = listed
        scores = scores.masked_fill(~(full | (partial & block_mask.mask_mod(*ids))), -math.inf)
    weights = scores.softmax(-1).nan_to_num(nan=0.0)
    return weights.to(v.dtype) @ v


def compiled(function, **_):
    """Replacement for ``torch.compile``, which cannot compile for a simulated GPU."""
    return flex_attention if function.__name__ == "flex_attention" else function


def _softmax(func, x, dim, half_to_float):  # CUDA's version reads half precision and writes float32 on request
    return func(x.float() if half_to_float else x, dim, False)


def _softmax_backward(func, grad, out, dim, dtype):
    return func(grad, out, dim, grad.dtype).to(dtype)


def _gru(of_input, of_hidden, hx, b_ih=0, b_hh=0):
    (i_r, i_z, i_n), (h_r, h_z, h_n) = (of_input + b_ih).chunk(3, 1), (of_hidden + b_hh).chunk(3, 1)
    r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return n + z * (hx - n), torch.cat([r, z, n, hx, h_n], 1)


def _gru_backward(grad, workspace, has_bias):
    r, z, n, hx, h_n = workspace.chunk(5, 1)
    d_n = grad * (1 - z) * (1 - n * n)
    d_r, d_z = d_n * h_n * (1 - r) * r, grad * (hx - n) * (1 - z) * z
    of_input, of_hidden = torch.cat([d_r, d_z, d_n], 1), torch.cat([d_r, d_z, d_n * r], 1)
    return of_input, of_hidden, grad * z, *((of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None))


def _lstm(of_input, of_hidden, cx, b_ih=0, b_hh=0):
    i, f, g, o = (of_input + of_hidden + b_ih + b_hh).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    tanh, grad_hy = cy.tanh(), torch.zeros_like(cy) if grad_hy is None else grad_hy
    d_c = (0 if grad_cy is None else grad_cy) + grad_hy * o * (1 - tanh * tanh)
    parts = d_c * g * (1 - i) * i, d_c * cx * (1 - f) * f, d_c * i * (1 - g * g), grad_hy * tanh * (1 - o) * o
    return torch.cat(parts, 1), d_c * f, torch.cat(parts, 1).sum(0) if has_bias else None


COMPUTED = {"_thnn_fused_gru_cell": _gru, "_thnn_fused_gru_cell_backward": _gru_backward}
COMPUTED |= {"_thnn_fused_lstm_cell": _lstm, "_thnn_fused_lstm_cell_backward_impl": _lstm_backward}
for _name in ("_softmax", "_log_softmax"):
    for _end, _function in (("", _softmax), ("_backward_data", _softmax_backward)):
        _operator = getattr(torch.ops.aten, _name + _end).default
        COMPUTED[_name + _end] = lambda *args, _f=_function, _o=_operator: _f(_o, *args)
