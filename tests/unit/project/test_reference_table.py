"""The table of equations in tests/reference names oracles, functions and tests that exist, and leaves no oracle out."""

import ast
import importlib
import re
from pathlib import Path

import pytest
import reference
from reference import EQUATIONS

UNIT = Path(__file__).parents[1]
ROWS = [(paper, row) for paper, rows in EQUATIONS.items() for row in rows]
NAMES = [f"{paper}: {row.number}" for paper, row in ROWS]


def find(name):
    """Resolve a dotted name: a member of a module, of one of its classes, or of a library."""
    *modules, last = name.split(".")
    return getattr(importlib.import_module(".".join(modules)), last)


def public_functions():
    """Find module and code of each function without a leading underscore in the modules of tests/reference."""
    found = {}
    for path in sorted(Path(reference.__file__).parent.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                assert node.name not in found, f"{node.name} is in two modules"
                found[node.name] = path.stem, ast.get_source_segment(text, node)
    return found


def used_by(text, functions):
    """The oracles that a text calls by name, and those that they call in turn."""
    found, texts = set(), [text]
    while texts:
        named = functions.keys() & set(re.findall(r"\w+(?=[(,])", texts.pop()))
        texts += [functions[name][1].split("\n", 1)[1] for name in named - found]
        found |= named
    return found


@pytest.mark.parametrize("paper,row", ROWS, ids=NAMES)
def test_a_row_names_what_exists(paper, row):
    if row.oracle:
        assert callable(find(row.oracle) if "." in row.oracle else getattr(reference, row.oracle))
    own = row.function.startswith("etads_preprocess.")
    assert callable(find(row.function if own else f"fairseq_etads.{row.function}"))
    file, name = row.test.split("::")
    tests = {
        node.name: node for node in ast.parse((UNIT / file).read_text(encoding="utf-8")).body if hasattr(node, "name")
    }
    assert name in tests, f"{file} has no {name}"


def test_every_oracle_has_a_row_and_can_be_called_from_the_package():
    functions = public_functions()
    assert len(functions) > 30
    listed = {row.oracle for _, row in ROWS}
    missing = [name for name, (module, _) in functions.items() if module != "parts" and name not in listed]
    assert not missing, f"tests/reference/__init__.py has no row for {missing}"
    for name, (module, _) in functions.items():
        assert getattr(reference, name).__module__ == f"reference.{module}"


def test_an_oracle_is_used_by_the_file_of_its_test():
    functions = public_functions()
    for paper, row in ROWS:
        if row.oracle in functions:
            used = used_by((UNIT / row.test.split("::")[0]).read_text(encoding="utf-8"), functions)
            assert row.oracle in used, f"{paper}, {row.number}: {row.test} does not use {row.oracle}"


def test_no_equation_stands_twice():
    assert len(set(NAMES)) == len(NAMES) > 60
