"""Every command: --version, --help, errors as one line, its end by Ctrl-C, and its work in several processes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from unittest.mock import Mock

import pytest
from documented import ENTRIES, ROOT
from etads_preprocess.encode import map_in_order
from mapped import broken, double, fail, killed, nothing

import fairseq_etads
from fairseq_etads.platform.console import Parser, command, report_errors_in_one_line, run_command
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.processes import make_process_pool

ASK = """
import contextlib, importlib, io, json, sys
name, module, cases = sys.argv[1:]
sys.argv[:] = [name]
main = importlib.import_module(module).main
answers = []
for case in json.loads(cases):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(case)
        except SystemExit as end:
            status = end.code
    answers.append([status or 0, out.getvalue(), err.getvalue(), "torch" in sys.modules])
print(json.dumps(answers))
"""
INTERRUPT = """
import importlib, signal, sys
name, module, *options = sys.argv[1:]
def interrupt(event, arguments):
    if (event, arguments[0]) == ("import", "fairseq_etads.platform.console"):
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(interrupt)
sys.argv[:] = [name]
sys.exit(importlib.import_module(module).main(options))
"""
FORMS = {
    "missing": "results plot reproduce summarize likelihood labels select shortlist content demo correlate",
    "missing out": "control prepare export",
    "missing missing": "rouge tune",
    "missing missing missing": "compare",
    "out missing": "average",
    "out --train missing": "dictionary",
    "missing out --by lead": "extract",
    "missing out --run missing": "shorten",
    "missing out --extractor missing --abstractor missing": "rewrite",
    "missing -o page.html": "explain",
    "--source missing --reference missing": "analyse",
    "--source missing --system a=missing": "evidence",
    "--text missing --out out": "train",
    "--translation missing --out out": "debian",
    "make --source missing --system a=missing --out out --key key": "human",
    "table --train missing --out out": "corpus",
    "synthesise missing out": "nli",
    "--vocabulary 2": "models",  # it reads no file
}
WRONG = {f"etads-{name}": form.split() for form, names in FORMS.items() for name in names.split()}


def command_line(code, command, *arguments):
    return [sys.executable, "-c", code, command, ENTRIES[command], *arguments]


@pytest.mark.parametrize("command", sorted(ENTRIES))
def test_every_command_answers_alike(command, tmp_path):
    cases = [["--version"], ["--help"], ["--colour"], WRONG[command]]
    asked = command_line(ASK, command, json.dumps(cases))
    result = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    version, teaching, unknown, wrong = json.loads(result.stdout)
    assert version[:3] == [0, f"{command} {fairseq_etads.__version__}\n", ""]
    status, said, _, _ = teaching
    assert status == 0 and len(re.findall(rf"^.*\b{command} +\S", said, re.MULTILINE)) >= 2, "usage, but no example"
    assert not teaching[3], "torch was imported to show the help"
    for status, out, err, _ in (unknown, wrong):
        assert (status, out) == (2, "")
        assert re.fullmatch(rf"{command}( make| table)?: \S[^\n]*\n", err) and "error:" not in err
    assert "--vocabulary 2" in wrong[2] if command == "etads-models" else "missing" in wrong[2]
    assert not any(tmp_path.iterdir()), "something was written before the error"


def test_ctrl_c_while_modules_are_imported_is_no_traceback(tmp_path):
    line = command_line(INTERRUPT, "etads-rouge", "given", "given")
    result = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


RUN = "from fairseq_etads.platform.console import run_command\n"
POOLS = {
    "preparation": "from etads_preprocess.encode import map_in_order; from mapped import asleep\n"
    "from functools import partial\nwork = lambda: list(map_in_order(partial, (asleep,), range(200), 2, small=1))\n",
    "evaluation": "from fairseq_etads.platform.processes import map_in_processes; from mapped import asleep\n"
    "work = lambda: list(map_in_processes(asleep, range(2000), 2))\n",
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_processes_end_with_the_command(number, status, pool, tmp_path):
    """A terminal sends Ctrl-C to all of them, ``kill`` a signal to the first alone; either way none is left."""
    code = f"import sys\n{POOLS[pool]}{RUN}sys.exit(run_command('etads-x', work))"
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    errors, deadline = tmp_path / "errors", time.monotonic() + 120
    with open(errors, "w") as file:
        options = {"env": {**os.environ, "PYTHONPATH": path}, "cwd": tmp_path, "start_new_session": True}
        process = subprocess.Popen([sys.executable, "-c", code], stderr=file, **options)
    try:
        while not (tmp_path / "started").exists():
            assert process.poll() is None and time.monotonic() < deadline, errors.read_text()
            time.sleep(0.02)
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        assert process.wait(timeout=60) == status
        while is_alive(process.pid):
            assert time.monotonic() < deadline, "processes are left"
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert errors.read_text() == ("\netads-x: interrupted\n" if number == signal.SIGINT else "")


def is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "error, line",
    [
        (InputError("a sentence\nin two lines"), "etads-x: a sentence in two lines"),
        (InputError("etads-x: matplotlib is missing"), "etads-x: matplotlib is missing"),
        (InputError("a name\x1b[2J"), "etads-x: a name\\x1b[2J"),
        (PermissionError(13, "Permission denied", "out/file"), "etads-x: out/file: Permission denied"),
    ],
)
def test_errors_are_one_line(error, line, capsys):
    assert run_command("etads-x", Mock(side_effect=error)) == 2
    assert capsys.readouterr().err == line + "\n"


def test_a_reader_that_leaves_hears_nothing():
    code = f"import sys\n{RUN}sys.exit(run_command('etads-x', lambda: print('x' * 10)))"
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_signals_that_are_ignored_stay_ignored_and_others_come_back():
    before = signal.getsignal(signal.SIGTERM)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with report_errors_in_one_line("etads-x"):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not before
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert signal.getsignal(signal.SIGTERM) is before


def parser():
    made = Parser(prog="etads-x")
    made.add_argument("--output")
    made.add_argument("--beam", type=int)
    made.add_subparsers(dest="part").add_parser("make").add_argument("--annotators", type=int)
    return made


def test_files_may_stand_before_and_behind_options(capsys):
    made = Parser(prog="etads-x")
    made.add_argument("folder")
    made.add_argument("files", nargs="*", default=["-"])
    made.add_argument("--beam", type=int)
    for words, files in (
        (["m", "--beam", "1", "a", "b"], ["a", "b"]),
        (["m", "a", "--beam", "1", "b"], ["a", "b"]),
        (["--beam", "1", "m"], ["-"]),
        (["m", "a", "--", "--b"], ["a", "--b"]),
    ):
        args = made.parse_args(words)
        assert (args.folder, args.files) == ("m", files)
    with pytest.raises(SystemExit):
        made.parse_args(["m", "--bean", "1\x1b[2J", "a"])
    assert "unrecognized arguments: --bean 1\\x1b[2J a; did you mean --beam?" in capsys.readouterr().err


def test_a_command_returns_its_exit_status():
    statuses = {None: 0, SystemExit(1): 1, InputError("x"): 2, KeyError("x"): 2, MemoryError("x"): 2}
    for error, status in statuses.items():

        @command(parser, KeyError)
        def main(args, error=error):
            # --version is no parsed option, or etads-corpus would refuse to continue with another one
            assert vars(args) == {"beam": 3, "output": None, "part": None}
            if error is not None:
                raise error

        assert main(["--beam", "3"]) == status
    with pytest.raises(ValueError):
        run_command("etads-x", Mock(side_effect=ValueError("a mistake in the program")))


CLOSED = """
import os, sys
from fairseq_etads.platform.console import run_command
def work():
    sys.stderr.write(f"{os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev}")
    print("text")
sys.exit(run_command("etads-x", work))
"""


@pytest.mark.parametrize(
    "closing, status, said",
    [("<&-", 0, "True"), (">&-", 2, "etads-x: standard output is closed; redirect it to a file, or to /dev/null\n")],
)
def test_closed_files_are_no_traceback(closing, status, said):
    script = f'"{sys.executable}" -c "$CODE" {closing}'
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "CODE": CLOSED}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_terminal_does_not_obey_what_a_document_holds():
    import pty

    code = RUN + "run_command('etads-x', lambda: print('a\\x1b]0;owned\\x07\\tb', flush=True))"
    screen, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=terminal, check=True)
    shown = os.read(screen, 1000)
    os.close(terminal)
    os.close(screen)
    assert b"a\\x1b]0;owned\\x07" in shown and b"\x1b" not in shown and b"b\r\n" in shown
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert piped.stdout == b"a\x1b]0;owned\x07\tb\n"


@pytest.fixture
def preparing(monkeypatch):
    """Act like a command with processes that import neither torch nor fairseq, although pytest's processes do."""
    monkeypatch.setattr(sys, "argv", ["etads-corpus"])


def test_only_so_much_is_read_ahead(preparing):
    taken = []

    def items():
        for number in range(100_000):
            taken.append(number)
            yield number

    results = map_in_order(partial, (double,), items(), 2, small=64)
    assert [next(results) for _ in range(100)] == [2 * number for number in range(100)]
    assert len(taken) < 2000
    results.close()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "make,arguments,error,words",
    [
        (partial, (broken,), InputError, "line 70: broken"),
        (fail, (InputError("codes.bpe is damaged"),), InputError, "codes.bpe is damaged"),
        (fail, (ImportError("spaCy is missing"),), ImportError, "spaCy"),
        (fail, (SystemExit(1),), SystemExit, "1"),
    ],
)
def test_what_a_process_or_its_start_raises_arrives(make, arguments, error, words, jobs, preparing):
    """A pool of processes only reports that a process has ended, as if it had run out of memory."""
    with pytest.raises(error, match=words):
        list(map_in_order(make, arguments, range(200), jobs, small=64))


def test_a_killed_process_is_reported(preparing):
    with pytest.raises(InputError, match=r"a process was killed from outside .*; try a smaller --jobs"):
        list(map_in_order(partial, (killed,), range(200), 2, small=64))


@pytest.mark.parametrize("late", ["shutdown", "nothing"])
def test_a_signal_ends_a_pool_in_silence_whatever_is_left_to_do(late, preparing, monkeypatch):
    """The pool's thread must not find cancelled work or a collected pool after its processes have ended."""
    shutdown, complaints = ProcessPoolExecutor.shutdown, []

    def late_shutdown(self, *arguments, **options):
        time.sleep(0.5)
        shutdown(self, *arguments, **options)

    if late == "shutdown":
        monkeypatch.setattr(ProcessPoolExecutor, "shutdown", late_shutdown)
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    with pytest.raises(SystemExit), make_process_pool(2, nothing) as pool:
        futures = [pool.submit(time.sleep, 600) for _ in range(20)]
        while sum(future.running() for future in futures) < 3:  # the queue to the processes was full
            time.sleep(0.01)
        time.sleep(0.5)  # the pool's thread looks at its work no more
        assert sum(future.cancel() for future in futures) >= 10
        threads = [thread for thread in threading.enumerate() if "ExecutorManager" in type(thread).__name__]
        assert threads
        del pool, futures
        raise SystemExit(143)
    for thread in threads:
        thread.join(timeout=60)
    assert not complaints and not any(thread.is_alive() for thread in threads)
