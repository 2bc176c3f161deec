"""Imports of the package in scripts, benchmarks and examples find their names, also inside of shell scripts."""

import importlib
import re

import pytest
from documented import ROOT

FILES = [path for folder in ("scripts", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.*"))]
IMPORT = re.compile(r"(?:^|; )\s*from ((?:fairseq_etads|etads_preprocess)[\w.]*) import ([\w, ]+)", re.MULTILINE)


def imports(path):
    text = re.sub(r"import \(([^)]*)\)", lambda found: "import " + " ".join(found[1].split()), path.read_text("utf-8"))
    for module, names in IMPORT.findall(text):
        for name in names.split(","):
            if name.strip():
                yield module, name.split()[0]


SOURCES = [path for path in FILES if path.suffix in (".py", ".sh")]
FOUND = sorted({(path.relative_to(ROOT).as_posix(), *one) for path in SOURCES for one in imports(path)})


@pytest.mark.parametrize("path, module, name", FOUND)
def test_an_import_of_a_script_finds_its_name(path, module, name):
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")


def test_imports_inside_of_shell_scripts_are_looked_at():
    assert any(path.endswith(".sh") for path, _, _ in FOUND) and len(FOUND) > 40
