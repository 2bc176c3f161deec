"""The log of fairseq: the parts of fairseq's output that users see, and the end of the command that it runs."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fairseq_etads.pipeline import training

PROGRAM = """
import sys
from fairseq_etads.pipeline.training import LogWatcher, ProgressTerminal, run_logged_command
log, *command = sys.argv[1:]
sys.exit(run_logged_command(command, log, LogWatcher(command, ProgressTerminal().show_line), ()))
"""
TRAIN = ["fairseq-train", "bin", "--max-tokens", "4000", "--max-tokens", "500", "--max-update", "1800"]
RAISED = "Traceback (most recent call last):\n  File ...\n    sys.exit(cli_main())\n"
WAITS = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"


@pytest.mark.parametrize(
    "output, status, words",
    [
        ("usage: [-h]\nfairseq-train: error: argument --lr: invalid", 2, "argument --lr: invalid"),
        (f"{RAISED}KeyError: 'a'\n\nDuring handling of it:\n\n{RAISED}KeyError: 'b'", 1, "KeyError: 'b'"),
        ("", 3, "it said nothing and ended with exit status 3"),
        ("", -9, "killed, as the system does when memory runs out: lower --max-tokens (now 500)"),
        (f"{RAISED}torch.OutOfMemoryError: CUDA out of memory. Tried", 1, "out of memory: lower"),
    ],
)
def test_the_reason_for_a_failure(output, status, words):
    assert words in training.explain_failure(output.split("\n"), status, TRAIN)


@pytest.fixture
def watch():
    """Read log records at given seconds, as (seconds, level, module, text); returns the lines that are shown."""
    said, now = [], [0.0]
    watcher = training.LogWatcher(TRAIN, lambda text, _: said.append(text), lambda: now[0])

    def watch(*records):
        for now[0], level, module, text in records:
            watcher.read_line(f"2026-11-22 03:51:25 | {level} | {module} | {text}")
        watcher.report_command_end(0, "log")
        return said

    return watch


def inner(seconds, step):
    return seconds, "INFO", "train_inner", f"epoch 001:    {step} / 160 loss=9.0, wps=1, num_updates={step}, lr=1"


def test_a_resumed_training_is_timed_by_its_own_steps_without_the_start(watch):
    loaded = (0, "INFO", "fairseq.trainer", "Loaded checkpoint checkpoint_last.pt (epoch 5 @ 800 updates)")
    begun = (500, "INFO", "fairseq.trainer", "begin training epoch 5")
    said = watch(loaded, begun, inner(550, 900))
    assert said == ["continuing after step 800", "step 900 of 1,800 (50 %), loss 9.0, about 8 min left"]


def test_lost_text_and_lost_batches_are_shown_once(watch):
    overflows = [(0, "WARNING", "a", f"gradient overflow, setting loss scale to: {number}.0") for number in (3, 44)]
    lost = (0, "WARNING", "fairseq.trainer", "ran out of memory in forward pass, skipping batch")
    cut = (0, "INFO", "a", "train documents: 10 of 12 cut to 20 tokens (52 tokens, 87.0%, left out)")
    said = watch(*overflows, lost, cut)
    assert len(said) == 3 and said[0] == "warning: gradient overflow, setting loss scale to: 3.0"
    assert "left out: lower --max-tokens" in said[1] and "87.0%" in said[2] and "--truncate-source" in said[2]


def test_a_training_that_the_clock_ended_is_not_taken_for_a_complete_one(watch):
    stopped = "Stopping training due to cumulative_training_time: 0.2 > stop_time_hours: 0.1 hour(s)"
    said = watch(inner(0, 180), (1, "INFO", "a", stopped))
    assert "WARNING: the time limit ended training after about step 180 of 1,800 (10 %)" in said[-1]


def command_line(code):
    return [sys.executable, "-c", PROGRAM, "log", sys.executable, "-c", code]


def run(folder, code):
    result = subprocess.run(command_line(code), cwd=folder, stderr=subprocess.PIPE, text=True)
    return result.stderr, result.returncode


def start(folder, code):
    """Start a command, and wait until it has written its process id; returns the process and this id."""
    process = subprocess.Popen(command_line(code), cwd=folder)
    while not ((folder / "pid").exists() and (folder / "pid").read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    return process, int((folder / "pid").read_text())


def test_the_log_keeps_everything_and_the_status_is_the_command_s(tmp_path):
    code = "import os; os.write(2, b'one\\n\\xff\\x1b[2J'); os.write(1, b'two\\n'); raise SystemExit(7)"
    said, status = run(tmp_path, code)
    assert status == 7 and "the full output is in log" in said
    assert "\x1b" not in said, "an escape sequence would reach the terminal"
    assert run(tmp_path, "import os; os.kill(os.getpid(), 9)")[1] == 137
    assert sorted((tmp_path / "log").read_bytes().splitlines()) == [b"one", b"two", b"\xff\x1b[2J"]


def test_a_second_signal_ends_a_command_that_ignores_the_first(tmp_path):
    process, _ = start(tmp_path, IGNORES_SIGTERM)
    process.terminate()
    time.sleep(0.3)
    assert process.poll() is None, "it should wait for the command, which may be saving its state"
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="a killed process can end its children only on Linux")
def test_a_command_ends_with_a_killed_process(tmp_path):
    process, command = start(tmp_path, WAITS)
    process.kill()
    process.wait()
    with pytest.raises(ProcessLookupError):
        for _ in range(3000):
            os.kill(command, 0)
            time.sleep(0.02)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_full_disk_ends_the_command_with_a_message(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    said, _ = run(tmp_path, "print('one', flush=True); import time; time.sleep(600)")
    assert "InputError: cannot write the log log: No space left on device" in said
