"""The trials: every fault on every command, from a state made by undisturbed commands."""

import argparse
import contextlib
import random
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import faults, together
from .outcomes import REFUSED, Table, outcome
from .stages import TRAINED_THEN_READ, Stage, checkpoints, make_stages, write_raw
from .workplace import Run, Workplace, files


@dataclass
class Damage:
    """Files that are damaged before a command reads them.

    Attributes:
        stage: the command's name.
        parts: patterns of files and folders of files.
        remove: outputs to delete from the finished state first, so that the command makes them again.
        half_trained: training is set back to a checkpoint in the middle of an epoch.
    """

    stage: str
    parts: List[str]
    remove: Tuple[str, ...] = ()
    half_trained: bool = False


SETTINGS = ["prepared/prepare.json", "prepared/codes.bpe", "prepared/SHA*", "prepared/bin/SHA*"]
DAMAGES = [
    Damage("etads-corpus", ["text"]),
    Damage("etads-debian", ["debian"]),
    Damage("etads-prepare", ["text"], remove=("prepared",)),
    Damage("etads-prepare", ["prepared"]),
    Damage("etads-prepare", ["prepared/words", "prepared/codes.bpe"], remove=("prepared/tokens", "prepared/bin")),
    Damage("etads-prepare (sentencepiece)", ["pieces/sentencepiece.model"], remove=("pieces/tokens", "pieces/bin")),
    Damage(
        "train.sh", ["prepared/bin/dict.[st]*", "prepared/bin/[tv][ra]*.source-*", "prepared/bin/SHA*"], remove=("run",)
    ),
    Damage("train.sh", ["run/finished.txt"]),
    Damage(TRAINED_THEN_READ, checkpoints("run")[:1], remove=("last",)),
    Damage("train.sh", checkpoints("run")[:1], remove=("run/finished.txt",), half_trained=True),
    Damage("generate.sh", ["prepared/bin/dict.[st]*", "prepared/bin/test.source-*", *SETTINGS], remove=("summaries",)),
    Damage("generate.sh", ["prepared/tokens/test.source", *checkpoints("run")[1:]], remove=("summaries",)),
    Damage("generate.sh --input", [*SETTINGS, "prepared/bin/dict.[st]*"], remove=("new",)),
]


class Torture:
    """All trials of one call; see ``__main__.py`` for the options.

    Attributes:
        states: stage -> a folder with the outputs of the stages before it; "" -> the outputs of all.
        expected: stage -> its undisturbed result. seconds: stage -> its duration.
    """

    def __init__(self, folder: Path, options: argparse.Namespace):
        self.options, self.folder = options, folder
        self.place = Workplace(folder, options.jobs)
        self.stages = make_stages()
        self.table = Table()
        self.states: Dict[str, Path] = {}
        self.expected: Dict[str, Any] = {}
        self.seconds: Dict[str, float] = {}
        self._free: Queue[Path] = Queue()
        for trial in self.place.folders:
            self._free.put(trial)
        self._lock = threading.Lock()

    def close(self) -> None:
        self.place.close()

    def run(self) -> None:
        self.run_undisturbed()
        for group in self.options.only:
            started = time.monotonic()
            jobs = list(GROUPS[group](self))
            if self.options.sample is not None:
                jobs = self.draw("sample", group).sample(jobs, min(self.options.sample, len(jobs)))
            with ThreadPoolExecutor(self.options.jobs) as pool:
                try:
                    for future in [pool.submit(self._in_a_folder, job) for job in jobs]:
                        future.result()
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: skip the trials that have not begun
            print(f"{group}: {len(jobs)} trials, {time.monotonic() - started:.0f} s", file=sys.stderr)

    def _in_a_folder(self, job: Callable[[Path], None]) -> None:
        trial = self._free.get()
        try:
            job(trial)
        finally:
            self._free.put(trial)

    def run_undisturbed(self) -> None:
        """Run all stages twice, to get the states between them and the results, which must be equal."""
        trial = self.place.folders[0]
        self.place.restore(trial, None)
        write_raw(trial, self.options.seed)
        for name, stage in self.stages.items():
            self._save_state(name, trial)
            first = self.place.run(stage.command, trial)
            if first.status != 0:
                raise RuntimeError(f"{name} fails undisturbed:\n{first.shown[-3000:]}")
            self.expected[name] = stage.result(self.place, trial, first)
        self._save_state("", trial)
        for name, stage in self.stages.items():
            self.place.restore(trial, self.states[name])
            again = self.place.run(stage.command, trial)
            self.seconds[name] = again.seconds
            if stage.result(self.place, trial, again) != self.expected[name]:
                raise RuntimeError(f"{name}: two undisturbed runs differ")

    def _save_state(self, name: str, trial: Path) -> None:
        self.states[name] = self.folder / f"state-{len(self.states)}"
        ignore = shutil.ignore_patterns("fairseq_etads")
        shutil.copytree(trial, self.states[name], ignore=ignore)

    def chosen(self, damaged: bool = False) -> List[Stage]:
        """Requested stages; with ``damaged``, also stages that are only for damaged files."""
        names = self.options.commands or self.stages
        return [stage for name, stage in self.stages.items() if name in names and (damaged or not stage.only_damaged)]

    def draw(self, *what: Any) -> random.Random:
        """Random numbers for a trial, which depend only on the seed, not on other trials."""
        return random.Random("-".join(map(str, (self.options.seed, *what))))

    def check(
        self,
        fault: str,
        stage: Stage,
        where: str,
        trial: Path,
        run: Run,
        words: Tuple[str, ...] = (),
        again: bool = False,
    ) -> str:
        """Count the outcome of a run, and return it; a run that is made ``again`` must not refuse."""
        return self.count(fault, stage, where, run, self.is_same(stage, trial, run), words, again)

    def is_same(self, stage: Stage, trial: Path, run: Run) -> bool:
        """Tell whether a run's result equals the undisturbed one."""
        return run.status == 0 and stage.result(self.place, trial, run) == self.expected[stage.name]

    def count(
        self,
        fault: str,
        stage: Stage,
        where: str,
        run: Run,
        same: bool,
        words: Tuple[str, ...] = (),
        again: bool = False,
    ) -> str:
        """Like :meth:`check`, for a run with a known comparison: ``same``."""
        what = outcome(run, same, words)
        with self._lock:
            self.table.add(fault, stage.name, what, where, run, may_refuse=not again)
        return what


def kills(torture: Torture) -> Iterator[Callable[[Path], None]]:
    """Send SIGKILL to a command and all its processes at random moments; then run the command again."""
    for stage in torture.chosen():
        for number in range(torture.options.kills):
            yield _kill_trial(torture, stage, number)


def _kill_trial(torture: Torture, stage: Stage, number: int) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        draw = torture.draw("kill", stage.name, number)
        status: Optional[int] = 0
        # with other trials in parallel, a command takes longer; if it ended before the kill, an earlier moment is tried
        moment = draw.uniform(0, 2 * torture.seconds[stage.name]) / 0.8
        while status == 0:
            moment *= 0.8
            torture.place.restore(folder, torture.states[stage.name])
            run = torture.place.run(stage.command, folder, kill_after=moment)
            status = run.status
        if status is None:
            twice = number % 2 == 1
            if twice:  # the continuing run is killed, too, unless it ends before
                torture.place.run(stage.command, folder, kill_after=draw.uniform(0, moment))
            run = torture.place.run(stage.command, folder)
            fault = f"killed {'twice ' if twice else ''}and run again"
        else:
            fault = "failed before it was killed"
        torture.check(fault, stage, f"after {moment:.3f} s", folder, run, again=True)

    return trial


def damages(torture: Torture) -> Iterator[Callable[[Path], None]]:
    """Damage a file between two commands."""
    names = {stage.name for stage in torture.chosen(damaged=True)}
    for case in (case for case in DAMAGES if case.stage in names):
        state = torture.states[""]
        parts = [str(path.relative_to(state)) for part in case.parts for path in sorted(state.glob(part))]
        for path in files(state, parts):
            if not path.stat().st_size or any(path.is_relative_to(state / part) for part in case.remove):
                continue
            for fault, damage in faults.DAMAGES.items():
                for number in range(torture.options.places):
                    yield _damage_trial(torture, case, path.relative_to(state), fault, damage, number)


def _damage_trial(
    torture: Torture, case: Damage, path: Path, fault: str, damage: Callable[[Path, random.Random], None], number: int
) -> Callable[[Path], None]:
    stage = torture.stages[case.stage]

    def trial(folder: Path) -> None:
        torture.place.restore(folder, torture.states[""])
        for part in case.remove:
            _delete(folder / part)
        if case.half_trained:
            set_back(folder / "run" / "checkpoints")
        before = (folder / path).read_bytes()
        damage(folder / path, torture.draw(fault, case.stage, path, number))
        if (folder / path).read_bytes() == before:
            return  # the bytes were zeros
        run = torture.place.run(stage.command, folder)
        torture.check(fault, stage, f"{path} ({number})", folder, run, words=(path.name, "SHA256SUMS"))

    return trial


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def set_back(folder: Path) -> None:
    """Make the checkpoint of the middle of an epoch the last one, as if training had been killed after it."""
    middle = next(path for path in folder.glob("checkpoint_*_*.pt"))
    shutil.copyfile(middle, folder / "checkpoint_last.pt")


def vanishing(torture: Torture) -> Iterator[Callable[[Path], None]]:
    """Remove or change a file while a command runs; then restore it, and run the command again."""
    for stage in torture.chosen():
        for number in range(torture.options.moments):
            yield _vanishing_trial(torture, stage, number)


def _vanishing_trial(torture: Torture, stage: Stage, number: int) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        draw = torture.draw("vanish", stage.name, number)
        torture.place.restore(folder, torture.states[stage.name])
        path = draw.choice([path for path in files(folder, stage.inputs) if path.stat().st_size])
        content, moment = path.read_bytes(), draw.uniform(0, torture.seconds[stage.name])
        vanishes = number % 2 == 0
        disturbance: Callable[[], None] = path.unlink if vanishes else lambda: faults.flip_bit(path, draw)
        run = torture.place.run(stage.command, folder, disturb_after=moment, disturbance=disturbance)
        where = f"{path.relative_to(folder)} after {moment:.3f} s"
        same = torture.is_same(stage, folder, run)
        if run.status == 0 and not same and not vanishes:
            same = _reads_the_changed_file(torture, stage, folder, path, run)
        what = torture.count("a file vanishes" if vanishes else "a file changes", stage, where, run, same)
        if what == REFUSED:
            path.write_bytes(content)
            run = torture.place.run(stage.command, folder)
            torture.check("... is put back, run again", stage, where, folder, run, again=True)

    return trial


def _reads_the_changed_file(torture: Torture, stage: Stage, folder: Path, path: Path, run: Run) -> bool:
    """Tell whether a run's result is the result for the changed file, which means that it changed before it was
    read.
    """
    found, changed = stage.result(torture.place, folder, run), path.read_bytes()
    torture.place.restore(folder, torture.states[stage.name])
    path.write_bytes(changed)
    run = torture.place.run(stage.command, folder)
    return run.status == 0 and stage.result(torture.place, folder, run) == found


def full_disks(torture: Torture) -> Iterator[Callable[[Path], None]]:
    """Fill the disk at some point; then free space, and run the command again. Make a folder read-only."""
    probe = torture.folder / "probe"
    probe.mkdir(exist_ok=True)
    mounts = faults.can_mount(probe)
    print(f"full disk: {'a small tmpfs' if mounts else 'RLIMIT_FSIZE, since mounting is not allowed'}", file=sys.stderr)
    for stage in torture.chosen():
        for number in range(max(1, torture.options.moments // 2)):
            yield _full_disk_trial(torture, stage, number, mounts)
        if mounts:
            yield _read_only_trial(torture, stage)


def _made_folder(stage: Stage) -> str:
    return stage.makes[0].split("/")[0]


def _full_disk_trial(torture: Torture, stage: Stage, number: int, mounts: bool) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        draw, name = torture.draw("full", stage.name, number), _made_folder(stage)
        torture.place.restore(folder, torture.states[stage.name])
        made = [path.stat().st_size for path in (torture.states[""] / name).rglob("*") if path.is_file()]
        size = int(draw.random() * (sum(-(-size // 4096) * 4096 for size in made) if mounts else max(made)))
        with contextlib.ExitStack() as stack:
            if mounts:
                (folder / name).mkdir()
                faults.limit_space(folder / name, max(size, 4096))
                stack.callback(faults.unmount, folder / name)
            run = torture.place.run(stage.command, folder, file_size=None if mounts else size)
            torture.check("disk full", stage, f"{size} bytes", folder, run, words=("No space left", "File too large"))
            if mounts:
                faults.limit_space(folder / name, 1 << 30, again=True)
            run = torture.place.run(stage.command, folder)
            torture.check("... has room, run again", stage, f"{size} bytes", folder, run, again=True)

    return trial


def _read_only_trial(torture: Torture, stage: Stage) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        made = folder / _made_folder(stage)
        torture.place.restore(folder, torture.states[stage.name])
        made.mkdir()
        with contextlib.ExitStack() as stack:
            faults.make_read_only(made)
            stack.callback(faults.unmount, made)
            run = torture.place.run(stage.command, folder)
            torture.check(
                "folder read-only", stage, "", folder, run, words=("Read-only file system", "cannot be written")
            )

    return trial


GROUPS: Dict[str, Callable[[Torture], Iterator[Callable[[Path], None]]]] = {
    "kill": kills,
    "damage": damages,
    "vanish": vanishing,
    "disk": full_disks,
    "together": together.two_at_once,
    "options": together.other_options,
    "inputs": together.over_inputs,
}
"""Name -> the trials of a kind of fault."""
