"""etads-tune killed in the middle of a trial, and run again: no trial is lost or repeated."""

import json
import os
import signal
import subprocess
import time

from folders import make_folder
from helpers import environment, run_command

COMMAND = ["etads-tune", "model", "d.txt", "r.txt", "--device", "cpu", "--trials"]
TRIALS = 6


def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path):
    make_folder(tmp_path, pointer="soft")
    documents = [" ".join(f"w{(3 * number + step) % 40}" for step in range(50)) for number in range(400)]
    (tmp_path / "d.txt").write_text("".join(f"{document}\n" for document in documents))
    (tmp_path / "r.txt").write_text("".join(f"{document[:30]}\n" for document in documents))
    trials = tmp_path / "killed" / "trials.jsonl"
    with open(tmp_path / "log", "w") as log:
        # The number of trials is so large that the command cannot end before the kill.
        killed = subprocess.Popen(
            [*COMMAND, "1000", "--out", "killed"],
            cwd=tmp_path,
            env=environment(),
            preexec_fn=os.setpgrp,
            stdout=log,
            stderr=log,
        )
        while not (trials.is_file() and trials.read_bytes().count(b"\n") >= 3):
            assert killed.poll() is None, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.02)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    before = trials.read_bytes()
    whole = before[: before.rindex(b"\n") + 1]
    made = whole.count(b"\n") - 1
    assert 2 <= made < TRIALS, f"killed too late to show anything: {made} trials"
    again = run_command([*COMMAND, str(TRIALS), "--out", "killed"], cwd=tmp_path).stdout
    assert f"{made} trials exist already" in again and again.count("== trial ") == TRIALS - made
    assert trials.read_bytes().startswith(whole)
    undisturbed = run_command([*COMMAND, str(TRIALS), "--out", "undisturbed"], cwd=tmp_path).stdout
    tables = [(tmp_path / name / "trials.csv").read_text() for name in ("killed", "undisturbed")]
    assert tables[0] == tables[1] and tables[0].count("\n") == TRIALS + 1
    results = [output[output.index("|   trial |") : output.index("tables and plot")] for output in (again, undisturbed)]
    assert results[0] == results[1]
    by_default = run_command(
        ["etads-summarize", "model", "d.txt", "--lines", "--device", "cpu", "--quiet"], cwd=tmp_path
    ).stdout
    assert json.loads(whole.split(b"\n")[1])["summaries"] == by_default.splitlines()
