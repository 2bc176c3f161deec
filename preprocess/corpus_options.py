"""Options that all corpus kinds of etads-corpus share, and a function that copies pipes to files."""

import argparse
import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, Optional

from fairseq_etads.files.inputs import STANDARD_INPUT, is_read_once, open_binary
from fairseq_etads.files.outputs import check_no_colon
from fairseq_etads.platform import option_checks
from fairseq_etads.platform.command_options import JobsOption, option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import NOT_NEGATIVE, SIZE, Bounds
from fairseq_etads.text.words import LANGUAGES

from .near_duplicates import DEFAULT_SIMILARITY, LIST, SHINGLE, check_datasketch

DEFAULTS = {"split": True, "full_stops": False, "join_tokens": False}
"""Default values of the options for which readers have others."""


@dataclass
class CorpusOptions(JobsOption):
    """Options that all corpus kinds share."""

    fallback_encoding: str = option(
        "",
        'encoding of lines that are not valid UTF-8, such as cp1252, or "replace" to substitute U+FFFD for invalid '
        "bytes; the number of such lines is reported (default: stop and report the line)",
        metavar="NAME",
    )
    skip_bad: bool = option(
        False, "drop records that cannot be read or are not valid UTF-8, and report their number (default: stop)"
    )
    keep_empty: bool = option(False, "keep pairs with an empty document or summary instead of dropping them")
    split: bool = option(
        None, "split paragraphs into sentences with a rule-based splitter (default: %(default)s)", flag="--sentences"
    )
    full_stops: bool = option(None, "add a full stop to lines without final punctuation (default: %(default)s)")
    join_tokens: bool = option(
        None,
        "join the tokens of tokenised text as people write them, such as don't instead of do n't (default: "
        "%(default)s)",
    )
    language: str = option(
        "en", "language of the text, whose abbreviations and ordinals do not end sentences", choices=LANGUAGES
    )
    sentence_marks: List[str] = option(
        [],
        "mark of another tool between sentences or paragraphs, such as '<t>' or '[SEP]'; may be repeated (default: "
        "count such marks and warn)",
        metavar="MARK",
        flag="--sentence-mark",
    )
    strip_html: bool = option(
        False, "remove HTML tags, comments and scripts, and decode HTML entities (default: count them and warn)"
    )
    strip_invisible: bool = option(
        False, "remove zero-width characters and bidirectional control characters (default: count them and warn)"
    )
    source_sentences: int = option(
        0, "keep only the first N sentences of each document (default: all)", bounds=NOT_NEGATIVE
    )
    short_lead: int = option(
        0,
        "keep one more sentence if the sentences kept by --source-sentences contain fewer than CHARS characters "
        "(NAMAS on DUC: 1 sentence, 130 characters)",
        metavar="CHARS",
        bounds=NOT_NEGATIVE,
        needs=("--source-sentences",),
    )
    source_words: int = option(0, "keep only the first N words of each document (default: all)", bounds=NOT_NEGATIVE)
    train_references: str = option(
        "first",
        "references to use for training documents with several references. first: only the first reference; all: "
        "write one pair per reference",
        choices=("first", "all"),
    )
    near_duplicates: Optional[float] = option(
        None,
        f"report documents that share at least this fraction of their {SHINGLE}-word sequences ({DEFAULT_SIMILARITY} "
        f"if no value is given) with another document of the same or an earlier split, and list them in {LIST}. No "
        "documents are removed. Requires datasketch (pip install datasketch)",
        metavar="SIMILARITY",
        nargs="?",
        const=DEFAULT_SIMILARITY,
        bounds=Bounds(0.1, most=1, what="a similarity"),
    )
    force: bool = option(False, "replace an existing corpus in TEXT")


def add_output_options(parser: argparse.ArgumentParser, shows: bool = False) -> None:
    """Add --out, --prepare and (with ``shows``) --show to a parser, one of which is required."""
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


def check_options(args: argparse.Namespace) -> None:
    """Raise InputError if a shared option has an invalid value or cannot be combined with another option."""
    for config in (CorpusOptions, args.reader.options):
        option_checks.check_options(args, config)
    check_no_colon("--prepare", args.prepare)
    try:
        # Text is split into lines before it is decoded, so a line feed must be encoded as a single byte.
        fits = args.fallback_encoding in ("", "replace") or b"a\n".decode(args.fallback_encoding) == "a\n"
    except (LookupError, UnicodeError):
        fits = False
    if not fits:
        raise InputError(
            f"--fallback-encoding {args.fallback_encoding}: not an encoding of text that can be read line by line, "
            "such as cp1252, latin-1 or gb18030; convert the file first (iconv -t UTF-8), or choose replace"
        )
    if args.near_duplicates is not None:
        check_datasketch()
    if args.show is not None and not SIZE.contains(args.show):
        raise InputError(f"--show {args.show}: choose {SIZE}")


@contextlib.contextmanager
def copy_pipes_to_files(args: argparse.Namespace) -> Iterator[None]:
    """Context manager that replaces standard input and pipes in ``args`` with files, because readers read input often.

    Raises InputError if ``-`` occurs more than once in the arguments.
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
