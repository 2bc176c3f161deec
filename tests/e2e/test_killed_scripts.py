"""train.sh and generate.sh killed with SIGKILL: their processes end, and the same command makes the same result."""

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
UPDATES, SAVED_AT = 40, 10
SIZES = ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32"]
SIZES += ["--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--disable-validation"]
TRAIN = [str(SCRIPTS / "train.sh"), "--recipe", "paper", "--max-update", str(UPDATES), "--max-tokens", "100", "--cpu"]
OPTIONS = ["--", *SIZES, "--log-interval", "1", "--save-interval-updates", str(SAVED_AT)]
MARK = "ETADS_TEST_MARK"
SAID_WHO = r"is being written \(\w+\.py, process (\d+) on "

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by Linux's /proc")


class Script:
    """A script started as users start it, with all the processes that it starts."""

    def __init__(self, command, folder):
        self.mark, self.said = uuid.uuid4().hex, folder / "said"
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(
                list(map(str, command)),
                cwd=folder,
                env={**environment(anew=True), MARK: self.mark},
                stdout=said,
                stderr=said,
            )

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

    def wait_until(self, is_true, seconds=90):
        deadline = time.monotonic() + seconds
        while True:
            found = is_true()
            if found:
                return found
            assert time.monotonic() < deadline, f"{self.processes()}\n{self.said.read_text()[-3000:]}"
            time.sleep(0.01)

    def number_of(self, command):
        """Process id of a command that the script has started, when it runs."""
        name = f"/{command} "
        return self.wait_until(lambda: next((n for n, line in self.processes().items() if name in line), None))

    def pause(self, process):
        """Pause a process, and wait until all its threads have stopped; SIGTERM could end a thread that still runs."""
        os.kill(process, signal.SIGSTOP)
        threads = Path(f"/proc/{process}/task")
        self.wait_until(lambda: all("\nState:\tT" in (task / "status").read_text() for task in threads.iterdir()))

    def kill(self, stopped=None):
        """Kill only the script, and check that all other processes end.

        Args:
            stopped: a paused process; it continues after it has been asked to end.
        """
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if stopped is not None:
            self.wait_until(lambda: is_asked_to_end(stopped))
            os.kill(stopped, signal.SIGCONT)
        self.wait_until(lambda: not self.processes(), seconds=30)


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


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with text, prepared data, and a training that nothing disturbed."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "text").mkdir()
    for seed, (split, count) in enumerate((("train", 80), ("valid", 8), ("test", 24))):
        write_pairs(folder / "text", split, count, seed)
    run_command(["etads-prepare", "text", "prepared", "--tokens", "word"], cwd=folder)
    train(folder, "run")
    return folder


def train(place, run, *options, check=True):
    return run_command([*TRAIN, "--prepared", "prepared", "--out", str(run), *OPTIONS, *options], place, check=check)


def weights(run):
    return torch.load(run / "checkpoints" / "checkpoint_last.pt", weights_only=True)["model"]


def is_same(run, other):
    found, wanted = weights(run), weights(other)
    return found.keys() == wanted.keys() and all(torch.equal(found[name], value) for name, value in wanted.items())


def updates_of(run):
    state = torch.load(run / "checkpoints" / "checkpoint_last.pt", weights_only=True)
    return state["optimizer_history"][-1]["num_updates"]


def text_of(path):
    return path.read_text() if path.exists() else ""


def test_a_killed_preparation_ends_and_is_done_by_the_next_run(start, place, tmp_path):
    command = [*TRAIN, "--text", place / "text", "--out", "run", "--tokens", "word", *OPTIONS]
    script = start(command)
    preparation = script.number_of("etads-prepare")
    script.pause(preparation)
    script.kill(stopped=preparation)
    assert not (tmp_path / "run" / "checkpoints").exists() and not (tmp_path / "run" / "training.json").exists()
    run_command(list(map(str, command)), cwd=tmp_path)
    assert is_same(tmp_path / "run", place / "run")


@pytest.mark.parametrize("stage", ["before the first checkpoint", "in training"])
def test_a_killed_training_ends_and_the_next_run_makes_the_same(stage, start, place, tmp_path):
    run = tmp_path / "run"
    script = start([*TRAIN, "--prepared", place / "prepared", "--out", run, *OPTIONS])
    trainer = script.number_of("fairseq-train")
    if stage == "in training":
        saved = re.compile(rf"Saved checkpoint \S+_{SAVED_AT}\.pt")  # logged after the copy to checkpoint_last.pt
        script.wait_until(lambda: saved.search(text_of(run / "train.log")))
        script.pause(trainer)  # it shall not end before the script is killed
        second = train(place, run, check=False)
        assert second.returncode == 2 and f"--out {run}: " in second.stdout
        holder = int(re.search(SAID_WHO, second.stdout).group(1))
        assert "train_once.py" in script.processes()[holder]
        script.kill(stopped=trainer)
        assert SAVED_AT <= updates_of(run) < UPDATES
    else:
        script.kill()
        assert not (run / "checkpoints" / "checkpoint_last.pt").exists()
    assert not (run / "finished.txt").exists()

    with_another_seed = train(place, run, "--seed", "2", check=False)
    if stage == "in training":
        assert with_another_seed.returncode == 2
        assert f"--seed 2: {run} contains a training with --seed 1" in with_another_seed.stdout
        train(place, run)
        assert is_same(run, place / "run")
        assert train(place, run, "--seed", "2", check=False).returncode == 2
    else:
        assert with_another_seed.returncode == 0
        train(place, tmp_path / "other", "--seed", "2")
        assert is_same(run, tmp_path / "other") and not is_same(run, place / "run")


def summarise(place, output, *options):
    """Command that writes summaries of the test documents."""
    checkpoint = place / "run" / "checkpoints" / "checkpoint_last.pt"
    command = [SCRIPTS / "generate.sh", "--run", place / "run", "--cpu", "--checkpoint", checkpoint, "--output", output]
    return [*map(str, command), *options, "--max-tokens", "1", "--read-ahead", "1"]


@pytest.fixture(scope="module")
def undisturbed(place):
    """Summaries of at most six words, and of at most two."""
    texts = []
    for length in ("6", "2"):
        run_command(summarise(place, f"{length}.txt", "--max-len", length), cwd=place)
        texts.append((place / f"{length}.txt").read_text())
    assert texts[0] != texts[1] and [text.count("\n") for text in texts] == [24, 24]
    return texts


@pytest.mark.parametrize("source", [[], ["--input", "documents", "--lines"]], ids=["split", "input"])
def test_killed_summaries_end_and_nothing_of_them_is_in_the_next(source, undisturbed, start, place, tmp_path):
    (tmp_path / "documents").write_bytes((place / "text" / "test.source").read_bytes())
    command = summarise(place, "out.txt", "--max-len", "6", *source)
    script, partial = start(command), tmp_path / "out.txt.partial"
    generator = script.number_of("etads-summarize")
    script.wait_until(lambda: partial.exists() and partial.stat().st_size > 0)
    script.pause(generator)
    assert text_of(partial).count("\n") < 24, "killed too late to show anything"
    second = run_command(command, cwd=tmp_path, check=False)
    assert second.returncode == 2 and "out.txt: " in second.stdout
    assert "etads-summarize" in script.processes()[int(re.search(SAID_WHO, second.stdout).group(1))]
    script.kill(stopped=generator)
    assert not (tmp_path / "out.txt").exists()

    for length, wanted in zip("26", reversed(undisturbed)):
        run_command(summarise(place, "out.txt", "--max-len", length, *source), cwd=tmp_path)
        assert (tmp_path / "out.txt").read_text() == wanted
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith((".partial", ".lock"))]
