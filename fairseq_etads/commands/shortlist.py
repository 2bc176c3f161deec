"""The command ``etads-shortlist``: which words of summaries go with which words of documents, for fast decoding."""

import argparse
import sys
from pathlib import Path
from typing import List, Optional

from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, run
from ..platform.errors import InputError
from ..summarizer.folder.config import SHORTLIST
from .labels import binarised


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-shortlist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Learn a shortlist from prepared training data: the words that are most frequent in summaries and, "
        "for each word of documents, those words of summaries that go with it. Decoding with --shortlist FILE then "
        "looks at these and the document's own words alone, which is faster with a large vocabulary.",
        epilog="""\
examples:
  etads-shortlist runs/mine/prepared                              writes runs/mine/prepared/bin/shortlist.safetensors
  etads-shortlist runs/mine/prepared --frequent 2000 --out lists/wide.safetensors
  scripts/generate.sh --run runs/mine --output summaries.txt --shortlist runs/mine/prepared/bin/shortlist.safetensors
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors

  At the end it says how many words a document of the validation data has on its list, and how many words of the
  reference summaries are on it. docs/decoding.md says what a shortlist costs and gains.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="what etads-prepare made, or its folder bin")
    add("--out", metavar="FILE", type=Path, help=f"where the shortlist goes (default: {SHORTLIST} beside the data)")
    add("--frequent", metavar="N", type=int, default=1000, help="words that are on every list, the most frequent ones "
        "of the summaries (default: %(default)s)")  # fmt: skip
    add("--per-word", metavar="N", type=int, default=20, help="most words that go with a word of a document "
        "(default: %(default)s)")  # fmt: skip
    add("--truncate-source", metavar="N", type=int, default=400, help="learn from the first N tokens of a document, as "
        "many as the model reads (default: %(default)s)")  # fmt: skip
    add("--truncate-target", metavar="N", type=int, default=100, help="and from the first N tokens of a summary "
        "(default: %(default)s)")  # fmt: skip
    return parser


def _make(args: argparse.Namespace) -> None:
    check_positive(frequent=args.frequent, per_word=args.per_word)
    check_positive(truncate_source=args.truncate_source, truncate_target=args.truncate_target)
    folder = binarised(args.data)
    path = args.out or folder / SHORTLIST
    if path.is_dir():
        raise InputError(f"--out {path}: is a folder; name a file")
    # here, so that --help, --version and wrong options are answered without waiting for torch and fairseq
    from .. import plugin  # noqa: F401  # first: it keeps fairseq quiet
    from ..jobs.shortlist import Limits, make_shortlist  # isort: skip

    only_warnings()
    limits = Limits(args.frequent, args.per_word, args.truncate_source, args.truncate_target)
    for line in make_shortlist(folder, path, limits):
        print(line)


def main(argv: Optional[List[str]] = None) -> int:
    """Run ``etads-shortlist`` and return its exit code, 2 after an error, which is one line on stderr."""
    args = _parser().parse_args(argv)
    return run("etads-shortlist", lambda: _make(args), ValueError)


if __name__ == "__main__":
    sys.exit(main())
