"""Steps and trainings: what is done already is decided by contents, not by times; what users see of its output."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_etads.commands import train as train_command
from fairseq_etads.pipeline import training
from fairseq_etads.pipeline.children import start_child
from fairseq_etads.pipeline.recipes import Command
from fairseq_etads.pipeline.steps import Step
from fairseq_etads.platform.errors import InputError

SCRIPTS = Path(__file__).parents[3] / "scripts"
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


def write_program(path, code):
    """Write a shell script in place of a command; it counts its calls in ``count``."""
    path.write_text(f"#!/bin/bash\necho x >> count\n{code}\n")
    path.chmod(0o755)


def calls(folder):
    return len((folder / "count").read_text().split())


def test_an_output_is_made_again_for_other_contents_or_another_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path / "copy", "cp in out; echo made")
    (tmp_path / "data").mkdir()

    def once(*words):
        Step(["./copy", *words], [Path("out")], [Path("in"), Path("data")], Path("said")).run()
        assert (tmp_path / "said").read_text() == "made\n"
        assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
        return calls(tmp_path)

    (tmp_path / "in").write_text("one")
    assert [once(), once()] == [1, 1]
    os.utime(tmp_path / "in")  # the file is newer, with the same content
    assert once() == 1
    for number, (name, text) in enumerate([("in", "two"), ("data/words", "b"), ("out", "changed"), ("said", "m")], 2):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (0, 0))  # the file is older, as after a wrong clock
        assert once() == number
    assert once("--another-option") == 6
    (tmp_path / "out.made.json").unlink()
    assert once("--another-option") == 7, "nobody knows what it was made from"


@pytest.mark.parametrize("code, status", [("exit 3", 3), ("true", 2), ("kill -9 $$", 137)])
def test_a_command_that_failed_is_not_taken_for_done(code, status, tmp_path):
    write_program(tmp_path / "fails", code)
    step = [sys.executable, "-m", "fairseq_etads.pipeline.steps", "--makes", "out", "--", "./fails"]
    assert subprocess.run(step, cwd=tmp_path).returncode == status
    assert not (tmp_path / "out.made.json").exists()


@pytest.mark.parametrize(
    "word, reads", [("text", "text/sums"), ("run", "run/checkpoints/checkpoint_best.pt"), ("in", "in")]
)
def test_a_command_of_a_recipe_runs_again_for_other_contents_of_its_words(word, reads, tmp_path, monkeypatch):
    """Labels and exported models are not made from earlier data."""
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path / "copy", f"cp {reads} out")
    (tmp_path / reads).parent.mkdir(parents=True, exist_ok=True)

    def make(text):
        (tmp_path / reads).write_text(text)
        os.utime(tmp_path / reads, (0, 0))
        Command(("./copy", "--from", word), (Path("out"),)).run()
        return calls(tmp_path)

    assert (make("old"), make("old"), make("new")) == (1, 1, 2) and (tmp_path / "out").read_text() == "new"


def test_no_script_decides_by_times_or_by_a_file_that_exists():
    """Scripts leave the decision to steps, which compare contents."""
    times = r"^.*\s-(?:nt|ot|newer\w*)\s.*$"
    skips = r"\[ -[efsd] [^]]*\] \|\|(?:[^\S\n]*#.*)?\s+(?:supervise |python )?(?:etads-\w+|fairseq-\w+)"
    found = {path.name: re.findall(f"{times}|{skips}", path.read_text(), re.M) for path in SCRIPTS.rglob("*.sh")}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Train with a program in place of fairseq-train; returns what is said, the error if there is one."""
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "prepare.json").write_text('{"text": 1}')
    code = "mkdir -p run/checkpoints; : > run/checkpoints/checkpoint_last.pt; [ ! -f fails ]"
    write_program(tmp_path / "fairseq-train", code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def call(*options):
        try:
            training.train(Path("run"), Path("prepared"), options)
        except InputError as error:
            return str(error)
        return capsys.readouterr().err

    return call


def test_a_training_is_done_once_with_the_same_options_and_data(train, tmp_path):
    checkpoint, record = tmp_path / "run/checkpoints/checkpoint_last.pt", tmp_path / "run/training.json"
    (tmp_path / "fails").touch()
    with pytest.raises(SystemExit, match="2"):
        train("--lr", "1")
    assert not (tmp_path / "run" / "finished.txt").exists()
    (tmp_path / "fails").unlink()
    said = train("--lr", "1")
    assert "already trained" not in said and "other options" not in said and calls(tmp_path) == 2
    assert "already trained with these options" in train("--lr", "1", "--log-interval", "7")
    record.unlink()  # as in the runs of earlier versions
    assert "already trained" in train("--lr", "1") and record.exists() and calls(tmp_path) == 2
    said = train("--lr", "2")
    assert "a training with other options" in said and "     < --lr 1\n     > --lr 2\n" in said
    assert calls(tmp_path) == 3
    checkpoint.unlink()
    assert "already trained" not in train("--lr", "2") and calls(tmp_path) == 4


@pytest.mark.parametrize(
    "changed, words",
    [
        ("--seed", "--seed 2: run contains a training with --seed 1; name another"),
        ("prepared/prepare.json", "trained with other data, at"),
        ("base.pt", "--out run: base.pt has changed since this training"),
    ],
)
def test_a_training_is_not_continued_with_another_seed_other_data_or_another_model(changed, words, train, tmp_path):
    """The result used to have the first weights, and to be recorded as a training with the second."""
    record = tmp_path / "run/training.json"
    (tmp_path / "base.pt").write_text("first")
    train("--seed", "1", "--init-from", "base.pt")
    before = record.read_text()
    if changed.endswith((".json", ".pt")):
        (tmp_path / changed).write_text('{"text": 2}')
    seed = "2" if changed == "--seed" else "1"
    for more in ([], ["--lr", "2"]):
        assert words in train(f"--seed={seed}", "--init-from=base.pt", *more)
    assert calls(tmp_path) == 1 and record.read_text() == before


# ---- the parts of fairseq's output that users see, and the end of the command that it runs


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


# ---- the command etads-train


@pytest.mark.parametrize(
    "options, warmup, said",
    [
        ([], 8000, ""),
        (["--max-update", "30"], 3, "--max-update 30: warming up for 3 steps instead of 8,000"),
        (["--max-update", "30", "--", "--warmup-updates", "7"], 7, ""),
    ],
)
def test_a_short_training_warms_up_for_a_tenth_of_its_steps(options, warmup, said, capsys):
    """With 8,000 warm-up steps, a training of 30 steps would silently end untrained."""
    args = train_command.main.make_parser().parse_args(["--out", "run", *options])
    words = train_command.make_paper_options(args)
    last = len(words) - 1 - words[::-1].index("--warmup-updates")  # as in argparse, which takes the last one
    assert int(words[last + 1]) == warmup
    message = capsys.readouterr().err
    assert said in message if said else not message


def test_options_reach_fairseq_train(train, tmp_path):
    write_program(tmp_path / "fairseq-train", 'echo "$@" > arguments')
    (tmp_path / "prepared" / "bin").mkdir()
    (tmp_path / "prepared" / "bin" / "complete").touch()
    given = {"--pointer": "switch", "--truncate-source": "9", "--truncate-target": "7", "--max-tokens": "99"}
    options = ["--recipe", "paper", "--prepared", "prepared", "--out", "a run", "--processes", "1", "--cpu"]
    assert not train_command.main([*options, *(word for pair in given.items() for word in pair)])
    arguments = (tmp_path / "arguments").read_text()
    assert all(f"{name} {value} " in arguments for name, value in given.items())
    assert "--distributed-world-size 1 --cpu" in arguments


def test_commands_read_and_write_utf_8_in_every_locale(monkeypatch):
    for name, value in {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}.items():
        monkeypatch.setenv(name, value)
    child = start_child([sys.executable, "-c", "print('caf’é')"], stdout=subprocess.PIPE)
    assert child.communicate()[0] == "caf’é\n".encode()
