"""Each system can be deleted: the core trains and searches, and missing names are reported with their system."""

import shutil
from pathlib import Path

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from programs import in_forks

import fairseq_etads.plugin as _  # noqa: F401  # registers the systems
from fairseq_etads.platform.optional_parts import BROUGHT, list_option_values
from fairseq_etads.search.terms import _OPTION_TERMS
from fairseq_etads.training.extra_updates import _REGISTERED

TESTS = Path(__file__).parents[2]
PACKAGE = TESTS.parent / "fairseq_etads"
CORE = f"import sys; sys.path.append({str(TESTS)!r})"
CORE += """
import importlib

import fairseq_etads
from fairseq import options
from fairseq_etads import systems
from fairseq_etads.pipeline.architectures import PRESETS
from fairseq_etads.platform.console import run_command
from fairseq_etads.platform.optional_parts import BROUGHT, explain_missing_system
from fairseq_etads.training.extra_updates import get_auxiliary_task
from helpers import RECURRENT, SMALL, model_config
from steps import steps_task, train_and_decode

root, name = sys.argv[1:]
assert fairseq_etads.__file__.startswith(root), fairseq_etads.__file__
assert {found.__name__.rpartition(".")[2] for found in systems.import_installed_systems()} == {*BROUGHT} - {name}
train_and_decode(steps_task(), model_config("etads", **SMALL, pointer="soft"))
train_and_decode(steps_task(), model_config("gru_seq2seq", **RECURRENT, decoder_embed_dim=16, readout_dim=12))

told = []
for what in BROUGHT[name]:
    option, _, value = what.partition(" ")
    try:
        if option in ("--arch", "--criterion"):
            other = {"--arch": "etads", "--criterion": "summarization_nll", option: value}
            line = ["DATA", "--task", "summarization", *[word for pair in other.items() for word in pair]]
            options.parse_args_and_arch(options.get_training_parser(), line)
        elif option == "--auxiliary-task":
            get_auxiliary_task(value)
    except ValueError as error:
        assert str(error).startswith(explain_missing_system(what, name)), error
        told.append(what)
    assert value not in PRESETS
    if option.startswith("fairseq_etads."):
        assert run_command("etads", lambda: importlib.import_module(option)) == 2
print("told:", *told, sep="\\n")
"""


def modules_of(name):
    """Modules of this package that only serve one system."""
    return [what for what in BROUGHT[name] if what.startswith("fairseq_etads.")]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """What the core says in copies without one of the systems, and in one with a broken system."""
    jobs = {}
    for name in (*sorted(BROUGHT), "broken"):
        root = tmp_path_factory.mktemp(name)
        shutil.copytree(PACKAGE, root / "fairseq_etads", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
        if name == "broken":
            (root / "fairseq_etads/systems/rewriting/model.py").write_text("import nothing_of_this_name\n")
            jobs[name] = (root, "import fairseq_etads.plugin", [])
            continue
        system = root / "fairseq_etads" / "systems" / name
        shutil.rmtree(system) if system.is_dir() else system.with_suffix(".py").unlink()
        for module in modules_of(name):
            (root / f"{module.replace('.', '/')}.py").unlink()
        jobs[name] = (root, CORE, [str(root), name])
    modules = ["torch", "fairseq.models", "fairseq.tasks", "fairseq.criterions"]
    return dict(zip(jobs, in_forks(list(jobs.values()), modules)))


@pytest.mark.parametrize("name", sorted(BROUGHT))
def test_the_core_does_without_it(without, name):
    status, said = without[name]
    assert status == 0, said[-3000:]
    told = said.partition("told:")[2].split("\n")[1:-1]
    registered = ("--arch", "--criterion", "--auxiliary-task")
    assert told == [what for what in BROUGHT[name] if what.split()[0] in registered]
    explained = f"etads: this belongs to the system in fairseq_etads/systems/{name}, which is"
    assert said.count(explained) == len(modules_of(name))


def test_a_broken_system_is_not_taken_for_a_missing_one(without):
    status, said = without["broken"]
    assert status == 1 and "No module named 'nothing_of_this_name'" in said


def registered(registry):
    """Names of a registry of fairseq or of this package that a module of a system registers."""
    return {name for name, made in registry.items() if made.__module__.startswith("fairseq_etads.systems.")}


def test_the_table_of_systems_has_every_name_that_they_register():
    registries = {"arch": ARCH_MODEL_REGISTRY, "criterion": CRITERION_REGISTRY, "auxiliary-task": _REGISTERED}
    for option, registry in registries.items():
        assert registered(registry) == set(list_option_values(f"--{option}")) != set()
    options = {what[2:].replace("-", "_") for brought in BROUGHT.values() for what in brought if " " not in what}
    terms = registered({name: term for name, (parse, term) in _OPTION_TERMS.items()})
    assert terms == {name for name in options if "." not in name} != set()
