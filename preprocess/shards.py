"""A share of work that several processes divide among themselves: ``--shard I/N``."""

import re
from typing import List, NamedTuple

from fairseq_etads.text.files import InputError


class Shard(NamedTuple):
    """Share ``number`` of ``shares``, from 1 on."""

    number: int
    shares: int

    @classmethod
    def parse(cls, value: str) -> "Shard":
        """The shard that "2/4" stands for; raises InputError for what is none."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
        if not found or not 1 <= int(found.group(1)) <= int(found.group(2)):
            raise InputError(f"--shard {value}: choose I/N with I from 1 to N, such as 2/4, the second of four")
        return cls(*map(int, found.groups()))

    @property
    def name(self) -> str:
        """Of its files: "2-of-4"."""
        return f"{self.number}-of-{self.shares}"

    def siblings(self) -> List["Shard"]:
        """All shards of the same work, this one among them."""
        return [Shard(number, self.shares) for number in range(1, self.shares + 1)]
