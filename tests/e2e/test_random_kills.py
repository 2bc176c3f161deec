"""Real commands, killed at random moments: the same command then makes the same files as one that was not killed."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from helpers import environment
from seeds import OFFSET
from toy import WORDS, write_pairs

TRAINING = "--max-update 48 --cpu -- --validate-interval-updates 12 --save-interval-updates 3 --batch-size 16"
TRAINING += " --num-workers 0 --dropout 0.3 --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32"
TRAINING += " --encoder-ffn-embed-dim 32 --encoder-attention-heads 2 --decoder-attention-heads 2"
COMMANDS = {
    "etads-prepare text prepared --tokens bpe --size 60 --factors tf idf": "prepared/codes.bpe",
    f"etads-train --prepared prepared --out run --recipe paper {TRAINING}": "run/checkpoints/checkpoint_last.pt",
    "etads-summarize debian text/test.source --lines --output new.txt --read-ahead 4": "new.txt.partial",
}
"""Command -> its sign: a file that has over 200 bytes in the middle. Each command finds the results of earlier ones."""
KILLS = 4
"""Number of moments at which each command is killed: one in each quarter of its time. It is also killed at its sign."""
MAY_CHANGE = r"/SHA256SUMS$|/bin/|\.pt$"
"""Results that may exist before they are complete, which the commands take into account."""
NO_RESULTS = (".log", "/preprocess.txt", ".partial", ".tmp", ".lock", ".new", ".resume")
"""Endings of the paths of logs, which contain times, and of files that a killed command may leave behind."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by Linux's /proc")


def plain(value):
    """Replace the tensors in nested containers by their bytes, which can be compared with ==."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.numpy().tobytes()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def results(folder):
    """Path -> content of each result; of a checkpoint, which contains times, what the next updates depend on."""
    found = {}
    for path in filter(Path.is_file, folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.endswith(".pt"):
            state = torch.load(path, weights_only=True)
            more = [state["extra_state"].get(part) for part in ("train_iterator", "best")]
            found[name] = plain([state["model"], state["last_optimizer_state"], *more])
        elif not name.endswith(NO_RESULTS):
            found[name] = path.read_bytes()
    return found


def is_running(group):
    """Tell whether a process of the group has not ended. Zombies have; nobody may be there to wait for them."""
    for folder in Path("/proc").iterdir():
        try:
            state, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state not in "ZX":
                return True
        except (OSError, ValueError):  # it has ended, or is no process
            continue
    return False


def has_begun(sign):
    return sign.exists() and sign.stat().st_size > 200


def run(command, folder, kill_after=None, kill_at=None):
    """Run a command, and kill its process group after some seconds or at a sign; returns its status and its output."""
    with open(folder.with_name("said"), "w+") as said:
        # not a new session, because processes of the command server can only join a group of their own session
        files = {"stdout": said, "stderr": said, "preexec_fn": os.setpgrp}
        process = subprocess.Popen(command.split(), cwd=folder, env=environment(), **files)
        try:
            while kill_at and process.poll() is None and not has_begun(kill_at):
                time.sleep(0.001)
            process.wait(0 if kill_at else kill_after)
        except subprocess.TimeoutExpired:
            while is_running(process.pid):  # a process may just be starting another one
                os.killpg(process.pid, signal.SIGKILL)
                time.sleep(0.005)
        return process.wait(), said.seek(0) or said.read()


def test_a_killed_command_that_is_run_again_makes_the_same(tmp_path):
    print(f"ETADS_TEST_SEED={OFFSET}")
    draw, folder, before = random.Random(1), tmp_path / "work", tmp_path / "before"
    (folder / "text").mkdir(parents=True)
    for seed, (split, count) in enumerate((("train", 160), ("valid", 12), ("test", 64))):
        write_pairs(folder / "text", split, count, seed, words=[*WORDS, "doesn't", "well-known", "Zürich"])
    for command, sign in COMMANDS.items():
        shutil.copytree(folder, before)
        started = time.monotonic()
        status, said = run(command, folder)
        assert status == 0, said
        seconds, wanted, interrupted = time.monotonic() - started, results(folder), 0
        for number in range(KILLS + 1):
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
            moment = seconds * draw.uniform(number, number + 1) / KILLS
            at_sign = number == KILLS
            ends = {"kill_at": folder / sign} if at_sign else {"kill_after": moment}
            status, said = run(command, folder, **ends)
            assert status in (0, -signal.SIGKILL), said
            where = f"{command}, killed " + (f"at {sign}" if at_sign else f"after {moment:.3f} of {seconds:.3f} s")
            left = results(folder)
            half = [path for path in left if left[path] != wanted.get(path) and not re.search(MAY_CHANGE, path)]
            assert not half, f"{where}: not complete"
            interrupted += status != 0 and has_begun(folder / sign) and left != wanted
            if number == 1:  # the run that continues is killed, too, unless it ends before
                run(command, folder, kill_after=draw.uniform(0, moment))
            status, said = run(command, folder)
            assert status == 0, f"{where}, and run again:\n{said}"
            again = results(folder)
            differ = [path for path in {**wanted, **again} if again.get(path) != wanted.get(path)]
            assert not differ, f"{where}, and run again: not the same"
        assert interrupted, f"no kill came in the middle: {command}"
        shutil.rmtree(before)
