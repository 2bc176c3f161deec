"""Run a fairseq command: write its output to a file, and show the important parts on the terminal.

These are the number of steps, the remaining time, validation scores and samples, the first warning of each kind, the
amount of truncation and, if the command fails, the reason.
"""

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
from typing import BinaryIO, Callable, Deque, Dict, List, Optional, Sequence, Set

from ..platform.errors import InputError
from . import children
from .training_settings import get_option

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
