"""A loop-written oracle of Muon (Jordan et al. 2024), in float64, by singular values instead of products."""

import math
from typing import List

import torch
from torch import Tensor


def nearest_orthogonal(matrix: Tensor) -> Tensor:
    """Compute the sum over singular directions of u_k v_k^T (m, n) for a float64 matrix (m, n)."""
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    return sum(torch.outer(u[:, k], v[k]) for k in range(len(values)))


def polynomial_orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """Newton and Schulz: a singular value s, at first s / |matrix|, becomes 3.4445 s - 4.7750 s^3 + 2.0315 s^5."""
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    size = math.sqrt(sum(float(value) ** 2 for value in values))
    result = torch.zeros_like(matrix)
    for k in range(len(values)):
        s = float(values[k]) / size
        for _ in range(steps):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        result += s * torch.outer(u[:, k], v[k])
    return result


def muon(weight: Tensor, gradients: List[Tensor], lr: float, momentum: float, decay: float) -> Tensor:
    """Weight (m, n) after one step for each gradient (m, n)."""
    mean = torch.zeros_like(weight)
    for gradient in gradients:
        mean = momentum * mean + gradient
        direction = polynomial_orthogonal(gradient + momentum * mean)
        weight = weight - lr * decay * weight - lr * 0.2 * math.sqrt(max(weight.shape)) * direction
    return weight
