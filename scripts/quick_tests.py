#!/usr/bin/env python3
"""Print unit tests related to a change, the nearest first. Together, they take up to a minute on two cores.

  scripts/quick_tests.py [--base COMMIT] [--seconds N] [FILE ...]

The change consists of the given files. By default, it consists of all files that differ from a commit (default: HEAD,
that is, uncommitted changes), including new files. The tests are printed in this order: changed tests and tests that
import a changed module; tests that contain the name of a changed file of another kind; other tests of a changed
package; tests of packages that import a changed module. If nothing has changed, the script prints a core of tests:
equations, pointers, search, losses, models, preparation and scores.

tests/seconds.json contains the time of each test file. To update it, run `pytest --junitxml FILE`, which times the
tests, and then `scripts/quick_tests.py --record FILE`, which copies the times from FILE to the table. The whole suite
uses the table to start its longest files first.
"""

import argparse
import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, FrozenSet, Iterable, List, Optional, Set
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
SECONDS = ROOT / "tests" / "seconds.json"
UNKNOWN = 3.0
"""Time in seconds that is assumed for a test file that has not been measured."""
FOLDERS = {"fairseq_etads": "fairseq_etads", "preprocess": "etads_preprocess"}
"""Mapping from folders to the names of their packages."""
CORE = """
attention/test_attention attention/test_recurrent_attention layers/test_pointer layers/test_aggregation
vocabulary/test_batch_vocab vocabulary/test_candidates search/test_penalties search/test_blocking search/test_generation
training/test_criterions training/test_task models/test_transformer models/test_recurrent models/test_pointer_generator
data/test_labels evaluation/test_rouge evaluation/test_rewards text/test_words text/test_text preprocess/test_prepare
project/test_imports project/test_reference_table
"""
NEAREST, USERS, PACKAGE, PACKAGES = range(4)
"""Levels of distance between a test and a change.

In order, the levels mean that the test or one of its imports has changed, that the test contains the name of a changed
file, that the test belongs to a changed package, and that it belongs to a package that imports a changed module.
"""


def read_test_times() -> Dict[str, float]:
    """Read the time that each test file takes when it is run alone. The keys are paths in the repository."""
    return json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.is_file() else {}


def list_unit_tests() -> List[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "unit").rglob("test_*.py"))


def get_module_name(path: str) -> str:
    """Return the name by which a file is imported, or an empty string for other files."""
    parts = Path(path).with_suffix("").parts
    if not path.endswith(".py"):
        return ""
    if parts[0] in FOLDERS:
        parts = (FOLDERS[parts[0]], *parts[1:])
    elif parts[0] == "tests" and (len(parts) == 2 or parts[1] == "reference"):
        parts = parts[1:]
    else:
        return ""
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def list_imported_names(path: str) -> FrozenSet[str]:
    """Return the names of all modules, and of their members, that a file imports."""
    found: Set[str] = set()
    package = get_module_name(path).split(".")
    if not path.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
    return frozenset(found)


def get_test_folder(path: str) -> str:
    """Return the folder in tests/unit for the package of a file, or an empty string for a file outside the packages."""
    parts = Path(path).parts
    if parts[0] == "preprocess":
        return "preprocess"
    if parts[0] != "fairseq_etads":
        return "project" if parts[0] in ("docs", "scripts", "benchmarks", "examples", "configs") else ""
    below = parts[1:-1]
    if not below:
        return {"attention.py": "attention", "generation.py": "search"}.get(parts[-1], "project")
    return "/".join(below[:2]) if below[0] == "systems" else below[0]


def find_dependent_test_folders(changed: Set[str]) -> Set[str]:
    """Return the test folders of all packages in which a module other than the plugin imports a changed module."""
    names = {get_module_name(path) for path in changed} - {""}
    found = set()
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            path = str(file.relative_to(ROOT))
            if path not in ("fairseq_etads/__init__.py", "fairseq_etads/plugin.py") and names & list_imported_names(
                path
            ):
                found.add(get_test_folder(path))
    return found - {""}


def compute_distances(changed: Iterable[str]) -> Dict[str, int]:
    """Compute the distance between the change and each related unit test."""
    changed = set(changed)
    names = {get_module_name(path) for path in changed} - {""}
    # Tests import the package ``reference`` and call ``reference.NAME``.
    names |= {name.split(".")[0] for name in names if name.startswith("reference.")}
    folders, above = {get_test_folder(path) for path in changed} - {""}, find_dependent_test_folders(changed)
    others = [Path(path).name for path in changed if not get_module_name(path) and not path.startswith("tests/unit")]
    found = {}
    for test in list_unit_tests():
        folder = str(Path(test).relative_to("tests/unit").parent)
        text = (ROOT / test).read_text(encoding="utf-8")
        if test in changed or names & list_imported_names(test):
            found[test] = NEAREST
        elif any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in others):
            found[test] = USERS
        elif folder in folders:
            found[test] = PACKAGE
        elif folder in above:
            found[test] = PACKAGES
    return found


def list_changed_files(base: str) -> List[str]:
    """List the existing files that differ from a commit or are new."""
    lines = []
    for command in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        result = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"quick_tests.py: {result.stderr.strip()}")
        lines += result.stdout.splitlines()
    return sorted(path for path in set(lines) if (ROOT / path).is_file())


def choose_tests(changed: List[str], most: float, near: Optional[Dict[str, int]] = None) -> List[str]:
    """Choose the nearest and then the quickest tests, up to a total of ``most`` seconds, but at least one test.

    Args:
        near: result of :func:`compute_distances`, or None to compute it.
    """
    known = read_test_times()
    if not changed:
        near = {f"tests/unit/{name}.py": 0 for name in CORE.split()}
    elif near is None:
        near = compute_distances(changed)
    chosen: List[str] = []
    for test in sorted(near, key=lambda test: (near[test], known.get(test, UNKNOWN), test)):
        if known.get(test, UNKNOWN) <= most or not chosen:
            most -= known.get(test, UNKNOWN)
            chosen.append(test)
    return chosen


def record_test_times(report: Path) -> None:
    """Write the time of each file in a pytest report to the table. Other times are not changed."""
    taken: Dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        parts = case.get("classname", "").split(".")
        while parts and not (ROOT / "/".join(parts)).with_suffix(".py").is_file():
            parts.pop()  # the last part is the name of a class
        if parts:
            path = "/".join(parts) + ".py"
            taken[path] = taken.get(path, 0) + float(case.get("time", 0))
    kept = {path: value for path, value in read_test_times().items() if (ROOT / path).is_file()}
    kept.update((path, round(value, 1)) for path, value in taken.items())
    SECONDS.write_text(json.dumps(dict(sorted(kept.items())), indent=0) + "\n", encoding="utf-8")


def main() -> None:
    usage, about = __doc__.splitlines()[2].strip(), [__doc__.splitlines()[0], *__doc__.splitlines()[3:]]
    parser = argparse.ArgumentParser(
        usage=usage, description="\n".join(about), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="changed files (default: all files that differ from --base according to git)",
    )
    parser.add_argument(
        "--base", default="HEAD", metavar="COMMIT", help="commit with which to compare the working tree (default: HEAD)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=90,
        help="maximum total duration of the tests in seconds, on one core (default: 90)",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="update the table of test durations from this pytest report, and exit",
    )
    args = parser.parse_args()
    if args.record:
        if not args.record.is_file():
            parser.error(f"--record {args.record}: no such file; pytest --junitxml {args.record} writes it")
        record_test_times(args.record)
        return
    changed = args.files or list_changed_files(args.base)
    near = compute_distances(changed) if changed else {}
    tests = choose_tests(changed, args.seconds, near)
    left_out = near.keys() - set(tests)
    about = f"for {len(changed)} changed files" if changed else "a core, since nothing has changed"
    more = f"; left out for their time: {len(left_out)}" if left_out else ""
    print(f"== test files: {len(tests)}, {about}{more}", file=sys.stderr)
    print("\n".join(tests))


if __name__ == "__main__":
    main()
