"""The command ``etads-human``: create rating sheets for human evaluation, and evaluate the ratings."""

import argparse
import json
import sys
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from tabulate import tabulate

from ..evaluation.human import (
    CRITERIA,
    Rating,
    aggregate_ratings,
    format_csv_sheet,
    format_html_sheet,
    make_blinding_key,
    read_key,
    read_sheet,
)
from ..evaluation.rouge import RESAMPLES, SEED, check_option_at_least
from ..evaluation.summaries import SENTENCE_MARK, split_summary_into_sentences
from ..evaluation.text_warnings import find_text_warnings
from ..platform.console import Parser, command
from ..platform.outputs import check_output_paths, make_output_folder, open_output, write_text
from ..version import get_version
from .scoring_options import add_resampling_options, check_writable, parse_named_files, print_warnings, read_summaries


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-human",
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    commands = parser.add_subparsers(dest="command", required=True, metavar="make|score")
    make = commands.add_parser("make", help="create the rating sheets and the key")
    add = make.add_argument
    add("--source", metavar="FILE", required=True, help="file containing the documents, one per line")
    add(
        "--system",
        metavar="NAME=FILE",
        action="append",
        required=True,
        help="name of a system and path of the file with its summaries, one per line; may be repeated",
    )
    add(
        "--sentence-mark",
        metavar="MARK",
        default=SENTENCE_MARK,
        help="separator between sentences in the input lines, shown as a space on the sheets; '' for no separator "
        "(default: %(default)s)",
    )
    add("--quiet", action="store_true", help="do not show warnings about the texts")
    add("--items", metavar="N", type=int, default=100, help="total number of documents to rate (default: %(default)s)")
    add(
        "--annotators",
        metavar="N",
        type=int,
        default=3,
        help="number of annotators; each receives one sheet (default: %(default)s)",
    )
    add("--each", metavar="N", type=int, help="number of documents on each annotator's sheet (default: all)")
    add(
        "--seed",
        metavar="N",
        type=int,
        default=SEED,
        help="random seed for sampling documents and assigning letters to systems (default: %(default)s)",
    )
    add("--out", metavar="DIR", type=Path, required=True, help="output folder for the sheets")
    add("--key", metavar="FILE", type=Path, required=True, help="output file for the key; must be outside DIR")
    score = commands.add_parser("score", help="evaluate the completed rating sheets")
    add = score.add_argument
    add("sheets", metavar="SHEET", nargs="+", help="completed rating sheets (CSV)")
    add("--key", metavar="FILE", required=True, help="key file created together with the sheets")
    add("--skip-malformed", action="store_true", help="report and skip invalid lines")
    add_resampling_options(add, RESAMPLES)
    add("--json", metavar="FILE", help="also write all results to FILE as JSON")
    return parser


def _make_sheets(args: argparse.Namespace) -> None:
    check_option_at_least(0, seed=args.seed)
    files = parse_named_files(args.system)
    lines = read_summaries([args.source, *files.values()])
    for name, summaries in zip(() if args.quiet else files.values(), lines[1:]):
        print_warnings("etads-human", find_text_warnings(name, summaries, args.sentence_mark))
    # The sentences are not on separate lines, because raters could then recognise systems that mark sentences.
    mark = args.sentence_mark
    sources, *texts = (
        [" ".join(split_summary_into_sentences(line, mark, split_sentences=False)) for line in part] for part in lines
    )
    key_path = args.key.resolve()
    if args.out.resolve() in (key_path, *key_path.parents):
        raise ValueError(f"--key {args.key}: choose a path outside {args.out}, because annotators receive that folder")
    check_output_paths({"--key": args.key}, {"--source": args.source, "--system": files.values()})
    for path in (args.key, args.out):
        if path.exists() and (path.is_file() or any(path.iterdir())):
            raise ValueError(f"{path} exists; its sheets may already have been distributed")
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


def _evaluate_rating_sheets(args: argparse.Namespace) -> None:
    check_option_at_least(1, bootstrap=args.bootstrap)
    check_option_at_least(0, seed=args.seed)
    check_writable("--json", args.json)
    check_output_paths({"--json": args.json}, {"KEY": args.key, "SHEET": args.sheets})
    key = read_key(args.key)
    ratings: List[Rating] = []
    problems: List[str] = []
    seen: Dict[Tuple[str, str, str], str] = {}
    for path in args.sheets:
        found, messages = read_sheet(path, key, seen)
        ratings += found
        problems += messages
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
        row = [system]
        for criterion in CRITERIA:
            scores = report[criterion]["systems"][system]
            low, high = scores["interval"] or (None, None)
            row.append("-" if low is None else f"{scores['mean']:.2f} [{low:.2f}, {high:.2f}]")
        rows.append([*row, str(report[CRITERIA[0]]["systems"][system]["summaries"])])
    for level in ("ordinal", "interval"):
        alphas = [report[criterion]["alpha"][level] for criterion in CRITERIA]
        rows.append([f"alpha, {level}", *("-" if alpha is None else f"{alpha:.3f}" for alpha in alphas), ""])
    print(tabulate(rows, ["system", *CRITERIA, "summaries"], tablefmt="pipe", disable_numparse=True))
    annotators = len({rating.annotator for rating in ratings})
    counts = f"ratings:{given}/{expected}|annotators:{annotators}/{len(key['sheets'])}|left-out:{len(problems)}"
    signature = f"HUMAN|{counts}|bootstrap:{args.bootstrap}|seed:{args.seed}|v:{get_version()}"
    print(f"\n{given} of {expected} ratings are filled in\n{signature}")
    if args.json:
        everything = {"criteria": report, "problems": problems, "signature": signature}
        write_text(args.json, json.dumps(everything, indent=2) + "\n")


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-human``."""
    if args.command == "make":
        _make_sheets(args)
    else:
        _evaluate_rating_sheets(args)


if __name__ == "__main__":
    sys.exit(main())
