#!/usr/bin/env python3
"""Write a table of the recipes' deviations from the papers' values to a page. tests/reference/papers.yaml contains the
values.

    scripts/paper_values.py docs/deviations.md

The script replaces the text between the two comments with its name. Without an argument, it prints the table.
"""

import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import yaml

TABLE = Path(__file__).parents[1] / "tests" / "reference" / "papers.yaml"
BEGIN, END = "<!-- scripts/paper_values.py -->", "<!-- end of the table -->"


class Value(NamedTuple):
    """Value of an option in a paper and in its recipe.

    Attributes:
        recipe: entry of the recipe in the table.
        kind: "training" or "search".
        run: name of the run without the seed.
        paper: value in the paper; None if the paper does not report it or was not available.
        where: section, "code", "memory" or "ours".
        ours: value that the recipe must use.
        why: reason for a different value, or a remark.
    """

    recipe: str
    kind: str
    run: str
    option: str
    paper: Any
    where: str
    ours: Any
    why: Optional[str]


def load() -> Dict[str, Any]:
    """Load the table."""
    return dict(yaml.safe_load(TABLE.read_text(encoding="utf-8")))


def values(table: Dict[str, Any]) -> Iterator[Value]:
    """Yield all values in the table."""
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
                    yield Value(
                        recipe, kind, run, option, paper, str(given.get("where", where)), ours, given.get("why")
                    )


def _shown(value: Any) -> str:
    return "–" if value is None else f"`{value}`"


def markdown(table: Dict[str, Any]) -> str:
    """Format deviations and our own choices: for each recipe, a list of options with the values (paper → here) and the
    reason.
    """
    rows: Dict[str, List[str]] = {}
    for value in values(table):
        row = f"- {value.option}: {_shown(value.paper)} → {_shown(value.ours)}: {value.why}"
        if value.why is not None and row not in rows.setdefault(value.recipe, []):
            rows[value.recipe].append(row)
    lines: List[str] = []
    for recipe in filter(rows.get, rows):
        lines += [f"**`{recipe}`**", "", *rows[recipe], ""]
    memory = sorted({value.recipe for value in values(table) if "memory" in value.where})
    lines += [
        "Recipes with values from memory, without a source: " + ", ".join(f"`{name}`" for name in memory) + ".",
    ]
    return "\n".join(lines)


def main() -> None:
    text = markdown(load())
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
