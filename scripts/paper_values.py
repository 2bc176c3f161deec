#!/usr/bin/env python3
"""Write the deviations of the recipes from the papers to a page.

The values in the papers are listed in tests/reference/papers.yaml.

    scripts/paper_values.py docs/deviations.md

The script replaces the text between the comment with its name and the comment at the end of the table. Without an
argument, it prints the text.
"""

import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import yaml

TABLE = Path(__file__).parents[1] / "tests" / "reference" / "papers.yaml"
BEGIN, END = "<!-- scripts/paper_values.py -->", "<!-- end of the table -->"


class OptionValue(NamedTuple):
    """The value of an option in a paper and in the corresponding recipe.

    Attributes:
        recipe: entry of the recipe in the table.
        kind: "training" or "search".
        run: name of the run without the seed.
        paper: value in the paper, or None if the paper does not report a value or was not available.
        where: source of the value: a section of the paper, "code", "memory" or "ours".
        ours: value that the recipe must use.
        why: reason why the value differs, or a remark.
    """

    recipe: str
    kind: str
    run: str
    option: str
    paper: Any
    where: str
    ours: Any
    why: Optional[str]


def load_paper_values() -> Dict[str, Any]:
    """Load tests/reference/papers.yaml."""
    return dict(yaml.safe_load(TABLE.read_text(encoding="utf-8")))


def iterate_option_values(table: Dict[str, Any]) -> Iterator[OptionValue]:
    """Iterate over all values in the table."""
    for recipe, entry in table.items():
        for kind in ("training", "search"):
            for run, options in entry.get(kind, {}).items():
                where = options.get("where", entry["where"])
                for option, value in options.items():
                    if option == "where":
                        continue
                    given = value if isinstance(value, dict) else {"paper": value}
                    paper = given.get("paper")
                    ours = given.get("ours", paper)
                    yield OptionValue(
                        recipe, kind, run, option, paper, str(given.get("where", where)), ours, given.get("why")
                    )


def _format_option_value(value: OptionValue) -> str:
    """Return text with the value of an option in the recipe and, if it is known, the value in the paper."""
    if value.paper is None:
        return f"`{value.option}={value.ours}`"
    if str(value.paper) == str(value.ours):
        return f"`{value.option}={value.ours}`, as in the paper"
    return f"`{value.option}={value.ours}` instead of `{value.paper}`"


def format_recipe_deviations(table: Dict[str, Any]) -> str:
    """List the deviations and our own choices for each recipe: options with their values, grouped by reason."""
    rows: Dict[str, Dict[str, List[str]]] = {}
    for value in iterate_option_values(table):
        if value.why is not None:
            shown = rows.setdefault(value.recipe, {}).setdefault(value.why, [])
            if _format_option_value(value) not in shown:
                shown.append(_format_option_value(value))
    lines: List[str] = []
    for recipe, reasons in rows.items():
        lines += [f"**`{recipe}`**", "", *(f"- {', '.join(shown)} ({why})" for why, shown in reasons.items()), ""]
    memory = sorted({f"`{value.recipe}`" for value in iterate_option_values(table) if "memory" in value.where})
    lines.append(f"These recipes contain values from memory, without a source: {', '.join(memory)}.")
    return "\n".join(lines)


def main() -> None:
    text = format_recipe_deviations(load_paper_values())
    if len(sys.argv) == 1:
        print(text)
        return
    page = Path(sys.argv[1])
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    if not begin:
        sys.exit(f"{page}: no line {BEGIN}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
