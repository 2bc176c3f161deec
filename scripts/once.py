#!/usr/bin/env python3
"""Run a command unless its outputs already exist and were made by the same command from the same files.

    scripts/once.py --makes FILE ... [--reads PATH ...] [--keeps FILE] [--record RECORD] -- COMMAND ...

PATH is a file, or a folder that represents all files directly in it. FILE.made.json, named after the first output,
records the command and the SHA-256 of all files. An output is made again if it was changed, has no record, or was made
by another command or from other contents. With --keeps FILE, the command's standard output is saved to FILE, which
then also counts as an output. The script prints this text even if the command need not run. The exit status is the exit
status of the command.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import children

from fairseq_etads.platform.console import report_errors_in_one_line
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import lock_output, make_temporary_output, write_text
from fairseq_etads.text.checksums import compute_sha256

RECORD = ".made.json"


def compute_checksums(files: List[Path]) -> Dict[str, Optional[str]]:
    """Compute the SHA-256 hash of each file, or None for missing files."""
    return {str(path): compute_sha256(path) if path.is_file() else None for path in files}


def list_input_files(paths: List[Path], makes: List[Path]) -> List[Path]:
    """Return the files in ``paths``. A folder is replaced by the files directly in it.

    Outputs, hidden files and incomplete files are left out.
    """
    found: List[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else []
        kept = [file for file in inside if file.is_file() and not file.name.startswith(".")]
        found += [file for file in kept if file.suffix != ".partial" and not file.name.endswith(RECORD)] or [path]
    outputs = {path.resolve() for path in makes}
    return [path for path in found if path.resolve() not in outputs]


def are_outputs_current(makes: List[Path], path: Path, wanted: Dict[str, Any]) -> bool:
    """Return whether all outputs match the record at ``path``, and the record matches the given command and inputs."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(record, dict)
        and record == {**wanted, "makes": compute_checksums(makes)}
        and all(record["makes"].values())
    )


def run_command_once(
    makes: List[Path], reads: List[Path], keeps: Optional[Path], record: Optional[Path], command: List[str]
) -> int:
    """Run the command if its outputs must be created, and return its exit status."""
    if keeps is not None:
        makes = [*makes, keeps]
    makes[0].parent.mkdir(parents=True, exist_ok=True)
    record = record or Path(f"{makes[0]}{RECORD}")
    # The lock has a name of its own, because the command locks the output itself.
    with lock_output(Path(f"{makes[0]}.once"), "output") as held:
        wanted = {"command": command, "reads": compute_checksums(list_input_files(reads, makes))}
        if not are_outputs_current(makes, record, wanted):
            record.unlink(missing_ok=True)
            status = run_command(command, keeps, held)
            if status:
                return status
            missing = [str(path) for path in makes if not path.is_file()]
            if missing:
                raise InputError(f"{command[0]} ended without making {missing[0]}")
            write_text(record, json.dumps({**wanted, "makes": compute_checksums(makes)}, indent=1) + "\n")
    if keeps is not None:
        with open(keeps, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return 0


def run_command(command: List[str], keeps: Optional[Path], held: Sequence[int]) -> int:
    """Run the command and, if ``keeps`` is given, write its standard output to this file."""
    if keeps is None:
        return children.run_child(command, held)
    with make_temporary_output(keeps) as partial:
        with open(partial, "wb") as file:
            status = children.run_child(command, held, stdout=file)
        if status:
            sys.exit(status)  # this exception causes the partial file to be deleted
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--makes", metavar="FILE", type=Path, nargs="+", required=True, help="output files of the command"
    )
    parser.add_argument(
        "--reads", metavar="PATH", type=Path, nargs="*", default=[], help="files and folders that the command reads"
    )
    parser.add_argument(
        "--keeps", metavar="FILE", type=Path, help="file in which to store the text that the command prints"
    )
    parser.add_argument(
        "--record",
        metavar="RECORD",
        type=Path,
        help="file in which to record the command and the checksums of its files",
    )
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="command to run, given after --")
    args = parser.parse_args()
    children.watch_parent()
    with report_errors_in_one_line(os.path.basename(args.command[0])):
        return run_command_once(args.makes, args.reads, args.keeps, args.record, args.command)


if __name__ == "__main__":
    sys.exit(main())
