"""The recipes train and search with the numbers of tests/reference/papers.yaml, read from dry runs."""

import math
from typing import Any, NamedTuple, Optional

import pytest
import yaml
from documented import ROOT, project_commands
from dry_runs import make_stubs
from effective import DECIDING, effective_values, plain_search, plain_training

from fairseq_etads.pipeline.recipes import list_recipes

TABLE = yaml.safe_load((ROOT / "tests" / "reference" / "papers.yaml").read_text(encoding="utf-8"))
del TABLE["shared"]
OTHERS = ("debian_", "sumpubmed_", "scitldr")
"""Recipes that compare systems on open corpora and reproduce no paper."""


class OptionValue(NamedTuple):
    """Value of an option in a paper (None: not reported) and in the recipe, with its source and a reason to differ."""

    kind: str
    run: str
    option: str
    paper: Any
    where: str
    ours: Any
    why: Optional[str]


def option_values(name):
    """All values of an entry of the table."""
    for kind in ("training", "search"):
        for run, options in TABLE[name].get(kind, {}).items():
            where = options.get("where", TABLE[name]["where"])
            for option, value in options.items():
                if option != "where":
                    given = value if isinstance(value, dict) else {"paper": value}
                    paper, why = given.get("paper"), given.get("why")
                    ours = given.get("ours", paper)
                    yield OptionValue(kind, run, option, paper, given.get("where", where), ours, why)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Entry of the table -> "training" and "search" -> run -> option -> value."""
    commands = ["fairseq-train", "fairseq-generate", "fairseq-interactive", *project_commands()]
    stubs = make_stubs(tmp_path_factory.mktemp("dry"), commands)
    made = {}

    def get(name):
        if name not in made:
            entry = TABLE[name]
            script = f"scripts/reproduce/{entry.get('recipe', name)}.sh"
            made[name] = effective_values(stubs, [script, "--data", "data", *entry.get("options", "").split()])
        return made[name]

    return get


def equal(one, other):
    """Tell whether two values are the same; an option that is off may be None, 0 or false."""
    if not one and not other:
        return True
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9)
    return str(one) == str(other)


@pytest.mark.parametrize("name", TABLE)
def test_a_recipe_has_the_numbers_of_the_table(name, found):
    wrong = []
    for value in option_values(name):
        assert value.why or (value.paper is not None and equal(value.paper, value.ours)), f"{value}: why?"
        runs = found(name)[value.kind]
        assert value.run in runs, f"{name} has no {value.kind} {value.run}: {', '.join(runs)}"
        effective = runs[value.run].get(value.option)
        if not equal(effective, value.ours):
            wrong.append(f"{value.run}: {value.option} is {effective}, not {value.ours} ({value.where})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", TABLE)
def test_the_table_leaves_out_no_option_that_decides(name, found):
    """An option that a recipe changes but the table does not list has not been compared with the paper."""
    missing = []
    for kind, plain in (("training", plain_training()), ("search", plain_search())):
        for run, known in TABLE[name].get(kind, {}).items():
            values = found(name)[kind][run]
            changed = {
                option for option in DECIDING[kind] if option in values and not equal(values[option], plain.get(option))
            }
            missing += [f"{run}: {option} {values[option]}" for option in sorted(changed - set(known))]
    assert not missing, "\n".join(missing)


def test_every_recipe_of_a_paper_is_in_the_table():
    recipes = {path.stem for path in (ROOT / "scripts" / "reproduce").glob("*.sh")} - {*list_recipes()}
    papers = {name for name in recipes if not name.startswith(OTHERS)}
    assert {entry.get("recipe", name) for name, entry in TABLE.items()} == papers
