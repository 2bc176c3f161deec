"""Divide work among independent processes with the option ``--shard I/N``, and join the lines that they write.

A shard of OUT is a file of JSON lines such as OUT.shards/2-of-4.jsonl. The first line states from what the shard was
made. Each further line contains the index of a document and its line of OUT.
"""

import heapq
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ..platform.console import print_message
from ..platform.errors import InputError
from .inputs import read_lines, report_damage
from .outputs import open_output

_LAUNCHERS = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"))
"""Environment variables of torchrun and of Slurm's srun: index of the process, number of processes, local index."""


class Shard(NamedTuple):
    """One of the shards into which the work is divided."""

    number: int  # of this shard, starting at 1
    shares: int  # total number of shards

    @classmethod
    def parse(cls, value: str) -> "Shard":
        """Parse a value such as "2/4". Raises InputError if the value does not have this form."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
        if not found or not 1 <= int(found.group(1)) <= int(found.group(2)):
            raise InputError(f"--shard {value}: choose I/N with I from 1 to N, such as 2/4, the second of four")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.number}/{self.shares}"

    @property
    def name(self) -> str:
        """Name of the shard for use in file names, such as "2-of-4"."""
        return f"{self.number}-of-{self.shares}"

    def list_all_shards(self) -> List["Shard"]:
        """Return all shards into which the work is divided, including this one."""
        return [Shard(number, self.shares) for number in range(1, self.shares + 1)]

    def iterate_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a plain text file that begin in this shard's range of bytes, without line endings.

        The lines of all shards, concatenated in order, form the whole file. Raises InputError if one is not UTF-8.
        """
        size = path.stat().st_size
        start, end = (size * number // self.shares for number in (self.number - 1, self.number))
        with open(path, "rb") as file:
            if start:
                file.seek(start - 1)
                file.readline()  # skip the rest of a line that begins in an earlier shard
            place = file.tell()
            while place < end:
                line = file.readline()
                content = line[3:] if not place and line.startswith(b"\xef\xbb\xbf") else line
                try:
                    yield content.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise InputError(f"{path}, byte {place + error.start:,}: not UTF-8 ({error.reason})") from None
                place += len(line)


def find_launched_shard() -> Optional[Shard]:
    """Return the shard of this process under torchrun or srun, or None if there is only one process."""
    for rank, size, _ in _LAUNCHERS:
        if rank in os.environ and os.environ.get(size, "1") != "1":
            return Shard.parse(f"{int(os.environ[rank]) + 1}/{os.environ[size]}")
    return None


def find_local_rank() -> int:
    """Return the index of this process among the processes of its machine, which is also the index of its GPU."""
    return next((int(os.environ[local]) for rank, _, local in _LAUNCHERS if {rank, local} <= os.environ.keys()), 0)


def get_shard_path(output: Path, shard: Shard) -> Path:
    """Return the path of the file that contains a shard of ``output``."""
    return output.with_name(f"{output.name}.shards") / f"{shard.name}.jsonl"


def format_shard_header(made_of: Dict[str, Any]) -> str:
    """Format the first line of a shard."""
    return json.dumps({"made_of": made_of}, ensure_ascii=False)


def format_shard_line(number: int, line: str) -> str:
    """Format the line of a shard for the document with the index ``number``."""
    return json.dumps([number, line], ensure_ascii=False)


def is_shard_complete(path: Path, made_of: Dict[str, Any]) -> bool:
    """Return whether a shard exists and was made of the same inputs. An incomplete shard never has its final name."""
    return path.is_file() and next(_read_shard(path)) == json.loads(json.dumps(made_of))


def _read_shard(path: Path) -> Iterator[Any]:
    """Yield what a shard is made of, followed by pairs of a document index and a line, sorted by index."""
    with report_damage(path, "delete it to have it made again"):
        records = map(json.loads, read_lines(path))
        yield next(records)["made_of"]
        for number, line in records:
            yield int(number), str(line)


def join_shards(output: Path, shard: Shard, made_of: Dict[str, Any]) -> bool:
    """Write ``output`` if all shards are complete and made of the same inputs, and return whether this is the case.

    The numbers of the other shards are printed to standard error. Raises InputError if the shards do not contain every
    document exactly once.
    """
    paths = {str(sibling.number): get_shard_path(output, sibling) for sibling in shard.list_all_shards()}
    missing = [number for number, path in paths.items() if not path.is_file()]
    other = [number for number, path in paths.items() if path.is_file() and not is_shard_complete(path, made_of)]
    for numbers, what in ((missing, "still missing"), (other, "made with other options, data or another model")):
        if numbers:
            print_message(f"shards of {shard.shares} {what}: {', '.join(numbers)}")
    if missing or other:
        return False
    shares = [_read_shard(path) for path in paths.values()]
    for share in shares:
        next(share)
    with open_output(output, errors="replace") as file:
        for expected, (number, line) in enumerate(heapq.merge(*shares)):
            if number != expected:
                said = f"document {min(number, expected):,} (from 0) has no summary or two"
                raise InputError(f"{output}.shards: {said}; delete the folder and make the summaries again")
            file.write(line + "\n")
    return True
