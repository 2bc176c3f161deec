#!/usr/bin/env python3
"""Write a table of the recipes' deviations from the papers' values, which are in tests/reference/papers.yaml, to a
page.

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


def _shown(value: Value) -> str:
    """Return the recipe's value of an option, and the paper's value if it is known."""
    if value.paper is None:
        return f"`{value.option}={value.ours}`"
    if str(value.paper) == str(value.ours):
        return f"`{value.option}={value.ours}`, as in the paper"
    return f"`{value.option}={value.ours}` instead of `{value.paper}`"


def markdown(table: Dict[str, Any]) -> str:
    """Format deviations and our own choices: for each recipe, a list of options with their values and the reasons."""
    rows: Dict[str, Dict[str, List[str]]] = {}
    for value in values(table):
        if value.why is not None:
            shown = rows.setdefault(value.recipe, {}).setdefault(value.why, [])
            if _shown(value) not in shown:
                shown.append(_shown(value))
    lines: List[str] = []
    for recipe, reasons in rows.items():
        lines += [f"**`{recipe}`**", "", *(f"- {', '.join(shown)} ({why})" for why, shown in reasons.items()), ""]
    memory = sorted({f"`{value.recipe}`" for value in values(table) if "memory" in value.where})
    lines.append(f"These recipes contain values from memory, without a source: {', '.join(memory)}.")
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
