"""The command ``etads-reproduce`` (train): train and score the systems of a paper by a recipe."""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Dict, List

from ..pipeline import recipe_tables
from ..pipeline.recipes import Plan, list_recipes, load_recipe
from ..platform.console import ForwardingParser, command
from ..platform.errors import InputError

DESCRIPTION = """\
Train the systems of a paper, summarise the test documents, and score the summaries, by a recipe of the package.

  etads-reproduce                                            list the recipes
  etads-reproduce etads_cnndm --help                         its rows, its options, and how to make its data
  etads-reproduce etads_cnndm --show                         its settings and the paper's
  etads-reproduce etads_cnndm --data data/cnndm --rows basic etads
"""
EPILOG = """\
A recipe can be interrupted: the same command continues it, and skips what is done. It prints Markdown tables; the
results of each row are in DIR/ROW-SEED. Options of fairseq-train follow after --. A recipe of your own is a YAML file
(etads docs extending): etads-reproduce mine.yaml
"""


class _RecipeParser(ForwardingParser):
    """A parser that calls another one, with the recipe's options, if the first word is a recipe."""

    has_recipe = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if not words or words[0].startswith("-") or self.has_recipe:
            return super().parse_known_args(words, namespace)
        parser = _build_parser()
        parser.has_recipe = True
        try:
            _add_recipe(parser, load_recipe(words[0]))
        except InputError as error:
            self.error(str(error))
        return parser.parse_known_args(words, namespace)


def _add_recipe(parser: argparse.ArgumentParser, recipe: Dict[str, Any]) -> None:
    """Add a recipe's help and options to a parser."""
    parser.usage = f"{parser.prog} {recipe['name']} [options] [-- options of fairseq-train]"
    parser.description = recipe_tables.format_help(recipe)
    group = parser.add_argument_group(f"options of {recipe['name']}")
    for option, entry in recipe["options"].items():
        default, made = entry.get("default", ""), " ".join(entry.get("prepare", "").split()[:3])
        text = entry.get("help", f"output folder of {made}") + (f" (default: {default})" if default else "")
        several: Dict[str, Any] = {"nargs": "+"} if " " in default else {}
        group.add_argument(f"--{option}", metavar=entry.get("metavar"), help=text.replace("%", "%%"), **several)
    if "rows option" in recipe:
        group.add_argument(
            f"--{recipe['rows option']}", dest="rows", metavar="ROW", nargs="+", help="the same as --rows"
        )


def _build_parser() -> _RecipeParser:
    parser = _RecipeParser(
        prog="etads-reproduce",
        usage="etads-reproduce [RECIPE [options] [-- options of fairseq-train]]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    text = "name of a recipe, before all options, or path of a YAML file (default: list the recipes)"
    add("recipe", metavar="RECIPE", nargs="?", help=text)
    add("--list", action="store_true", help="list the recipes")
    add("--show", action="store_true", help="show the settings and the paper's")
    add("--dry-run", action="store_true", help="print the commands instead of running them")
    add("--rows", "--row", metavar="ROW", nargs="+", help="rows of the table to run (default: all)")
    add("--seeds", "--seed", metavar="N", nargs="+", help="random seeds for training (default: the recipe's, or 1)")
    add("--out", metavar="DIR", type=Path, help="output folder (default: runs/RECIPE)")
    add("--cpu", action="store_true", help="do not use a GPU")
    return parser


def make_plan(args: argparse.Namespace) -> Plan:
    """Return the plan of a recipe for the parsed options."""
    recipe = load_recipe(args.recipe)
    values = {name: getattr(args, name.replace("-", "_")) for name in recipe["options"]}
    given = {name: " ".join(v) if isinstance(v, list) else v for name, v in values.items() if v is not None}
    usual = [
        name for name, entry in recipe["rows"].items() if not (isinstance(entry, dict) and entry.get("only if named"))
    ]
    rows = _split(args.rows) or usual
    hint = f"choose one of: {', '.join(recipe['rows'])}"
    if not rows:
        raise InputError(f"--rows is missing; {hint}")
    for row in rows:
        if row not in recipe["rows"]:
            raise InputError(f"--{recipe.get('rows option', 'rows')} {row}: {hint}")
    seeds = _split(args.seeds) or recipe.get("seeds", "1").split()
    for seed in seeds:
        if not re.fullmatch("[0-9]+", seed):
            raise InputError(f"--seeds {seed}: choose whole numbers")
    return Plan(recipe, given, rows, seeds, args.out or Path("runs") / recipe["name"], args.cpu, args.forwarded)


def _split(words: Any) -> List[str]:
    """Split the values of an option, which may be one word with spaces."""
    return " ".join(words or []).split()


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-reproduce``."""
    if args.recipe is None or args.list:
        recipes = {name: load_recipe(name)["title"] for name in list_recipes()}
        width = max(map(len, recipes)) + 2
        print("\n".join(f"{name:<{width}}{title}" for name, title in recipes.items()))
        return
    if args.show:
        args.out = Path("OUT")
    plan = make_plan(args)
    if args.show:
        print(recipe_tables.format_values(plan))
        return
    plan.make()
    if args.dry_run:
        print("\n".join(shlex.join(action.words) for action in plan.actions))
        return
    plan.check_files()
    if plan.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with --cpu alone, parts of fairseq still use GPUs
    recipe_tables.print_vocabulary(plan)
    plan.run()
    recipe_tables.print_report(plan)
