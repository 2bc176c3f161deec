"""The command ``etads doctor`` (help): show versions and devices, and run a self-test."""

import os
import platform
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from typing import Iterator, Tuple

from ..platform.command_options import options_command
from ..platform.errors import InputError
from ..platform.optional_parts import EXTRAS, describe_extra
from ..summarizer.folder.config import find_folder
from ..version import get_version

PACKAGES = (
    *("torch", "fairseq-fixed", "numpy", "safetensors"),
    *("sacremoses", "sentencepiece", "subword-nmt", "rouge-score"),
)
DOCUMENT = "Vim is an almost compatible version of the UNIX editor Vi."


@dataclass
class DoctorOptions:
    """Options of ``etads doctor``: none."""


def _list_versions() -> Iterator[Tuple[str, str]]:
    yield "fairseq-etads", f"{get_version()}, in {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def _list_machine_properties() -> Iterator[Tuple[str, str]]:
    """Yield the names and values of the machine properties that torch reports."""
    import torch

    from ..kernels.operators import can_pack_weights, find_exact_int8_levels, has_fast_bfloat16

    yield "system", platform.platform()
    features = [f"torch uses {torch.backends.cpu.get_cpu_capability()}"]
    features.append("bfloat16 instructions" if has_fast_bfloat16() else "no bfloat16 instructions")
    features.append("packed weights" if can_pack_weights(torch.float32) else "no packed weights")
    features.append("8-bit products" if find_exact_int8_levels() else "no 8-bit products")
    yield "processor", ", ".join(features)
    limit = os.environ.get("OMP_NUM_THREADS")
    given = f", OMP_NUM_THREADS={limit}" if limit else ""
    yield "threads", f"{torch.get_num_threads()} of {os.cpu_count()} processors{given}"
    devices = ["cpu"]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        about = torch.cuda.get_device_properties(number)
        devices.append(f"cuda:{number} ({about.name}, {about.total_memory / 2**30:.0f} GiB)")
    yield "devices", ", ".join(devices)


def _print_section(heading: str, rows: Iterator[Tuple[str, str]]) -> None:
    print(f"{heading}:")
    for name, value in rows:
        print(f"  {name:<16}{value}", flush=True)


@options_command(
    "etads doctor",
    DoctorOptions,
    description="Show the versions of the installed packages, the processor, the number of threads, the devices "
    "and the optional packages, and summarise a sentence as a self-test.",
    epilog="example:  etads doctor    (the exit status is 1 if the self-test fails)",
)
def main(args: DoctorOptions) -> None:
    """Run the command ``etads doctor``."""
    _print_section("versions", _list_versions())
    _print_section("machine", _list_machine_properties())
    _print_section("optional parts", ((extra, describe_extra(extra)) for extra in EXTRAS))
    try:
        from ..summarizer import Summarizer

        started = time.monotonic()
        summary = Summarizer.load(find_folder("debian"), "cpu").summarize([DOCUMENT])[0].text
        if not summary.strip():
            raise InputError("the bundled model wrote an empty summary")
        print(f"self-test: {time.monotonic() - started:.1f} s, {DOCUMENT} -> {summary}")
    except Exception as error:
        print(f"etads doctor: self-test failed: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
