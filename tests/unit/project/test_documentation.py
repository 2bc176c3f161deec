"""The documentation: pages name only what exists; the notebook, the examples of CONTRIBUTING.md and benchmarks run;
every documented command line is accepted by the parser of that very command.

The notebook's cells are executed in this process, in one namespace, as a kernel would; no Jupyter is needed. The
examples are applied to a copy of the code. bench_generate.py, which takes a minute, is not run.

The lines are in README.md, docs/, the headers of scripts, the examples of --help, docstrings, and advice in error
messages. Scripts run to the end with commands that only record their arguments; these are parsed, too.
"""

import ast
import contextlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented import PAGES, ROOT, complaint, parser_of, project_commands
from fairseq import options, utils
from hydra._internal.utils import get_args_parser
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
    for script, given in re.findall(r"^(scripts/\w+\.sh)((?: +--\w+)*)", shell, re.MULTILINE):
        usage = (ROOT / script).read_text(encoding="utf-8")
        assert [option for option in given.split() if f"{option} " not in usage] == [], script


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


SCRIPTS = sorted(ROOT.glob("scripts/**/*.sh"))
MODULES = sorted([*ROOT.glob("fairseq_etads/**/*.py"), *ROOT.glob("preprocess/**/*.py"), *ROOT.glob("benchmarks/*.py")])
_FENCED = re.compile(r"^```.*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?:^ {4}.*\n)+", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMAND = re.compile(r"(?:scripts/|etads-|fairseq-|pip |git )")
_OURS = re.compile(r"(?:scripts/[\w/]+\.(?:sh|py)|etads-[a-z]+|fairseq-[a-z]+(?:-[a-z]+)*)(?= |$)")


def blocks(text):
    """Code blocks of a page, with continued lines joined."""
    found = [*_FENCED.findall(text), *_INDENTED.findall(_FENCED.sub("", text))]
    return [re.sub(r"\\\n\s*", " ", block) for block in found]


def spans(text):
    """Code between backticks, outside of code blocks."""
    return [" ".join(code.split()) for _, code in _SPAN.findall(_FENCED.sub("", text))]


def commands_of(text):
    """Commands of a page: lines of its shell blocks, and code spans that call a command of the project."""
    shell = [block for block in blocks(text) if re.search(rf"^\s*{_COMMAND.pattern}", block, re.MULTILINE)]
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for block in shell for line in block.splitlines()]
    lines += [code for code in spans(text) if re.match(r"(?:etads-|scripts/)\S+ ", code)]
    return [part for line in lines if line for part in re.split(r" && | \| ", line)]


def header(script):
    """The comment at the head of a script, with continued lines joined."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), script.read_text(encoding="utf-8").splitlines()[1:])
    return re.sub(r"\\\n\s*", " ", "\n".join(line[2:] for line in lines))


def _without_remark(line):
    """Drop a remark far to the right of a command, but keep further arguments."""
    return re.split(r"\s{3,}(?!--|\[|\d)", line)[0]


def in_pages():
    """Commands in README.md, docs/, CONTRIBUTING.md and the sample corpus's page."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "preprocess" / "sample" / "README.md"]:
        for command in commands_of(page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), _without_remark(command)


def in_lines(where, text):
    """Commands in lines of plain text: a command with arguments begins the line or follows a colon."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        match = re.search(rf"(?:^\s+|:\s\s)({_OURS.pattern}(?: +[a-z]+)?(?: +(?:-|\[|\S*[/.]).*)?)$", line)
        if match:
            yield where, _without_remark(match[1])


def texts_of(module):
    """Texts in a module's code; computed parts are replaced by {}."""
    inside = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def in_modules():
    """Commands on separate lines in the texts of Python modules: examples of --help, docstrings."""
    for module in MODULES:
        for text in texts_of(module):
            yield from in_lines(str(module.relative_to(ROOT)), text)


def variants(line):
    """A documented line as words to parse, without the parts in [brackets] and with them; ``soft|switch`` is soft."""
    optional = re.compile(r"\[([^][]*)\]")
    named = re.compile(r"^(?:\.\.\.|…|(?:-- )?options.*)$")
    without, with_all = line, line
    while optional.search(with_all):
        without = optional.sub("", without)
        with_all = optional.sub(lambda match: "" if named.match(match[1].strip()) else match[1], with_all)
    for text in dict.fromkeys((without, with_all)):
        words = [re.sub(r"^([\w-]+)(\|[\w-]+)+$", r"\1", word) for word in shlex.split(text)]
        # dots after an option stand for its value, others for more arguments
        yield [w for before, w in zip(["", *words], words) if w not in ("...", "…") or before.startswith("--")]


def is_incomplete(line):
    """Tell whether a documented line omits arguments that the command needs."""
    return re.search(r"(?<![\w\[])(?:\.\.\.|…)(?!\w)", line) is not None


HEADS = (line for script in SCRIPTS for line in in_lines(str(script.relative_to(ROOT)), header(script)))
LINES = [*in_pages(), *HEADS, *in_modules()]
"""Where each documented command is, and the command."""
INSTALLING = ("install", "quickstart", "release", "test", "docs")
"""Scripts that would install something or run for long; only their options are checked."""
PARSERS = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-validate": options.get_validation_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
}
COMPLETE = ["data", "--task", "summarization", "--arch", "etads"]
"""Minimal arguments of fairseq-train, in place of dots."""


@pytest.fixture(scope="module")
def parsers():
    return {name: parser_of(main) for name, main in project_commands().items()}


def refusal(name, words, parsers):
    """Complaint of the command ``name`` about the words."""
    if name == "fairseq-hydra-train":
        return complaint(get_args_parser(), words)
    if name == "fairseq-preprocess":
        return complaint(PARSERS[name](), words)  # this parser has no options of a task, such as DATA
    if name in PARSERS:
        parser = PARSERS[name]()
        return complaint(parser, words, lambda given: options.parse_args_and_arch(parser, input_args=given))
    if name == "etads-corpus" and "--" in words:  # what follows are options of etads-prepare
        place = words.index("--")
        return refusal(name, words[:place], parsers) or refusal(
            "etads-prepare", ["text", "out", *words[place + 1 :]], parsers
        )
    return complaint(parsers[name], words)


@pytest.fixture
def plugin_is_loaded(monkeypatch):
    """--user-dir has done its work, and may name only the plugin, or a user's own package of docs/extending.md."""

    def load(args):
        assert args.user_dir in (None, "fairseq_etads", "my_updates", "my_model"), args.user_dir

    monkeypatch.setattr(utils, "import_user_module", load)


def check(where, line, parsers):
    """Parse a documented command of fairseq or of the project in all its variants."""
    for words in variants(re.split(r" [<>] ", line)[0]):
        if words[0] == "fairseq-train" and is_incomplete(line):
            words[1:1] = COMPLETE[words[1:2] != [] and not words[1].startswith("-") :]
        found = refusal(words[0], words[1:], parsers)
        # A code span in a sentence may name only the options of a command.
        left_out = is_incomplete(line) or (where.endswith(".md") and line in spans((ROOT / where).read_text("utf-8")))
        if found and not (left_out and re.search(r"required|expected (?:at least )?one argument", found)):
            pytest.fail(f"{where}: {line}\n{found}")


def named(prefixes):
    found = dict.fromkeys((where, line) for where, line in LINES if line.startswith(prefixes))
    return [pytest.param(where, line, id=f"{where}: {line[:50]}") for where, line in found]


@pytest.mark.parametrize("where,line", named(("fairseq-", "etads-")))
def test_commands_are_taken_by_their_parsers(where, line, parsers, plugin_is_loaded):
    """fairseq's parser also accepts a training without a batch size, which fails, or a limit, which never ends."""
    check(where, line, parsers)
    if line.startswith("fairseq-train") and not is_incomplete(line):
        assert re.search("--max-tokens|--batch-size", line), line
        assert re.search("--max-update|--max-epoch|--stop-", line), line


STUB = r"""#!/bin/bash
[ "${0##*/}" != python3 ] || exec "${@:4}"  # a supervised command; starting Python takes longer than a stand-in
printf '%s\037' "${0##*/}" "$@" >> LOG
printf '\036' >> LOG
printf 'D-0\t0\ta summary\n'
"""
"""A stand-in for a command, which only records its arguments, and prints what fairseq-generate does."""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """A folder with the scripts, and stand-ins for the commands that they call."""
    folder = tmp_path_factory.mktemp("dry")
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "bin").mkdir()
    for name in [*PARSERS, *project_commands(), "python", "python3"]:
        (folder / "bin" / name).write_text(STUB.replace("LOG", f"'{folder / 'log'}'"))
        (folder / "bin" / name).chmod(0o755)
    return folder


def dry_run(folder, words):
    """Run a script with stand-ins, where the folders exist that it names; returns the process and the calls."""
    (folder / "log").write_text("")
    for word in words[1:]:
        if "/" in word:
            (folder / word).mkdir(parents=True, exist_ok=True)
    environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    result = subprocess.run(
        words, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return result, [call.split("\037")[:-1] for call in (folder / "log").read_text().split("\036")[:-1]]


@pytest.mark.parametrize("where,line", named("scripts/"))
def test_scripts_take_their_options_and_call_commands_rightly(where, line, stubs, parsers, plugin_is_loaded):
    for words in variants(re.split(r" [<>] ", line)[0]):
        script = Path(words[0])
        if script.stem in INSTALLING:
            text = (ROOT / script).read_text(encoding="utf-8")
            given = {word for word in words[1 : words.index("--") if "--" in words else None] if word.startswith("--")}
            assert all(
                re.search(rf'^parse_options "[^"]*{name}[!+ "]', text, re.MULTILINE) for name in given - {"--help"}
            ), line
            continue
        result, calls = dry_run(stubs, words)
        assert result.returncode == 0 and calls, f"{where}: {line}\n{result.stdout}"
        for name, *arguments in calls:
            if name != "python":
                found = refusal(name, arguments, parsers)
                assert found is None, f"{where}: {line}\ncalls {shlex.join([name, *arguments])}\n{found}"


def advice():
    """Commands with options in the texts of the code: "make the data with etads-prepare --factors"."""
    of_fairseq = r"fairseq-(?!etads|fixed)[a-z]+(?:-[a-z]+)*"
    command = re.compile(rf"\b(etads-[a-z]+|{of_fairseq}|scripts/[\w/*]+\.sh)((?: --[a-z][a-z-]*)*)")
    for module in MODULES:
        for text in texts_of(module):
            for name, given in command.findall(" ".join(text.split())):
                yield pytest.param(name, tuple(given.split()), id=f"{module.relative_to(ROOT)}: {name}{given}")


@pytest.mark.parametrize("name,given", {param.id: param for param in advice()}.values())
def test_what_messages_advise_exists(name, given, parsers, plugin_is_loaded):
    if name.startswith("scripts/"):
        assert list(ROOT.glob(name)), name
    elif name in parsers or name in PARSERS:
        parser = parsers[name] if name in parsers else PARSERS[name]()
        assert {option for action in parser._actions for option in action.option_strings}.issuperset(given)
    else:
        assert shutil.which(name), name
