"""The shell pipelines, as a user types them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import run_command

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


@pytest.mark.parametrize("name", ["quickstart", "install", "train", "generate", "evaluate", "test"])
def test_help_teaches_and_unknown_options_are_refused(name, tmp_path):
    output = run_command([str(SCRIPTS / f"{name}.sh"), "--help"], cwd=tmp_path).stdout
    assert f"scripts/{name}.sh" in output and "--" in output and not output.startswith("#")
    result = run_command([str(SCRIPTS / f"{name}.sh"), "--colour"], cwd=tmp_path, check=False)
    assert result.returncode == 2 and f"{name}.sh: unknown option --colour" in result.stdout


def test_the_mutation_script_teaches_and_refuses_in_words(tmp_path):
    command = [sys.executable, str(SCRIPTS / "mutation.py")]
    output = run_command([*command, "--help"], cwd=tmp_path).stdout
    assert "scripts/mutation.py [options]" in output and "search/penalties" in output
    for options, words in ((["layers"], "layers: choose among attention,"), (["--jobs", "0"], "--jobs 0: choose 1")):
        result = run_command([*command, *options], cwd=tmp_path, check=False)
        assert result.returncode == 2 and f"mutation.py: {words}" in result.stdout


@pytest.mark.parametrize(
    "command,words",
    [
        (
            ["train.sh", "--text", "a", "--out", "b", "--tokens", "letters"],
            ["letters", "bpe sentencepiece word"],
        ),
        (["train.sh", "--text", "nowhere", "--out", "b"], ['TEXT "nowhere" is not a directory']),
        (["train.sh", "--text", "a", "--out", "b", "--truncate-source", "many"], ["--truncate-source many"]),
        (["train.sh", "--text"], ["--text needs a value"]),
        (["train.sh", "--prepared", "nowhere", "--out", "b"], ["--prepared nowhere: nothing prepared there"]),
        (["generate.sh", "--run", "nowhere", "--output", "x"], ["--run nowhere: no prepared data"]),
        (["generate.sh", "--run", "x", "--output", "x", "--subset", "dev"], ["--subset dev", "train valid test"]),
        (["evaluate.sh", "--summaries", "nowhere", "--references", "x"], ["nowhere: no such file"]),
        (["quickstart.sh", "--no-install", "--steps", "0"], ["--steps 0"]),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path, command, words):
    result = run_command([str(SCRIPTS / command[0]), *command[1:]], cwd=tmp_path, check=False)
    assert result.returncode == 2
    for word in words:
        assert word in result.stdout


def test_quickstart_in_short_runs_twice_and_summarises_new_text(tmp_path):
    """The whole pipeline on the real sample, with so few steps that only the plumbing is tested."""
    out = tmp_path / "run"
    command = [str(SCRIPTS / "quickstart.sh"), "--no-install", "--out", str(out), "--steps", "6"]
    first = run_command(command, cwd=tmp_path).stdout
    assert first.count("ROUGE-1") == 3 and first.count("ROUGE|backend") == 3, "model, untrained model, first words"
    assert first.count("document   ") == first.count("reference  ") == 3
    assert len((out / "summaries.txt").read_text().splitlines()) == 500
    weights = (out / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns

    second = run_command(command, cwd=tmp_path).stdout
    assert second.count("ROUGE-1") == 3
    assert (out / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns == weights, "trained again"

    documents = tmp_path / "new.txt"
    generate = [str(SCRIPTS / "generate.sh"), "--run", str(out), "--input", str(documents), "--cpu", "--max-len", "10"]
    generate += ["--output", str(tmp_path / "new.summaries")]
    # an empty line, a NUL, a carriage return inside a line, no newline at the end
    documents.write_bytes(b"This package contains the Documentation of\0Frobnicator.\n\nA game\rof chess\r\nlast")
    run_command(generate, cwd=tmp_path)
    summaries = (tmp_path / "new.summaries").read_text().split("\n")
    assert len(summaries) == 5 and summaries[1] == "" and summaries[4] == ""

    documents.write_bytes(b"fine\nnot \xff fine\n")
    result = run_command(generate, cwd=tmp_path, check=False)
    assert result.returncode == 2 and "new.txt, line 2: not UTF-8" in result.stdout.strip().splitlines()[-1]

    documents.write_bytes(b"")
    run_command(generate, cwd=tmp_path)
    assert (tmp_path / "new.summaries").read_bytes() == b""


def test_a_script_that_is_ended_ends_what_it_started(tmp_path):
    """Otherwise a second run would train into the same directory beside the first."""
    child = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    script = f'source "{SCRIPTS}/common.sh"; supervise {sys.executable} -c "{child}"'
    process = subprocess.Popen(["bash", "-c", script], cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    assert process.wait(timeout=30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "options, warmup, said",
    [
        ([], 8000, ""),
        (["--max-update", "30"], 3, "--max-update 30: warming up for 3 steps instead of 8,000"),
        (["--max-update", "30", "--", "--warmup-updates", "7"], 7, ""),
    ],
)
def test_a_short_training_warms_up_for_a_tenth_of_its_steps(options, warmup, said, tmp_path):
    """With 8,000 warm-up steps, a training of 30 would end untrained, and without a word."""
    (tmp_path / "prepared" / "bin").mkdir(parents=True)
    (tmp_path / "prepared" / "bin" / "complete").touch()
    recorder = tmp_path / "fairseq-train"
    recorder.write_text('#!/bin/sh\necho "$@" > "$ARGUMENTS"\n')
    recorder.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(SCRIPTS / "train.sh"), "--prepared", "prepared", "--out", "run", *options]
    environment = {**os.environ, "PATH": path, "ARGUMENTS": str(tmp_path / "arguments")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    arguments = (tmp_path / "arguments").read_text().split()
    last = len(arguments) - 1 - arguments[::-1].index("--warmup-updates")  # as argparse, which takes the last one
    assert int(arguments[last + 1]) == warmup
    assert (said in result.stderr) if said else ("warming up" not in result.stderr)
