"""The documentation: pages name only what exists; the notebook, the examples of CONTRIBUTING.md and benchmarks run.

The notebook's cells are executed in this process, in one namespace, as a kernel would; no Jupyter is needed. The
examples are applied to a copy of the code. bench_generate.py, which takes a minute, is not run.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented import PAGES, ROOT
from reference import EQUATIONS

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
NOTEBOOK = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
FOLDERS = ("", "fairseq_etads", "preprocess", "scripts", "tests", "tests/unit")
"""Folders in which paths in the pages may begin, besides the folders that the same line names."""
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"(?:[\w.-]+/)*[\w-]+\.(?:py|sh)|(?:scripts|tests|docs|benchmarks|preprocess|fairseq_etads)/[\w./-]*"
)


@pytest.fixture(params=[*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def page(request):
    return request.param


def test_files_exist(page):
    text = page.read_text(encoding="utf-8")
    # files that the reader writes, with the contents on the page
    written = set(re.findall(r"^# (?:new file )?(?:\S*/)?(\w+\.py)\b", text, re.MULTILINE))
    for line in text.splitlines():
        words = {word.rstrip(".,") for word in re.findall(r"[\w./{,}-]+", line)}
        rooms = ["", *(word for word in words if word.endswith("/"))]
        for name in set(filter(_FILE.fullmatch, words)):
            found = any((ROOT / folder / room / name).exists() for folder in FOLDERS for room in rooms)
            assert found or name.rpartition("/")[2] in written, name


def test_relative_links_resolve(page):
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)], link


def test_the_notebook_prints_what_it_shows_and_learns_to_copy():
    names, trained = {"__name__": "notebook"}, False
    for number, cell in enumerate(CELLS, 1):
        code, stored = "".join(cell["source"]), "".join(line for output in cell["outputs"] for line in output["text"])
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, f"cell {number}", "exec"), names)
        printed = output.getvalue()
        trained = trained or "optimizer.step()" in code  # from here on, numbers differ between processors
        assert bool(printed) == bool(stored) if trained else printed == stored
    assert len(names["test"]) == 50
    assert not {summary.split()[0] for _, summary in names["training"]} & set(names["NAMES"][150:])
    right = 0
    for number, (document, summary) in enumerate(names["test"]):
        word, position = names["summaries"][number][0]
        right += word == summary.split()[0] and document.split()[position] == word
    assert right >= 45, "names that the model has never seen"


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


RUNS = {
    "bench_training_step": "--tiny --lengths 20 --tokens 40 --vocabulary 100 --runs 1 --systems transformer,etads",
    "bench_prepare": "--documents 20 --runs 2 --jobs 1",
}
PEERS = {"bench_training_step": '"ratio to transformer": ', "bench_prepare": '"ratio to nltk TreebankWordTokenizer": '}


@pytest.mark.parametrize("script", RUNS)
def test_a_tiny_run_is_recorded(script, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--output", str(tmp_path / "out.json")]
    result = subprocess.run([*command, *RUNS[script].split()], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert record["machine"]["cpu"] and record["measured"]["settings"]["runs"]
    assert PEERS[script] in json.dumps(record)
