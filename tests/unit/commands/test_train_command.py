"""The command etads-train: what it passes to fairseq-train."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_etads.commands import train


def train_by(tmp_path, code, *options):
    """Run etads-train with ``code``, shell lines, in place of fairseq-train."""
    (tmp_path / "prepared" / "bin").mkdir(parents=True, exist_ok=True)
    (tmp_path / "prepared" / "bin" / "complete").touch()
    stand_in = tmp_path / "fairseq-train"
    stand_in.write_text(f"#!/bin/sh\n{code}\n")
    stand_in.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "fairseq_etads.commands.train", "--recipe", "paper", "--prepared", "prepared"]
    command += ["--out", "a run", *options]
    return subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)


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
    args = train.main.make_parser().parse_args(["--out", "run", *options])
    words = train.make_paper_options(args)
    last = len(words) - 1 - words[::-1].index("--warmup-updates")  # as in argparse, which takes the last one
    assert int(words[last + 1]) == warmup
    message = capsys.readouterr().err
    assert said in message if said else not message


def test_options_reach_fairseq_train(tmp_path):
    given = {"--pointer": "switch", "--truncate-source": "9", "--truncate-target": "7", "--max-tokens": "99"}
    options = [word for pair in given.items() for word in pair]
    result = train_by(tmp_path, 'echo "$@" > arguments', *options, "--processes", "1", "--cpu")
    assert result.returncode == 0, result.stderr
    arguments = (tmp_path / "arguments").read_text()
    assert all(f"{name} {value} " in arguments for name, value in given.items())
    assert "--distributed-world-size 1 --cpu" in arguments


def test_the_reason_of_a_failed_training_is_on_the_terminal(tmp_path):
    code = "echo usage; echo 'fairseq-train: error: argument --lr: invalid value' >&2; exit 2"
    result = train_by(tmp_path, code, "--", "--lr", "high")
    assert result.returncode == 2
    assert "fairseq-train failed: argument --lr: invalid value\nthe full output is in a run/train.log" in result.stderr
    assert (tmp_path / "a run" / "train.log").read_text().count("\n") == 2
    assert not (tmp_path / "a run" / "finished.txt").exists()
