"""The command etads-train: what it refuses before any work, and what it passes to fairseq-train."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import as_program

from fairseq_etads.commands import train

main = as_program(train.main)


@pytest.mark.parametrize(
    "options,words",
    [
        ("--out b", "--text is missing"),
        ("--text nowhere --out b", "--text nowhere: no such file or folder"),
        ("--text text --out b --tokens letters", "'letters' (choose from"),
        ("--text text --out b --source-column body", "--source-column body: needs a table"),
        ("--text text --out b --no-quotes", "--no-quotes: needs a table"),
        ("--text text --out b --minutes 5 --arch pointer_generator", "--minutes 5 has no effect with --recipe paper"),
        ("--text text --out b --words 5", "--words 5 has no effect without --long"),
        ("--text text --out file", "file: File exists"),
        ("--text text --out a:b", "--out a:b: contains a colon"),
        ("--prepared nowhere --out b", "--prepared nowhere: no prepared data there"),
        ("--prepared a --out b --keep-case", "--keep-case has no effect without --text"),
        ("--prepared a --out b --long", "--long needs --text"),
        ("--text text --out b -- --save-dir=c", "--save-dir after --: is decided by etads-train; give --out"),
    ],
)
def test_bad_options_are_refused_before_any_work(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "text").mkdir()
    with pytest.raises(SystemExit) as stopped:
        main(options.split())
    said = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == 2 and len(said) == 1 and words in said[0], said


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
