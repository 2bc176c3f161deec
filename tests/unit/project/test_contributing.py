"""The examples of CONTRIBUTING.md, applied to a copy of the code and run there, so that they stay correct."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference import EQUATIONS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def apply_diff(diff, root):
    """Change files by a diff. Hunks have no line numbers: their old lines must occur once in the file."""
    header, *hunks = re.split(r"^@@.*\n", diff, flags=re.MULTILINE)
    path = root / re.fullmatch(r"\+\+\+ (\S+)\n", header)[1]
    content = path.read_text(encoding="utf-8")
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert content.count(old) == 1, f"{path.name} has these lines {content.count(old)} times:\n{old}"
        content = content.replace(old, new)
    path.write_text(content, encoding="utf-8")


def apply_python(code, root):
    """Write a new file, or add to one, as the first line says; returns the file."""
    kind, name = re.match(r"# (new file|at the end of) (\S+)\n", code).groups()
    path, body = root / name, code.split("\n", 1)[1]
    assert path.exists() == (kind == "at the end of"), name
    with open(path, "a", encoding="utf-8") as file:
        file.write(body if kind == "new file" else f"\n\n{body}")
    return path


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The copy with all examples applied, and the new files."""
    root = tmp_path_factory.mktemp("contribution")
    for name in ("fairseq_etads", "preprocess", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "etads_preprocess").symlink_to("preprocess")  # the package is installed under this name
    new = []
    for language, block in BLOCKS:
        if language == "diff":
            apply_diff(block, root)
        elif language == "python":
            new.append(apply_python(block, root))
    return root, new


def run(command, root):
    environment = {**os.environ, "PYTHONPATH": str(root), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        command, cwd=root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:]
    return result.stdout


def test_the_examples_pass_their_own_tests(changed):
    root, new = changed
    tests = [str(path) for path in new if path.name.startswith("test_")]
    assert len(tests) == 5, "a mechanism, a decoding option, an architecture, a corpus, a score"
    table = root / "tests" / "unit" / "project" / "test_reference_table.py"
    output = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests, str(table)], root)
    rows = sum(map(len, EQUATIONS.values())) + 1  # the last row is the example's
    assert f"{8 + rows + 1} passed in" in output, output
    where = run(
        [sys.executable, "-c", "import fairseq_etads as a, etads_preprocess as b; print(a.__file__, b.__file__)"], root
    )
    assert where.count(str(root)) == 2, "not the copy was tested"


def test_the_examples_are_written_as_the_linters_want(changed):
    root, new = changed
    files = [*map(str, new), *(str(root / name) for name in re.findall(r"^\+\+\+ (\S+\.py)$", TEXT, re.MULTILINE))]
    run(["ruff", "check", "--no-cache", *files], root)
    run(["ruff", "format", "--no-cache", "--check", *files], root)


def test_the_commands_name_what_exists():
    shell = "".join(block for language, block in BLOCKS if language == "bash")
    paths = set(re.findall(r"\b(?:scripts|tests)/[\w./]+", shell))
    assert len(paths) >= 3 and [path for path in paths if not (ROOT / path).is_file()] == []
    for script, options in re.findall(r"^(scripts/\w+\.sh)((?: +--\w+)*)", shell, re.MULTILINE):
        usage = (ROOT / script).read_text(encoding="utf-8")
        assert [option for option in options.split() if f"{option} " not in usage] == [], script
