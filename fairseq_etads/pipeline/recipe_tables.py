"""Texts of recipes: their help, the comparison with the papers' values, and the tables of scores after a run.

Measures that single recipes print or choose by are commands of these recipes:

python -m fairseq_etads.pipeline.recipe_tables bigrams OUT SUBSET SEED...   repeated bigrams (sumpubmed_temporal)
python -m fairseq_etads.pipeline.recipe_tables best SETTINGS CHOSEN         the best control words (convs2s_cnndm)
"""

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
from tabulate import tabulate

from ..evaluation.analysis import WORD_SPLITTERS, compute_repeated_ngram_share
from ..evaluation.resampling import compare_pairs
from ..evaluation.summaries import read_lines
from ..files.outputs import write_text
from ..platform.console import print_message
from ..text.words import SENTENCE_MARK
from .recipes import SECTIONS, Command, Plan, get_value


class Value(NamedTuple):
    """Value of an option in a recipe and in its paper."""

    name: str  # row or run, or "all rows"
    section: str  # "training", "technical", "search" or "duc"
    option: str  # name of the option
    ours: Any  # value in the recipe, also if a preset has it
    paper: Any  # value in the paper; None if it is unknown
    where: str  # place in the paper, "code", "memory" or "ours"
    why: str  # reason for a difference, or an empty string


def list_values(plan: Plan, name: str) -> Iterator[Value]:
    """List the values of all options of a row or run that a recipe sets or compares with its paper."""
    entry = plan.find_entry(name) or {}
    names = {**plan.names, "seed": "1", "row": name, "run": f"{{out}}/{name}-1", "data": "data"}
    for section in SECTIONS:
        options = entry.get(section)
        for option, given in options.items() if isinstance(options, dict) else ():
            value = given if isinstance(given, dict) else {"value": given}
            ours = value.get("preset", get_value(value))
            if ours is None:
                continue
            has_paper = (
                section != "technical" and "paper" in plan.recipe and not str(ours).startswith(("{out}", "{run}"))
            )
            ours = plan.expand(ours, names) if isinstance(ours, str) else ours
            why = value.get("why", "")
            paper = value.get("paper", None if why or not has_paper else ours)
            place = entry.get("where", plan.recipe.get("where", ""))
            where = value.get("where", "" if not has_paper else "ours" if paper is None else place)
            yield Value(name, section, option, ours, paper, where, why)


def format_values(plan: Plan) -> str:
    """Format our values, the paper's values and their places, with the published scores of each row.

    Values of a row that are as in the first row are left out.
    """
    parts = [_format_title(plan.recipe), "", format_rows(plan.recipe), ""]
    first: Dict[Any, Value] = {}
    for name in (*plan.rows, *plan.recipe["runs"]):
        lines = []
        for value in list_values(plan, name):
            key = (value.section, value.option)
            if first.get(key, value)[3:] != value[3:] or key not in first:
                paper = "" if value.paper is None else value.paper
                lines.append([value.section, f"--{value.option}", value.ours, paper, value.where, value.why])
            if name == plan.rows[0]:
                first[key] = value
        if lines:
            headers = ["", "option", "ours", "paper", "where", "why"]
            parts += [f"{name}:", "", tabulate(lines, headers, tablefmt="github", disable_numparse=True), ""]
    return "\n".join(parts)


def _format_title(recipe: Mapping[str, Any]) -> str:
    return f"{recipe['title']} ({recipe['paper']})" if "paper" in recipe else str(recipe["title"])


def format_rows(recipe: Mapping[str, Any]) -> str:
    """Format the rows of a recipe, with the published scores."""
    lines = []
    for name, entry in recipe["rows"].items():
        one = (entry[0] if isinstance(entry, list) else entry) or {}
        published = [f"{measure} {scores}" for measure, scores in one.get("published", {}).items()]
        about = one.get("about", "") + (" (only if named)" if one.get("only if named") else "")
        lines.append([name, about, ", ".join(published)])
    return tabulate(lines, ["row", "system", "published R-1/R-2/R-L"], tablefmt="github", disable_numparse=True)


def format_help(recipe: Mapping[str, Any]) -> str:
    """Format what a recipe does, how its data is made, its rows and its deviations from the paper."""
    commands = [option["prepare"] for option in recipe["options"].values() if "prepare" in option]
    parts = [_format_title(recipe), "", *(f"  {line}" for line in commands), "", format_rows(recipe)]
    return "\n".join([*parts, "", recipe.get("notes", "").rstrip()]).rstrip()


def print_vocabulary(plan: Plan) -> None:
    """Print the sizes of the vocabularies of the data and, if the recipe names them, of the paper."""
    found = {}
    for row in plan.rows:
        entry = plan.find_entry(row) or {}
        sizes = entry.get("vocabulary", plan.recipe.get("vocabulary"))
        if sizes:
            data = entry.get("data", "{prepared}") if "vocabulary" in entry else "{prepared}"
            path = Path(plan.expand(data, plan.names)) / "report.json"
            if path.is_file():
                found[path] = sizes.split("/")
    for path, paper in found.items():
        report = json.loads(path.read_text(encoding="utf-8")).get("vocabulary") or {"known": {}, "asked": {}}
        for side, what, size in zip(("source", "target"), ("documents", "summaries"), paper):
            known, asked = report["known"].get(side), report["asked"].get(side)
            line = f"vocabulary of {what}: {known} words, {asked} asked for, {size} in the paper"
            print_message(line if asked == int(size) else f"WARNING: {line}; --help explains how to make the data")


def print_report(plan: Plan) -> None:
    """Print the tables of a recipe after its last run."""
    report = plan.recipe.get("report", [{"table": "", "rows": " ".join(plan.rows)}])
    for entry in report:
        if isinstance(entry, str) or "run" in entry:
            runs = [(row, seed) for seed in plan.seeds for row in plan.rows]
            several = [{"row": row, "seed": seed, "run": f"{plan.out}/{row}-{seed}"} for row, seed in runs]
            for names in several if "{run}" in str(entry) else [{}]:  # for each of them if it names their folder
                plan.make_command(entry, {**plan.names, **names}).run()
        elif "compare" in entry:
            _print_comparison(plan, entry)
        elif "differences" in entry:
            _print_differences(plan, entry["differences"])
        else:
            _print_scores(plan, entry)
    if plan.names.get("duc"):
        _print_scores(plan, {"file": "duc.json", "measure": "recall", "published": "duc"})


def _print_scores(plan: Plan, entry: Mapping[str, Any]) -> None:
    """Print a table with the scores of rows and seeds, each next to the published scores."""
    file, measure = entry.get("file", "rouge.json"), entry.get("measure", "f1")
    chosen = [row for row in entry.get("rows", " ".join(plan.rows)).split() if row in plan.rows]
    lines, metrics, signature = [], [], ""
    for row in chosen:
        published = (plan.find_entry(row) or {}).get("published", {}).get(entry.get("published", measure), "")
        for seed in plan.seeds:
            report = json.loads((plan.out / f"{row}-{seed}" / file).read_text(encoding="utf-8"))
            metrics, signature = list(report["scores"]), report["signature"]
            lines.append([f"`{row}`", seed, *(_format_score(s, measure) for s in report["scores"].values()), published])
    if lines:
        if entry.get("table"):
            print(f"\n{entry['table']}\n")
        _print_table(lines, ["system", "seed", *(f"ROUGE-{metric[5:]}" for metric in metrics), "published"], signature)


def _format_score(score: Mapping[str, Any], measure: str) -> str:
    low, high = score[f"{measure}_interval"]
    return f"{score[measure]:.2f} [{low:.2f}, {high:.2f}]"


def _print_table(lines: Sequence[Sequence[str]], headers: Sequence[str], signature: str) -> None:
    """Print a Markdown table; a column without any value is left out."""
    kept = [column for column in range(len(headers)) if any(line[column] for line in lines)]
    cells = [[line[column] for column in kept] for line in lines]
    print(tabulate(cells, [headers[c] for c in kept], tablefmt="github", disable_numparse=True))
    print(signature, flush=True)


def _compare(plan: Plan, row: str, base: str, entry: Mapping[str, Any]) -> Optional[Path]:
    """Test the difference between two rows over all seeds; returns the path of both reports without their suffixes."""
    if not {row, base} <= set(plan.rows):
        return None
    file = "" if entry.get("likelihood") else "/summaries.txt"
    sides = [[f"{plan.out}/{name}-{seed}{file}" for seed in plan.seeds] for name in (row, base)]
    kind = "-likelihood" if entry.get("likelihood") else ""
    path = Path(plan.expand(entry.get("to", f"{{out}}/{row}-minus-{base}{kind}"), plan.names))
    first = ["--likelihood"] if entry.get("likelihood") else [f"{plan.expand('{text}', plan.names)}/test.target"]
    options = plan.make_command(entry.get("options", ""), plan.names).words
    words = ("etads-compare", *first, "--a", *sides[0], "--b", *sides[1], *options, "--json", f"{path}.json")
    Command(words, (Path(f"{path}.json"),), Path(f"{path}.txt")).run()
    return path


def _print_comparison(plan: Plan, entry: Mapping[str, Any]) -> None:
    """Print paired tests of the difference between two rows."""
    row, base = entry["compare"].split()
    path = _compare(plan, row, base, entry)
    if path is not None:
        print_message(f"{row} minus {base}")
        with open(f"{path}.txt", encoding="utf-8") as file:
            shutil.copyfileobj(file, sys.stdout)


def _print_differences(plan: Plan, base: str) -> None:
    """Print a table of the differences between each row and a common one, with paired tests."""
    lines: List[List[str]] = []
    metrics, signature = [], ""
    for row in plan.rows:
        path = None if row == base else _compare(plan, row, base, {"options": "--quiet"})
        if path is not None:
            report = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
            metrics, signature = list(report["scores"]), report["signature"]
            lines.append([f"`{row}`", *map(_format_difference, report["scores"].values())])
    if lines:
        print()
        _print_table(lines, [f"minus `{base}`", *(f"ROUGE-{metric[5:]}" for metric in metrics)], signature)


def _format_difference(score: Mapping[str, Any]) -> str:
    low, high = score["interval"] or (math.nan, math.nan)  # None for a single document
    p = score.get("p_randomisation", score["p_bootstrap"])
    sign = "=" if p >= 0.001 else "<"
    return f"{score['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {sign} {max(p, 0.001):.3f}"


def bigrams(out: str, subset: str, *seeds: str) -> None:
    """Test whether temporal attention repeats fewer bigrams, in per cent of each summary's bigrams."""

    def rates(system: str) -> np.ndarray:
        texts = read_lines(f"{out}/{system}/{subset}.txt")
        words = (WORD_SPLITTERS["words"](text.replace(SENTENCE_MARK, " ")) for text in texts)
        return 100 * np.array([compute_repeated_ngram_share(summary, 2) or 0.0 for summary in words])

    for seed in seeds:
        if not all(Path(out, f"{name}-{seed}", f"{subset}.txt").is_file() for name in ("temporal", "plain")):
            continue
        test = compare_pairs(rates(f"temporal-{seed}"), rates(f"plain-{seed}"), 1000, 12345)
        low, high = test["interval"] or (np.nan, np.nan)  # None for a single document
        print(
            f"repeated bigrams, seed {seed}: temporal - plain {test['difference']:.2f} points [{low:.2f}, {high:.2f}], "
            f"paired randomisation p = {test['p_randomisation']:.3f}"
        )


def best(settings: str, chosen: str) -> None:
    """Write the control words LENGTH-ORIGIN with the best ROUGE-L in SETTINGS/LENGTH-ORIGIN/rouge.json to CHOSEN."""
    scores: Dict[str, float] = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))["scores"]["rougeL"]["f1"]
        for path in sorted(Path(settings).glob("*/rouge.json"))
    }
    length, origin = max(scores, key=lambda name: scores[name]).split("-")
    write_text(Path(chosen), json.dumps({"length": length, "origin": origin}) + "\n")
    print_message(f"control words: {length}-{origin}")


def main(words: List[str]) -> None:
    """Run the measure that the first word names."""
    if words[0] == "bigrams":
        bigrams(*words[1:])
    else:
        best(*words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
