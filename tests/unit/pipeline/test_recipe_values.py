"""Recipes: their options have the values that real parsers see, and differ from the paper only with a reason."""

import math
import os
import re
from pathlib import Path

import pytest
from documented import complaint, parser_of, project_commands
from effective import DECIDING, MECHANISMS, plain_search, plain_training, read_values

from fairseq_etads.commands import reproduce
from fairseq_etads.pipeline.recipe_tables import format_values, list_values
from fairseq_etads.pipeline.recipes import list_recipes, load_recipe

VARIANTS = {
    "bottomup_cnndm": [["--arch", "etads_basic"]],
    "entail_gigaword": [["--nli", "nli", "--entail-model", "model"]],
    "rougesal_cnndm": [["--rewards", "rougeL"], ["--entail-model", "nli"]],
}
"""Options that choose other alternatives of a recipe's rows and runs."""
CASES = [
    pytest.param(name, options, id=" ".join([name, *options]))
    for name in list_recipes()
    for options in [[], *VARIANTS.get(name, [])]
]
NAMES = {"max_len": "max_len_b"}
"""Options of a recipe -> names under which effective.py has their values."""


def are_equal(one, other):
    """Tell whether two values of an option mean the same."""
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return str(one).replace(" ", "") == str(other).replace(" ", "")


def make_plan(name, *options):
    recipe = load_recipe(name)
    data = [word for key, option in recipe["options"].items() if "prepare" in option for word in (f"--{key}", key)]
    words = [name, "--out", "out", "--rows", *recipe["rows"], "--seeds", "1", *data, *options]
    plan = reproduce.make_plan(reproduce.main.make_parser().parse_args(words))
    return plan.make()


@pytest.mark.parametrize("name,options", CASES)
def test_each_command_of_a_dry_run_is_accepted_by_its_parser(name, options):
    parsers = {name: parser_of(main) for name, main in project_commands().items()}
    for action in make_plan(name, *options).actions:
        if action.words[0] in parsers:
            words = [re.sub(r"\$\(jq .*?\)", "1", word) for word in action.words[1:]]  # read when the recipe runs
            assert complaint(parsers[action.words[0]], words) is None, action.words


@pytest.mark.parametrize("name,options", CASES)
def test_values_are_effective_and_differ_from_the_paper_with_a_reason(name, options):
    """Neither a preset in the recipe, nor an option that decides and is missing in it, remains without comparison."""
    plan = make_plan(name, *options)
    effective = read_values(action.words for action in plan.actions)
    wrong = []
    for run in (*plan.recipe["rows"], *plan.recipe["runs"]):
        values = [value for value in list_values(plan, run) if value.section != "duc"]
        wrong += [
            f"{value}: why?"
            for value in values
            if value.paper is not None and not are_equal(value.ours, value.paper)
            if not value.why
        ]
        for kind, plain in (("training", plain_training()), ("search", plain_search())):
            found = effective[kind].get(run)
            if found is None:
                continue
            sections = ("training", "technical") if kind == "training" else ("search",)
            ours = {v.option.replace("-", "_"): v.ours for v in values if v.section in sections}
            ours = {NAMES.get(option, option): value for option, value in ours.items()}
            wrong += [
                f"{run}: {option} is {found[option]}, not {value}"
                for option, value in ours.items()
                if option in found and not are_equal(found[option], value) and "(" not in str(value)
            ]
            changed = {o for o in DECIDING[kind] if o in found and not are_equal(found[o] or 0, plain.get(o) or 0)}
            known = {*ours, *(("patience_updates", "patience_epochs") if "patience" in ours else ())}
            wrong += [f"{run}: {option} is missing" for option in sorted(changed - known) if "paper" in plan.recipe]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", list_recipes())
def test_each_training_has_the_options_of_its_mechanisms(name):
    effective = read_values(action.words for action in make_plan(name).actions)["training"]
    trained = {run: values for run, values in effective.items() if "/stages/" not in run}
    assert trained.keys() == MECHANISMS.get(name, {}).keys()
    for run, options in MECHANISMS.get(name, {}).items():
        expected = dict(option.split("=") for option in options.split())
        assert {option: str(trained[run][option]) for option in expected} == expected, run


def read_and_made(action, made):
    """Paths that a command of a recipe reads or makes, and those that it makes; a folder stands for its contents."""
    program, *words = action.words
    paths = [word for word in words if word.startswith("out/")]
    if program == "fairseq-train":
        kinds = ("last",) if "--disable-validation" in words else ("best", "last")
        files = ("train.log", "training.json", "finished.txt", *(f"checkpoints/checkpoint_{kind}.pt" for kind in kinds))
        paths = [path for path in (str(action.prepared), *action.options) if path.startswith("out/")]
        return paths, [f"{action.run_folder}/{file}" for file in files]
    if program == "mkdir":
        return [], [f"{words[-1]}/."]
    if program == "ln":  # into a folder, or as another name of one
        inside = any(path.startswith(f"{words[-1]}/") for path in made)
        folder = words[-1] if inside else os.path.dirname(words[-1])
        sources = [os.path.normpath(os.path.join(folder, source)) for source in words[1:-1]]
        return (
            [source for source in sources if source.startswith("out/")],
            [f"{words[-1]}/{Path(source).name}" for source in sources] if inside else [words[-1]],
        )
    makes = [words[words.index(option) + 1] for option in ("--out", "--prepared") if option in words]
    others = {"etads-prepare": words[1:2], "python": makes or words[-1:], "etads-train": makes}
    return paths, [*map(str, action.makes), *others.get(program, [])]


@pytest.mark.parametrize("name,options", CASES)
def test_each_command_reads_what_earlier_ones_make(name, options):
    made = set()
    for action in make_plan(name, *options).actions:
        paths, new = read_and_made(action, made)
        made.update(new)
        for path in paths:
            known = any(f"{path}/".startswith(f"{one}/") or f"{one}/".startswith(f"{path}/") for one in made)
            assert known, f"nothing makes {path}: {action.words}"


@pytest.mark.parametrize("name", list_recipes())
def test_show_has_every_row_and_reason(name):
    plan = make_plan(name)
    text = format_values(plan)
    for row in plan.recipe["rows"]:
        assert f"| {row} " in text
        assert all(value.why in text for value in list_values(plan, row))


def test_an_option_is_given_only_if_its_condition_holds():
    with_entailment, without = (
        [word for action in make_plan("rougesal_cnndm", *options).actions for word in action.words]
        for options in ([], ["--rewards", "rougeL"])
    )
    assert {"--entail-model", "--rougesal-saliency", "etads-nli"} <= {*with_entailment}
    assert not {"--entail-model", "--rougesal-saliency", "etads-nli"} & {*without}


def test_a_key_that_would_have_no_effect_is_refused(tmp_path):
    """The text after the comma is a key in YAML."""
    (tmp_path / "mine.yaml").write_text("options:\n  steps: {help: number of steps, at most}\nrows: {one: }\n")
    with pytest.raises(reproduce.InputError, match="option steps: unknown key at most; choose from: help"):
        load_recipe(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize(
    "words,message",
    [
        (["see2017_cnndm", "--rows", "nonesuch"], "--rows nonesuch: choose one of: pointer_generator"),
        (["debian_equal_time", "--archs", "nonesuch"], "--archs nonesuch: choose one of: etads, pg_coverage"),
        (["see2017_cnndm", "--steps", "0"], "--steps 0: choose a whole number above 0"),
        (["see2017_cnndm", "--stages", "50/15 100"], "is not DOCUMENT/SUMMARY"),
        (["see2017_cnndm", "--steps", "70000"], "8 stages of 10000 steps"),
        (["see2017_cnndm"], "--data is missing; this command makes it: etads corpus cnndm"),
        (["see2017_cnndm", "--data", "nowhere"], "--data nowhere: no prepared data in it; etads corpus cnndm"),
        (["see2017"], "no such recipe; did you mean see2017_cnndm?"),
    ],
)
def test_a_wrong_value_is_refused_before_work(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = reproduce.main(words)
    except SystemExit as end:
        status = end.code
    assert status == 2 and message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_recipes_are_listed_shown_and_planned(capsys):
    for words, said in (
        (["--list"], "see2017_cnndm "),
        (["see2017_cnndm", "--show", "--rows", "pointer_generator"], "| --lr "),
        (
            ["see2017_cnndm", "--dry-run", "--data", "d", "--seeds", "7", "--out", "there", "--cpu"],
            "there/pointer_generator-7",
        ),
    ):
        assert reproduce.main(words) in (0, None) and said in capsys.readouterr().out
