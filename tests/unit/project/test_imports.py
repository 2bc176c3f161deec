"""The layout: imports go down and form no cycle, light commands stay light, files and functions stay short."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documented import ENTRIES

import fairseq_etads

PACKAGE = Path(fairseq_etads.__file__).parent
ROOT = Path(__file__).parents[3]
HEAVY = {"torch", "fairseq", "nltk", "sacremoses", "spacy", "pyarrow", "matplotlib", "optuna"}
FOR_PREPARATION = {"data", "fairseq_fixes", "files", "platform", "plugin", "text", "vocabulary"}
LIGHT = """
version platform/console platform/errors platform/optional_parts platform/processes files/* evaluation/* data/labels
data/nli_pairs text/words text/subwords text/documents text/records search/options tuning/__init__
summarizer/explanation summarizer/summary summarizer/folder/config summarizer/folder/model_card
"""
WITHOUT_FAIRSEQ = [str(p.relative_to(PACKAGE)) for each in LIGHT.split() for p in sorted(PACKAGE.glob(f"{each}.py"))]


def order():
    """The packages and modules of ``fairseq_etads/`` as the table of docs/overview.md lists them, from the top."""
    text = (ROOT / "docs" / "overview.md").read_text(encoding="utf-8")
    table = text.partition("## The packages of `fairseq_etads/`")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)/?` \|", table, re.MULTILINE)


def preprocess():
    return Path(importlib.util.find_spec("etads_preprocess").origin).parent


def find_imports(path, name, files=()):
    """Absolute names that a module imports anywhere, in functions too.

    Args:
        name: name of the module.
        files: modules that ``from package import module`` may name.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if name in files else module for name in names)


def modules(root, package):
    """Find the file of every module of a package, by name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.fixture(scope="module")
def graph():
    """Find the modules of this project that each module imports."""
    files = {**modules(PACKAGE, "fairseq_etads"), **modules(preprocess(), "etads_preprocess")}
    return {
        name: {other for other in find_imports(path, name, files) if other in files} - {name}
        for name, path in files.items()
    }


def room(module):
    """The package of ``fairseq_etads`` in which a module lies, or another folder's name."""
    parts = module.split(".")
    if parts[0] == "etads_preprocess":
        return "preprocess"
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.fixture(scope="module")
def arrows(graph):
    """Pairs of packages, where the first imports the second -> the imports, as text."""
    found = {}
    for module, others in graph.items():
        for other in others:
            if room(module) != room(other):
                found.setdefault((room(module), room(other)), []).append(f"{module} -> {other}")
    for folder in ("scripts", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for other in find_imports(path, folder, graph):
                if other in graph:
                    found.setdefault((folder, room(other)), []).append(f"{path} -> {other}")
    return found


def test_every_package_has_its_row(graph):
    rooms = {room(module) for module in graph if module.startswith("fairseq_etads")}
    assert sorted(rooms) == sorted(order())


def test_imports_go_down_the_table(arrows):
    below = {name: number for number, name in enumerate(order())}
    upward = [
        text
        for (high, low), texts in arrows.items()
        for text in texts
        if high in below and low in below and below[low] <= below[high]
    ]
    assert not upward


def test_no_circle(graph):
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        path.append(module)
        for other in graph[module]:
            # To import a submodule first runs its package's __init__, which every package here takes into account.
            if not module.startswith(f"{other}."):
                visit(other)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def test_preparation_imports_the_package_and_never_the_other_way(arrows):
    assert {low for high, low in arrows if high == "preprocess"} <= FOR_PREPARATION
    assert not {high for high, low in arrows if low == "preprocess"} - {"benchmarks", "scripts"}


@pytest.mark.parametrize("name", WITHOUT_FAIRSEQ)
def test_evaluation_needs_neither_torch_nor_fairseq(name):
    module = "fairseq_etads." + name[:-3].replace("/", ".").replace(".__init__", "")
    assert not {other.split(".")[0] for other in find_imports(PACKAGE / name, module)} & {"torch", "fairseq"}


@pytest.mark.parametrize("command", ["etads", *ENTRIES])
def test_these_commands_start_without_torch_and_fairseq(command):
    """Without these imports, they start within a second. A time limit would make this test depend on the machine."""
    script = Path(sys.executable).parent / command
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{str(script)!r}, '--help']\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"print(*sorted({HEAVY} & set(sys.modules)), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage:" in result.stdout
    assert result.stderr.strip() == ""


def test_no_two_test_files_have_the_same_name():
    """pytest imports test files by their names alone, and refuses the second of two that share one."""
    names = [path.name for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    assert sorted({name for name in names if names.count(name) > 1}) == []
