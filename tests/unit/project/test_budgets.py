"""The code stays small: no folder grows beyond its budget of lines, and no closure of imports beyond its own."""

import subprocess

import pytest
from documented import ROOT
from test_imports import PACKAGE, find_imports, modules, preprocess

SUFFIXES = (".py", ".sh", ".js", ".css", ".html", ".cpp", ".yaml", ".yml")
BUDGETS = {
    "fairseq_etads/attention.py fairseq_etads/models fairseq_etads/layers fairseq_etads/kernels": 8_209,
    "fairseq_etads/data fairseq_etads/vocabulary": 2_719,
    "fairseq_etads/training": 2_623,
    "fairseq_etads/search": 4_568,
    "fairseq_etads/systems": 2_919,
    "fairseq_etads/commands fairseq_etads/tuning": 6_868,
    "fairseq_etads/pipeline fairseq_etads/recipes": 4_223,
    "fairseq_etads/summarizer fairseq_etads/demo": 5_721,
    "fairseq_etads/text fairseq_etads/files": 2_990,
    "fairseq_etads/evaluation": 2_258,
    "fairseq_etads/fairseq_fixes fairseq_etads/platform": 1_746,
    "preprocess": 4_298,
    "scripts benchmarks": 1_583,
    "tests": 31_166,
}
"""Folders and files with the most lines that they may have, docstrings and comments included.

What a change adds to a folder, it takes away in the same folder. A change that makes a folder smaller lowers its
number.
"""
CLOSURES = {"fairseq_etads.commands.summarize": 26_389, "fairseq_etads.training.task": 20_381}
"""Modules with the most lines of this project that importing them may reach."""


def count_lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("places", BUDGETS)
def test_a_folder_stays_within_its_budget(places):
    listed = subprocess.run(["git", "ls-files", *places.split()], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES)]
    lines = sum(count_lines(path) for path in paths if path.exists())
    assert 0 < lines <= BUDGETS[places], f"{lines} lines"


@pytest.mark.parametrize("start", CLOSURES)
def test_a_module_reaches_few_lines(start):
    files = {**modules(PACKAGE, "fairseq_etads"), **modules(preprocess(), "etads_preprocess")}
    reached, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in files and name not in reached:
            reached.add(name)
            waiting += find_imports(files[name], name, files)
    lines = sum(count_lines(files[name]) for name in reached)
    assert 0 < lines <= CLOSURES[start], f"{lines} lines in {len(reached)} modules"
