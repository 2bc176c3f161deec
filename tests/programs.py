"""Call commands in this process so that they end like their programs; run code in fresh interpreters that are cheap."""

import functools
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import List, NamedTuple, Sequence, Tuple

from fairseq_etads.files import inputs

_PARENT = """
import importlib, json, os, sys, traceback
imported, jobs = json.loads(sys.stdin.read())
for name in imported:
    importlib.import_module(name)
for folder, code, arguments in jobs:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writing, 1), os.dup2(writing, 2), os.close(reading), os.chdir(folder)
        sys.path[:0], sys.argv, status = [folder], ["-c", *arguments], 1
        try:
            exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
            status = 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush(), os._exit(status)
    os.close(writing)
    said = os.fdopen(reading, errors="replace").read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said]))
"""


class Ended(NamedTuple):
    """Exit status and output of a process."""

    returncode: int
    output: str


def in_forks(jobs: Sequence[Tuple[Path, str, Sequence[str]]], imported: Sequence[str]) -> List[Ended]:
    """Run code in forks of one interpreter, with a folder in which modules are found first, and arguments.

    Args:
        imported: large modules that the interpreter imports once; all others are as in a new interpreter.
    """
    given = json.dumps([imported, [[str(folder), code, list(arguments)] for folder, code, arguments in jobs]])
    command = [sys.executable, "-W", "ignore", "-c", _PARENT]
    result = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [Ended(*json.loads(line)) for line in result.stdout.splitlines()]


def as_program(main):
    """Wrap a command's ``main`` to raise SystemExit where the program would end with a status other than 0."""

    @functools.wraps(main)
    def call(argv):
        status = main(argv)
        if status:
            raise SystemExit(status)

    return call


def run_on_input(main, arguments, stdin, capsysbinary, monkeypatch):
    """Run a command on the CPU with bytes as standard input. Returns its status, standard output, and messages."""
    stream = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin)), isatty=lambda: False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        patch.setattr(inputs, "_read_input", None)
        status = main([*map(str, arguments), "--device", "cpu"])
    said = capsysbinary.readouterr()
    return status, said.out.decode(), said.err.decode()
