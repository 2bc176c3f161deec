"""Run a console command of this environment, or a Python script, on a simulated GPU.

    python tests/pretended/run_pretending.py [--capability 8,0] [--devices N] [--ledger FILE] COMMAND ...

COMMAND is the name of a console command (fairseq-train, etads-summarize) or a script's path ending in .py. As with real
GPUs, CUDA_VISIBLE_DEVICES limits the devices that the command sees: with an empty value it sees none. Processes that
the command starts see none either, unless it forks them.

The ledger lists operators for which the CPU would have waited, and copies from memory that is not pinned, each with the
file and line; it also gives the number of kernels.
"""

import argparse
import importlib.metadata
import os
import runpy
import sys


def visible_devices(devices: int) -> int:
    """Number of ``devices`` that CUDA_VISIBLE_DEVICES leaves; CUDA ignores all after an unknown one."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return devices
    known = [number.strip() in map(str, range(devices)) for number in listed.split(",")]
    return [*known, False].index(False)


def run(words) -> int:
    """Run a command, given as a list of words, in this process; returns its exit status."""
    sys.argv = list(words)
    if words[0].endswith(".py"):
        runpy.run_path(words[0], run_name="__main__")
        return 0
    points = [point for distribution in importlib.metadata.distributions() for point in distribution.entry_points]
    (value,) = {point.value for point in points if point.group == "console_scripts" and point.name == words[0]}
    sys.argv[0] = os.path.join(os.path.dirname(sys.executable), words[0])
    return importlib.metadata.EntryPoint(words[0], value, "console_scripts").load()() or 0


def write_ledger(file, name: str, ledger) -> None:
    """Append to a file the waits of the CPU for a command, its uploads and its number of kernels."""
    for title, counter in (("waits", ledger.syncs), ("uploads", ledger.uploads)):
        print(f"# {name}: {title} {sum(counter.values())}", file=file)
        for (operator, where), count in counter.most_common(40):
            print(f"  {count:7} {operator:28} {where}", file=file)
    print(f"# {name}: kernels {sum(ledger.kernels.values())}", file=file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capability", default="8,0", help="8,0: A100; 9,0: H100; 7,0: V100")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--ledger", help="append the ledger to this file")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("a command is missing, such as fairseq-train with its options")
    devices = visible_devices(args.devices)
    if not devices:
        return run(args.command)
    import pretended_gpu  # here, because processes of multiprocessing import this module after torch

    capability = tuple(int(part) for part in args.capability.split(","))
    with pretended_gpu.pretend_cuda(capability, devices) as ledger:
        try:
            return run(args.command)
        finally:
            if args.ledger:
                with open(args.ledger, "a", encoding="utf-8") as file:
                    write_ledger(file, args.command[0], ledger)


if __name__ == "__main__":
    sys.exit(main())
