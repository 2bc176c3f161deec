"""Names that scripts and examples import from the packages exist, also in Python code inside of shell scripts."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMPORT = re.compile(r"\bfrom ((?:fairseq_etads|etads_preprocess)[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))")
SOURCES = [path for folder in ("scripts", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.*"))]
FOUND = {
    (path.relative_to(ROOT).as_posix(), module, name)
    for path in SOURCES
    if path.suffix in (".py", ".sh")
    for module, *names in IMPORT.findall(path.read_text(encoding="utf-8"))
    for name in re.findall(r"(\w+)(?: as \w+)?", "".join(names))
}


@pytest.mark.parametrize("path, module, name", sorted(FOUND))
def test_a_script_imports_what_exists(path, module, name):
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")
