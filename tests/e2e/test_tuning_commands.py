"""etads-tune killed in the middle of a trial, and run again: no finished trial is lost or repeated."""

import csv
import os
import signal
import subprocess
import time

from folders import make_folder
from helpers import environment, run_command

COMMAND = ["etads-tune", "model", "d.txt", "r.txt", "--device", "cpu", "--trials"]


def test_a_killed_search_keeps_its_finished_trials(tmp_path):
    make_folder(tmp_path, pointer="soft")
    documents = [" ".join(f"w{(3 * number + step) % 40}" for step in range(50)) for number in range(400)]
    (tmp_path / "d.txt").write_text("".join(f"{document}\n" for document in documents))
    (tmp_path / "r.txt").write_text("".join(f"{document[:30]}\n" for document in documents))
    log = tmp_path / "log"
    with open(log, "w") as file:
        # The number of trials is so large that the command cannot end before the kill.
        killed = subprocess.Popen(
            [*COMMAND, "1000", "--out", "killed"],
            cwd=tmp_path,
            env=environment(),
            preexec_fn=os.setpgrp,
            stdout=file,
            stderr=file,
        )
        while log.read_text().count("== trial ") < 2:
            assert killed.poll() is None, log.read_text()[-2000:]
            time.sleep(0.02)
        second = run_command([*COMMAND, "9", "--out", "killed"], cwd=tmp_path, check=False)
        assert second.returncode == 2 and "--out killed: is being written" in second.stdout
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    before = [line.split(": ")[1].split(",")[0] for line in log.read_text().splitlines() if "== trial " in line]
    trials = len(before) + 3
    again = run_command([*COMMAND, str(trials), "--out", "killed"], cwd=tmp_path).stdout
    made = int(again.partition(" trials exist already")[0].rpartition(" ")[2])
    assert len(before) <= made <= len(before) + 1 and again.count("== trial ") == trials - made
    rows = list(csv.DictReader((tmp_path / "killed" / "trials.csv").read_text().splitlines()))
    assert len(rows) == trials and [f"{float(row['mean']):.2f}" for row in rows][: len(before)] == before
