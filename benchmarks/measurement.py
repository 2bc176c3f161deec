"""Measure systems in turn, each in a process of its own, and record the figures with the conditions."""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("fairseq", "ctranslate2", "numpy", "nltk", "sacremoses", "spacy")
VARIABLES = ("OMP_", "ATEN_", "ONEDNN_", "MKL_", "FBGEMM_", "CT2_", "MALLOC_", "LD_PRELOAD")
"""Beginnings of the names of packages and environment variables that affect the speed."""
FLAGS = {"avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx512_bf16": "BF16", "amx_tile": "AMX"}
LOAD_AT_START = round(os.getloadavg()[0], 2)


def make_parser(description, output, runs):
    """Create a parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / output, help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=runs, help="timed runs per system (default: %(default)s)")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    return parser


def describe_machine():
    """Return the processor's name, family and instruction sets, its cores, torch's threads, and the torch version."""
    import torch  # here, because the processes of tokenisers do not need it

    path = Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = values.get("flags", "").split()
    has = [name for flag, name in FLAGS.items() if flag in flags] or ["AVX2" if "avx2" in flags else "no AVX2"]
    return {
        "cpu": values.get("model name", platform.processor()),
        "family": f"{values.get('cpu family', '?')}, model {values.get('model', '?')}",
        "has": ", ".join(has),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def read_memory(what):
    """Return the current ("VmRSS") or peak ("VmHWM") memory of this process in MiB. (getrusage includes the parent.)"""
    return round(int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0]) / 1024)


class Peer:
    """A system in a process of its own, which runs the same script with ``--peer NAME`` and first describes the system.

    Systems in one process would affect each other: memory that one has fragmented slows down the next, and if
    CTranslate2 and torch both start threads, the OpenMP runtime puts waiting threads to sleep.
    """

    def __init__(self, name, environment):
        command = [sys.executable, *sys.argv, "--peer", name]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, **streams)
        self.about = self.ask(None)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{' '.join(self.process.args)}: ended with status {self.process.wait()}")
        return json.loads(answer)


@contextlib.contextmanager
def start_peers(systems):
    """Start systems (label -> name and environment variables), without systems that need a missing package."""
    with contextlib.ExitStack() as stack:
        peers = {}
        for label, (name, environment) in systems.items():
            peer = Peer(name, environment)
            stack.enter_context(peer.process)
            if "missing" in peer.about:
                print(f"{label}: not measured, because {peer.about['missing']} is not installed", file=sys.stderr)
            else:
                peers[label] = peer
        yield peers


def serve(prepare):
    """Answer a :class:`Peer`'s requests. ``prepare()`` returns the system's description and the answering function."""
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    try:
        about, answer = prepare()
    except ModuleNotFoundError as error:
        about, answer = {"missing": error.name}, None
    for number, line in enumerate(sys.stdin):
        print(json.dumps(answer(json.loads(line)) if number else about), flush=True)


def ask_in_turn(peers, request, runs):
    """Ask each peer once per run, in turn, and return the answers of each peer."""
    turns = [{label: peer.ask(request) for label, peer in peers.items()} for _ in range(runs)]
    return {label: [turn[label] for turn in turns] for label in peers}


def compare(values):
    """Print and return medians and ranges of each system's values, one per run, and of their ratios to the first's."""
    found = {}
    first, theirs = next(iter(values.items()))
    for label, ours in values.items():
        ratios = [one / other for one, other in zip(ours, theirs)]
        ratio = statistics.median(ours) / statistics.median(theirs)
        figures = [statistics.median(ours), min(ours), max(ours), ratio, min(ratios), max(ratios)]
        median, least, most, ratio, *ratios = (float(f"{figure:.4g}") for figure in figures)
        found[label] = {"median": median, "range": [least, most], f"ratio to {first}": ratio, "range of ratios": ratios}
        print(f"{label}: {found[label]}", flush=True)
    return found


def write_record(path, report, args):
    """Write the figures as JSON, with the machine and the conditions of the measurement."""
    packages = {str(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()}
    conditions = {
        "script": f"benchmarks/{Path(sys.argv[0]).name}",
        "settings": {name: value for name, value in vars(args).items() if name not in ("output", "peer")},
        "commit": _find_commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load average": {"at the start": LOAD_AT_START, "at the end": round(os.getloadavg()[0], 2)},
        "python": platform.python_version(),
        "packages": {name: version for name, version in packages.items() if name.startswith(PACKAGES)},
        "environment": {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)},
    }
    content = {"machine": describe_machine(), **report, "measured": conditions}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _find_commit():
    """Return the commit of the code, with "-dirty" after local changes, or None without git."""
    command = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
