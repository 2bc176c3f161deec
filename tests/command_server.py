"""The console commands without their start: each runs in a process forked from one that has imported everything.

A ``fairseq-*`` command spends four seconds on imports before it does anything; a test that runs a hundred of them, for
example all recipes, cannot afford that. :func:`start` makes a folder of programs named like the commands. Put first on
PATH, each hands its arguments, environment, working directory and standard streams to the server, which forks; the fork
calls the function that the command's entry point names, as the installed command does. ``python -`` (a script on
standard input) is served, too.

As in a real process, nothing that one command does is seen by the next: each gets a fresh fork of the server, which
only imports.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Dict, Tuple

DISTRIBUTIONS = ("fairseq-etads", "fairseq-fixed")
_CLIENT = r"""#!{python} -IS
import json, os, socket, sys
name, real = os.path.basename(sys.argv[0]), {python!r}
if name == "python" and sys.argv[1:2] != ["-"]:
    os.execv(real, [real, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"x"], [0, 1, 2])
server.sendall(json.dumps([[name, *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.makefile().read() or 70))
"""


def entry_points() -> Dict[str, metadata.EntryPoint]:
    """The console commands of fairseq and of this project, by name."""
    points = [point for name in DISTRIBUTIONS for point in metadata.distribution(name).entry_points]
    return {point.name: point for point in points if point.group == "console_scripts"}


def start(folder: Path) -> Tuple[subprocess.Popen, Path]:
    """Start a server; returns its process and the folder to put first on PATH. End it with :func:`stop`."""
    address, programs = str(folder / "server"), folder / "bin"
    assert len(address) < 100, "the address of a Unix socket is short"
    programs.mkdir()
    for name in [*entry_points(), "python"]:
        program = programs / name
        program.write_text(_CLIENT.format(python=sys.executable, address=address))
        program.chmod(0o755)
    command = [sys.executable, str(Path(__file__).resolve()), address]
    with open(folder / "server.log", "w") as log:
        # where no folder is called fairseq_etads, so that --user-dir finds the installed package, as it does for users
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 120
    while not os.path.exists(address):
        assert server.poll() is None and time.monotonic() < deadline, (folder / "server.log").read_text()
        time.sleep(0.05)
    return server, programs


def stop(server: subprocess.Popen) -> None:
    """End a server and whatever it still runs."""
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _preload() -> None:
    """Import what the commands import, the plugin by the function that --user-dir calls."""
    import argparse
    import importlib
    import logging

    from fairseq.utils import import_user_module

    sys.argv = ["fairseq-train"]
    import_user_module(argparse.Namespace(user_dir="fairseq_etads"))
    for name in ("torch._dynamo", "nltk", "sacremoses", "sentencepiece", "subword_nmt.apply_bpe"):
        importlib.import_module(name)  # what commands import late
    for point in entry_points().values():
        importlib.import_module(point.module)
        if point.module.startswith("fairseq_cli"):
            del sys.modules[point.module]  # imported again by the fork, because importing it sets up logging
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)


def _run(argv, directory, environment) -> None:
    """Become the command: its directory, environment and arguments; then call it."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    if argv[0] == "python":
        sys.argv = argv[1:]
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
    else:
        sys.exit(entry_points()[argv[0]].load()())


def _status(argv, directory, environment) -> int:
    """Run a command in this process; its exit status."""
    try:
        _run(argv, directory, environment)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _serve_one(connection: socket.socket) -> None:
    """In a fork of the server: take the streams and the request, run the command in another fork, send its status."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().read())
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(str(status if status >= 0 else 128 - status).encode())
        return
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    status = _status(*request)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _serve(address: str) -> None:
    """Answer requests until the process that started this one is gone."""
    _preload()
    gc.collect()
    gc.freeze()  # so that collections in the forks do not touch, and so copy, the pages of all imported modules
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(64)
    os.rename(address + ".new", address)  # it appears when it answers
    listener.settimeout(5)
    parent = os.getppid()
    while os.getppid() == parent:  # the tests that started it may have been killed
        try:
            connection, _ = listener.accept()
        except socket.timeout:
            continue
        connection.setblocking(True)
        if os.fork() == 0:
            listener.close()
            try:
                _serve_one(connection)
            finally:
                os._exit(0)
        connection.close()
        try:  # forks that have ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    _serve(sys.argv[1])
