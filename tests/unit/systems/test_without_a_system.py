"""Each system can be deleted: the core trains and searches, and missing names are reported with their system."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_etads.platform.optional_parts import BROUGHT

TESTS = Path(__file__).parents[2]
PACKAGE = TESTS.parent / "fairseq_etads"
CORE = """
import sys
import fairseq_etads
from fairseq_etads import systems
from fairseq_etads.platform.optional_parts import BROUGHT, explain_missing_system
from helpers import RECURRENT, SMALL, model_config
from steps import steps_task, train_and_decode

root, name = sys.argv[1:]
assert fairseq_etads.__file__.startswith(root), fairseq_etads.__file__
assert {found.__name__.rpartition(".")[2] for found in systems.import_installed_systems()} == {*BROUGHT} - {name}
train_and_decode(steps_task(), model_config("etads", **SMALL, pointer="soft"))
train_and_decode(steps_task(), model_config("gru_seq2seq", **RECURRENT, decoder_embed_dim=16, readout_dim=12))

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.criterions import CRITERION_REGISTRY
from fairseq_etads.pipeline.architectures import PRESETS
from fairseq_etads.training.extra_updates import get_auxiliary_task

told = []
for what in BROUGHT[name]:
    option, _, value = what.partition(" ")
    if option in ("--arch", "--criterion"):
        other = {"--arch": "etads", "--criterion": "summarization_nll", option: value}
        line = ["DATA", "--task", "summarization", *[word for pair in other.items() for word in pair]]
        ask = lambda: options.parse_args_and_arch(options.get_training_parser(), line)
    elif option == "--auxiliary-task":
        ask = lambda: get_auxiliary_task(value)
    else:
        continue
    try:
        ask()
    except ValueError as error:
        assert str(error).startswith(explain_missing_system(what, name)), error
        told.append(what)
    assert value not in PRESETS
print("told:", *told, sep="\\n")
"""
OPTIONS = {name: [what for what in brought if what.startswith("--")] for name, brought in BROUGHT.items()}


@pytest.fixture(params=sorted(BROUGHT))
def without(request, tmp_path):
    """A copy of the package in tmp_path without one system; its name."""
    copy = tmp_path / "fairseq_etads"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    shutil.rmtree(copy / "systems" / request.param)
    for what in BROUGHT[request.param]:
        if what.startswith("fairseq_etads."):
            (tmp_path / f"{what.replace('.', '/')}.py").unlink()
    return request.param


def python(folder, *arguments):
    path = os.pathsep.join(map(str, (folder, TESTS)))
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_the_core_does_without_it(without, tmp_path):
    result = python(tmp_path, "-c", CORE, str(tmp_path), without)
    assert result.returncode == 0, result.stderr[-3000:]
    told = result.stdout.partition("told:")[2].split("\n")[1:-1]
    assert told == [
        what for what in OPTIONS[without] if what.split()[0] in ("--arch", "--criterion", "--auxiliary-task")
    ]
    for job in BROUGHT[without]:
        if job.startswith("fairseq_etads."):
            code = "import sys; from fairseq_etads.platform.console import run_command; "
            code += f"sys.exit(run_command('etads', lambda: __import__('{job}')))"
            result = python(tmp_path, "-c", code)
            assert result.returncode == 2, result.stderr[-2000:]
            assert f"etads: this belongs to the system in fairseq_etads/systems/{without}, which is" in result.stderr


def test_a_command_of_a_missing_system_says_so_in_one_line(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "fairseq_etads", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    shutil.rmtree(tmp_path / "fairseq_etads" / "systems" / "entailment")
    (tmp_path / "pairs.tsv").write_text("a\tb\tentailment\n")
    result = python(tmp_path, "-m", "fairseq_etads.commands.nli", "score", ".", "pairs.tsv", "out")
    assert (result.returncode, result.stdout) == (2, "")
    assert "etads-nli: this belongs to the system in fairseq_etads/systems/entailment" in result.stderr
    assert python(tmp_path, "-m", "fairseq_etads.commands.nli", "--help").returncode == 0


def test_a_broken_system_is_not_taken_for_a_missing_one(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "fairseq_etads", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    (tmp_path / "fairseq_etads" / "systems" / "rewriting" / "model.py").write_text("import nothing_of_this_name\n")
    result = python(tmp_path, "-c", "import fairseq_etads.plugin")
    assert result.returncode == 1 and "No module named 'nothing_of_this_name'" in result.stderr


def test_every_system_says_where_its_parts_are():
    """Each path in its docstring exists; the table of what it brings names modules that exist."""
    root = PACKAGE.parent
    for name, brought in BROUGHT.items():
        text = (PACKAGE / "systems" / name / "__init__.py").read_text(encoding="utf-8").split('"""')[1]
        for part in text.replace("\n", " ").split("``")[1::2]:
            if part.endswith((".py", ".sh", ".md")) or part.startswith("tests/"):
                assert any((folder / part).exists() for folder in (root, PACKAGE, root / "scripts/reproduce")), part
        for what in brought:
            if what.startswith("fairseq_etads."):
                assert (root / f"{what.replace('.', '/')}.py").is_file()
