"""scripts/mutation_testing.py: its list of modules follows moves and renames."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "mutation_testing.py"))


@pytest.mark.parametrize("module", SCRIPT["TESTS"])
def test_modules_and_their_tests_exist(module):
    assert (ROOT / "fairseq_etads" / f"{module}.py").is_file()
    for test in SCRIPT["TESTS"][module]:
        path, *name = SCRIPT["find_test"](test).split("::")
        assert not name or f"def {name[0]}(" in (ROOT / path).read_text(encoding="utf-8")
