"""The server that runs the commands of these tests (tests/command_server.py) treats them as separate processes."""

import os
import signal
import subprocess
import time

import pytest
from helpers import environment, run_command


def run(script, tmp_path, *arguments, **kwargs):
    return run_command(["python", "-", *arguments], cwd=tmp_path, check=False, input=script, **kwargs)


@pytest.mark.parametrize(
    "script, status, said",
    [
        ("print('a')", 0, "a\n"),
        ("import sys; print(sys.argv); sys.exit(3)", 3, "['-', 'b']\n"),
        ("import sys; sys.exit('words')", 1, "words\n"),
        ("import os; os.kill(os.getpid(), 15)", 143, ""),
        (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
            0,
            "late\n",
        ),
        ("import atexit; atexit.register(print, 'last'); print('first')", 0, "first\nlast\n"),
        ("import os; print(os.getcwd(), os.environ['PWD'] == os.getcwd())", 0, "{} False\n"),
    ],
)
def test_status_and_output(script, status, said, tmp_path):
    result = run(script, tmp_path, "b")
    assert result.returncode == status and result.stdout.endswith(said.format(tmp_path))


def test_what_is_raised_is_shown(tmp_path):
    result = run("raise ValueError('why')", tmp_path)
    assert result.returncode == 1 and result.stdout.endswith("ValueError: why\n")


def test_a_command_sees_nothing_of_another(tmp_path):
    run("import os, sys, torch; os.environ['SEEN'] = '1'; torch.seen = 1; sys.path[0] = 'seen'", tmp_path)
    assert run("import os, sys, torch; assert 'SEEN' not in os.environ; torch.seen", tmp_path).stdout.endswith(
        "AttributeError: module 'torch' has no attribute 'seen'\n"
    )


def test_a_signal_to_the_group_ends_the_command(tmp_path):
    script = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    program = subprocess.Popen(
        ["python", "-"], cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, preexec_fn=os.setpgrp, text=True
    )
    program.stdin.write(script)
    program.stdin.close()
    deadline = time.monotonic() + 60
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    number = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(number, 0)
            time.sleep(0.02)


@pytest.mark.parametrize("options", [[], ["--user-dir", "fairseq_etads", "--user-dir", "other"]])
def test_fairseq_does_not_know_a_plugin_that_it_is_not_told_to_load(options, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").touch()
    result = run_command(["fairseq-train", "data", *options, "--task", "summarization"], cwd=tmp_path, check=False)
    assert result.returncode == 2 and "argument --task: invalid choice: 'summarization'" in result.stdout
