"""Outcomes of commands under faults, and their counts."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from .workplace import Run

SAME, REFUSED = "same result", "refused in words"
DIFFERENT, TRACEBACK, HUNG = "silently different", "traceback or no words", "hung"
OUTCOMES = (SAME, REFUSED, DIFFERENT, TRACEBACK, HUNG)
FAULTS = (DIFFERENT, TRACEBACK, HUNG)


def outcome(run: Run, same: bool, words: Tuple[str, ...]) -> str:
    """Classify the outcome of a run that has ended.

    Args:
        same: whether its result equals the undisturbed run's.
        words: a refusal must contain one of these, such as the name of the damaged file. Empty: any message is
            accepted.
    """
    if run.status is None:
        return HUNG
    if run.status == 0:
        return SAME if same else DIFFERENT
    refuses = "Traceback" not in run.shown and run.shown.strip()
    return REFUSED if refuses and (not words or any(word in run.shown for word in words)) else TRACEBACK


@dataclass
class Table:
    """Outcomes by fault and command."""

    counts: Dict[Tuple[str, str], Counter] = field(default_factory=dict)
    faults: List[str] = field(default_factory=list)
    refusals: Dict[str, str] = field(default_factory=dict)

    def add(self, fault: str, command: str, what: str, where: str, run: Run, may_refuse: bool = True) -> None:
        """Count an outcome; ``where`` identifies the trial. Without ``may_refuse``, a refusal also counts as a
        fault.
        """
        self.counts.setdefault((fault, command), Counter())[what] += 1
        if what in FAULTS or (what == REFUSED and not may_refuse):
            said = " / ".join(run.shown.strip().splitlines()[-3:])[-400:]
            self.faults.append(f"{what}: {fault}, {command}, {where}: {said}")
            print(self.faults[-1], file=sys.stderr, flush=True)
        elif what == REFUSED:
            self.refusals.setdefault(run.shown.strip().splitlines()[-1][:300], f"{fault}, {command}, {where}")

    def markdown(self) -> str:
        """Two tables: the outcomes by fault, and by command."""
        faults, commands = dict.fromkeys(key[0] for key in self.counts), dict.fromkeys(key[1] for key in self.counts)
        by_fault = self._table("fault", {name: self._sum(0, name) for name in faults})
        by_command = self._table("command", {f"`{name}`": self._sum(1, name) for name in commands})
        return f"{by_fault}\n\n{by_command}"

    def _sum(self, place: int, name: str) -> Counter:
        return sum((counter for key, counter in self.counts.items() if key[place] == name), Counter())

    def _table(self, head: str, counts: Dict[str, Counter]) -> str:
        counts = {**counts, "all": sum(counts.values(), Counter())}
        rows = [[name, sum(c.values()), *(c[what] for what in OUTCOMES)] for name, c in counts.items()]
        lines = [[head, "runs", *OUTCOMES], ["---"] + ["---:"] * (len(OUTCOMES) + 1), *rows]
        return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
