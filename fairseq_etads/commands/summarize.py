"""The command ``etads-summarize``: summarise new documents with a model folder."""

import argparse
import contextlib
import json
import logging
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, Deque, Dict, Iterator

from ..platform.console import (
    Parser,
    add_device_option,
    add_max_tokens_option,
    command,
    escape_unprintable,
    limit_matrix_kernel_caches,
)
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths, open_binary_output
from ..search import call_options
from ..summarizer.folder.config import CONFIG, WEIGHTS, add_folder_argument, read_config
from ..summarizer.surprisal import UNUSUAL
from ..text.checksums import NAME as CHECKSUMS
from ..text.checksums import compute_sha256
from ..text.files import ESCAPE_INVALID, STANDARD_INPUT
from ..text.input_records import (
    InputDocument,
    add_input_format_options,
    choose_input_format,
    describe_document_unit,
    read_documents,
)
from ..text.resumable_output import ResumableWriter

EXAMPLES = """\
examples:
  echo "Vim is an almost compatible version of the UNIX editor Vi." | etads-summarize debian
  etads-summarize model article.txt                             the file is one document; print its summary
  etads-summarize model new-documents.txt --lines               every line is a document
  etads-summarize model articles/ --output summaries.jsonl      every file in the folder is a document; write JSON Lines
  etads-summarize model articles.csv --source-column body --output summaries.txt
  etads-summarize model --beam 8 --min-len 20 < documents.txt

Each JSON line contains "document" (the record's id, the line's number or the file's name; with several inputs, numbers
follow the name of the input, as in FILE:1), "summary", "score", "copied" (words that the model copied, with their
character positions in the document), "read" and "left_out" (how many document tokens the model has read and how many it
has left out), "surprisal", and "problem" if the document has no summary. docs/using.md describes these fields.

After an interruption, run the command again with the same --output to continue where it stopped. The exit status is 1
if some documents could not be summarised, and 2 for any other error.
"""
SECONDS_BETWEEN_MARKS = 0.5
"""Seconds between records of the progress. If the process is killed, the work since the last record is repeated."""
PROBLEMS_SHOWN = 10


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-summarize",
        description="Summarise new documents with a model folder created by etads-export.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_folder_argument(add)
    add(
        "files",
        metavar="FILE",
        nargs="*",
        default=[STANDARD_INPUT],
        help="files or folders containing documents, optionally compressed; - reads standard input (default)",
    )
    add_input_format_options(parser)
    add("--output", metavar="FILE", help="output file for the summaries (default: standard output)")
    add(
        "--output-format",
        choices=("text", "jsonl"),
        help="output format: text (one summary per line, in the order of the documents) or jsonl (default: jsonl if "
        "FILE ends in .jsonl, otherwise text)",
    )
    add_device_option(add)
    add_max_tokens_option(add)
    add(
        "--read-ahead",
        metavar="N",
        type=int,
        default=256,
        help="number of documents to read before they are summarised together; with 1, each document is summarised "
        "immediately (default: %(default)s)",
    )
    add("--quiet", action="store_true", help="print errors only")
    call_options.add_decoding_arguments(parser, "decoding (defaults: the folder's)")
    return parser


def _collect_output_settings(args: argparse.Namespace, kind: str, output_format: str) -> Dict[str, Any]:
    """Return all settings that affect the output, except for the documents."""
    listed = args.folder / CHECKSUMS if (args.folder / CHECKSUMS).is_file() else args.folder / CONFIG
    size = (args.folder / WEIGHTS).stat().st_size if (args.folder / WEIGHTS).is_file() else 0
    return {
        "model": f"{compute_sha256(listed)} {size}",
        "--input-format": kind,
        "--source-column": args.source_column,
        "--output-format": output_format,
        **{
            call_options.format_option_name(name): value for name, value in call_options.get_given_options(args).items()
        },
    }


class _ProgressReport:
    """Show progress on a terminal, and report problems and the number of summaries."""

    def __init__(self, quiet: bool):
        self.quiet, self.started = quiet, time.monotonic()
        self.counts: Counter = Counter()
        self._read = 0
        self._bar: Any = None

    def start_progress_bar(self) -> None:
        """Start a progress bar if stderr is a terminal."""
        from tqdm import tqdm

        self.started = time.monotonic()
        self._bar = tqdm(unit=" documents", desc="summarising", disable=True if self.quiet else None, file=sys.stderr)

    def print_message(self, text: str) -> None:
        if not self.quiet:
            print(f"== {escape_unprintable(text)}", file=sys.stderr)

    def count_document(self, document: InputDocument, summary: Any) -> None:
        """Count a document for the report.

        A message is printed if there is a problem or if the document is unlike the training documents.
        """
        problem = document.problem or summary.problem
        self.counts["documents"] += 1
        self.counts["empty"] += not summary.text and not problem
        if summary.truncation.left_out:
            self.counts["truncated" if summary.picked is None else "selection truncated"] += 1
        self._read = max(self._read, summary.truncation.read)
        surprisal = summary.surprisal
        if problem:
            self._report_problem("failed", document.name, problem)
        elif surprisal is not None and surprisal.is_unusual and not self.quiet:
            self._report_problem(
                "unusual",
                document.name,
                f"unlike the documents used to train the model ({surprisal.unknown:.0%} of its tokens are unknown, "
                f"{surprisal.bits:.1f} bits per token, more than in {UNUSUAL} % of them): do not rely on its summary",
            )
        self._bar.update()

    def _report_problem(self, kind: str, name: str, words: str) -> None:
        """Report a problem with a document, unless ``PROBLEMS_SHOWN`` problems of this type have been reported."""
        self.counts[kind] += 1
        if self.counts[kind] <= PROBLEMS_SHOWN:
            self._bar.clear()
            print(f"etads-summarize: document {escape_unprintable(name)}: {escape_unprintable(words)}", file=sys.stderr)

    def print_report(self, failed: int) -> None:
        """Report the number of documents and the number of missing summaries.

        When an interrupted run is resumed, the number of missing summaries includes those from the earlier runs.
        """
        if self._bar is not None:
            self._bar.close()
        seconds, number = time.monotonic() - self.started, self.counts["documents"]
        empty = f"; {self.counts['empty']:,} are empty" if self.counts["empty"] else ""
        self.print_message(
            f"{number:,} documents in {seconds:.1f} s, {number / max(seconds, 1e-9):.1f} per second{empty}"
        )
        if self.counts["unusual"] > PROBLEMS_SHOWN:
            self.print_message(
                f"{self.counts['unusual']:,} documents in total are unlike the documents used to train the model"
            )
        if self.counts["truncated"]:
            self.print_message(
                f"{self.counts['truncated']:,} documents were truncated to their first {self._read:,} tokens; a "
                "model trained by etads-train --long reads documents of any length"
            )
        if self.counts["selection truncated"]:
            self.print_message(
                f"in {self.counts['selection truncated']:,} documents, the sentences that the extractor selected were "
                f"truncated to their first {self._read:,} tokens"
            )
        if failed:
            print(f"etads-summarize: {failed:,} documents have no summary, for the reasons above", file=sys.stderr)


def _format_summary_line(document: InputDocument, summary: Any, output_format: str) -> str:
    """Format a summary as one line of the output."""
    if output_format == "text":
        return " ".join(summary.text.split())
    problem = document.problem or summary.problem
    record = {"document": document.name, **summary.to_dict(), **({"problem": problem} if problem else {})}
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _choose_output_format(args: argparse.Namespace) -> str:
    return str(args.output_format or ("jsonl" if Path(args.output or "").suffix == ".jsonl" else "text"))


def _stream_summaries(args: argparse.Namespace, summarizer: Any, documents: Iterator[InputDocument]) -> Iterator[Any]:
    """Yield each document together with its summary, in document order."""
    waiting: Deque[InputDocument] = deque()

    def texts() -> Iterator[str]:
        for document in documents:
            waiting.append(document)
            yield document.text

    options = {"max_tokens": args.max_tokens, "read_ahead": args.read_ahead, "errors": "keep"}
    for summary in summarizer.stream(texts(), **options, **call_options.get_given_options(args)):
        yield waiting.popleft(), summary


def _load_summarizer(args: argparse.Namespace) -> Any:
    limit_matrix_kernel_caches()
    from ..summarizer import Summarizer

    logging.getLogger("fairseq_etads").setLevel(logging.ERROR if args.quiet else logging.WARNING)
    return Summarizer.load(args.folder, args.device)


def _write_to_stream(args: argparse.Namespace, kind: str, report: _ProgressReport, stream: Any) -> int:
    """Write summaries to standard output or a pipe one by one. Returns the number of documents without a summary."""
    summarizer = _load_summarizer(args)
    documents = read_documents([Path(name) for name in args.files], kind, args.source_column, ESCAPE_INVALID)
    output_format = _choose_output_format(args)
    report.start_progress_bar()
    for document, summary in _stream_summaries(args, summarizer, documents):
        line = _format_summary_line(document, summary, output_format)
        if stream is sys.stdout and stream.isatty():
            print(line, flush=True)
        else:
            getattr(stream, "buffer", stream).write(line.encode("utf-8", "replace") + b"\n")
            stream.flush()
        report.count_document(document, summary)
    return report.counts["failed"]


def _write_to_file(args: argparse.Namespace, kind: str, report: _ProgressReport) -> int:
    """Write summaries to --output or continue an earlier run. Returns the number of documents without a summary."""
    path = Path(args.output)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--output {path}: {'is a folder; name a file' if path.is_dir() else 'no such folder'}")
    for name in args.files:
        if Path(name).is_dir() and path.parent.resolve() == Path(name).resolve():
            raise InputError(f"--output {path}: FILE {name} is this folder, so its files are documents; name another")
    output_format = _choose_output_format(args)
    inside = [path for name in args.files if Path(name).is_dir() for path in Path(name).iterdir()]
    check_output_paths({"--output": path}, {"FILE": [*args.files, *inside]})
    output = ResumableWriter(path, _collect_output_settings(args, kind, output_format))
    with contextlib.closing(output):
        documents = read_documents([Path(name) for name in args.files], kind, args.source_column, ESCAPE_INVALID)
        if output.progress.documents and not output.is_complete:
            report.print_message(
                f"{path}: {output.progress.documents:,} documents are finished; continuing with the next"
            )
        documents = output.skip_processed(documents)
        if output.is_complete:
            if next(documents, None) is not None:
                raise InputError(
                    f"--output {path}: it contains summaries of the first {output.progress.documents:,} documents; "
                    f"give another --output, or delete it and {output.journal.name}"
                )
            report.print_message(f"{path} is complete already")
            output.finish()
            return output.progress.failed
        summarizer = _load_summarizer(args)
        report.start_progress_bar()
        marked = time.monotonic()
        try:
            for document, summary in _stream_summaries(args, summarizer, documents):
                problem = document.problem or summary.problem
                output.write(document, _format_summary_line(document, summary, output_format), bool(problem))
                report.count_document(document, summary)
                if time.monotonic() - marked > SECONDS_BETWEEN_MARKS:
                    output.record_progress()
                    marked = time.monotonic()
        except BaseException:
            # Record the progress, so that finished work is not repeated by a later run after Ctrl-C or an error.
            output.record_progress()
            raise
        output.finish()
    return output.progress.failed


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-summarize``."""
    for name in ("max_tokens", "read_ahead"):
        if getattr(args, name) < 1:
            raise InputError(f"{call_options.format_option_name(name)} {getattr(args, name)}: choose 1 or more")
    config = read_config(args.folder)
    call_options.make_call_settings(config.decoding, call_options.get_given_options(args))
    kind = choose_input_format(args.files, args.input_format)
    report = _ProgressReport(args.quiet)
    report.print_message(describe_document_unit(kind, args.files, args.input_format))
    if args.output in (None, "-"):
        failed = _write_to_stream(args, kind, report, sys.stdout)
    elif Path(args.output).exists() and not Path(args.output).is_file() and not Path(args.output).is_dir():
        with open_binary_output(args.output) as stream:  # a pipe or device can be neither resumed nor replaced
            failed = _write_to_stream(args, kind, report, stream)
    else:
        failed = _write_to_file(args, kind, report)
    report.print_report(failed)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
