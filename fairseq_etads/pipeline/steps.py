"""Steps: commands that run only if their outputs are missing, or were made by another command or from other files.

python -m fairseq_etads.pipeline.steps --makes FILE ... [--reads PATH ...] -- COMMAND ...
"""

import argparse
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..files.checksums import compute_sha256
from ..files.outputs import lock_output, make_temporary_output, write_text
from ..platform.console import print_message, report_errors_in_one_line
from ..platform.errors import InputError
from . import children

RECORD = ".made.json"


@dataclass(frozen=True)
class Step:
    """A command and the files that it makes, which are made again if the command or a file has changed."""

    command: Sequence[str]  # words of the command
    makes: Sequence[Path]  # all output files
    reads: Sequence[Path] = ()  # input files, and folders, which represent all files directly in them
    keeps: Optional[Path] = None  # file in which to store what the command prints, which then also counts as an output
    record: Optional[Path] = None  # of the command and all checksums (default: FILE.made.json of the first output)

    def run(self) -> None:
        """Run the command if its outputs must be made. Raises SystemExit if it fails or a signal ends it.

        Raises InputError if another process runs the same step, or the command ended without one of its outputs.
        """
        makes = [*self.makes, *([self.keeps] if self.keeps else [])]
        makes[0].parent.mkdir(parents=True, exist_ok=True)
        record = self.record or Path(f"{makes[0]}{RECORD}")
        # The lock has a name of its own, because the command locks the output itself.
        with lock_output(Path(f"{record}.once"), "output") as held:
            wanted = {"command": list(self.command), "reads": _compute_checksums(self._list_input_files(makes))}
            if _are_outputs_current(makes, record, wanted):
                return
            record.unlink(missing_ok=True)
            if self.keeps is None:
                run_command(self.command, held)
            else:
                with make_temporary_output(self.keeps) as partial, open(partial, "wb") as file:
                    run_command(self.command, held, stdout=file)
            missing = [str(path) for path in makes if not path.is_file()]
            if missing:
                raise InputError(f"{self.command[0]} ended without making {missing[0]}")
            write_text(record, json.dumps({**wanted, "makes": _compute_checksums(makes)}, indent=1) + "\n")

    def _list_input_files(self, makes: Sequence[Path]) -> List[Path]:
        """Return the input files without outputs, hidden files and incomplete files."""
        found: List[Path] = []
        for path in self.reads:
            inside = sorted(path.iterdir()) if path.is_dir() else []
            kept = [file for file in inside if file.is_file() and not file.name.startswith(".")]
            found += [file for file in kept if file.suffix != ".partial" and not file.name.endswith(RECORD)] or [path]
        outputs = {path.resolve() for path in makes}
        return [path for path in found if path.resolve() not in outputs]


def run_command(command: Sequence[str], held: Sequence[int] = (), **options: Any) -> None:
    """Run a command by :func:`.children.run_child`. Raises SystemExit if it fails or a signal ends it."""
    status = children.run_child(list(command), held, **options)
    if status == 128 + signal.SIGINT:
        print_message("interrupted; the same command skips what is done")
    if status:
        sys.exit(status)


def _compute_checksums(files: Sequence[Path]) -> Dict[str, Optional[str]]:
    """Compute the SHA-256 hash of each file, or None for missing files."""
    return {str(path): compute_sha256(path) if path.is_file() else None for path in files}


def _are_outputs_current(makes: Sequence[Path], path: Path, wanted: Dict[str, Any]) -> bool:
    """Return whether all outputs match the record at ``path``, and the record matches the command and the inputs."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(record, dict)
        and record == {**wanted, "makes": _compute_checksums(makes)}
        and all(record["makes"].values())
    )


def main() -> int:
    """Run a step for a shell script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--makes", metavar="FILE", type=Path, nargs="+", required=True, help="output files of the command")
    add("--reads", metavar="PATH", type=Path, nargs="*", default=[], help="files and folders that the command reads")
    add("command", metavar="COMMAND", nargs="+", help="command to run, given after --")
    args = parser.parse_args()
    children.watch_parent()
    with report_errors_in_one_line(os.path.basename(args.command[0])):
        Step(args.command, args.makes, args.reads).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
