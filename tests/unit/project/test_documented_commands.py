"""Every documented command line is accepted by the parser of that very command.

The lines are in README.md, docs/, the headers of scripts, the examples of --help, docstrings, and advice in error
messages. Scripts run to the end with commands that only record their arguments; these are parsed, too.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import documented
import pytest
from documented import (
    ROOT,
    complaint,
    in_modules,
    in_pages,
    in_scripts,
    is_incomplete,
    parser_of,
    project_commands,
    spans,
    variants,
)
from fairseq import options, utils
from hydra._internal.utils import get_args_parser

LINES = [*in_pages(), *in_scripts(), *in_modules()]
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
    """--user-dir has done its work, and may name only the plugin."""

    def load(args):
        # In docs/extending.md, a user's own package imports this one.
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
    found = [line for line in LINES if line.line.startswith(prefixes)]
    return [pytest.param(*line, id=f"{line.where}: {line.line[:50]}") for line in dict.fromkeys(found)]


@pytest.mark.parametrize("where,line", named(("fairseq-", "etads-")))
def test_commands_are_taken_by_their_parsers(where, line, parsers, plugin_is_loaded):
    check(where, line, parsers)


@pytest.mark.parametrize("where,line", named(("fairseq-train",)))
def test_documented_training_begins_and_ends(where, line):
    """fairseq's parser accepts a command without a batch size, which fails, or without a limit, which never ends."""
    if not is_incomplete(line):
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
    for module in documented.MODULES:
        for text in documented.texts_of(module):
            for name, given in command.findall(" ".join(text.split())):
                yield pytest.param(name, tuple(given.split()), id=f"{module.relative_to(ROOT)}: {name}{given}")


@pytest.mark.parametrize("name,given", {param.id: param for param in advice()}.values())
def test_what_messages_advise_exists(name, given, parsers, plugin_is_loaded):
    if name.startswith("scripts/"):
        assert list(ROOT.glob(name)), name
    elif name in parsers:
        known = {option for action in parsers[name]._actions for option in action.option_strings}
        assert known.issuperset(given)
    elif name in PARSERS:
        known = {option for action in PARSERS[name]()._actions for option in action.option_strings}
        assert known.issuperset(given)
    else:
        assert shutil.which(name), name
