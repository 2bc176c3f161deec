"""Starts the project's commands quickly: one process imports torch and fairseq, and forks for every command.

What runs is each command's real ``main`` with its real arguments. Only the import is shared, and the processes that
etads-prepare starts are forked too, instead of by a server of their own, which would import everything again.

:func:`write_commands` makes the executables that scripts find on PATH. Each hands its arguments, folder,
environment and terminal to the zygote and waits for the exit status. The forked process joins the group of the
executable, so that a signal to the group reaches it.
"""

import array
import contextlib
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import traceback
from argparse import Namespace
from pathlib import Path

ENTRY_POINTS = {
    "etads-corpus": "etads_preprocess.corpus:main",
    "etads-debian": "etads_preprocess.debian:main",
    "etads-prepare": "etads_preprocess.prepare:main",
    "fairseq-train": "fairseq_cli.train:cli_main",
    "fairseq-generate": "fairseq_cli.generate:cli_main",
    "fairseq-interactive": "fairseq_cli.interactive:cli_main",
    "torture-digest": "torture.digest:main",
}
"""Command -> module and function."""

LOG_TO_STDOUT = ("fairseq_cli.train", "fairseq_cli.interactive", "fairseq_cli.preprocess")

FILE_SIZE = "TORTURE_FILE_SIZE"
"""The variable of the environment that says how many bytes no file of a command can grow beyond."""

CLIENT = """#!{python} -IS
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [os.getpgrp(), os.getcwd(), sys.argv, dict(os.environ)]
descriptors = array.array("i", [0, 1, 2])
server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
data = json.dumps(request).encode()
server.sendall(len(data).to_bytes(8, "big") + data)
status = server.recv(1)
if not status:
    print(os.path.basename(sys.argv[0]) + ": ended by a signal", file=sys.stderr)
sys.exit(status[0] if status else 139)
"""


def write_commands(folder: Path, address: str) -> None:
    """Write an executable for every command into ``folder``."""
    folder.mkdir()
    for name in ENTRY_POINTS:
        path = folder / name
        path.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        path.chmod(0o755)


def main() -> None:
    """``python -m torture.zygote SOCKET FOLDER...``: serve until stdin ends; the commands run in one of the folders."""
    address, *folders = sys.argv[1:]
    _import_all(folders)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children are forgotten at once
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _serve(connection)
        connection.close()


def _import_all(folders) -> None:
    """Import what the commands import, the plugin as ``--user-dir`` would from each of the folders."""
    import importlib
    import multiprocessing

    # fairseq-train before the plugin, as when it is started; torch._dynamo is imported when the first embedding is made
    modules = [entry.split(":")[0] for entry in ENTRY_POINTS.values()]
    first = ["fairseq_cli.train", "fairseq_etads.plugin"]
    for module in (*first, *modules, "nltk.tokenize", "sacremoses", "subword_nmt.learn_bpe", "torch._dynamo"):
        importlib.import_module(module)
    from etads_preprocess import processes
    from fairseq import utils

    utils.import_user_module.memo = {os.path.join(folder, "fairseq_etads") for folder in folders}
    utils.import_user_module(Namespace(user_dir=os.path.join(folders[0], "fairseq_etads")))
    logging.getLogger().handlers.clear()
    processes._processes = lambda preload: multiprocessing.get_context("fork")


def _serve(connection: socket.socket) -> None:
    """Run the command that a client asks for, send its exit status, and end; a client may be killed at any moment."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    if not ancillary:
        os._exit(1)
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    size = int.from_bytes(_receive(connection, 8), "big")
    group, folder, arguments, environment = json.loads(_receive(connection, size))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        os.setpgid(0, group)
        if _has_gone(connection):  # killed before this process was in its group
            os._exit(1)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        status = _run(arguments)
    finally:
        with contextlib.suppress(OSError):
            connection.sendall(bytes([status & 255]))
        os._exit(status)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            os._exit(1)
        data += block
    return data


def _has_gone(connection: socket.socket) -> bool:
    """Whether the client has ended. One that has sent its request sends no more."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _run(arguments) -> int:
    """The exit status of a command, which is run to its end like that of a process of its own."""
    import atexit
    import importlib
    import threading

    module, _, function = ENTRY_POINTS[os.path.basename(arguments[0])].partition(":")
    sys.argv = arguments
    if module in LOG_TO_STDOUT:  # they say so when they are imported
        form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
        logging.basicConfig(format=form, datefmt="%Y-%m-%d %H:%M:%S", level="INFO", stream=sys.stdout)
    if FILE_SIZE in os.environ:
        limit = int(os.environ[FILE_SIZE])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # Python ignores the signal SIGXFSZ
    status = 0
    try:
        result = getattr(importlib.import_module(module), function)()
        status = result if isinstance(result, int) else 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # as Python does
    return status


if __name__ == "__main__":
    main()
