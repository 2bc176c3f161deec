"""The recipes train and search with the numbers of tests/reference/papers.yaml, read from dry runs."""

import importlib.util
import math

import pytest
from documented import ROOT, project_commands
from dry_runs import make_stubs
from effective import DECIDING, effective_values, plain_search, plain_training

spec = importlib.util.spec_from_file_location("paper_values", ROOT / "scripts" / "paper_values.py")
paper_values = importlib.util.module_from_spec(spec)
spec.loader.exec_module(paper_values)
TABLE = paper_values.load_paper_values()
OTHERS = ("evidence", "debian_", "sumpubmed_", "scitldr")
"""Recipes that compare systems on open corpora and reproduce no paper."""


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
    for value in paper_values.iterate_option_values({name: TABLE[name]}):
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


def test_every_value_says_where_it_is_from_and_every_deviation_why():
    for value in paper_values.iterate_option_values(TABLE):
        place = (value.recipe, value.run, value.option)
        assert value.where, place
        assert value.why or (value.paper is not None and equal(value.paper, value.ours)), place


def test_every_recipe_of_a_paper_is_in_the_table():
    recipes = {path.stem for path in (ROOT / "scripts" / "reproduce").glob("*.sh")}
    assert {entry.get("recipe", name) for name, entry in TABLE.items()} == {
        name for name in recipes if not name.startswith(OTHERS)
    }


def test_the_page_has_the_deviations_of_the_table():
    page = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    table = page.partition(paper_values.BEGIN)[2].partition(paper_values.END)[0].strip()
    assert table == paper_values.format_recipe_deviations(TABLE), (
        "write it by scripts/paper_values.py docs/deviations.md"
    )
