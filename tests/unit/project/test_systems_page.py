"""docs/systems.md: its recipes exist and have the rows that it names, and no paper's recipe is missing."""

import re

from documented import ROOT, header

PAGE = (ROOT / "docs/systems.md").read_text(encoding="utf-8")
RECIPES = ROOT / "scripts" / "reproduce"
NAMED = re.findall(r"^\| [^|]+ \| [^|]+ \| `(\w+\.sh)` \| `([\w-]+)` \| \w", PAGE, re.MULTILINE)


def test_the_recipes_have_the_rows_that_the_page_names():
    assert len(NAMED) > 15
    for recipe, row in NAMED:
        assert re.search(rf"(?<![\w-]){re.escape(row)}(?![\w-])", header(RECIPES / recipe)), f"{recipe} has no {row}"


def test_every_recipe_of_a_paper_is_on_the_page():
    """All recipes on CNN/Daily Mail and Gigaword, except BART's and ConvS2S on Gigaword, which the tables lack."""
    papers = {path.name for end in ("cnndm", "gigaword") for path in RECIPES.glob(f"*_{end}.sh")}
    assert papers - {"bart_cnndm.sh", "convs2s_gigaword.sh"} == {recipe for recipe, _ in NAMED}


OF_OTHER_TABLES = ("words-1vt2k-temp-att", "words-lvt2k-1sent")
"""Rows for which the recipe gives the figures of another table."""


def test_the_published_figures_are_those_of_the_recipes():
    """The first three figures in a row of the page also occur in the header of its recipe, in any format."""
    found = re.findall(r"^\| ([^|]+) \| (\d+\.\d+ / \d+\.\d+ / \d+\.\d+)[^|]* \| `(\w+\.sh)`", PAGE, re.MULTILINE)
    assert len(found) > 15
    for name, figures, recipe in found:
        if not name.startswith(OF_OTHER_TABLES):
            assert figures.replace(" ", "") in re.sub(r"\s*/\s*", "/", header(RECIPES / recipe)), (name, recipe)
