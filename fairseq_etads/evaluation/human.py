"""Judgements of people: blind sheets, and what filled-in sheets say (Aggregation Transformer, section 4.1).

A sheet shows documents, and for each the summaries of all systems under letters whose order is drawn anew for every
document and annotator. Which letter is which system is in the key, a file of its own that annotators do not get.
"""

import csv
import io
import json
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from nltk.metrics.agreement import AnnotationTask
from nltk.metrics.distance import interval_distance

from .resampling import bootstrap_intervals

CRITERIA = ("salience", "fluency", "non-repetition")
QUESTIONS = (
    "does it have the important points of the document?",
    "does it read well, without errors of grammar?",
    "is it free of words and phrases said again?",
)
SCALE = (1, 5)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KEY_FORMAT = 1
_IDENTITY = ("annotator", "item", "label")


@dataclass(frozen=True)
class Rating:
    """What one annotator gave one summary: the document's line number, from 1, the system, criterion -> 1 … 5."""

    annotator: str
    item: int
    system: str
    values: Dict[str, int]


def assign(documents: int, systems: Sequence[str], items: int, annotators: int, each: int, seed: int) -> Dict[str, Any]:
    """Draw documents and orders.

    Args:
        documents: how many there are. items: how many are judged. each: how many of them one annotator judges; they
            are dealt out in turn, so that no document is judged by two annotators more than another.

    Returns:
        The key, as types that JSON knows: "sheets" is annotator -> document's line number, from 1 -> letter -> system.

    Raises:
        ValueError: more items than documents, more for each than items, fewer than 1, no system or too many.
    """
    if not 1 <= len(systems) <= len(LETTERS):
        raise ValueError(f"{len(systems)} systems: choose 1 to {len(LETTERS)} (--system NAME=FILE)")
    limits = (("--items", items, documents), ("--each", each, items), ("--annotators", annotators, 10_000))
    for option, value, most in limits:
        if not 1 <= value <= most:
            raise ValueError(f"{option} {value}: choose 1 to {most}")
    rng = np.random.default_rng(seed)
    drawn = (rng.permutation(documents)[:items] + 1).tolist()
    sheets: Dict[str, Dict[str, Dict[str, str]]] = {}
    for number in range(annotators):
        mine = [drawn[(number * each + place) % items] for place in range(each)]
        orders = {item: rng.permutation(len(systems)).tolist() for item in mine}
        sheets[f"annotator-{number + 1}"] = {
            str(item): {LETTERS[place]: systems[system] for place, system in enumerate(order)}
            for item, order in orders.items()
        }
    return {
        "format": KEY_FORMAT,
        "seed": seed,
        "systems": list(systems),
        "criteria": list(CRITERIA),
        "scale": list(SCALE),
        "sheets": sheets,
    }


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: with an apostrophe before =, +, -, @, or a control character."""
    return (
        f"'{text}" if text.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠") else text
    )


def _rows(sheet: Dict[str, Dict[str, str]]) -> Iterator[Tuple[str, str, str]]:
    """Item, letter and system of each line of a sheet."""
    for item, order in sheet.items():
        for letter in sorted(order):
            yield item, letter, order[letter]


def csv_sheet(
    annotator: str, sheet: Dict[str, Dict[str, str]], documents: Sequence[str], outputs: Dict[str, Sequence[str]]
) -> str:
    """The sheet of one annotator as CSV, with empty cells for the ratings."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*_IDENTITY, "document", "summary", *CRITERIA])
    last = None
    for item, letter, system in _rows(sheet):
        place = int(item) - 1
        document = documents[place] if item != last else ""  # once, however many systems there are
        last = item
        texts = [harmless(" ".join(text.split())) for text in (document, outputs[system][place])]
        writer.writerow([annotator, item, letter, *texts, *("" for _ in CRITERIA)])
    return file.getvalue()


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }}
section {{ border-top: 2px solid #888; margin-top: 2em }} .left {{ color: #a00 }} label {{ margin-right: 1em }}
blockquote {{ background: #f4f4f4; padding: .6em 1em; margin: 0 }}
fieldset {{ border: 0; padding: 0; margin: .3em 0 }}
</style></head><body><h1>{title}</h1>
<p>Read each document and rate every summary from {low} (bad) to {high} (good). {questions} Then save: your browser
makes a file of your ratings, to be sent back. Nothing leaves this page by itself.</p>
{body}
<p><button id="save">Save the ratings</button> <span id="state" class="left"></span></p>
<script>
document.getElementById("save").addEventListener("click", function () {{
  var rows = [{header}], missing = 0;
  document.querySelectorAll("div.summary").forEach(function (summary) {{
    var row = [{annotator}, summary.dataset.item, summary.dataset.label];
    summary.querySelectorAll("fieldset").forEach(function (criterion) {{
      var chosen = criterion.querySelector("input:checked");
      row.push(chosen ? chosen.value : "");
      if (!chosen) missing += 1;
    }});
    rows.push(row);
  }});
  document.getElementById("state").textContent = missing ? missing + " ratings are missing" : "complete";
  var link = document.createElement("a");
  var lines = rows.map(function (row) {{ return row.join(",") + "\\r\\n"; }});
  link.href = URL.createObjectURL(new Blob(lines));
  link.download = {annotator} + "-ratings.csv";
  link.click();
}});
</script></body></html>
"""


def html_sheet(
    annotator: str, sheet: Dict[str, Dict[str, str]], documents: Sequence[str], outputs: Dict[str, Sequence[str]]
) -> str:
    """The sheet of one annotator as one page that needs no network and saves a CSV file."""
    low, high = SCALE
    parts: List[str] = []
    last = None
    for item, letter, system in _rows(sheet):
        place = int(item) - 1
        if item != last:
            opening = f"<section><h2>Document {item}</h2><blockquote>{escape(documents[place])}</blockquote>"
            parts.append(("</section>" if parts else "") + opening)
            last = item
        parts.append(f'<div class="summary" data-item="{item}" data-label="{letter}"><h3>Summary {letter}</h3>')
        parts.append(f"<p>{escape(outputs[system][place])}</p>")
        for criterion in CRITERIA:
            name = f"{item}-{letter}-{criterion}"
            inputs = "".join(
                f'<label><input type="radio" name="{name}" value="{value}"> {value}</label>'
                for value in range(low, high + 1)
            )
            parts.append(f"<fieldset>{criterion}: {inputs}</fieldset>")
        parts.append("</div>")
    questions = " ".join(f"<b>{name}</b>: {question}" for name, question in zip(CRITERIA, QUESTIONS))
    return _PAGE.format(
        title=f"Summaries to judge: {escape(annotator)}",
        low=low,
        high=high,
        questions=questions,
        body="\n".join([*parts, "</section>"]),
        header=json.dumps([*_IDENTITY, *CRITERIA]),
        annotator=json.dumps(annotator),
    )


def read_key(path: str) -> Dict[str, Any]:
    """The key. Raises OSError, or ValueError if it is not one that :func:`assign` made."""
    try:
        key = json.loads(Path(path).read_text(encoding="utf-8"))
        right = key["format"] == KEY_FORMAT and isinstance(key["systems"], list)
        right = right and all(
            system in key["systems"]
            for sheet in key["sheets"].values()
            for o in sheet.values()
            for system in o.values()
        )
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise ValueError(f"{path}: not a key that etads-human make wrote")
    return key


def _rating(text: str) -> int:
    """A cell's rating; ValueError if it is none."""
    value = float(text)
    low, high = SCALE
    if not (low <= value <= high and value == int(value)):
        raise ValueError
    return int(value)


def read_sheet(path: str, key: Dict[str, Any], seen: Dict[Tuple[str, str, str], str]) -> Tuple[List[Rating], List[str]]:
    """Ratings of a filled-in sheet, and what is wrong with it, line by line.

    Commas, semicolons or tabs may separate the cells, as spreadsheets like. A line with a mistake in any rating counts
    as wrong and not at all; a line with some ratings missing counts for those that it has.

    Args:
        seen: the lines met so far, annotator, item and letter -> where; they are added to it.

    Raises:
        OSError: the file cannot be read. ValueError: it is not UTF-8, or no sheet at all.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8; save the sheet as CSV in UTF-8") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    ratings: List[Rating] = []
    problems: List[str] = []
    line = 1
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        lacking = [name for name in (*_IDENTITY, *CRITERIA) if name not in header]
        if lacking:
            raise ValueError(f"{path}, line 1: no column {', '.join(lacking)}; keep the first line of the sheet")
        columns = {name: header.index(name) for name in (*_IDENTITY, *CRITERIA)}
        line = reader.line_num + 1
        for row in reader:
            where = f"{path}, line {line}"
            line = reader.line_num + 1
            if any(cell.strip() for cell in row):
                cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
                try:
                    ratings += _read_row(where, cells, key, seen)
                except ValueError as error:
                    problems.append(f"{where}: {error}")
    except csv.Error as error:
        problems.append(f"{path}, line {line}: {error}; nothing after it was read")
    return ratings, problems


def _read_row(
    where: str, cells: Dict[str, str], key: Dict[str, Any], seen: Dict[Tuple[str, str, str], str]
) -> List[Rating]:
    """The rating in one line, or none if it is empty; ValueError says what is wrong."""
    annotator, item, label = (cells[name] for name in _IDENTITY)
    sheet = key["sheets"].get(annotator)
    if sheet is None:
        raise ValueError(f'the key has no annotator "{annotator[:40]}"')
    if label not in sheet.get(item, {}):
        raise ValueError(f'{annotator} was not given item "{item[:40]}", summary "{label[:40]}"')
    values = {}
    for criterion in CRITERIA:
        if cells[criterion]:
            try:
                values[criterion] = _rating(cells[criterion])
            except (ValueError, OverflowError):
                low, high = SCALE
                shown = cells[criterion][:40]
                raise ValueError(f'{criterion} is "{shown}", must be a whole number from {low} to {high}') from None
    if (annotator, item, label) in seen:
        raise ValueError(f"{annotator}, item {item}, summary {label} was already in {seen[annotator, item, label]}")
    seen[annotator, item, label] = where
    return [Rating(annotator, int(item), sheet[item][label], values)] if values else []


def krippendorff_alpha(units: Sequence[Dict[str, int]], level: str) -> Optional[float]:
    """Agreement of annotators: 1 is perfect, 0 that of chance (Krippendorff 2011); None if it is not defined.

    Args:
        units: for each thing that was rated, annotator -> rating; those with one rating say nothing.
        level: "ordinal" or "interval".
    """
    data = [(who, number, value) for number, unit in enumerate(units) if len(unit) > 1 for who, value in unit.items()]
    counts = Counter(value for _, _, value in data)
    if len(counts) < 2:
        return None

    def ordinal(first: int, second: int) -> float:
        low, high = min(first, second), max(first, second)
        between = sum(count for value, count in counts.items() if low <= value <= high)
        return (between - (counts[low] + counts[high]) / 2) ** 2

    distances: Dict[str, Callable[[int, int], float]] = {"ordinal": ordinal, "interval": interval_distance}
    return float(AnnotationTask(data, distance=distances[level]).alpha())


def summarise(ratings: Sequence[Rating], systems: Sequence[str], bootstrap: int, seed: int) -> Dict[str, Any]:
    """Means of each system and agreement for each criterion, as types that JSON knows.

    A summary's score is the mean of its annotators' ratings, a system's that of its summaries; the 95 % interval is a
    bootstrap over summaries. A system without a rating has no mean.
    """
    report: Dict[str, Any] = {}
    for criterion in CRITERIA:
        units: Dict[Tuple[int, str], Dict[str, int]] = {}
        for rating in ratings:
            if criterion in rating.values:
                units.setdefault((rating.item, rating.system), {})[rating.annotator] = rating.values[criterion]
        rows: Dict[str, Any] = {}
        for system in systems:
            mine = [list(unit.values()) for (_, owner), unit in sorted(units.items()) if owner == system]
            scores = np.array([np.mean(values) for values in mine])
            row: Dict[str, Any] = {"mean": None, "interval": None}
            if mine:
                interval = bootstrap_intervals(scores, bootstrap, seed).tolist()
                row = {"mean": float(scores.mean()), "interval": interval}
            rows[system] = {**row, "summaries": len(mine), "ratings": sum(map(len, mine))}
        alphas = {level: krippendorff_alpha(list(units.values()), level) for level in ("ordinal", "interval")}
        report[criterion] = {"systems": rows, "alpha": alphas}
    return report
