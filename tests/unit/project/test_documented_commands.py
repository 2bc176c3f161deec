"""Every documented command line is accepted by the parser of that very command.

The lines are in README.md, docs/, the headers of scripts, the examples of --help, docstrings, and advice in error
messages. Scripts run to the end with commands that only record their arguments; these are parsed, too.
"""

import ast
import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from documented import PAGES, ROOT, complaint, parser_of, project_commands
from fairseq import options, utils
from hydra._internal.utils import get_args_parser

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
