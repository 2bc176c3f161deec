"""The command ``etads doctor`` (help): show versions and devices, and run a self-test."""

import argparse
import os
import platform
import sys
import time
from importlib import metadata
from typing import Iterator, Tuple

from ..platform.console import Parser, command, limit_matrix_kernel_caches
from ..platform.errors import InputError
from ..platform.optional_parts import EXTRAS, find_missing_modules, format_install_command
from ..summarizer.folder.config import find_folder
from ..version import get_version

PACKAGES = (
    "torch",
    "fairseq_fixed",
    "numpy",
    "safetensors",
    "sacremoses",
    "sentencepiece",
    "subword-nmt",
    "rouge-score",
)
DOCUMENT = "Vim is an almost compatible version of the UNIX editor Vi."


def _build_parser() -> argparse.ArgumentParser:
    return Parser(
        prog="etads doctor",
        description="Show the versions of the installed packages, the processor, the number of threads, the devices "
        "and the optional packages, and summarise a sentence as a self-test.",
        epilog="example:  etads doctor    (the exit status is 1 if the self-test fails)",
    )


def _list_versions() -> Iterator[Tuple[str, str]]:
    yield "fairseq-etads", f"{get_version()}, in {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    for name in PACKAGES:
        try:
            yield name.replace("_", "-"), metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name.replace("_", "-"), "not installed"


def _list_machine_properties() -> Iterator[Tuple[str, str]]:
    """Yield the names and values of the machine properties that torch reports."""
    import torch

    from ..kernels.cpu import can_pack_weights, find_exact_int8_levels, has_fast_bfloat16

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


def _list_extras() -> Iterator[Tuple[str, str]]:
    for extra in EXTRAS:
        missing = find_missing_modules(extra)
        yield extra, f"missing {', '.join(missing)}: {format_install_command(extra)}" if missing else "installed"


def _print_section(heading: str, rows: Iterator[Tuple[str, str]]) -> None:
    print(f"{heading}:")
    for name, value in rows:
        print(f"  {name:<16}{value}", flush=True)


def _test_summarisation() -> None:
    """Summarise a sentence with a bundled model to check that summarisation works."""
    from ..summarizer import Summarizer

    started = time.monotonic()
    summarizer = Summarizer.load(find_folder("debian"), "cpu")
    summary = summarizer.summarize([DOCUMENT])[0].text
    if not summary.strip():
        raise InputError("self-test: the bundled model wrote an empty summary")
    print(f"self-test: {time.monotonic() - started:.1f} s, {DOCUMENT} -> {summary}")


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads doctor``."""
    _print_section("versions", _list_versions())
    limit_matrix_kernel_caches()
    _print_section("machine", _list_machine_properties())
    _print_section("optional parts", _list_extras())
    try:
        _test_summarisation()
    except Exception as error:
        print(f"etads doctor: self-test failed: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
