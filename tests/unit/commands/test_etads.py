"""The command etads: all commands under one name, completion, and the report on the installation."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest
import setuptools

import fairseq_etads.commands
from fairseq_etads.commands import docs, doctor, etads
from fairseq_etads.commands.completion import make_completion_script
from fairseq_etads.commands.etads import find_commands, main
from fairseq_etads.platform import optional_parts

SETUP = Path(__file__).parents[3] / "setup.py"


def test_setup_installs_the_commands_that_are_found(monkeypatch):
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(SETUP))
    found = {f"etads-{name}={c.module}:main" for name, c in find_commands().items() if c.is_installed}
    assert found == {*given["entry_points"]["console_scripts"]} - {"etads=fairseq_etads.commands.etads:main"}


def test_a_new_module_is_a_command(tmp_path, monkeypatch, capsys):
    docstring = '"""The command ``etads-shout`` (evaluate): print words."""'
    (tmp_path / "shout.py").write_text(f"{docstring}\n\ndef main(words):\n    print(*words)\n")
    monkeypatch.setattr(fairseq_etads.commands, "__path__", [str(tmp_path)])
    monkeypatch.setattr(etads, "find_commands", find_commands.__wrapped__)
    assert main(["shout", "a"]) is None and main([]) == 0
    assert re.match(r"a\n(?s:.*)Evaluate:\n  shout +print words\n", capsys.readouterr().out)


def test_a_command_is_called_by_its_short_name_with_its_exit_status(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a b c\n")
    for name in ("rouge", "etads-rouge"):
        assert main([name, *[str(tmp_path / "a.txt")] * 2]) == 0 and "ROUGE-1" in capsys.readouterr().out
    assert main(["rouge", "missing", "missing"]) == 2
    assert capsys.readouterr().err.startswith("etads-rouge: ")
    for word, name in {"sumarize": "summarize", "evaluate": "rouge, compare or analyse"}.items():
        assert main([word]) == 2 and f"did you mean {name}?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["help", "rouge"])
    assert capsys.readouterr().out.startswith("usage: etads-rouge")


def test_bash_completes_commands_options_and_values():
    for line, words in (
        ("etads su", ["summarize"]),
        ("/usr/bin/etads-summarize --length-penalty-t", ["--length-penalty-type"]),
        ("etads rouge --backend p", ["python", "perl"]),
    ):
        code = f"{make_completion_script()}\nCOMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _etads\n"
        code += "printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr == "" and done.stdout.split() == words


def test_pages_are_printed_and_help_names_none_that_is_missing(capsys):
    assert main(["docs", "using"]) == 0 and capsys.readouterr().out.startswith("# Using a trained model\n")
    for path in (*Path(etads.__file__).parent.glob("*.py"), *(SETUP.parent / "preprocess").glob("*.py")):
        for page in re.findall(r"etads docs (\w+)[\s.)]", path.read_text(encoding="utf-8")):
            assert (docs.FOLDER / f"{page}.md").is_file(), path


def test_doctor_tries_a_summary_and_fails_with_it(capsys, monkeypatch):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    document, summary = re.search(r"^self-test: \d+\.\d s, (Vim is .*) -> (\w.*)$", shown, re.MULTILINE).groups()
    readme = (SETUP.parent / "README.md").read_text(encoding="utf-8")
    assert f'echo "{document}" | etads summarize debian\n' in readme and f"line prints `{summary}`" in readme
    monkeypatch.setattr(doctor, "find_folder", lambda name: Path("/nonexistent"))
    assert main(["doctor"]) == 1
    assert "self-test failed: " in capsys.readouterr().err


def test_extras_are_those_of_setup():
    section = SETUP.read_text(encoding="utf-8").partition("extras_require={")[2].partition("entry_points")[0]
    known = set(re.findall(r'^        "([\w-]+)":', section, re.MULTILINE))
    assert set(optional_parts.EXTRAS) == known - {"docs", "mutation", "benchmarks", "dev"}, "no command uses these four"
