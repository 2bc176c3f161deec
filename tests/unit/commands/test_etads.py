"""The command etads: all commands under one name, completion, and the report on the installation."""

import re
import subprocess
from pathlib import Path

import pytest

import fairseq_etads
from fairseq_etads.commands import doctor
from fairseq_etads.commands.completion import make_completion_script
from fairseq_etads.commands.etads import COMMANDS, LAST_GROUP, get_commands_by_name, main
from fairseq_etads.platform import optional_dependencies

SETUP = (Path(__file__).parents[3] / "setup.py").read_text(encoding="utf-8")
INSTALLED = dict(re.findall(r'"etads-(\w+)=([\w.]+):main"', SETUP))


def test_the_list_has_every_installed_command(capsys):
    listed = {
        name: command.module for name, command in get_commands_by_name().items() if name not in COMMANDS[LAST_GROUP]
    }
    assert listed == INSTALLED
    assert main([]) == 0
    shown = capsys.readouterr().out
    for name, command in get_commands_by_name().items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", shown, re.MULTILINE)


def test_a_command_is_called_by_its_short_name(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a b c\n")
    for name in ("rouge", "etads-rouge"):
        assert main([name, str(tmp_path / "a.txt"), str(tmp_path / "a.txt")]) == 0
        assert "ROUGE-1" in capsys.readouterr().out
    assert main(["rouge", "missing", "missing"]) == 2
    assert capsys.readouterr().err.startswith("etads-rouge: ")


@pytest.mark.parametrize("words", [["--version"], ["help"], ["help", "rouge"], ["rouge", "--help"]])
def test_help_and_version(words, capsys):
    try:
        assert main(words) == 0
    except SystemExit as end:
        assert end.code == 0
    expected = {"--version": f"etads {fairseq_etads.__version__}\n", "help": "usage: etads"}
    assert capsys.readouterr().out.startswith("usage: etads-rouge" if "rouge" in words else expected[words[0]])


@pytest.mark.parametrize("word, meant", [("sumarize", "summarize"), ("etads-ruoge", "rouge"), ("xyz", "")])
def test_misspelt_commands_are_answered_with_the_right_one(word, meant, capsys):
    assert main([word]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and (f"did you mean {meant}?" in message) == bool(meant)


def complete(line):
    """The words that bash offers at the end of a line."""
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    code = f"{make_completion_script()}\nCOMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _etads\n"
    code += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_and_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "articles.txt").touch()
    assert complete("etads su") == ["summarize"]
    assert {"--lenpen", "--length-penalty-type"} <= set(complete("etads summarize --len"))
    assert complete("etads-summarize --length-penalty-t") == ["--length-penalty-type"]
    assert complete("etads rouge --backend p") == ["python", "perl"]
    assert complete("/usr/bin/etads-human ma") == ["make"]
    assert complete("etads-summarize debian art") == ["articles.txt"]


def test_doctor_reports_and_tries_a_summary(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"fairseq-etads   {fairseq_etads.__version__}" in shown
    for part in ("torch ", "processor ", "threads ", "devices         cpu"):
        assert part in shown
    document, summary = re.search(r"^self-test: \d+\.\d s, (Vim is .*) -> (\w.*)$", shown, re.MULTILINE).groups()
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert f'echo "{document}" | etads summarize debian\n' in readme and f"line prints `{summary}`" in readme
    assert f" s, {document} -> {summary}\n" in readme


def test_doctor_fails_with_the_self_test(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "find_folder", lambda name: Path("/nonexistent"))
    assert main(["doctor"]) == 1
    assert "self-test failed: " in capsys.readouterr().err


def test_extras_are_those_of_setup():
    section = SETUP.partition("extras_require={")[2].partition("entry_points")[0]
    known = set(re.findall(r'^        "([\w-]+)":', section, re.MULTILINE))
    assert set(optional_dependencies.EXTRAS) == known - {"docs", "mutation", "benchmarks", "dev"}, (
        "no command uses these four"
    )


def test_the_line_that_installs_an_extra_runs_here(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    assert optional_dependencies.format_install_command("demo") == "python -m pip install '.[demo]'"
    monkeypatch.chdir(tmp_path)
    assert (
        optional_dependencies.format_install_command("demo")
        == f"python -m pip install '{Path(__file__).parents[3]}[demo]'"
    )
    monkeypatch.setitem(optional_dependencies.EXTRAS, "demo", ("starlette", "no_such_module"))
    assert optional_dependencies.find_missing_modules("demo") == ("no_such_module",)
