"""Run the console commands without their start-up time, four seconds of imports: each in a fork of one process.

A :class:`CommandServer` has a folder of programs named like the commands, to be put first on PATH. Each passes its
arguments, environment, working directory, standard streams and process group to the server, which forks. The fork calls
the function of the command's entry point, like the installed command, and the server returns its exit status.
``python -`` (a script on standard input) is served, too. A ``fairseq-*`` command that does not load the plugin starts
in the usual way, because the server has loaded the plugin. A signal to the program's group reaches the command.
"""

import ast
import atexit
import contextlib
import functools
import gc
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from array import array
from importlib import import_module, metadata
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence
from unittest import mock

PACKAGES = ("fairseq_cli", "fairseq_etads", "etads_preprocess")
LATE_IMPORTS = ("torch._dynamo", "nltk.tokenize", "sacremoses", "sentencepiece")
LATE_IMPORTS += ("subword_nmt.apply_bpe", "subword_nmt.learn_bpe")
"""Modules that commands import on demand."""

_PROGRAM = r"""#!{python} -IS
import _socket, os, sys  # the module socket would take longer to import than the rest of this program
name, arguments, real = os.path.basename(sys.argv[0]), sys.argv[1:], {python!r}
if name == "python" and arguments[:1] != ["-"]:
    os.execv(real, [real, *arguments])
loaded = [value for option, value in zip(arguments, arguments[1:]) if option == "--user-dir"]
loaded += [word.partition("=")[2] for word in arguments if word.startswith("common.user_dir=")]
if name.startswith("fairseq-") and os.path.basename("".join(loaded[-1:]).rstrip("/")) != "fairseq_etads":
    os.execv(real, [real, os.path.join(os.path.dirname(real), name), *arguments])
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
server.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, {streams!r})])
server.sendall(ascii([os.getpgrp(), [name, *arguments], os.getcwd(), dict(os.environ)]).encode() + b"\n")
sys.exit(int(server.recv(9) or 70))
"""


def entry_points() -> Dict[str, str]:
    """The console commands of fairseq and of this project, by name, as "module:function"."""
    points = [point for distribution in metadata.distributions() for point in distribution.entry_points]
    points = [point for point in points if point.group == "console_scripts"]
    return {point.name: point.value for point in points if point.value.split(".")[0] in PACKAGES}


class CommandServer:
    """The server's process, and the folder of programs; :meth:`close` ends the process and removes the folder.

    ``launcher`` are words between the interpreter and the server's script; a command gets its caller's environment.
    """

    def __init__(self, environment: Optional[Mapping[str, str]] = None, launcher: Sequence[str] = ()):
        self._folder = Path(tempfile.mkdtemp(prefix="commands-"))  # a short path, because a socket's path must be short
        self.programs = self._folder / "bin"
        self.programs.mkdir()
        address, commands = str(self._folder / "socket"), entry_points()
        for name in [*commands, "python"]:
            program = self.programs / name
            streams = array("i", range(3)).tobytes()
            text = _PROGRAM.format(python=sys.executable, address=address, streams=streams)
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)
        command = [sys.executable, *launcher, str(Path(__file__).resolve()), address, json.dumps(commands)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with open(self._folder / "log", "w", encoding="utf-8") as log:
            # in a folder without fairseq_etads, so that the installed package is imported
            self._process = subprocess.Popen(command, cwd=self._folder, stderr=log, env=environment, **pipes)
        assert self._process.stdout is not None
        if b"ready\n" not in self._process.stdout:  # fairseq may log before this
            raise RuntimeError((self._folder / "log").read_text(encoding="utf-8"))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder)


class _Installed(set):
    """Folders of packages that --user-dir has loaded, resolved through links."""

    def __contains__(self, folder):
        return super().__contains__(os.path.realpath(folder))


def _import_all(commands: Dict[str, str]) -> None:
    """Import what the commands import, the plugin as --user-dir does."""
    import multiprocessing

    sys.argv = ["fairseq-train"]
    import_module("fairseq_etads.plugin")
    for name in (*LATE_IMPORTS, *(value.split(":")[0] for value in commands.values())):
        import_module(name)
    for name in [name for name in sys.modules if name.startswith("fairseq_cli.")]:
        del sys.modules[name]  # the fork imports it again, because importing it sets up logging
    from etads_preprocess import encode
    from fairseq import utils

    import fairseq_etads

    utils.import_user_module.memo = _Installed([os.path.realpath(os.path.dirname(fairseq_etads.__file__))])
    encode._get_process_context = lambda preload: multiprocessing.get_context("fork")
    for finalizer in list(weakref.finalize._registry):
        if finalizer.peek()[1].__name__ == "_del_library":  # it takes 0.1 s at the end of every command
            finalizer.atexit = False
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)


def _cache_configurations() -> None:
    """Make fairseq's composing of configurations faster in the forks, where it would take a third of their time."""
    from fairseq import options, utils
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from hydra._internal.config_repository import CachingConfigRepository
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parse = OverridesParser.parse_rule
    cached = functools.lru_cache(maxsize=None)(lambda text, rule: parse(OverridesParser.create(), text, rule))
    OverridesParser.parse_rule = lambda self, text, rule_name: cached(text, rule_name)
    # Hydra finds its caller, always the same function of fairseq, by reading the source of the whole stack.
    initialize = sys.modules["hydra.initialize"]
    find_caller = functools.lru_cache(maxsize=None)(initialize.detect_calling_file_or_module_from_stack_frame)
    initialize.detect_calling_file_or_module_from_stack_frame = find_caller
    # Hydra copies a repository that fairseq uses only once.
    CachingConfigRepository.__init__ = lambda self, delegate: vars(self).update(delegate=delegate, cache={})
    data = ["data", "--task", "summarization"]
    training = [*data, "--arch", "etads", "--criterion", "summarization_nll", "--optimizer", "adam"]
    parsers = ((options.get_training_parser(), training), (options.get_generation_parser(), [*data, "--path", "model"]))
    with mock.patch.object(utils, "import_user_module"):
        for parser, words in parsers:
            convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=words))


def _serve(address: str, commands: Dict[str, str]) -> None:
    """Answer requests until standard input ends, that is, until the parent process ends."""
    _import_all(commands)
    _cache_configurations()
    gc.collect()
    gc.freeze()  # so that collections in the forks do not touch the pages of all imported modules, and so copy them
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the commands
    ended, write_end = socket.socketpair()  # readable when a fork has ended
    ended.setblocking(False)
    write_end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end.fileno(), warn_on_full_buffer=False)
    waiting: Dict[int, socket.socket] = {}  # fork -> connection to the program that waits for its status
    print("ready", flush=True)
    while True:
        ready = select.select([listener, sys.stdin, ended], [], [])[0]
        if sys.stdin in ready:
            return
        if ended in ready:
            _send_statuses(ended, waiting)
        if listener in ready:
            connection, _ = listener.accept()
            fork = os.fork()
            if fork == 0:
                signal.set_wakeup_fd(-1)
                for other in (listener, ended, write_end, *waiting.values()):
                    other.close()
                try:
                    _answer(connection, commands)
                finally:
                    os._exit(70)
            waiting[fork] = connection


def _send_statuses(ended: socket.socket, waiting: Dict[int, socket.socket]) -> None:
    """Send the statuses of all forks that have ended."""
    with contextlib.suppress(BlockingIOError):
        while ended.recv(4096):
            pass
    while waiting:
        fork, wait_status = os.waitpid(-1, os.WNOHANG)
        if not fork:
            return
        status = os.waitstatus_to_exitcode(wait_status)
        with waiting.pop(fork) as connection, contextlib.suppress(OSError):  # if the program has been killed, too
            connection.sendall(str(status if status >= 0 else 128 - status).encode())


def _answer(connection: socket.socket, commands: Dict[str, str]) -> None:
    """Take a request, and run the command in this process, a fork of the server."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    line = connection.makefile().readline()
    if not line.endswith("\n"):  # the program has been killed
        return
    group, *request = ast.literal_eval(line)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setpgid(0, group)
    if _has_ended(connection):  # killed before this process was in its group
        return
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rw"))
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os._exit(_status(commands, *request))


def _has_ended(connection: socket.socket) -> bool:
    """Tell whether the program has ended. A running program sends nothing after its request."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _run(commands, argv, directory, environment) -> object:
    """Become the command: set its directory, environment and arguments; then call it."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    if argv[0] == "python":
        sys.argv = argv[1:]
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
        return None
    module, _, function = commands[argv[0]].partition(":")
    command = import_module(module)
    # --user-dir installs them if the command's module has already been imported
    import_module("fairseq_etads.fairseq_fixes").extend_commands()
    return getattr(command, function)()


def _status(commands, *request) -> int:
    """Exit status of a command, which is run to its end like a separate process."""
    try:
        sys.exit(_run(commands, *request))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # as Python does
    return status & 255


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
