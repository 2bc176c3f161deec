"""Recipes: their options have the values that real parsers see, and differ from the paper only with a reason."""

import functools
import math
import os
import re
from pathlib import Path
from unittest import mock

import pytest
import yaml
from documented import ROOT, complaint, parser_of, project_commands
from fairseq import options as fairseq_options
from fairseq import utils

from fairseq_etads.commands import reproduce
from fairseq_etads.pipeline.architectures import make_architecture_config
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
"""Options of a recipe -> names of fairseq's options."""
MECHANISMS = yaml.safe_load((ROOT / "tests" / "mechanisms.yaml").read_text(encoding="utf-8"))
"""Recipe -> training -> options, see the file."""
DECIDING = {
    "training": (
        *("optimizer", "initial_accumulator", "momentum", "weight_decay", "lr", "lr_scheduler", "warmup_updates"),
        *("total_num_update", "stop_min_lr", "clip_norm", "max_tokens", "batch_size", "update_freq", "max_update"),
        *("max_epoch", "sentence_avg", "length_normalised", "label_smoothing", "truncate_source", "truncate_target"),
        *("patience_updates", "patience_epochs", "coverage_loss", "coverage_loss_start", "extraction_loss"),
        *("inconsistency_loss", "selection_loss", "closed_book_weight", "rewards", "rl_weight", "raml_reward"),
    ),
    "search": (
        *("beam", "min_len", "max_len_b", "lenpen", "length_penalty_type", "unnormalized", "coverage_penalty"),
        *("stepwise_coverage_penalty", "no_repeat_ngram_size", "ngram_ignore_tokens", "unkpen", "min_sentences"),
        *("exact_length", "recombine", "extractive_weights", "replace_unknown", "rerank", "sentences"),
    ),
}
"""Options that must be in the table of the papers' numbers if a recipe changes them."""
REWRITING = ("beam", "diversity", "rerank", "rerank_length", "sentences")
"""Options of etads-rewrite that papers specify."""


def _plain(value):
    """Value of an option as in YAML."""
    if isinstance(value, (list, tuple)):
        return _plain(value[0]) if len(value) == 1 else f"({', '.join(str(_plain(one)) for one in value)})"
    if isinstance(value, (bool, int)) or value is None:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return int(number) if number.is_integer() and abs(number) < 1e9 else number


def _values(args):
    return {name: _plain(value) for name, value in vars(args).items() if value is not None}


def _parsed(parser, words):
    with mock.patch.object(utils, "import_user_module", lambda args: None):
        return fairseq_options.parse_args_and_arch(parser, input_args=list(words))


@functools.cache
def _training(words):
    args = _parsed(fairseq_options.get_training_parser(), words)
    found = _values(args)
    for name, value in make_architecture_config(args.arch).items():
        if value is not None:
            found.setdefault(name, _plain(value))  # a preset's value, unless the option is given
    if args.patience > 0:
        every = args.validate_interval_updates
        found["patience_updates" if every > 0 else "patience_epochs"] = args.patience * max(every, 1)
    return found


@functools.cache
def _search(words):
    return _values(_parsed(fairseq_options.get_generation_parser(), words))


def plain_values(kind):
    """Values of fairseq-train ("training") or fairseq-generate ("search") without options."""
    if kind == "search":
        return _search(("data", "--task", "summarization", "--path", "checkpoint.pt", "--max-len-b", "100"))
    return _training(("data", "--task", "summarization", "--arch", "etads", "--criterion", "summarization_nll"))


def _after(words, option):
    return words[words.index(option) + 1]


def _name(path, end):
    """Name of a run without ``out/``, the end of the path and the seed."""
    return re.sub(r"-1(?=/|$)", "", path.partition("out/")[2].partition(end)[0])


def read_values(calls):
    """Values of the trainings and of the searches among the calls of commands, by the name of the run in ``out``."""
    found = {"training": {}, "search": {}}
    for name, *arguments in calls:
        if name == "fairseq-train":
            run = _name(_after(arguments, "--save-dir"), "/checkpoints")
            found["training"].setdefault(run, _training(tuple(arguments)))
        elif name in ("etads-summarize", "etads-rewrite"):
            values = _values(parser_of(project_commands()[name]).parse_args(arguments))
            if name == "etads-summarize":  # the last call is scored
                is_duc = "--prepared" in arguments and _after(arguments, "--prepared").startswith("duc")
                duc = " (DUC)" if is_duc else ""
                values = {NAMES.get(option, option): value for option, value in values.items()}
                found["search"][f"{_name(arguments[0], ' ')}{duc}"] = {**plain_values("search"), **values}
            else:
                values = {option: value for option, value in values.items() if option in REWRITING}
                found["search"].setdefault(_name(arguments[1], "/summaries"), values)
    return found


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
def test_values_are_effective_and_differ_from_the_paper_with_a_reason(name, options):
    """Neither a preset in the recipe, nor an option that decides and is missing in it, remains without comparison."""
    plan = make_plan(name, *options)
    effective = read_values(action.words for action in plan.actions)
    wrong = []
    for run in (*plan.recipe["rows"], *plan.recipe["runs"]):
        values = [value for value in list_values(plan, run) if value.section != "duc"]
        differing = [v for v in values if v.paper is not None and not are_equal(v.ours, v.paper)]
        wrong += [f"{value}: why?" for value in differing if not value.why]
        for kind, plain in ((kind, plain_values(kind)) for kind in DECIDING):
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
        links = [f"{words[-1]}/{Path(source).name}" for source in sources] if inside else [words[-1]]
        return [source for source in sources if source.startswith("out/")], links
    makes = [words[words.index(option) + 1] for option in ("--out", "--prepared") if option in words]
    others = {"etads-prepare": words[1:2], "python": makes or words[-1:], "etads-train": makes}
    return paths, [*map(str, action.makes), *others.get(program, [])]


@pytest.mark.parametrize("name,options", CASES)
def test_each_command_is_accepted_by_its_parser_and_reads_what_earlier_ones_make(name, options):
    parsers = {name: parser_of(main) for name, main in project_commands().items()}
    made = set()
    for action in make_plan(name, *options).actions:
        if action.words[0] in parsers:
            words = [re.sub(r"\$\(jq .*?\)", "1", word) for word in action.words[1:]]  # read when the recipe runs
            assert complaint(parsers[action.words[0]], words) is None, action.words
        paths, new = read_and_made(action, made)
        made.update(new)
        for path in paths:
            known = any(f"{path}/".startswith(f"{one}/") or f"{one}/".startswith(f"{path}/") for one in made)
            assert known, f"nothing makes {path}: {action.words}"


def test_an_option_is_given_only_if_its_condition_holds():
    of_entailment = {"--entail-model", "--rougesal-saliency", "etads-nli"}
    for options, expected in (([], of_entailment), (["--rewards", "rougeL"], set())):
        words = {word for action in make_plan("rougesal_cnndm", *options).actions for word in action.words}
        assert words & of_entailment == expected


def test_a_key_that_would_have_no_effect_is_refused(tmp_path):
    """The text after the comma is a key in YAML."""
    (tmp_path / "mine.yaml").write_text("options:\n  steps: {help: number of steps, at most}\nrows: {one: }\n")
    with pytest.raises(reproduce.InputError, match="option steps: unknown key at most; choose from: help"):
        load_recipe(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize("name", list_recipes())
def test_recipes_are_listed_planned_and_shown_with_every_row_and_reason(name, capsys):
    plan = make_plan(name)
    assert reproduce.main(["--list"]) in (0, None) and f"{name} " in capsys.readouterr().out
    text = format_values(plan)
    for row in plan.recipe["rows"]:
        assert f"| {row} " in text
        assert all(value.why in text for value in list_values(plan, row))
    words = ["see2017_cnndm", "--dry-run", "--data", "d", "--seeds", "7", "--out", "there", "--cpu"]
    assert reproduce.main(words) in (0, None) and "there/pointer_generator-7" in capsys.readouterr().out
    assert reproduce.main(["see2017_cnndm", "--show", "--rows", "pointer_generator"]) in (0, None)
    assert "| --lr " in capsys.readouterr().out
