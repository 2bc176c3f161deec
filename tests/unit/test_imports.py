"""The layout: imports go down and in no circle, light commands stay light, files and functions short."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_etads

PACKAGE = Path(fairseq_etads.__file__).parent
LEVELS = [
    {"deferred", "kernels"},
    {"focus_columns"},
    {"compat", "distributed", "focus", "text", "vocabulary"},
    {"attention", "console", "processes", "selection"},
    {"layers", "data"},
    {"search", "criterion_options"},
    {"models", "criterions", "selection_criterion", "optim", "muon", "generation", "evaluation"},
    {"options", "trained_rewards"},
    {"self_critical", "reward_augmented", "auxiliary", "rewriting"},
    {"checks"},
    {"task"},
    {"plugin"},
    {"folder", "explain"},
    {"summarizer"},
    {"tuning", "demo"},
    {"commands"},
]
"""Rooms and modules of ``fairseq_etads/``. One may import those of lower levels and, inside a room, its own."""
HEAVY = {"torch", "fairseq", "nltk", "sacremoses", "spacy", "pyarrow", "matplotlib", "optuna"}
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}
FOR_PREPARATION = ("text", "vocabulary", "processes", "plugin", "console")
MODEL_COMMANDS = {
    "export_command": ("folder", "search"),
    "summarize_command": ("folder", "search", "summarizer"),
    "explain_command": ("folder", "search", "summarizer", "explain"),
    "tune_command": ("folder", "search", "summarizer", "tuning", "evaluation"),
}
"""Modules of ``preprocess/`` that tie prepared data to models, and the rooms that they alone may import, too."""
WITHOUT_FAIRSEQ = ["console.py", "deferred.py", "processes.py"]
WITHOUT_FAIRSEQ += [f"text/{name}.py" for name in ("words", "files", "compression", "checksums")]
WITHOUT_FAIRSEQ += [f"evaluation/{p.name}" for p in PACKAGE.glob("evaluation/*.py")]
WITHOUT_FAIRSEQ += ["folder/config.py", "folder/card.py", "search/choices.py", "search/call_options.py"]
WITHOUT_FAIRSEQ += [f"explain/{p.name}" for p in PACKAGE.glob("explain/*.py")]
WITHOUT_FAIRSEQ += ["tuning/choices.py", "tuning/store.py", "tuning/mert.py"]
WITHOUT_FAIRSEQ += ["data/nli_pairs.py"]
WITHOUT_FAIRSEQ += ["rewriting/returns.py", "rewriting/reranking.py"]
WITHOUT_FAIRSEQ += ["text/subwords.py", *(f"selection/{p.name}" for p in PACKAGE.glob("selection/*.py"))]
WITHOUT_FAIRSEQ.remove("evaluation/validation.py")


def preprocess():
    return Path(importlib.util.find_spec("etads_preprocess").origin).parent


def imports(path, name):
    """Absolute names that a module imports anywhere, those of functions included; ``name`` is its own."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def modules(root, package):
    """Name -> file of every module of a package."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.fixture(scope="module")
def graph():
    """Module -> the modules of this project that it imports."""
    files = {**modules(PACKAGE, "fairseq_etads"), **modules(preprocess(), "etads_preprocess")}
    return {name: {other for other in imports(path, name) if other in files} - {name} for name, path in files.items()}


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_a_level(graph):
    rooms = {room(module) for module in graph if module.startswith("fairseq_etads.")}
    assert rooms == set(LEVEL)


def test_imports_go_down(graph):
    upward = [
        f"{module} -> {other}"
        for module, others in graph.items()
        for other in others
        if module.startswith("fairseq_etads.") and other.startswith("fairseq_etads.")
        if room(module) != room(other) and LEVEL[room(other)] >= LEVEL[room(module)]
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
            # importing a submodule runs its package's __init__ first, which every package here allows for
            if not module.startswith(f"{other}."):
                visit(other)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def test_preparation_imports_the_package_and_never_the_other_way(graph):
    for module, others in graph.items():
        for other in others:
            if module.startswith("fairseq_etads"):
                assert not other.startswith("etads_preprocess"), f"{module} -> {other}"
            elif other.startswith("fairseq_etads."):
                more = MODEL_COMMANDS.get(module.split(".")[-1], ())
                assert room(other) in (*FOR_PREPARATION, *more), f"{module} -> {other}"


@pytest.mark.parametrize("name", WITHOUT_FAIRSEQ)
def test_evaluation_needs_neither_torch_nor_fairseq(name):
    module = "fairseq_etads." + name[:-3].replace("/", ".").replace(".__init__", "")
    assert not {other.split(".")[0] for other in imports(PACKAGE / name, module)} & {"torch", "fairseq"}


@pytest.mark.parametrize("command", sorted(fairseq_etads.COMMANDS_WITHOUT_FAIRSEQ))
def test_these_commands_start_without_torch_and_fairseq(command):
    """A second is enough for them then; the clock itself would make this test depend on the machine."""
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


def python_files():
    """All Python files of the package and its preparation, and of the repository where the tests lie in one."""
    yield from modules(PACKAGE, "fairseq_etads").values()
    yield from modules(preprocess(), "etads_preprocess").values()
    root = Path(__file__).parents[2]
    for folder in ("tests", "benchmarks", "scripts"):
        yield from sorted((root / folder).rglob("*.py"))


def test_no_file_is_above_400_lines_and_no_function_above_60():
    long = []
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 400:
            long.append(f"{path}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno - node.lineno >= 60:
                long.append(f"{path}, {node.name}: {node.end_lineno - node.lineno + 1} lines")
    assert not long
