"""Divide work among independent processes with the option ``--shard I/N``."""

import re
from pathlib import Path
from typing import Iterator, List, NamedTuple

from fairseq_etads.platform.errors import InputError


class Shard(NamedTuple):
    """One of the shards into which the work is divided.

    Attributes:
        number: number of this shard, starting at 1.
        shares: total number of shards.
    """

    number: int
    shares: int

    @classmethod
    def parse(cls, value: str) -> "Shard":
        """Parse a value such as "2/4". Raises InputError if the value does not have this form."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
        if not found or not 1 <= int(found.group(1)) <= int(found.group(2)):
            raise InputError(f"--shard {value}: choose I/N with I from 1 to N, such as 2/4, the second of four")
        return cls(*map(int, found.groups()))

    @property
    def name(self) -> str:
        """Name of the shard for use in file names, such as "2-of-4"."""
        return f"{self.number}-of-{self.shares}"

    def list_all_shards(self) -> List["Shard"]:
        """Return all shards into which the work is divided, including this one."""
        return [Shard(number, self.shares) for number in range(1, self.shares + 1)]

    def iterate_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a plain text file that belong to this shard, without line endings.

        The file is divided into byte ranges of equal size, one for each shard. A line belongs to the shard in which it
        begins. The lines of all shards, concatenated in order, form the whole file.

        Raises:
            InputError: a line of the file is not valid UTF-8.
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
                    at = f"{path}, byte {place + error.start:,}"
                    raise InputError(f"{at}: not UTF-8 ({error.reason})") from None
                place += len(line)
