"""Train with fairseq-train, unless a run with these options and data has already finished and its checkpoints exist.

RUN/training.json records the command, the data and the checkpoints that the command names, for example with
--init-from. If a run was interrupted, the same command continues it. If options have changed, the changes
are listed. It is an error to continue a run with a different seed, with other data, or with checkpoints that have
changed. RUN/finished.txt contains the last command that finished. RUN is locked, so that only one process uses it at a
time.

fairseq's output is written to RUN/train.log. The terminal shows its important parts: the number of steps, the remaining
time, validation scores and samples, the first warning of each kind, the amount of truncation and, if the command fails,
the reason.
"""

import difflib
import math
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Callable, Deque, Dict, List, Optional, Sequence, Set

from ..data.run_record import RunRecord, compute_data_fingerprint, list_checkpoints
from ..files.checksums import compute_sha256
from ..files.outputs import lock_output, write_text
from ..platform.console import print_message
from ..platform.errors import InputError
from . import children
from .training_settings import get_option, read_options

SHOWN_EVERY = 10.0
"""Seconds between two progress lines. On a terminal, every line is shown, but each replaces the previous one."""

KEPT_LINES = 400
"""Number of lines at the end of the output that are searched for the reason for a failure."""

LONGEST = 400
"""Maximum number of characters of a message that are shown."""

MESSAGE = re.compile(r"^(?:[-\d]+ [\d:]+ \| (\w+) \| ([\w.]+) \| |(DEBUG|INFO|WARNING|ERROR|CRITICAL):([\w.]+):)(.*)")
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|can't allocate memory|not enough memory|bad_alloc|MemoryError"
    r"|Cannot allocate memory|is killed by signal: Killed",
    re.IGNORECASE,
)
SAID_PLAINLY = ("ValueError", "InputError", "FileNotFoundError", "NonFiniteLossError", "UnsafeCheckpointError")
"""Errors with self-explanatory messages. For all other errors, the name is also shown."""


def format_duration(seconds: float) -> str:
    """Format a duration, such as "40 s", "25 min" or "3.5 h"."""
    if seconds < 90:
        return f"{math.ceil(seconds / 10) * 10} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shorten_message(text: str) -> str:
    """Return a message of which at most :data:`LONGEST` characters are kept."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " […]"


def explain_failure(lines: List[str], status: int, command: List[str]) -> str:
    """Return a sentence that explains why the command failed, given the last lines of its output.

    ``status`` is the exit status of the process, or the negative number of the signal that terminated it.
    """
    tail = [line.rstrip() for line in lines if line.strip()]
    errors = [line for line in tail[-60:] if not MESSAGE.match(line)]
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL) or any(map(OUT_OF_MEMORY.search, errors)):
        limits = (get_option(command, name) for name in ("--max-tokens", "--batch-size", "--max-sentences"))
        limit = next(filter(None, limits), None)
        now = f" (now {limit})" if limit else ""
        if "train" in os.path.basename(command[0]):
            advice = f"lower --max-tokens{now}, then --truncate-source; -- --update-freq makes up for smaller batches"
        else:
            advice = f"lower --max-tokens{now} or --beam"
        found = "out of memory" if status > 0 else "it was killed, as the system does when memory runs out"
        return f"{found}: {advice}"
    # The reason may be in either of the last two lines, because stdout and stderr can arrive in any order.
    usage = [found for found in (re.match(r"^[\w.-]+: error: (.*)", line) for line in tail[-2:]) if found]
    if usage:
        said = usage[-1].group(1)
        if "argument --arch" in said:
            said = said.split(" (choose from")[0] + "; etads-models lists the architectures"
        return said
    tracebacks = [number for number, line in enumerate(tail) if line.startswith("Traceback (most recent call last)")]
    for number in range(tracebacks[-1] + 1 if tracebacks else len(tail), len(tail)):
        match = re.match(r"^([A-Za-z_][\w.]*?)(?:: (.*))?$", tail[number])
        if match:
            name = match.group(1).rpartition(".")[2]
            rest = [line.strip() for line in tail[number + 1 :] if not MESSAGE.match(line)]
            text = " ".join(filter(None, [match.group(2), *rest]))
            return text if name in SAID_PLAINLY and text else f"{name}: {text}".rstrip(": ")
    return tail[-1] if tail else f"it said nothing and ended with exit status {status}"


class LogWatcher:
    """Reads the output of a fairseq command and shows the important lines.

    ``say`` shows a line; its second argument is True if the next line may replace this line. ``clock`` returns the
    seconds since a fixed time. After ``usual_minutes``, a message is shown once, with the remaining time and how to
    interrupt.
    """

    def __init__(
        self,
        command: List[str],
        say: Callable[[str, bool], None],
        clock: Callable[[], float] = time.monotonic,
        usual_minutes: Optional[float] = None,
    ):
        self.command, self.say, self.clock = command, say, clock
        self.usual = usual_minutes
        self.last: Deque[str] = deque(maxlen=KEPT_LINES)
        self.known: Set[str] = set()
        self.started = self.began = clock()
        self.shown_at = -math.inf
        self.first_step = self.step = self.saved = 0
        self.stopped_by_clock = False
        steps, epochs = get_option(command, "--max-update"), get_option(command, "--max-epoch")
        self.steps = int(steps) if steps and steps.isdecimal() else 0
        self.epochs = int(epochs) if epochs and epochs.isdecimal() else 0

    def read_line(self, line: str) -> None:
        """Read one line of the output."""
        self.last.append(line)
        match = MESSAGE.match(line)
        if match:
            self._show_message(
                match.group(1) or match.group(3), match.group(2) or match.group(4), match.group(5).strip()
            )

    def _show_message(self, level: str, module: str, text: str) -> None:
        if level in ("WARNING", "ERROR", "CRITICAL"):
            self._warn(text)
        elif module == "train_inner":
            self._show_progress(text)
        elif module == "valid":
            self._show_validation(text)
        elif text.startswith(("validation sample ", "training plan: ")):
            self.say(shorten_message(text), False)
        elif text.startswith("train ") and "left out)" in text:
            option = "--truncate-source" if text.startswith("train documents") else "--truncate-target"
            self.say(f"{text}; {option} sets the number that is kept", False)
        elif "begin training epoch" in text and self.step == self.first_step:
            self.began = self.clock()
        elif text.startswith("Loaded checkpoint"):
            found = re.search(r"@ (\d+) updates", text)
            self.first_step = self.step = self.saved = int(found.group(1)) if found else 0
            self.say(f"continuing after step {self.step:,}", False)
        elif text.startswith("Saved checkpoint"):
            found = re.search(r"@ (\d+) updates", text)
            self.saved = int(found.group(1)) if found else self.saved
        elif text.startswith("Stopping training due to"):
            self.stopped_by_clock = "stop_time_hours" in text
        elif text.startswith("early stop"):
            self.say(text, False)

    def _warn(self, text: str) -> None:
        kind = re.sub(r"\d[\d.,]*", "0", text)[:80]
        if kind in self.known:
            return
        self.known.add(kind)
        if OUT_OF_MEMORY.search(text):
            text = f"a batch did not fit into memory and was left out: lower --max-tokens. fairseq said: {text}"
        self.say(f"warning: {shorten_message(text)}", False)

    def _show_progress(self, text: str) -> None:
        """Show a progress line such as ``epoch 001:    100 / 160 loss=9.0, ppl=440, num_updates=100``."""
        found = re.search(r'num_updates["=: ]+(\d+)', text)
        if not found:
            return
        self.step = int(found.group(1))
        steps, epoch = self.steps, re.search(r"^epoch (\d+): +(\d+) / (\d+)", text)
        if self.epochs and epoch:
            in_all = self.step - int(epoch.group(2)) + (self.epochs - int(epoch.group(1)) + 1) * int(epoch.group(3))
            steps = min(filter(None, (steps, in_all)))
        now = self.clock()
        if now - self.shown_at < SHOWN_EVERY and not sys.stderr.isatty():
            return
        self.shown_at = now
        loss = re.search(r"\bloss[\"=: ]+([\d.]+)", text)
        said = f", loss {loss.group(1)}" if loss else ""
        if not steps:
            return self.say(f"step {self.step:,}{said}", True)
        left = (now - self.began) / max(self.step - self.first_step, 1) * max(steps - self.step, 0)
        share = f"{self.step / steps:.0%}".replace("%", " %")
        remaining = f", about {format_duration(left)} left" if left else ""
        self.say(f"step {self.step:,} of {steps:,} ({share}){said}{remaining}", True)
        if self.usual is not None and now - self.started > 60 * self.usual:
            where = f"step {self.saved:,}" if self.saved else "the beginning: there is none yet"
            self.say(
                f"this has taken longer than the usual {self.usual:g} minutes: the machine is slow or busy; about "
                f"{format_duration(left)} left. You can stop it (Ctrl-C) and start it again later: it continues from "
                f"the last checkpoint ({where})",
                False,
            )
            self.usual = None

    def _show_validation(self, text: str) -> None:
        fields: Dict[str, str] = {}
        for part in text.split(" | "):
            name, _, value = part.strip().partition(" ")
            fields[name] = value
        wanted = [name for name in fields if name in ("loss", "ppl") or name.startswith(("rouge", "best_"))]
        said = ", ".join(f"{name.replace('best_', 'best ')} {fields[name]}" for name in wanted)
        self.say(f"validated after step {fields.get('num_updates', '?')}: {said or text}", False)

    def report_interruption(self) -> None:
        """Tell the user at which step the command will continue if it is run again."""
        if "train" not in os.path.basename(self.command[0]):
            return
        if self.saved:
            self.say(f"interrupted; step {self.saved:,} is saved, and the same command continues from there", False)
        else:
            self.say("interrupted before anything was saved: the same command starts from the beginning", False)

    def report_command_end(self, status: int, log: str) -> None:
        """Show how the command ended."""
        if status:
            name = os.path.basename(self.command[0])
            self.say(f"{name} failed: {shorten_message(explain_failure(list(self.last), status, self.command))}", False)
            self.say(f"the full output is in {log}", False)
        elif self.stopped_by_clock:
            share = f" of {self.steps:,} ({self.step / self.steps:.0%})".replace("%", " %") if self.steps else ""
            self.say(
                f"WARNING: the time limit ended training after about step {self.step:,}{share}; the summaries will "
                "be worse than they could be. Run it again with a longer limit or none: it continues from there",
                False,
            )


class ProgressTerminal:
    """Writes lines to stderr. On a terminal, each progress line is replaced by the next line."""

    def __init__(self) -> None:
        self.replaces = False

    def show_line(self, text: str, is_progress: bool) -> None:
        is_terminal = sys.stderr.isatty()
        clear = "\r\033[K" if self.replaces else ""
        self.replaces = is_progress and is_terminal
        # A terminal would interpret escape sequences in a message.
        text = "".join(c if c.isprintable() else " " for c in text)
        sys.stderr.write(f"{clear}{text}" + ("" if self.replaces else "\n"))
        sys.stderr.flush()


def run_command_with_watcher(command: List[str], log: BinaryIO, watcher: LogWatcher, held: Sequence[int] = ()) -> int:
    """Run the command, which inherits the locks ``held``, and write its output to ``log`` line by line.

    Returns the exit status, or the negative number of the signal that terminated the command.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = children.start_child(command, held, env={"PYTHONUNBUFFERED": "1"}, **pipes)

    # stdout and stderr use separate pipes, so that output to one of them cannot interrupt a line of the other.
    lines: queue.Queue[Optional[bytes]] = queue.Queue(1000)

    def forward(stream: BinaryIO) -> None:
        for line in stream:
            lines.put(line if line.endswith(b"\n") else line + b"\n")
        lines.put(None)

    streams = [stream for stream in (child.stdout, child.stderr) if stream is not None]
    for stream in streams:
        threading.Thread(target=forward, args=(stream,), daemon=True).start()
    # After a signal, the last messages of the command are still read.
    with children.forward_signals(child) as received:
        still_open = len(streams)
        while still_open:
            line = lines.get()
            if line is None:
                still_open -= 1
                continue
            try:
                log.write(line)
                log.flush()
            except OSError:
                child.kill()
                child.wait()
                raise
            watcher.read_line(line.decode("utf-8", "replace").rstrip("\n"))
        status = child.wait()
    if received:
        watcher.report_interruption()
        sys.exit(128 + received[0])
    return status


def run_logged_command(command: List[str], log: str, watcher: LogWatcher, held: Sequence[int]) -> int:
    """Run a command, write its output to a log that the caller has locked, and show how it ended.

    The command inherits the locks ``held``. Returns its exit status, or 128 plus the number of the signal that
    terminated it. Raises InputError if the log cannot be written, or there is no such command.
    """
    try:
        with open(log, "ab") as file:
            status = run_command_with_watcher(command, file, watcher, held)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename != log:
            raise InputError(f"{command[0]}: no such command; is the environment active?") from None
        raise InputError(f"cannot write the log {log}: {error.strerror}") from None
    watcher.report_command_end(status, log)
    return status if status >= 0 else 128 - status


FINISHED = "finished.txt"
PLUGIN = "fairseq_etads"
CHECKPOINTS = (
    *("--init-from", "--finetune-from-model", "--continue-once", "--restore-file"),
    *("--extractor", "--abstractor", "--rougesal-saliency", "--entail-model", "--raml-entailment-model"),
)
"""Options that name a checkpoint, or the folder of an entailment model, on which the result of training depends."""


def list_options(command: Sequence[str]) -> List[str]:
    """Return the options of a command with their last values, sorted by name.

    Neither their order, nor a value that is replaced later, nor --log-interval affects the result of training. Commands
    that were recorded by earlier versions are split at spaces.
    """
    found = read_options(" ".join(command).split())
    return [" ".join([name, *found[name]]).strip() for name in sorted(found) if name != "--log-interval"]


def make_training_command(run: Path, prepared: Path, options: Sequence[str]) -> List[str]:
    """Return the fairseq-train command for a run, with ``fairseq_etads`` in place of the path of the plugin.

    Checkpoints are written every 1,000 steps and at the end of each epoch, and the last and the best one are kept.
    """
    return [
        *("fairseq-train", str(prepared / "bin"), "--user-dir", PLUGIN, "--task", "summarization"),
        *("--criterion", "summarization_nll", "--save-dir", str(run / "checkpoints"), "--no-epoch-checkpoints"),
        *("--save-interval-updates", "1000", "--keep-interval-updates", "1"),
        *("--no-progress-bar", "--log-format", "simple", "--log-interval", "10"),
        *options,
    ]


def train(run: Path, prepared: Path, options: Sequence[str], usual_minutes: Optional[float] = None) -> None:
    """Train with these options of fairseq-train unless this run has already finished.

    A message is shown if training takes longer than ``usual_minutes``. Raises InputError if the folder contains a run
    with another seed or other data, and SystemExit if fairseq-train fails or a signal ends it.
    """
    command = make_training_command(run, prepared, options)
    if "--cpu" in options:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with --cpu alone, parts of fairseq still use GPUs
    record = RunRecord(
        command, str(prepared.resolve()), compute_data_fingerprint(prepared), compute_checkpoint_checksums(run, command)
    )
    with lock_output(run, "--out", folder=True) as held:
        before = RunRecord.read(run)
        if before is not None and before.data and before.data != record.data:
            raise InputError(
                f"--out {run}: it was trained with other data, at {before.prepared}; name another "
                "folder, or delete this one"
            )
        made, finished = next(iter(list_checkpoints(run)), None), run / FINISHED
        if before is not None and made is not None:
            check_checkpoints_unchanged(run, before.files, record.files)
            record = replace(record, files={**before.files, **record.files})  # some files may have been deleted since
        plain = list_options(command)
        ended = [finished.read_text(encoding="utf-8", errors="replace")] if finished.is_file() else []
        is_finished = before is not None and plain == list_options(before.command) == list_options(ended)
        if made is not None and is_finished:
            record.write(run)
            print_message(f"already trained with these options (delete {finished} to continue): {made}")
            return
        if before is not None and (run / "checkpoints" / "checkpoint_last.pt").is_file():
            check_seed_unchanged(run, before.command, command)
            print_differing_options(run, before.command, command)
        record.write(run)
        print_message(
            f"training {run}; Ctrl-C interrupts it, and the same command continues it; log: {run / 'train.log'}"
        )
        place = str(Path(__file__).resolve().parents[1])  # the plugin of this installation, wherever fairseq looks
        words = [place if word == PLUGIN else word for word in command]
        watcher = LogWatcher(words, ProgressTerminal().show_line, usual_minutes=usual_minutes)
        status = run_logged_command(words, str(run / "train.log"), watcher, held)
        if status:
            sys.exit(2 if status < 128 else status)
        write_text(finished, " ".join(command) + "\n")
    (run / "started.txt").unlink(missing_ok=True)  # earlier versions wrote this file
    for path in list_checkpoints(run)[:1]:
        print_message(f"{path.stem.split('_')[1]} checkpoint: {path}")
        return
    print_message(f"fairseq-train wrote no checkpoint to {run / 'checkpoints'}")


def compute_checkpoint_checksums(run: Path, command: Sequence[str]) -> Dict[str, str]:
    """Compute the SHA-256 hash of each checkpoint that a command names, except the run's own checkpoints."""
    own = (run / "checkpoints").resolve()
    named = [Path(" ".join(values)) for option, values in read_options(command).items() if option in CHECKPOINTS]
    named = [path / "model.safetensors" if path.is_dir() else path for path in named]
    return {str(path): compute_sha256(path) for path in named if path.is_file() and own not in path.resolve().parents}


def check_checkpoints_unchanged(run: Path, before: Dict[str, str], now: Dict[str, str]) -> None:
    """Raise InputError if a checkpoint has changed since a run was started with it."""
    for path, digest in before.items():
        if now.get(path, digest) != digest:
            raise InputError(
                f"--out {run}: {path} has changed since this training was started with it; name another folder, or "
                "delete this one"
            )


def check_seed_unchanged(run: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Raise InputError if a run would be continued with a different seed: the result would match neither seed."""
    old, new = (get_option(command, "--seed") or "1" for command in (before, now))
    if old != new:
        raise InputError(
            f"--seed {new}: {run} contains a training with --seed {old}; name another --out, "
            f"or delete {run / 'checkpoints'} to begin again"
        )


def print_differing_options(run: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Print the options that differ from the options with which a run's checkpoints were trained."""
    lines = [line for line in difflib.ndiff(list_options(before), list_options(now)) if line[:2] in ("- ", "+ ")]
    if lines:
        advice = "it continues from its last checkpoint with these (another --out begins a new training)"
        print_message(f"{run} contains a training with other options; {advice}:")
        for line in lines:
            print(f"     {'<' if line[0] == '-' else '>'} {line[2:]}", file=sys.stderr)
