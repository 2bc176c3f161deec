"""Describe the machine that runs a benchmark."""

import os
import platform
from pathlib import Path

import torch

FLAGS = {"avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx512_bf16": "BF16", "amx_tile": "AMX"}


def _read_cpuinfo():
    """Return the entry of the first processor in /proc/cpuinfo, or an empty dictionary if there is no such file."""
    path = Path("/proc/cpuinfo")
    text = path.read_text().split("\n\n")[0] if path.exists() else ""
    lines = [line.partition(":") for line in text.splitlines()]
    return {name.strip(): value.strip() for name, _, value in lines}


def describe_machine():
    """Return the name of the processor, the number of cores, the number of torch threads, and the torch version."""
    cpu = _read_cpuinfo().get("model name", platform.processor())
    return {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def describe_processor():
    """Return the family of an x86 processor, and the instruction sets for fast matrix products that it supports."""
    values = _read_cpuinfo()
    flags = values.get("flags", "").split()
    found = [name for flag, name in FLAGS.items() if flag in flags]
    return {
        "family": f"{values.get('cpu family', '?')}, model {values.get('model', '?')}",
        "has": ", ".join(found) or ("AVX2" if "avx2" in flags else "neither AVX2 nor AVX-512"),
    }
