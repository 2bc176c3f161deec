"""train.sh, killed alone: what it runs ends, too, and the same command then makes the same result."""

import os
import re
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest
import torch
from helpers import environment, run_command
from toy import write_pairs

SCRIPTS = Path(__file__).parents[2] / "scripts"
OPTIONS = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32 --disable-validation"
OPTIONS += " --encoder-attention-heads 2 --decoder-attention-heads 2 --log-interval 1 --save-interval-updates 10"
TRAIN = f"{SCRIPTS}/train.sh --recipe paper --max-update 40 --max-tokens 100 --cpu --out run %s -- {OPTIONS}"
COMMANDS = {
    "etads-prepare": TRAIN % "--text {0}/text --tokens word",
    "fairseq-train": TRAIN % "--prepared {0}/run/prepared",
}
"""Command that a script starts -> command of the script, with a folder of inputs."""
MARK = "ETADS_TEST_MARK"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by Linux's /proc")


class Script:
    """A script started as users start it, with all the processes that it starts."""

    def __init__(self, command, folder):
        self.mark, self.said = uuid.uuid4().hex, folder / "said"
        variables = {**environment(anew=True), MARK: self.mark}
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(command, cwd=folder, env=variables, stdout=said, stderr=said)

    def processes(self):
        """Process ids and command lines of the script and of all that it has started, even if they have left it."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:  # it has ended
                    continue
        return found

    def wait_until(self, is_true):
        deadline = time.monotonic() + 300
        while not is_true():
            assert time.monotonic() < deadline, f"{self.processes()}\n{self.said.read_text()[-3000:]}"
            time.sleep(0.01)

    def pause(self, command):
        """Pause a command that the script has started, until all its threads have stopped; returns its process id.

        SIGTERM could end a thread that still runs.
        """
        self.wait_until(lambda: any(f"/{command} " in line for line in self.processes().values()))
        process = next(number for number, line in self.processes().items() if f"/{command} " in line)
        os.kill(process, signal.SIGSTOP)
        threads = Path(f"/proc/{process}/task")
        self.wait_until(lambda: all("\nState:\tT" in (task / "status").read_text() for task in threads.iterdir()))
        return process


@pytest.fixture
def start(tmp_path):
    """Start a script in the test's folder, and check at the end of the test that none of its processes is left."""
    scripts = []

    def start(command):
        scripts.append(Script(command, tmp_path))
        return scripts[-1]

    yield start
    for script in scripts:
        script.process.kill()
        for process in script.processes():
            os.kill(process, signal.SIGKILL)


def is_asked_to_end(process):
    pending = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in pending)


def weights(run):
    state = torch.load(run / "checkpoints" / "checkpoint_last.pt", weights_only=True)
    return {name: value.tolist() for name, value in state["model"].items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with text, and with a training that nothing disturbed."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "text").mkdir()
    for seed, (split, count) in enumerate((("train", 80), ("valid", 8), ("test", 24))):
        write_pairs(folder / "text", split, count, seed)
    run_command(COMMANDS["etads-prepare"].format(folder).split(), cwd=folder)
    return folder


@pytest.mark.parametrize(
    "child, log, begun",
    [("etads-prepare", "said", ""), ("fairseq-train", "run/train.log", r"Saved checkpoint \S+_10\.pt")],
)
def test_a_killed_script_ends_what_it_runs_and_can_be_run_again(child, log, begun, start, place, tmp_path):
    """Otherwise the next run would train, or write, in the same folder at the same time."""
    command = COMMANDS[child].format(place).split()
    script = start(command)
    script.wait_until(lambda: (tmp_path / log).exists() and re.search(begun, (tmp_path / log).read_text()))
    process = script.pause(child)  # it shall not end before the script is killed
    if begun:  # otherwise, the command has not locked its output yet
        second = run_command(command, cwd=tmp_path, check=False)
        holder = re.search(r"is being written \([\w.-]+, process (\d+) on ", second.stdout)
        assert second.returncode == 2 and int(holder.group(1)) in script.processes()
    script.process.kill()
    script.process.wait()
    script.wait_until(lambda: is_asked_to_end(process))
    os.kill(process, signal.SIGCONT)
    script.wait_until(lambda: not script.processes())
    assert not (tmp_path / "run" / "finished.txt").exists(), "killed too late to show anything"
    run_command(command, cwd=tmp_path)
    assert weights(tmp_path / "run") == weights(place / "run")
    assert not [path.name for path in tmp_path.rglob("*") if path.name.endswith((".partial", ".lock"))]
