"""Human evaluation: create blind rating sheets, and compute mean ratings and annotator agreement.

The criteria are from the Aggregation Transformer paper, section 4.1. A sheet contains several documents. Each document
is followed by the summaries of all systems, which are labelled with letters. For each document and annotator, letters
are randomly assigned to systems. The assignment is stored in the key file, which annotators do not receive.
"""

import contextlib
import csv
import hashlib
import io
import json
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .resampling import bootstrap_intervals

CRITERIA = ("salience", "fluency", "non-repetition")
QUESTIONS = (
    "does it contain the important points of the document?",
    "does it read well, without grammatical errors?",
    "is it free of repeated words and phrases?",
)
SCALE = (1, 5)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KEY_FORMAT = 1
_IDENTITY = ("annotator", "item", "label")


class Rating(NamedTuple):
    """Ratings that an annotator has assigned to one summary.

    Attributes:
        annotator: name of the annotator.
        item: line number of the document, starting at 1.
        system: name of the system that generated the summary.
        values: mapping from criteria to ratings between 1 and 5. Criteria without a rating are omitted.
    """

    annotator: str
    item: int
    system: str
    values: Dict[str, int]


def make_blinding_key(
    documents: int, systems: Sequence[str], items: int, annotators: int, each: int, seed: int
) -> Dict[str, Any]:
    """Randomly choose the documents of each sheet and the letter of each system.

    Args:
        documents: total number of documents.
        systems: names of the systems to evaluate.
        items: number of documents to be rated.
        annotators: number of annotators. Each annotator receives one sheet.
        each: number of documents per annotator. Documents are assigned in rotation, so that the numbers of annotators
            per document differ by at most one.
        seed: seed of the random number generator for all random choices.

    Returns:
        The key as a dictionary of JSON types. Its entry "sheets" maps the name of each annotator to a sheet. A sheet
        maps line numbers of documents (starting at 1) to mappings from letters to systems.

    Raises:
        ValueError: a number is less than 1 or too large, no systems are given, or there are more systems than letters.
    """
    if not 1 <= len(systems) <= len(LETTERS):
        raise ValueError(f"{len(systems)} systems: choose 1 to {len(LETTERS)} (--system NAME=FILE)")
    limits = (("--items", items, documents), ("--each", each, items), ("--annotators", annotators, 10_000))
    for option, value, most in limits:
        if not 1 <= value <= most:
            raise ValueError(f"{option} {value}: choose 1 to {most}")
    rng = np.random.default_rng(seed)
    chosen = (rng.permutation(documents)[:items] + 1).tolist()
    sheets: Dict[str, Dict[str, Dict[str, str]]] = {}
    for number in range(annotators):
        dealt = [chosen[(number * each + turn) % items] for turn in range(each)]
        orders = {item: rng.permutation(len(systems)).tolist() for item in dealt}
        sheets[f"annotator-{number + 1}"] = {
            str(item): {LETTERS[rank]: systems[system] for rank, system in enumerate(order)}
            for item, order in orders.items()
        }
    drawn = json.dumps([list(systems), sheets], sort_keys=True)
    return {
        "format": KEY_FORMAT,
        "id": hashlib.sha256(drawn.encode("utf-8", "surrogatepass")).hexdigest()[:8],
        "seed": seed,
        "systems": list(systems),
        "criteria": list(CRITERIA),
        "scale": list(SCALE),
        "sheets": sheets,
    }


def escape_formula(text: str) -> str:
    """Insert an apostrophe before text that a spreadsheet program would interpret as a formula.

    Such texts start with =, +, -, @ or a control character.
    """
    starts = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    return f"'{text}" if text.lstrip(" ")[:1] in starts else text


def format_csv_sheet(
    annotator: str, sheet: Dict[str, Dict[str, str]], documents: Sequence[str], outputs: Dict[str, Sequence[str]]
) -> str:
    """Format an annotator's sheet as CSV with empty cells for the ratings.

    Args:
        sheet: mapping from line numbers of documents to mappings from letters to systems.
        documents: texts of all documents.
        outputs: mapping from system names to the system's summaries of all documents.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*_IDENTITY, "document", "summary", *CRITERIA])
    for item, letters in sheet.items():
        document = documents[int(item) - 1]
        for letter, system in sorted(letters.items()):
            # Before Python 3.11, the csv module cannot read NUL characters.
            texts = [" ".join(text.replace("\0", " ").split()) for text in (document, outputs[system][int(item) - 1])]
            writer.writerow([annotator, item, letter, *map(escape_formula, texts), *("" for _ in CRITERIA)])
            document = ""  # the text appears only in the first row of a document
    return file.getvalue()


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }}
section {{ border-top: 2px solid #888; margin-top: 2em }} .left {{ color: #a00 }} label {{ margin-right: 1em }}
blockquote {{ background: #f4f4f4; padding: .6em 1em; margin: 0 }}
fieldset {{ border: 0; padding: 0; margin: .3em 0 }}
</style></head><body><h1>{title}</h1>
<p>Read each document and rate every summary from {low} (bad) to {high} (good). {questions} Then save: your browser
writes your ratings to a file, which you send back. The page itself sends nothing.</p>
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


def format_html_sheet(
    annotator: str, sheet: Dict[str, Dict[str, str]], documents: Sequence[str], outputs: Dict[str, Sequence[str]]
) -> str:
    """Format an annotator's sheet as a web page that works offline and can save the ratings as CSV.

    See :func:`format_csv_sheet` for the arguments.
    """
    low, high = SCALE
    parts: List[str] = []
    for item, letters in sheet.items():
        parts.append(f"<section><h2>Document {item}</h2><blockquote>{escape(documents[int(item) - 1])}</blockquote>")
        for letter, system in sorted(letters.items()):
            parts.append(f'<div class="summary" data-item="{item}" data-label="{letter}"><h3>Summary {letter}</h3>')
            parts.append(f"<p>{escape(outputs[system][int(item) - 1])}</p>")
            for criterion in CRITERIA:
                button = f'<label><input type="radio" name="{item}-{letter}-{criterion}" value="{{0}}"> {{0}}</label>'
                buttons = "".join(button.format(value) for value in range(low, high + 1))
                parts.append(f"<fieldset>{criterion}: {buttons}</fieldset>")
            parts.append("</div>")
        parts.append("</section>")
    return _PAGE.format(
        title=f"Summaries to judge: {escape(annotator)}",
        low=low,
        high=high,
        questions=" ".join(f"<b>{name}</b>: {question}" for name, question in zip(CRITERIA, QUESTIONS)),
        body="\n".join(parts),
        header=json.dumps([*_IDENTITY, *CRITERIA]),
        annotator=json.dumps(annotator),
    )


def read_key(path: str) -> Dict[str, Any]:
    """Read a key file that was created with :func:`make_blinding_key`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a valid key file.
    """
    try:
        key = json.loads(Path(path).read_text(encoding="utf-8"))
        is_key = key["format"] == KEY_FORMAT and isinstance(key["systems"], list)
        is_key = is_key and all(
            system in key["systems"]
            for sheet in key["sheets"].values()
            for letters in sheet.values()
            for system in letters.values()
        )
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError):
        is_key = False
    if not is_key:
        raise ValueError(f"{path}: not a key file of etads-human make")
    return key


def read_sheet(path: str, key: Dict[str, Any], seen: Dict[Tuple[str, str, str], str]) -> Tuple[List[Rating], List[str]]:
    """Read a sheet that an annotator has filled in.

    Cells may be separated by commas, semicolons or tabs, because spreadsheet programs use different separators. Invalid
    lines are ignored. If a line lacks some ratings, its other ratings are used.

    Args:
        seen: locations of the lines with ratings that have already been read, keyed by annotator, item and letter. The
            lines of this sheet are added to the dictionary.

    Returns:
        The ratings, and an error message for each invalid line.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not encoded in UTF-8 or is not a sheet.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8; save the sheet as CSV in UTF-8") from None
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="", delimiter=delimiter)
    ratings: List[Rating] = []
    problems: List[str] = []
    try:
        names = reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or []]
        missing = [name for name in (*_IDENTITY, *CRITERIA) if name not in names]
        if missing:
            raise ValueError(f"{path}, line 1: no column {', '.join(missing)}; keep the first line of the sheet")
        for row in reader:
            cells = {name: row[name].strip() for name in (*_IDENTITY, *CRITERIA)}
            where = f"{path}, line {reader.line_num}"
            try:
                rating = _read_rating(cells, key)
                if rating is not None:
                    place = (rating.annotator, cells["item"], cells["label"])
                    if place in seen:
                        raise ValueError("{}, item {}, summary {} was already in {}".format(*place, seen[place]))
                    seen[place] = where
                    ratings.append(rating)
            except ValueError as error:
                problems.append(f"{where}: {error}")
    except csv.Error as error:
        problems.append(f"{path}, line {reader.line_num}: {error}; nothing after this line was read")
    return ratings, problems


def _read_rating(cells: Dict[str, str], key: Dict[str, Any]) -> Optional[Rating]:
    """Return the rating in a line, or None if it has no ratings. Raises ValueError if the line is invalid."""
    if not any(cells.values()):
        return None
    annotator, item, label = (cells[name] for name in _IDENTITY)
    annotator, _, belongs_to = annotator.partition(" ")
    if belongs_to and belongs_to != key.get("id", belongs_to):  # sheets from earlier versions contain no id
        raise ValueError("the sheet belongs to another key, from another run of etads-human make")
    if annotator not in key["sheets"]:
        raise ValueError(f'the key has no annotator "{annotator[:40]}"')
    system = key["sheets"][annotator].get(item, {}).get(label)
    if system is None:
        raise ValueError(f'{annotator} did not receive item "{item[:40]}", summary "{label[:40]}"')
    values = {}
    for criterion, text in [(name, cells[name]) for name in CRITERIA if cells[name]]:
        with contextlib.suppress(ValueError):
            values[criterion] = float(text)
        if values.get(criterion) not in range(SCALE[0], SCALE[1] + 1):
            raise ValueError(f'{criterion} is "{text[:40]}", must be a whole number from {SCALE[0]} to {SCALE[1]}')
    ratings = {criterion: int(value) for criterion, value in values.items()}
    # A blank copy of the sheet does not count as the annotator's answer.
    return Rating(annotator, int(item), system, ratings) if ratings else None


def krippendorff_alpha(units: Sequence[Dict[str, int]], level: str) -> Optional[float]:
    """Compute Krippendorff's alpha, a measure of the agreement between annotators (Krippendorff 2011).

    Alpha is 1 for perfect agreement and 0 for agreement by chance. It is undefined if no summary has two ratings or if
    all ratings are equal. In this case, the function returns None.

    Args:
        units: for each summary, a mapping from annotators to ratings. Summaries with a single rating are ignored.
        level: level of measurement, either "ordinal" or "interval".
    """
    # nltk is imported here because the import takes about a second, which would slow down etads-human --help.
    from nltk.metrics.agreement import AnnotationTask
    from nltk.metrics.distance import interval_distance

    data = [(who, number, value) for number, unit in enumerate(units) if len(unit) > 1 for who, value in unit.items()]
    counts = Counter(value for _, _, value in data)
    if len(counts) < 2:
        return None

    def compute_ordinal_distance(first: int, second: int) -> float:
        low, high = min(first, second), max(first, second)
        between = sum(count for value, count in counts.items() if low <= value <= high)
        return (between - (counts[low] + counts[high]) / 2) ** 2

    distance: Callable[[int, int], float] = compute_ordinal_distance if level == "ordinal" else interval_distance
    return float(AnnotationTask(data, distance=distance).alpha())


def aggregate_ratings(ratings: Sequence[Rating], systems: Sequence[str], bootstrap: int, seed: int) -> Dict[str, Any]:
    """Compute each system's mean score and the agreement between annotators for each criterion.

    The score of a summary is the mean of its ratings, and the score of a system is the mean over its summaries. 95 %
    confidence intervals are computed by resampling summaries with a bootstrap. The score of a system without ratings is
    None. The result can be written as JSON.

    Args:
        bootstrap: number of bootstrap resamples for the confidence intervals.
        seed: seed of the random number generator for the resampling.
    """
    report: Dict[str, Any] = {}
    for criterion in CRITERIA:
        units: Dict[Tuple[int, str], Dict[str, int]] = {}
        for rating in ratings:
            if criterion in rating.values:
                units.setdefault((rating.item, rating.system), {})[rating.annotator] = rating.values[criterion]
        rows: Dict[str, Any] = {}
        for system in systems:
            rated = [list(unit.values()) for (_, owner), unit in sorted(units.items()) if owner == system]
            scores = np.array([np.mean(values) for values in rated])
            row: Dict[str, Any] = {"mean": None, "interval": None}
            if rated:
                interval = bootstrap_intervals(scores, bootstrap, seed).tolist()
                row = {"mean": float(scores.mean()), "interval": interval}
            rows[system] = {**row, "summaries": len(rated), "ratings": sum(map(len, rated))}
        alphas = {level: krippendorff_alpha(list(units.values()), level) for level in ("ordinal", "interval")}
        report[criterion] = {"systems": rows, "alpha": alphas}
    return report
