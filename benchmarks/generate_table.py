"""Create a table with the results of bench_generate.py for several processors."""

import json
import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "generate"
BEGIN, END = "<!-- benchmarks/bench_generate.py --table -->\n\n", "\n\n<!-- end of the table -->"
"""Comments before and after the table in docs/experiments.md."""


def format_heading(report):
    """Return the names of the processor and the instruction set."""
    machine = report["machine"]
    used = machine["has"] if report["instructions"] == "native" else f"{report['instructions'].upper()} only"
    return f"{machine['cpu']} ({used})"


def make_file_name(report):
    machine = report["machine"]
    used = machine["has"] if report["instructions"] == "native" else report["instructions"]
    words = f"{machine['cpu']} {machine['family']} {used}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") + ".json"


def read_reports(folder=RESULTS):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def format_markdown_table(found):
    """Format a Markdown table with one row per system.

    For each report, the table contains speeds, their ratios to fairseq's speed, and peak memory.
    """
    if not found:
        return "(nothing measured yet)"
    top, below = ["| |"], ["|---|"]
    names = []
    for report in found:
        busy = "" if report["quiet"] else ", **busy**"
        if report.get("clock", "wall") == "processor":
            busy += ", processor time of one thread"
        if report["words"] != 100:
            busy += f", {report['words']} words"
        top.append(f" {format_heading(report)}{busy}: {report['documents']} at once | 1 at a time | peak GB |")
        below.append("---|---|---|")
        names += [name for name in report["documents per second"]["together"] if name not in names]
    rows = []
    for name in names:
        cells = [f"| {name} |"]
        for report in found:
            for speed in report["documents per second"].values():
                cells.append(_format_speed_with_ratio(speed, name) + " |")
            memory = report["megabytes"].get(name)
            cells.append(f" {memory['peak'] / 1000:.1f} |" if memory else " |")
        rows.append("".join(cells))
    return "\n".join(["".join(top), "".join(below), *rows])


def _format_speed_with_ratio(speed, name):
    if name not in speed:
        return ""
    ratio = f" ({speed[name] / speed['fairseq']:.1f})" if "fairseq" in speed else ""
    return f" {speed[name]:.2f}{ratio}"


def replace_table(new_table, page, begin=BEGIN):
    """Replace the table between the comments ``begin`` and END on a page."""
    before, _, rest = page.read_text().partition(begin)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} has no place for the table: {begin.strip()} … {END.strip()}")
    page.write_text(before + begin + new_table + END + after)


def print_table(new_table, page=None, begin=BEGIN):
    """Print the table. If a page is given, also replace the table on this page (see :func:`replace_table`)."""
    print(new_table)
    if page:
        replace_table(new_table, page, begin)
