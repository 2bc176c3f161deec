"""Loop-written oracles, at most one per equation, and a table of all equations.

An oracle computes in float64 on one document without padding and one head, with plain Python loops over positions, so
that it can be read next to the paper. It is deliberately slow and literal.

:data:`EQUATIONS` lists every equation of the papers with its oracle, the function that computes it and the test that
compares the two. A new equation gets a row in equations.yaml. :mod:`reference.parts` has steps that several oracles
share.
"""

# ruff: noqa: F403  # tests call all oracles as reference.NAME

from pathlib import Path
from typing import Dict, List, NamedTuple

import yaml

from .abs import *
from .attention import *
from .encoder import *
from .entailment import *
from .explicit_selection import *
from .optimisers import *
from .output import *
from .parts import *
from .pointer_generator import *
from .rewriting import *
from .search import *
from .selection import *


class Equation(NamedTuple):
    """A row of the table: strings, explained at the head of equations.yaml."""

    number: str
    oracle: str
    function: str
    test: str


_TABLE = Path(__file__).with_name("equations.yaml").read_text(encoding="utf-8")
EQUATIONS: Dict[str, List[Equation]] = {
    paper: [Equation(*row) for row in rows] for paper, rows in yaml.safe_load(_TABLE).items()
}
"""Paper -> its equations."""
