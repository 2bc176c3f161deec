"""The command ``etads-shortlist``: find the summary words that are associated with each document word."""

import argparse
import sys
from pathlib import Path

from ..platform.console import Parser, check_positive_options, command
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from ..summarizer.folder.config import SHORTLIST
from .run_options import get_binarised_folder, silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-shortlist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Learn a vocabulary shortlist from prepared training data. The shortlist contains the most "
        "frequent summary words and, for each document word, the summary words associated with it. With --shortlist "
        "FILE, decoding considers only the most frequent words, the words of the document and the words associated "
        "with them. With a large vocabulary, this is faster.",
        epilog="""\
examples:
  etads-shortlist runs/mine/prepared                              write runs/mine/prepared/bin/shortlist.safetensors
  etads-shortlist runs/mine/prepared --frequent 2000 --out lists/wide.safetensors
  etads-summarize runs/mine --split test --shortlist-file runs/mine/prepared/bin/shortlist.safetensors
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors

  At the end, the command reports how many words the shortlist for a validation document contains on average, and what
  percentage of the known words in the reference summaries it covers, where each word counts once per summary.
  docs/decoding.md describes the costs and benefits of a shortlist.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="output folder of etads-prepare, or its bin folder")
    add(
        "--out",
        metavar="FILE",
        type=Path,
        help=f"output file for the shortlist (default: {SHORTLIST} in the data folder)",
    )
    add(
        "--frequent",
        metavar="N",
        type=int,
        default=1000,
        help="number of most frequent summary words to include for every document (default: %(default)s)",
    )
    add(
        "--per-word",
        metavar="N",
        type=int,
        default=20,
        help="maximum number of summary words associated with each document word (default: %(default)s)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        default=400,
        help="learn from only the first N tokens of each document; use the truncation length of the model (default: "
        "%(default)s)",
    )
    add(
        "--truncate-target",
        metavar="N",
        type=int,
        default=100,
        help="learn from only the first N tokens of each summary (default: %(default)s)",
    )
    return parser


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-shortlist``."""
    check_positive_options(frequent=args.frequent, per_word=args.per_word)
    check_positive_options(truncate_source=args.truncate_source, truncate_target=args.truncate_target)
    folder = get_binarised_folder(args.data)
    path = args.out or folder / SHORTLIST
    if path.is_dir():
        raise InputError(f"--out {path}: is a folder; name a file")
    check_output_paths({"--out": path}, {})
    from ..jobs.shortlist import ShortlistLimits, make_shortlist

    silence_info_logs()
    limits = ShortlistLimits(args.frequent, args.per_word, args.truncate_source, args.truncate_target)
    for line in make_shortlist(folder, path, limits):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
