"""The command ``etads-human`` (evaluate): create rating sheets for human evaluation, and evaluate ratings.

The criteria are from the Aggregation Transformer paper, section 4.1. A sheet contains several documents. Each document
is followed by the summaries of all systems, which are labelled with letters. For each document and annotator, letters
are randomly assigned to systems. The assignment is stored in the key file, which annotators do not receive.
"""

import csv
import hashlib
import io
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tabulate import tabulate

from ..evaluation.resampling import bootstrap_intervals
from ..evaluation.rouge import RESAMPLES, SEED, format_interval
from ..evaluation.summaries import SENTENCE_MARK, find_text_warnings, split_summary_into_sentences
from ..files.outputs import check_output_paths, make_output_folder, open_output, write_json
from ..platform.command_options import NOT_NEGATIVE, SIZE, argument, option, options_command
from ..version import get_version
from .shared_options import SystemsOptions, parse_named_files, print_warnings, read_summaries

CRITERIA = {
    "salience": "does it contain the important points of the document?",
    "fluency": "does it read well, without grammatical errors?",
    "non-repetition": "is it free of repeated words and phrases?",
}
"""Questions to the annotators by criterion."""
SCALE = (1, 5)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KEY_FORMAT = 1
_IDENTITY = ("annotator", "item", "label")


@dataclass
class MakeOptions(SystemsOptions):
    """Options of ``etads-human make``."""

    sentence_mark: str = option(
        SENTENCE_MARK, "separator between sentences, shown as a space on the sheets; '' for none", metavar="MARK"
    )
    quiet: bool = option(False, "do not show warnings about the texts")
    items: int = option(100, "total number of documents to rate")
    annotators: int = option(3, "number of annotators; each receives one sheet")
    each: Optional[int] = option(None, "number of documents on each annotator's sheet (default: all)")
    seed: int = option(SEED, "random seed for sampling documents and assigning letters to systems", bounds=NOT_NEGATIVE)
    out: Path = option(None, "output folder for the sheets", metavar="DIR", required=True)
    key: Path = option(None, "output file for the key; must be outside DIR", required=True)


@dataclass
class ScoreOptions:
    """Options of ``etads-human score``."""

    sheets: List[str] = argument("SHEET", "completed rating sheets (CSV)", nargs="+")
    key: str = option(None, "key file created together with the sheets", metavar="FILE", required=True)
    skip_malformed: bool = option(False, "report and skip invalid lines")
    bootstrap: int = option(RESAMPLES, "number of bootstrap resamples", bounds=SIZE)
    seed: int = option(SEED, "random seed for bootstrap resampling", bounds=NOT_NEGATIVE)
    json: Optional[str] = option(None, "also write all results to FILE as JSON", metavar="FILE")


class Rating(NamedTuple):
    """Ratings that an annotator has assigned to a system's summary of one document."""

    annotator: str
    item: int  # line number of the document, from 1
    system: str
    values: Dict[str, int]  # ratings from 1 to 5 by criterion, without criteria that are not rated


def make_blinding_key(
    documents: int, systems: Sequence[str], items: int, annotators: int, each: int, seed: int
) -> Dict[str, Any]:
    """Randomly choose the documents of each sheet and the letter of each system, from the number of ``documents``.

    Documents are assigned in rotation, so that the numbers of annotators per document differ by at most one. In the
    key, "sheets" maps the name of each annotator to a sheet, which maps line numbers of documents (from 1) to the
    systems by their letters.
    """
    if not 1 <= len(systems) <= len(LETTERS):
        raise ValueError(f"{len(systems)} systems: choose 1 to {len(LETTERS)} (--system NAME=FILE)")
    limits = {"--items": (items, documents), "--each": (each, items), "--annotators": (annotators, 10_000)}
    for name, (value, most) in limits.items():
        if not 1 <= value <= most:
            raise ValueError(f"{name} {value}: choose 1 to {most}")
    rng = np.random.default_rng(seed)
    chosen = (rng.permutation(documents)[:items] + 1).tolist()
    sheets: Dict[str, Dict[str, Dict[str, str]]] = {}
    for number in range(annotators):
        sheet = sheets[f"annotator-{number + 1}"] = {}
        for turn in range(each):
            order = [systems[system] for system in rng.permutation(len(systems))]
            sheet[str(chosen[(number * each + turn) % items])] = dict(zip(LETTERS, order))
    drawn = json.dumps([list(systems), sheets], sort_keys=True)
    identity = hashlib.sha256(drawn.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    about = {"systems": list(systems), "criteria": list(CRITERIA), "scale": list(SCALE)}
    return {"format": KEY_FORMAT, "id": identity, "seed": seed, **about, "sheets": sheets}


def escape_formula(text: str) -> str:
    """Insert an apostrophe before text that a spreadsheet program would interpret as a formula."""
    starts = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    return f"'{text}" if text.lstrip(" ")[:1] in starts else text


def format_csv_sheet(
    annotator: str, sheet: Dict[str, Dict[str, str]], documents: Sequence[str], outputs: Dict[str, Sequence[str]]
) -> str:
    """Format an annotator's sheet as CSV with empty cells for the ratings.

    ``sheet`` is one of the sheets in the key, and ``outputs`` maps each system to its summaries of all documents.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*_IDENTITY, "document", "summary", *CRITERIA])
    for item, letters in sheet.items():
        document = documents[int(item) - 1]
        for letter, system in sorted(letters.items()):
            # Before Python 3.11, the csv module cannot read NUL characters.
            texts = [" ".join(text.replace("\0", " ").split()) for text in (document, outputs[system][int(item) - 1])]
            writer.writerow([annotator, item, letter, *map(escape_formula, texts), *[""] * len(CRITERIA)])
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
    """Format a sheet, as :func:`format_csv_sheet`, as a web page that works offline and saves the ratings as CSV."""
    low, high = SCALE
    values = range(low, high + 1)
    parts: List[str] = []
    for item, letters in sheet.items():
        parts.append(f"<section><h2>Document {item}</h2><blockquote>{escape(documents[int(item) - 1])}</blockquote>")
        for letter, system in sorted(letters.items()):
            parts.append(f'<div class="summary" data-item="{item}" data-label="{letter}"><h3>Summary {letter}</h3>')
            parts.append(f"<p>{escape(outputs[system][int(item) - 1])}</p>")
            for criterion in CRITERIA:
                button = f'<label><input type="radio" name="{item}-{letter}-{criterion}" value="{{0}}"> {{0}}</label>'
                parts.append(f"<fieldset>{criterion}: {''.join(map(button.format, values))}</fieldset>")
            parts.append("</div>")
        parts.append("</section>")
    return _PAGE.format(
        title=f"Summaries to judge: {escape(annotator)}",
        low=low,
        high=high,
        questions=" ".join(f"<b>{name}</b>: {question}" for name, question in CRITERIA.items()),
        body="\n".join(parts),
        header=json.dumps([*_IDENTITY, *CRITERIA]),
        annotator=json.dumps(annotator),
    )


def read_key(path: str) -> Dict[str, Any]:
    """Read a key file. Raises ValueError if it is not one."""
    try:
        key = json.loads(Path(path).read_text(encoding="utf-8"))
        orders = [letters for sheet in key["sheets"].values() for letters in sheet.values()]
        if key["format"] == KEY_FORMAT and {name for order in orders for name in order.values()} <= {*key["systems"]}:
            return dict(key)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ValueError(f"{path}: not a key file of etads-human make")


def read_sheet(path: str, key: Dict[str, Any], seen: Dict[Tuple[str, str, str], str]) -> Tuple[List[Rating], List[str]]:
    """Read a sheet that an annotator has filled in, and return its ratings and a message for each invalid line.

    Cells may be separated by commas, semicolons or tabs, as spreadsheet programs do. ``seen`` maps the annotator, item
    and letter of each rating that has been read before to its location; this sheet's ratings are added.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8; save the sheet as CSV in UTF-8") from None
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="", delimiter=delimiter)
    ratings, problems = [], []
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
    ratings = {}
    for criterion in CRITERIA:
        text = cells[criterion]
        if text and not re.fullmatch(rf"[{SCALE[0]}-{SCALE[1]}](\.0+)?", text):  # spreadsheets may write 4.0
            raise ValueError(f'{criterion} is "{text[:40]}", must be a whole number from {SCALE[0]} to {SCALE[1]}')
        if text:
            ratings[criterion] = int(text[0])
    # A blank copy of the sheet does not count as the annotator's answer.
    return Rating(annotator, int(item), system, ratings) if ratings else None


def krippendorff_alpha(units: Sequence[Dict[str, int]], level: str) -> Optional[float]:
    """Compute Krippendorff's alpha, the agreement between annotators (Krippendorff 2011): 1 is perfect, 0 is chance.

    ``units`` maps annotators to ratings for each summary; a single rating is ignored. ``level`` of measurement is
    "ordinal" or "interval". Returns None if no summary has two ratings, or all ratings are equal.
    """
    # nltk is imported here because the import takes about a second, which would slow down etads-human --help.
    from nltk.metrics.agreement import AnnotationTask
    from nltk.metrics.distance import interval_distance

    data = [(who, number, value) for number, unit in enumerate(units) if len(unit) > 1 for who, value in unit.items()]
    counts = Counter(value for _, _, value in data)
    if len(counts) < 2:
        return None

    def compute_ordinal_distance(first: int, second: int) -> float:
        between = sum(counts[value] for value in range(min(first, second), max(first, second) + 1))
        return (between - (counts[first] + counts[second]) / 2) ** 2

    distance: Callable[[int, int], float] = compute_ordinal_distance if level == "ordinal" else interval_distance
    return float(AnnotationTask(data, distance=distance).alpha())


def aggregate_ratings(ratings: Sequence[Rating], systems: Sequence[str], bootstrap: int, seed: int) -> Dict[str, Any]:
    """Compute each system's mean score and the agreement between annotators for each criterion, as JSON types.

    The score of a summary is the mean of its ratings, and the score of a system is the mean over its summaries, with a
    95 % bootstrap interval, or None without ratings.
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
            rows[system] = {
                "mean": float(scores.mean()) if rated else None,
                "interval": bootstrap_intervals(scores, bootstrap, seed).tolist() if rated else None,
                "summaries": len(rated),
                "ratings": sum(map(len, rated)),
            }
        alphas = {level: krippendorff_alpha(list(units.values()), level) for level in ("ordinal", "interval")}
        report[criterion] = {"systems": rows, "alpha": alphas}
    return report


def _make_sheets(args: MakeOptions) -> None:
    files = parse_named_files(args.system)
    *lines, documents = read_summaries([*files.values()], "", args.source, args.source_column)
    for name, summaries in zip(() if args.quiet else files.values(), lines):
        print_warnings("etads-human", find_text_warnings(name, summaries, args.sentence_mark))
    # The sentences are not on separate lines, because raters could then recognise systems that mark sentences.
    sources, *texts = (
        [" ".join(split_summary_into_sentences(line, args.sentence_mark, split_sentences=False)) for line in part]
        for part in (documents, *lines)
    )
    key_path = args.key.resolve()
    if args.out.resolve() in (key_path, *key_path.parents):
        raise ValueError(f"--key {args.key}: choose a path outside {args.out}, because annotators receive that folder")
    check_output_paths({"--key": args.key}, {"--source": args.source, "--system": files.values()})
    if args.key.exists():
        raise ValueError(f"--key {args.key} exists; its sheets may already have been distributed")
    outputs: Dict[str, Sequence[str]] = dict(zip(files, texts))
    each = args.items if args.each is None else args.each
    key = make_blinding_key(len(sources), list(files), args.items, args.annotators, each, args.seed)
    # The sheets and the key receive their final names only when all of them are complete, and the key comes last.
    with open_output(args.key) as key_file:
        key_file.write(json.dumps(key, indent=1, ensure_ascii=False) + "\n")
        key_file.flush()
        with make_output_folder(args.out, "--out") as folder:
            for annotator, sheet in key["sheets"].items():
                identity = f"{annotator} {key['id']}"  # a sheet names its key
                # Spreadsheet programs recognise UTF-8 only if the file starts with a byte order mark.
                table = format_csv_sheet(identity, sheet, sources, outputs)
                (folder / f"{annotator}.csv").write_bytes(table.encode("utf-8-sig", "replace"))
                page = format_html_sheet(identity, sheet, sources, outputs)
                (folder / f"{annotator}.html").write_bytes(page.encode("utf-8", "replace"))
    ratings = args.annotators * each * len(files)
    print(
        f"{args.annotators} sheets in {args.out}, {each} documents each, {ratings} summaries to rate; key: {args.key}"
    )


def _evaluate_rating_sheets(args: ScoreOptions) -> None:
    check_output_paths({"--json": args.json}, {"KEY": args.key, "SHEET": args.sheets})
    key = read_key(args.key)
    seen: Dict[Tuple[str, str, str], str] = {}
    sheets = [read_sheet(path, key, seen) for path in args.sheets]
    ratings, problems = ([*itertools.chain(*parts)] for parts in zip(*sheets))
    print_warnings("etads-human", problems)
    if problems and not args.skip_malformed:
        raise ValueError(f"{len(problems)} invalid lines; correct them, or skip them with --skip-malformed")
    if not ratings:
        raise ValueError("the sheets contain no ratings")
    expected = len(CRITERIA) * sum(len(letters) for sheet in key["sheets"].values() for letters in sheet.values())
    given = sum(len(rating.values) for rating in ratings)
    report = aggregate_ratings(ratings, key["systems"], args.bootstrap, args.seed)
    rows = []
    for system in key["systems"]:
        scores = [report[criterion]["systems"][system] for criterion in CRITERIA]
        cells = [f"{s['mean']:.2f} {format_interval(s['interval'])}" if s["interval"] else "-" for s in scores]
        rows.append([system, *cells, str(scores[0]["summaries"])])
    for level in ("ordinal", "interval"):
        alphas = [report[criterion]["alpha"][level] for criterion in CRITERIA]
        rows.append([f"alpha, {level}", *("-" if alpha is None else f"{alpha:.3f}" for alpha in alphas), ""])
    print(tabulate(rows, ["system", *CRITERIA, "summaries"], tablefmt="pipe", disable_numparse=True))
    annotators = len({rating.annotator for rating in ratings})
    counts = f"ratings:{given}/{expected}|annotators:{annotators}/{len(key['sheets'])}|left-out:{len(problems)}"
    signature = f"HUMAN|{counts}|bootstrap:{args.bootstrap}|seed:{args.seed}|v:{get_version()}"
    print(f"\n{given} of {expected} ratings are filled in\n{signature}")
    if args.json:
        write_json(args.json, {"criteria": report, "problems": problems, "signature": signature})


@options_command(
    "etads-human",
    {
        "make": ("create the rating sheets and the key", MakeOptions),
        "score": ("evaluate the completed rating sheets", ScoreOptions),
    },
    ValueError,
    description="Create blind rating sheets for human evaluation, and compute the mean ratings and the agreement "
    "between annotators.",
    epilog="""\
example:
  etads-human make --source test.source --system etads=etads.txt --system basic=basic.txt \\
      --items 100 --annotators 20 --each 10 --out sheets --key key.json
  etads-human score --key key.json sheets/*.csv

  Each annotator receives one sheet in two formats, a CSV file for spreadsheets and a page for browsers, and fills in
  one of them. Keep the key secret, because it maps the letters on the sheets to systems. You can add the references as
  another system. The sheets do not show sentence marks. Use - as FILE to read texts from standard input.""",
)
def main(args: Any) -> None:
    """Run the command ``etads-human``."""
    (_make_sheets if isinstance(args, MakeOptions) else _evaluate_rating_sheets)(args)
