"""The command ``etads-explain``: write a web page that explains a model's summary of a document."""

import argparse
import itertools
import os
import sys
from pathlib import Path
from typing import Any, Iterator, List, Optional, Tuple

from ..platform.console import Parser, add_device_option, command, escape_unprintable, limit_shape_caches
from ..platform.errors import InputError
from ..platform.outputs import check_outputs, open_output
from ..search import call_options
from ..summarizer.folder.config import add_folder_argument, read_config
from ..text.files import ESCAPE_INVALID, STANDARD_INPUT
from ..text.records import (
    NewDocument,
    add_input_format,
    choose_input_format,
    describe_document_unit,
    get_unit_name,
    read_documents,
)

EXAMPLES = """\
examples:
  etads-explain model article.txt --output page.html               the file is one document
  etads-explain model documents.txt --lines --document 3 -o page.html
  etads-explain model articles.jsonl --document 7 -o page.html     the record with the id 7, or else the seventh record
  etads-explain model articles/ --document all -o pages/           one page per document, and pages/index.html
  etads-explain model article.txt --summary "A reference." -o page.html
  etads-explain model article.txt --json page.json                 write only the figures

Open the page in a browser. It is a single file and loads no other files. docs/explain.md describes its contents.
"""
LARGEST = 1_000
"""Maximum number of pages that --document all creates."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-explain",
        description="Write a web page that explains a model's summary: the attention of each word to the document, "
        "copied words, saliency, focus and coverage.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_folder_argument(add)
    add(
        "file",
        metavar="FILE",
        nargs="?",
        default=STANDARD_INPUT,
        help="file or folder with one or more documents, which may be compressed; - is standard input (default)",
    )
    add("--output", "-o", metavar="PAGE", help="file for the page; with --document all, folder for the pages")
    add("--json", metavar="FILE", help="file for the figures as JSON; - is standard output")
    add(
        "--document",
        metavar="N",
        default=None,
        help="id, name or number (from 1) of the document to explain; all: one page per document (default: the first "
        "document)",
    )
    add("--summary", metavar="TEXT", help="explain this summary, such as a reference, instead of the model's own")
    add_input_format(parser)
    add_device_option(add)
    add("--quiet", action="store_true", help="print errors only")
    call_options.add_decoding_arguments(parser, "decoding (defaults: the folder's)")
    return parser


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError if the options are incompatible."""
    if args.output is None and args.json is None:
        raise InputError("give --output PAGE, --json FILE, or both")
    if args.output == STANDARD_INPUT and args.json == STANDARD_INPUT:
        raise InputError("--output - and --json -: only one of them can go to standard output")
    given = call_options.get_given_options(args)
    if args.summary is not None and given:
        raise InputError(
            f"{call_options.format_option_name(next(iter(given)))} has no effect with --summary: leave out one of them"
        )
    for option, value in (("--output", args.output), ("--json", args.json)):
        if value in (None, STANDARD_INPUT):
            continue
        path = Path(value)
        if args.document == "all" and option == "--json":
            raise InputError("--json is for one document: do not choose --document all")
        if args.document == "all" and path.exists() and not path.is_dir():
            raise InputError(f"{option} {path}: --document all writes a folder, but this is a file")
        if args.document != "all" and path.is_dir():
            raise InputError(f"{option} {path}: it is a folder; name a file, or choose --document all")
        if not path.absolute().parent.is_dir():
            raise InputError(f"{option} {path}: there is no folder {path.parent}")
    if args.document != "all":
        check_outputs({"--output": args.output, "--json": args.json}, {"FILE": args.file})
    if args.document == "all" and args.output == STANDARD_INPUT:
        raise InputError("--output -: --document all writes a folder; name a folder")
    if args.document == "all" and args.summary is not None:
        raise InputError("--summary is for one document: do not choose --document all")


def _read_input(args: argparse.Namespace) -> Tuple[str, Iterator[NewDocument]]:
    kind = choose_input_format([args.file], args.input_format)
    return kind, read_documents([Path(args.file)], kind, args.source_column, ESCAPE_INVALID)


def _select_document(documents: Iterator[NewDocument], wanted: Optional[str], say: Any, kind: str) -> NewDocument:
    """Return the document that the option --document selects.

    Raises:
        InputError: the selected document does not exist or cannot be read.
    """
    by_number: Optional[NewDocument] = None
    found: Optional[NewDocument] = None
    count = 0
    for count, document in enumerate(documents, 1):
        if wanted is None and (document.text.strip() or document.problem):
            found = document
            break
        if wanted is not None and document.name == wanted:
            found = document
            break
        if wanted is not None and wanted.isdecimal() and count == int(wanted):
            by_number = document
    found = found or by_number
    if found is None and wanted is None:
        raise InputError("FILE: no document with words in it")
    if found is None:
        hint = "; --lines reads every line as one" if kind == "file" else ""
        raise InputError(
            f"--document {wanted}: no such id, name or number; the {count:,} documents are numbered from 1{hint}"
        )
    if found.problem:
        raise InputError(found.problem)
    if wanted is None and next(documents, None) is not None:
        hint = "; --input-format file reads the whole file as one" if kind == "lines" else ""
        say(
            f"every {get_unit_name(kind)} is a document; this is the first ({found.name}); "
            f"--document chooses another{hint}"
        )
    return found


def _write_output(path: str, text: str) -> None:
    if path == STANDARD_INPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        return
    with open_output(Path(path)) as file:
        file.write(text)


@command(_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-explain``."""
    _check_options(args)
    config = read_config(args.folder)
    call_options.make_call_settings(config.decoding, call_options.get_given_options(args))
    kind, documents = _read_input(args)

    def print_warning(text: str) -> None:
        if not args.quiet:
            print(f"== {escape_unprintable(text)}", file=sys.stderr)

    if kind == "file":
        taken = describe_document_unit(kind, [args.file], args.input_format)
        if taken.startswith(args.file):  # each line of this file may also be a document
            print_warning(taken)
    if args.document == "all":
        _explain_all(args, documents, print_warning)
        return
    document = _select_document(documents, args.document, print_warning, kind)
    explanation = _load_summarizer(args).explain(
        document.text, summary=args.summary, **call_options.get_given_options(args)
    )
    if args.output is not None:
        _write_output(args.output, explanation.to_html(_make_page_title(args, document)))
        if args.output != STANDARD_INPUT:
            print_warning(f"open {args.output} in a browser")
    if args.json is not None:
        _write_output(args.json, explanation.to_json() + "\n")


def _make_page_title(args: argparse.Namespace, document: NewDocument) -> str:
    """Return the title of the page that explains the summary of a document."""
    name = "standard input" if args.file == STANDARD_INPUT else os.path.basename(os.path.normpath(args.file))
    return name if document.name == args.file else f"{name}, document {document.name}"


def _explain_all(args: argparse.Namespace, documents: Iterator[NewDocument], say: Any) -> None:
    """Write a page for each document and an index page to the folder specified with --output."""
    from ..summarizer.explanation_page import make_index_page

    folder = Path(args.output)
    folder.mkdir(exist_ok=True)
    options = call_options.get_given_options(args)
    pages: List[Tuple[str, str, str]] = []
    summarizer = _load_summarizer(args)
    failed = 0
    for number, document in enumerate(itertools.islice(documents, LARGEST), 1):
        if document.problem:
            print(f"etads-explain: {escape_unprintable(document.problem)}", file=sys.stderr)
            failed += 1
            continue
        explanation = summarizer.explain(document.text, **options)
        name = f"{number:04}.html"
        _write_output(str(folder / name), explanation.to_html(_make_page_title(args, document)))
        pages.append((name, document.name, explanation.summary))
    if next(documents, None) is not None:
        say(f"only the first {LARGEST:,} documents have a page")
    if not pages:
        raise InputError(f"FILE {args.file}: it has no readable document")
    _write_output(str(folder / "index.html"), make_index_page(pages))
    say(f"{len(pages):,} pages: open {folder / 'index.html'} in a browser")
    if failed:
        sys.exit(1)


def _load_summarizer(args: argparse.Namespace) -> Any:
    limit_shape_caches()
    from ..summarizer import Summarizer

    return Summarizer.load(args.folder, args.device)


if __name__ == "__main__":
    sys.exit(main())
