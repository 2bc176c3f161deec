"""torch's choice of a kernel for attention on GPUs, and the warning where it has none."""

import logging

import pytest
import torch

from fairseq_etads.kernels import operators
from fairseq_etads.kernels.operators import find_fused_kernel, warn_without_fused_kernel

V100, A100, RTX, H100 = (7, 0), (8, 0), (8, 9), (9, 0)
FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16


@pytest.mark.parametrize(
    "dtype, width, masked, capability, dropout_p, kernel",
    [
        (FP32, 30, True, A100, 0.0, "math"),
        (FP32, 30, True, V100, 0.0, "efficient"),
        (FP16, 64, True, A100, 0.0, "efficient"),
        (BF16, 36, True, RTX, 0.0, "math"),
        (BF16, 36, False, RTX, 0.1, "flash"),
        (BF16, 64, True, H100, 0.0, "cudnn"),
        (BF16, 64, True, H100, 0.1, "efficient"),  # cuDNN's dropout is a multiple of 1/16
        (BF16, 64, False, H100, 0.125, "cudnn"),
        (BF16, 64, False, V100, 0.0, "math"),
        (FP16, 30, True, (6, 0), 0.0, "efficient"),
        (torch.float64, 64, False, A100, 0.0, "math"),
    ],
)
def test_the_kernel_is_that_of_torchs_rules(dtype, width, masked, capability, dropout_p, kernel):
    assert find_fused_kernel(dtype, width, masked, capability, dropout_p) == kernel


class OnGpu:
    device, is_cuda, dtype = torch.device("cuda"), True, FP32


@pytest.mark.parametrize("width, count", [(64, 0), (30, 1)])
def test_attention_without_a_fused_kernel_on_a_gpu_is_named_once(width, count, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: A100)
    operators._warn_about_missing_kernel.cache_clear()
    with caplog.at_level(logging.WARNING, "fairseq_etads.kernels.operators"):
        warn_without_fused_kernel(torch.ones(1, 30), width, 0.0, masked=True)
        assert not caplog.records
        for _ in range(2):
            warn_without_fused_kernel(OnGpu(), width, 0.0, masked=True)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == count and all("width 30 in float32" in text and "multiples of 4" in text for text in said)
