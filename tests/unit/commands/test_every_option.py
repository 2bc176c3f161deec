"""Each option of each command, alone and with what it needs, changes the result or is refused.

A new option needs an entry in the tables, unless another command has the same one or a test of the command names it.
"""

import argparse
import io
import itertools
import re
import shlex
import sys
from pathlib import Path
from typing import Dict, NamedTuple

import pytest
from commands_options import ENTRIES, INPUTS, NEEDED, REFUSALS, Entry, cells
from documented import parser_of, project_commands
from etads_preprocess import debian

from fairseq_etads.platform.command_options import format_option_name
from fairseq_etads.search.options import CALL

TESTS = Path(__file__).parents[2]
RECORDS = ("report.json", "prepare.json", "SHA256SUMS", "preprocess.log", "options.json", "complete")
"""Names of files that record the options, and so would differ for an option that is ignored."""
SIGNATURE = re.compile(r"\S*ROUGE\|\S+|\"(command|signature|settings)\": \"[^\"]*\"")


class Ran(NamedTuple):
    """Result of a command, without what merely repeats its options."""

    status: int
    said: str
    files: Dict[str, bytes]


def parsers(parser, name) -> Dict[str, argparse.ArgumentParser]:
    """A command's parser, and the parsers of its subcommands, by name."""
    found = {name: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part, inner in action.choices.items():
                found.update(parsers(inner, f"{name} {part}"))
    return found


MAINS = project_commands()
PARSERS = {key: value for name, main in MAINS.items() for key, value in parsers(parser_of(main), name).items()}


def options_of(parser) -> Dict[str, argparse.Action]:
    """Options of a parser by their longest form, without --help and --version."""
    found = {}
    for action in parser._actions:
        long = [name for name in action.option_strings if name.startswith("--")]
        if long and long[0] not in ("--help", "--version"):
            found[long[0]] = action
    return found


OPTIONS = {name: options_of(parser) for name, parser in PARSERS.items()}
TEXTS = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
BASE_RESULTS = {}
"""Results of commands without the tested option, which many options share: (name, base, make) -> result."""
DEFINITION = ("option_strings", "dest", "type", "choices", "nargs")


def options_with_tests(name):
    """Options that have an entry, or are named by a test of the command, which is too slow here."""
    module = MAINS[name.split()[0]].__module__.rpartition(".")[2]
    of_command = re.compile(rf"\b{name.split()[-1]}\b|(commands|preprocess)(\.| import .*\b){module}\b")
    texts = [REFUSALS.get(name, ""), *filter(of_command.search, TEXTS)]
    named = (re.findall(r"(?<=[\"' ])--[\w-]+", text) for text in texts)
    of_decoding = map(format_option_name, CALL)  # they are declared once, and tested with the search
    return {*ENTRIES.get(name, {}), *itertools.chain.from_iterable(named), *of_decoding}


TESTED = {name: options_with_tests(name) for name in OPTIONS}


def are_one(action, other):
    """Tell whether two commands have the same option, which is defined in one place."""
    same = all(getattr(action, attribute) == getattr(other, attribute) for attribute in DEFINITION)
    return same and action.help.partition(" (default")[0] == other.help.partition(" (default")[0]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_an_entry_or_a_test_of_a_command_that_has_it(name):
    assert ENTRIES.get(name, {}).keys() <= OPTIONS[name].keys()
    for option, action in OPTIONS[name].items():
        others = [other for other in OPTIONS if option in OPTIONS[other] and are_one(action, OPTIONS[other][option])]
        assert any(option in TESTED[other] for other in others), f"{name} {option}"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in a new folder, with the inputs in ``in``."""
    count = 0

    def run(name, words, make=None, before=lambda: None) -> Ran:
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        (folder / "in").mkdir(parents=True)
        for file, text in INPUTS.items():
            (folder / "in" / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / "in" / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.chdir(folder)
        monkeypatch.setattr(debian, "LISTS", Path("no-lists"))  # the machine may have APT's lists
        program, *subcommand = name.split()
        for line in make or ():
            other, *arguments = shlex.split(line)
            assert call(other, arguments) == 0, line
        before()
        capsys.readouterr()
        status = call(program, [*subcommand, *words])
        said = capsys.readouterr()
        files = {}
        for path in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
            if path.parts[0] != "in" and path.name not in RECORDS and path.suffix not in (".log", ".idx"):
                files[str(path)] = cleaned(path.read_bytes(), str(folder))
        return Ran(status, SIGNATURE.sub("", said.out + said.err).replace(str(folder), "FOLDER"), files)

    def call(program, arguments):
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        try:
            return MAINS[program](arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1

    def cleaned(content, folder):
        content = content.replace(folder.encode(), b"FOLDER")
        try:
            return SIGNATURE.sub("", content.decode()).encode()
        except UnicodeDecodeError:
            return content

    return run


def cases(kind):
    """Entries of a kind, with their commands and options."""
    chosen = [(n, o, e) for n, entries in ENTRIES.items() for o, e in entries.items() if kind(e)]
    return pytest.mark.parametrize("name,option,entry", chosen, ids=[f"{n} {o}" for n, o, _ in chosen])


@cases(lambda entry: entry.refused is None)
def test_an_option_changes_the_result(name, option, entry: Entry, run):
    base = (name, entry.base, tuple(entry.make or ()))
    if base not in BASE_RESULTS:
        BASE_RESULTS[base] = run(name, shlex.split(entry.base), entry.make)
    without = BASE_RESULTS[base]
    assert (without.status != 0) == ((name, option) in NEEDED), without.said
    words = shlex.split(entry.run)
    result = run(name, [*shlex.split(entry.base), *words], entry.make)
    if "XML::Parser is missing" in result.said:
        pytest.skip(result.said)
    assert result.status == 0, result.said
    assert (result.said, result.files) != (without.said, without.files), "the option has no effect"


@cases(lambda entry: entry.refused is not None)
def test_an_option_is_refused(name, option, entry: Entry, run):
    result = run(name, [*shlex.split(entry.base), *shlex.split(entry.run)], entry.make)
    assert result.status and entry.refused in result.said.replace("\n", " "), result


@pytest.mark.parametrize("name, row", [(name, row) for name, table in REFUSALS.items() for row in cells(table)])
def test_what_cannot_be_used_is_refused_before_any_work(name, row, run):
    words, _, message = row.partition(" !! ")
    result = run(name, shlex.split(words))
    assert result.status == 2 and message in result.said.replace("\n", " ") and not result.files, result


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_run_twice_has_the_same_result(name, run):
    """Otherwise, any option would seem to change the result."""
    entry = next(entry for entry in ENTRIES[name].values() if entry.run)
    first, second = (run(name, shlex.split(entry.base), entry.make) for _ in range(2))
    assert first == second


def list_writing_runs():
    """The base of each command, and a run with each option that names a file which is not among the inputs."""
    for name, entries in ENTRIES.items():
        first = next(entry for entry in entries.values() if entry.run)
        runs = {first.base: ("", first.make)}
        for option, entry in entries.items():
            names_file = OPTIONS[name][option].metavar in ("FILE", "PAGE", "DIR", "OUT")
            if names_file and entry.run and not entry.refused and " in/" not in entry.run:
                runs[f"{entry.base} {entry.run}"] = option, entry.make
        for words, (option, make) in runs.items():
            yield pytest.param(name, words, make, id=f"{name} {option}".strip())


@pytest.mark.parametrize("name, words, make", list_writing_runs())
def test_neither_an_input_nor_a_file_of_others_is_replaced(name, words, make, run):
    """Each output is named like each input in turn, and files of others lie beside the outputs."""
    words = shlex.split(words)
    names = list(dict.fromkeys(word.rpartition("=")[2] for word in words if not word.startswith("-")))
    kept, there = {}, {}

    def take_note(*more):
        for path in more:
            path.write_text("jane", encoding="utf-8")
        kept.clear()
        kept.update({path: path.read_bytes() for path in Path().rglob("*") if path.is_file()})
        there.update({word: Path(word).exists() for word in names})

    def changed():
        return [path for path, content in kept.items() if not path.is_file() or path.read_bytes() != content]

    result = run(name, words, make, take_note)
    outputs = [word for word in names if Path(word).exists() and not there[word]]
    inputs = [word for word in names if there[word]]
    assert not changed(), result.said
    for output in map(Path, outputs):
        is_folder = output.is_dir()
        others = [output.with_name(f"{output.name}.{end}") for end in ("partial", "resume", "resume.new", "shards")]
        others += [output.with_name(f".{output.name}.lock"), output.with_name("notes")]
        result = run(name, words, make, lambda: take_note(*others))  # noqa: B023
        assert not changed(), (result, changed())
        for used in inputs:
            found = [path for path in [Path(used), *sorted(Path(used).rglob("*"))] if path.is_file()][:2]
            for path in [found[0].parent] if is_folder else found:
                again = [str(path) if word == str(output) else word for word in words]
                result = run(name, again, make, take_note)
                assert not changed(), (again, result.said, changed())
