#!/usr/bin/env python3
"""Update the lists of option exclusions and requirements in docs/rules.md from their declarations in the code.

  scripts/rules_page.py [--check]

The declarations are metadata of the options' fields; see fairseq_etads/platform/option_checks.py. With --check, nothing
is written, and the exit status is 1 if the page is out of date.
"""

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules.md"
sys.path.insert(0, str(ROOT))
EXCLUDES, NEEDS = "declared exclusions", "declared needs"
"""Names of the two lists. Comments on the page mark the beginning and end of each list."""


def collect_option_rules() -> Tuple[Dict[Tuple[str, str], List[str]], Dict[str, List[str]]]:
    """Collect the exclusions and the requirements of all options.

    Returns:
        A mapping from each reason and option to the options that are excluded for this reason, and a mapping from each
        requirement (part of a sentence) to the options that have this requirement.
    """
    from fairseq_etads.jobs.architectures import list_option_dataclasses
    from fairseq_etads.platform.option_checks import format_option_name, join_choices

    excludes: Dict[Tuple[str, str], List[str]] = {}
    needs: Dict[str, List[str]] = {}
    for config in list_option_dataclasses():
        for option in fields(config):
            name = format_option_name(option.name)
            for other, reason in option.metadata.get("excludes", {}).items():
                others = excludes.setdefault((reason, name), [])
                others += [other] * (other not in others)
            if option.metadata.get("needs"):
                options = needs.setdefault(
                    join_choices([format_requirement(need) for need in option.metadata["needs"]]), []
                )
                options += [name] * (name not in options)
    return excludes, needs


def format_requirement(need: str) -> str:
    """Format a requirement: an option as code, a kind of model as text."""
    return f"`{need}`" if need.startswith("--") else need.replace("--pointer", "`--pointer`")


def format_rule_lists() -> Dict[str, str]:
    """Return the Markdown text of the two lists by their names."""
    from fairseq_etads.platform.option_checks import join_choices

    excludes, needs = collect_option_rules()
    exclusions = []
    for (reason, name), others in sorted(excludes.items(), key=lambda pair: pair[0][1]):
        why = reason or f"`{name}` has no effect"
        exclusions.append(
            format_list_item(f"`{name}` with {join_choices([format_requirement(other) for other in others])}: {why}")
        )
    wanted = [
        format_list_item(f"{', '.join(map(format_requirement, sorted(options)))}: {need}")
        for need, options in sorted(needs.items(), key=lambda pair: sorted(pair[1]))
    ]
    return {EXCLUDES: "\n".join(exclusions), NEEDS: "\n".join(wanted)}


def format_list_item(text: str) -> str:
    return fill(f"- {text}", 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def insert_rule_lists(text: str) -> str:
    """Return the text of the page with both lists inserted."""
    for name, made in format_rule_lists().items():
        before, begin, rest = text.partition(f"<!-- begin: {name} -->")
        _, end, after = rest.partition(f"<!-- end: {name} -->")
        if not begin or not end:
            raise SystemExit(f"rules_page.py: {PAGE} has no comments for {name}")
        text = f"{before}{begin}\n\n{made}\n\n{end}{after}"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="do not write the page, and exit with status 1 if it is out of date"
    )
    args = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = insert_rule_lists(old)
    if args.check:
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
