"""Options that all corpus kinds of etads-corpus share, and a function that copies pipes to files."""

import argparse
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator

from fairseq_etads.files.inputs import STANDARD_INPUT, is_read_once, open_binary
from fairseq_etads.files.outputs import check_no_colon
from fairseq_etads.platform.console import add_jobs_option, check_positive_options
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.words import LANGUAGES

from .near_duplicates import DEFAULT_SIMILARITY, LIST, SHINGLE, check_datasketch, parse_similarity


def add_shared_options(parser: argparse.ArgumentParser, defaults: Dict[str, Any]) -> None:
    """Add the options that all corpus kinds share to a parser. ``defaults`` contains those specific to a reader."""
    add = parser.add_argument
    add(
        "--fallback-encoding",
        metavar="NAME",
        default="",
        help='encoding of lines that are not valid UTF-8, such as cp1252, or "replace" to substitute U+FFFD for '
        "invalid bytes; the number of such lines is reported (default: stop and report the line)",
    )
    add(
        "--skip-bad",
        action="store_true",
        help="drop records that cannot be read or are not valid UTF-8, and report their number (default: stop)",
    )
    add(
        "--keep-empty",
        action="store_true",
        help="keep pairs with an empty document or summary instead of dropping them",
    )
    split = defaults.get("split", True)
    add(
        "--sentences",
        dest="split",
        action=argparse.BooleanOptionalAction,
        default=split,
        help=f"split paragraphs into sentences with a rule-based splitter (default: {'yes' if split else 'no'})",
    )
    stops = defaults.get("full_stops", False)
    add(
        "--full-stops",
        action=argparse.BooleanOptionalAction,
        default=stops,
        help=f"add a full stop to lines without final punctuation (default: {'yes' if stops else 'no'})",
    )
    joins = defaults.get("join_tokens", False)
    add(
        "--join-tokens",
        action=argparse.BooleanOptionalAction,
        default=joins,
        help="join the tokens of tokenised text as people write them, such as don't instead of do n't (default: "
        f"{'yes' if joins else 'no'})",
    )
    add(
        "--language",
        choices=LANGUAGES,
        default="en",
        help="language of the text, whose abbreviations and ordinals do not end sentences (default: %(default)s)",
    )
    add(
        "--sentence-mark",
        dest="sentence_marks",
        metavar="MARK",
        action="append",
        default=[],
        help="mark of another tool between sentences or paragraphs, such as '<t>' or '[SEP]'; may be repeated "
        "(default: count such marks and warn)",
    )
    add(
        "--strip-html",
        action="store_true",
        help="remove HTML tags, comments and scripts, and decode HTML entities (default: count them and warn)",
    )
    add(
        "--strip-invisible",
        action="store_true",
        help="remove zero-width characters and bidirectional control characters (default: count them and warn)",
    )
    add(
        "--source-sentences",
        metavar="N",
        type=int,
        default=0,
        help="keep only the first N sentences of each document (default: all)",
    )
    add(
        "--short-lead",
        metavar="CHARS",
        type=int,
        default=0,
        help="keep one more sentence if the sentences kept by --source-sentences contain fewer than CHARS characters "
        "(NAMAS on DUC: 1 sentence, 130 characters)",
    )
    add(
        "--source-words",
        metavar="N",
        type=int,
        default=0,
        help="keep only the first N words of each document (default: all)",
    )
    add(
        "--train-references",
        choices=("first", "all"),
        default="first",
        help="references to use for training documents with several references. first: only the first reference; all: "
        "write one pair per reference (default: %(default)s)",
    )
    add(
        "--near-duplicates",
        metavar="SIMILARITY",
        type=parse_similarity,
        nargs="?",
        const=DEFAULT_SIMILARITY,
        help=f"report documents that share at least this fraction of their {SHINGLE}-word sequences "
        f"({DEFAULT_SIMILARITY} if no value is given) with another document of the same or an earlier split, and list "
        f"them in {LIST}. No documents are removed. Requires datasketch (pip install datasketch)",
    )
    add("--force", action="store_true", help="replace an existing corpus in TEXT")


def add_output_options(parser: argparse.ArgumentParser, shows: bool = False) -> None:
    """Add --jobs and, of which one is required, --out, --prepare and (with ``shows``) --show to a parser."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--out", metavar="TEXT", type=Path, help="output folder for the text and report.json")
    add(
        "--prepare",
        metavar="OUT",
        type=Path,
        help="write the text to OUT/text, and then binarise it with etads-prepare, whose options follow after --, in "
        "OUT/prepared",
    )
    if shows:
        add("--show", metavar="N", type=int, help="print the first N documents of each file, and write nothing")
    add_jobs_option(parser)


def check_options(args: argparse.Namespace) -> None:
    """Raise InputError if a shared option has an invalid value or cannot be combined with another option."""
    for name in ("source_sentences", "source_words", "short_lead"):
        if getattr(args, name) < 0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(args, name)}: choose 0 (no limit) or more")
    check_no_colon("--prepare", args.prepare)
    if args.short_lead and not args.source_sentences:
        raise InputError(f"--short-lead {args.short_lead} has no effect without --source-sentences")
    if args.fallback_encoding not in ("", "replace"):
        try:
            # Text is split into lines before it is decoded, so a line feed must be encoded as a single byte.
            fits = b"a\n".decode(args.fallback_encoding) == "a\n"
        except LookupError:
            unknown = f"--fallback-encoding {args.fallback_encoding}: not an encoding of text"
            raise InputError(f"{unknown}; choose one such as cp1252, latin-1, gb18030, or replace") from None
        except UnicodeError:
            fits = False
        if not fits:
            raise InputError(
                f"--fallback-encoding {args.fallback_encoding}: cannot be read line by line; convert the file first: "
                f"iconv -f {args.fallback_encoding} -t UTF-8"
            )
    if args.near_duplicates is not None:
        check_datasketch()
    check_positive_options(jobs=args.jobs, show=args.show)


@contextlib.contextmanager
def copy_pipes_to_files(args: argparse.Namespace) -> Iterator[None]:
    """Context manager that replaces standard input and pipes in ``args`` with files, because readers read input often.

    Raises:
        InputError: ``-`` occurs more than once in the arguments.
    """
    inputs = {name: value for name, value in vars(args).items() if name not in ("out", "prepare")}
    given = [path for value in inputs.values() for path in (value if isinstance(value, list) else [value])]
    pipes = list(filter(is_read_once, (path for path in given if isinstance(path, Path))))
    if given.count(Path(STANDARD_INPUT)) > 1:
        raise InputError("standard input (-) is given twice; it can be read only once: write it to a file first")
    with contextlib.ExitStack() as stack:
        copies = {}
        for number, pipe in enumerate(pipes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etads-corpus-")))
            copies[pipe] = folder / (STANDARD_INPUT if str(pipe) == STANDARD_INPUT else f"pipe-{number}")
            with open_binary(pipe) as source, open(copies[pipe], "wb") as destination:
                shutil.copyfileobj(source, destination)
        for name, value in inputs.items():
            if isinstance(value, list):
                setattr(args, name, [copies.get(path, path) for path in value])
            elif isinstance(value, Path):
                setattr(args, name, copies.get(value, value))
        yield
