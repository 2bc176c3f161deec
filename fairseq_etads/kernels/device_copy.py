"""Copy tensors from the CPU to a GPU without waiting for the copy."""

import torch
from torch import Tensor


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device. For a GPU, pinned memory is used, so that the CPU does not wait for the GPU."""
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)
