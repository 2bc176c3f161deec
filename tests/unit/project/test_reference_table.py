"""The table of equations in tests/reference names what exists, and no oracle is missing or unused."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import reference
from reference import EQUATIONS

UNIT = Path(__file__).parents[1]
ROWS = [(f"{paper}: {row.number}", row) for paper, rows in EQUATIONS.items() for row in rows]
FUNCTIONS = {name: function for name, function in vars(reference).items() if inspect.isfunction(function)}
ORACLES = {name: oracle for name, oracle in FUNCTIONS.items() if oracle.__module__.startswith("reference.")}


def used_by(text):
    """Names of the oracles that a text calls, directly or by calling another oracle."""
    named = ORACLES.keys() & set(re.findall(r"\w+(?=[(,])", text))
    calls = (inspect.getsource(ORACLES[name]).partition("\n")[2] for name in named)
    return named.union(*(used_by(call) for call in calls))


@pytest.mark.parametrize("row", [row for _, row in ROWS], ids=[name for name, _ in ROWS])
def test_a_row_names_what_exists(row):
    function = row.function if row.function.startswith("etads_preprocess.") else f"fairseq_etads.{row.function}"
    for name in (function, row.oracle if "." in row.oracle else f"reference.{row.oracle}" if row.oracle else function):
        module, _, member = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), member))
    file, name = row.test.split("::")
    text = (UNIT / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
    assert row.oracle not in ORACLES or row.oracle in used_by(text), f"{file} does not use {row.oracle}"


def test_every_oracle_has_one_row_for_each_of_its_equations():
    listed = {row.oracle for _, row in ROWS}
    assert [name for name, f in ORACLES.items() if f.__module__ != "reference.parts" and name not in listed] == []
    assert len({name for name, _ in ROWS}) == len(ROWS)
