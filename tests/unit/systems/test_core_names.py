"""The core names no system: the names that systems register stand in one table, and nowhere else in the core."""

import ast
import re
from pathlib import Path

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_etads.plugin as _  # noqa: F401  # registers the systems
from fairseq_etads.platform.optional_parts import BROUGHT, list_option_values
from fairseq_etads.search.terms import _OPTION_TERMS
from fairseq_etads.training.extra_updates import _REGISTERED

PACKAGE = Path(__file__).parents[3] / "fairseq_etads"
TABLE = PACKAGE / "platform" / "optional_parts.py"
OF_A_SYSTEM = {"commands/nli.py", "commands/rewrite.py"} | {
    f"{what.partition('.')[2].replace('.', '/')}.py"
    for brought in BROUGHT.values()
    for what in brought
    if what.startswith("fairseq_etads.")
}
"""Commands and other modules of one system."""
OTHER_MEANING = {
    ("data/nli_pairs.py", "entailment"),  # a label of a pair
    ("evaluation/other_scores.py", "entailment"),  # a figure of the score
}
DECLARATIONS = {("search/options.py", "extractive_weights")}
"""A decoding option of a system is a field of the decoding options, as for every command; its term is registered."""


def registered(registry):
    """Names of a registry of fairseq or of this package that a module of a system registers."""
    return {name for name, made in registry.items() if made.__module__.startswith("fairseq_etads.systems.")}


def registered_terms():
    return {name for name, term in _OPTION_TERMS.items() if term.make.__module__.startswith("fairseq_etads.systems.")}


def names():
    return {
        *registered(ARCH_MODEL_REGISTRY),
        *registered(CRITERION_REGISTRY),
        *registered(_REGISTERED),
        *registered_terms(),
    }


def core_files():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "systems" and place.as_posix() not in OF_A_SYSTEM and path != TABLE:
            yield place.as_posix(), path


def named(path, words):
    """Names of systems in a file's code: texts other than docstrings, names and attributes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from (word for word in words if re.search(rf"(?<![\w-]){word}(?![\w-])", node.value))
        elif isinstance(node, ast.Attribute) and node.attr in words - {"abs"}:  # torch.abs
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in words:
            yield node.target.id


def test_the_table_of_systems_has_every_name_that_they_register():
    for option, registry in (
        ("--arch", ARCH_MODEL_REGISTRY),
        ("--criterion", CRITERION_REGISTRY),
        ("--auxiliary-task", _REGISTERED),
    ):
        assert registered(registry) == set(list_option_values(option)) != set()
    options = {what[2:].replace("-", "_") for brought in BROUGHT.values() for what in brought if " " not in what}
    assert registered_terms() == {name for name in options if "." not in name} != set()


def test_the_core_names_none_of_them():
    found = {(place, name) for place, path in core_files() for name in named(path, names())}
    assert found - OTHER_MEANING == DECLARATIONS
