"""The command ``etads-summarize`` (summarise): summarise new documents."""

import contextlib
import functools
import itertools
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..data.run_record import RECIPE
from ..files import shards
from ..files.checksums import NAME as CHECKSUMS
from ..files.checksums import compute_sha256
from ..files.inputs import STANDARD_INPUT
from ..files.outputs import check_output_paths, open_binary_output
from ..files.resumable import ResumableWriter
from ..platform.command_options import (
    SIZE,
    DeviceOption,
    MaxTokensOption,
    argument,
    format_option_name,
    option,
    options_command,
)
from ..platform.console import escape_unprintable, print_message
from ..platform.errors import InputError
from ..search.options import check_call, decoding_options
from ..summarizer.folder.config import BASELINES, DEFAULT, find_default_folder, folder_argument, read_config
from ..summarizer.folder.run_files import find_run_files, is_run
from ..text import records
from ..text.records import InputDocument, InputFormatOptions
from .shared_options import list_model_files, load_summarizer, prepared_option

EXAMPLES = """\
examples:
  echo "Vim is an almost compatible version of the UNIX editor Vi." | etads-summarize debian
  etads-summarize article.txt --sentences 3                     by the included model for news
  etads-summarize textrank article.txt --words 60               sentences of the document, without a model
  etads-summarize model article.txt                             the file is one document; print its summary
  etads-summarize model new-documents.txt --lines               every line is a document
  etads-summarize model articles/ --output summaries.jsonl      every file in the folder is a document; write JSON Lines
  etads-summarize model articles.csv --source-column body --output summaries.txt
  etads-summarize model --beam 8 --min-len 20 < documents.txt
  etads-summarize runs/mine --split test --output summaries.txt       summarise a split of the data of a training run
  etads-summarize runs/mine articles.jsonl --output out.jsonl --shard 2/4    the second of four processes

The page etads docs using describes the fields of each JSON line, and etads docs scale how processes or machines share
the work with --shard. When OUTPUT is complete, OUTPUT.shards can be deleted.

After an interruption, run the command again with the same --output to continue where it stopped. The exit status is 1
if some documents could not be summarised, and 2 for any other error.
"""
SECONDS_BETWEEN_MARKS = 0.5
"""Seconds between records of the progress. If the process is killed, the work since the last record is repeated."""
PROBLEMS_SHOWN = 10


_OF_RUN = "for a training run (output folder of etads-train)"
_run_option = functools.partial(option, group=_OF_RUN)


@dataclass
class SummarizeOptions(InputFormatOptions, DeviceOption, MaxTokensOption):
    """Options of ``etads-summarize``."""

    folder: Path = folder_argument(
        f"; {' or '.join(BASELINES)}: sentences of the document, without a model (default: {DEFAULT}, if included)",
        nargs="?",
    )
    files: List[str] = argument(
        "FILE", "files or folders containing documents, optionally compressed; - is standard input (default)", nargs="*"
    )
    split: Optional[str] = _run_option(
        None, "summarise this split of the prepared data instead of FILE", choices=("train", "valid", "test")
    )
    checkpoint: Optional[str] = _run_option(
        None, "checkpoint: a file, best or last (default: best, or else last)", metavar="FILE"
    )
    prepared: Optional[Path] = prepared_option("the data used for training", group=_OF_RUN)
    content: Optional[str] = _run_option(
        None,
        "run folder with a content model, created by etads-content (default: that of RUN or of its extractor, if "
        "any; none: no content model)",
        metavar="DIR",
    )
    extractor: Optional[str] = _run_option(
        None, "run folder of the sentence extractor (default: the extractor of RUN, if any)", metavar="DIR"
    )
    shortlist_file: Optional[Path] = _run_option(None, "shortlist created by etads-shortlist")
    selection: Optional[Path] = _run_option(
        None,
        "with --split: folder with the word probabilities from etads-select, which restrict copying with "
        "--pointer soft to probable words (Gehrmann et al. 2018)",
        metavar="DIR",
        requires={"--split": "the probabilities are those of its documents"},
    )
    selection_threshold: float = _run_option(
        0.15, "copy only words with a probability above X according to --selection", needs=("--selection",)
    )
    selection_factor: float = _run_option(
        2.0, "multiply the probability of copying the selected words by X", needs=("--selection",)
    )
    output: str = option(None, "output file for the summaries (default: standard output)", metavar="FILE")
    output_format: Optional[str] = option(
        None,
        "output format: text (one summary per line, in the order of the documents) or jsonl (default: jsonl if "
        "FILE ends in .jsonl or .json, otherwise text)",
        choices=("text", "jsonl"),
    )
    sentence_marks: Optional[bool] = option(
        None,
        "in text, keep the marks <q> between the sentences and the words as the model writes them, as etads-rouge "
        "scores them (default: only with --split)",
    )
    evidence: bool = option(
        False,
        "in jsonl, add from where in the document each sentence was copied, and which of its words are new",
        excludes={"--split": "etads-evidence reads the summaries and the split"},
    )
    shard: Any = option(
        None, "summarise only the I-th of N shards, and join them when all are complete", metavar="I/N", parse=str
    )
    restart: bool = option(
        False, "start again if an interrupted run with other options has left an incomplete OUTPUT (default: refuse)"
    )
    read_ahead: int = option(
        256, "number of documents to read before they are summarised together; 1: summarise each at once", bounds=SIZE
    )
    quiet: bool = option(False, "print errors only")
    run: Any = None

    @property
    def keeps_marks(self) -> bool:
        """Return whether text output keeps sentence marks."""
        return self.split is not None if self.sentence_marks is None else self.sentence_marks

    @property
    def is_baseline(self) -> bool:
        """Return whether FOLDER is the name of a baseline, which needs no model."""
        return str(self.folder) in BASELINES and not self.folder.is_dir()

    decoding: Dict[str, Any] = decoding_options("decoding (defaults: the folder's)")


def _collect_output_settings(args: SummarizeOptions, kind: str) -> Dict[str, Any]:
    """Return all settings that affect the output, except for the documents."""
    if args.is_baseline:
        model = str(args.folder)
    elif args.run is not None:
        model = args.run.compute_fingerprint()
    else:
        sums = args.folder / CHECKSUMS  # it contains the checksums of all other files
        listed = [sums] if sums.is_file() else sorted(filter(Path.is_file, args.folder.iterdir()))
        model = " ".join(map(compute_sha256, listed))
    selection = ("selection", "selection_threshold", "selection_factor") if args.selection else ()
    switches = [name for name in ("no_quotes", "join_lines", "evidence") if getattr(args, name)]
    return {
        "model": model,
        **{name: str(getattr(args, name)) for name in selection},
        "--input-format": kind,
        "--source-column": args.source_column,
        "--output-format": args.output_format,
        "--sentence-marks": args.keeps_marks,
        **{format_option_name(name): True for name in switches},
        **{format_option_name(name): value for name, value in args.decoding.items()},
    }


class _ProgressReport:
    """Show progress on a terminal, and report problems and the number of summaries."""

    def __init__(self, quiet: bool, folder: Path):
        self.quiet, self.folder, self.started = quiet, folder, time.monotonic()
        self.counts: Counter = Counter()
        self._read = 0
        self._bar: Any = None

    def start_progress_bar(self) -> None:
        """Start a progress bar if stderr is a terminal."""
        from tqdm import tqdm

        self.started = time.monotonic()
        self._bar = tqdm(unit=" documents", desc="summarising", disable=True if self.quiet else None, file=sys.stderr)

    def print_message(self, text: str) -> None:
        print_message(text, self.quiet)

    def count_document(self, document: InputDocument, summary: Any) -> None:
        """Count a document. A problem, or that the document is unlike the training documents, is reported at once."""
        problem, surprisal = document.problem or summary.problem, summary.surprisal
        self.counts["all"] += 1
        self.counts["empty"] += not summary.text and not problem
        if summary.truncation.left_out:
            self.counts["documents" if summary.picked is None else "selections of the extractor"] += 1
        self._read = max(self._read, summary.truncation.read)
        is_unusual = not problem and not self.quiet and surprisal is not None and surprisal.is_unusual
        if problem or is_unusual:
            kind = "failed" if problem else "unusual"
            self.counts[kind] += 1
            if self.counts[kind] <= PROBLEMS_SHOWN:
                self._bar.clear()
                if not problem:
                    from ..summarizer.documents import find_fitting_model

                    problem = surprisal.describe(find_fitting_model(document.text, self.folder))
                text = escape_unprintable(f"document {document.name}: {problem}")
                print(f"etads-summarize: {text}", file=sys.stderr)
        self._bar.update()

    def print_report(self, failed: int) -> None:
        """Report the number of documents and of missing summaries, which include an interrupted run's."""
        if self._bar is not None:
            self._bar.close()
        seconds, number = time.monotonic() - self.started, self.counts["all"]
        empty = f"; {self.counts['empty']:,} are empty" if self.counts["empty"] else ""
        speed = f"{seconds:.1f} s, {number / max(seconds, 1e-9):.1f} per second"
        self.print_message(f"{number:,} document{'s' * (number != 1)} in {speed}{empty}")
        if self.counts["unusual"] > PROBLEMS_SHOWN:
            self.print_message(f"{self.counts['unusual']:,} documents are unlike the documents used to train the model")
        advice = "; a model trained by etads-train --long reads documents of any length"
        for what, more in (("documents", advice), ("selections of the extractor", "")):
            if self.counts[what]:
                self.print_message(
                    f"{what} truncated to their first {self._read:,} tokens: {self.counts[what]:,}{more}"
                )
        if failed:
            have = "document has" if failed == 1 else "documents have"
            print(f"etads-summarize: {failed:,} {have} no summary, for the reasons above", file=sys.stderr)


def _format_summary_line(document: InputDocument, summary: Any, args: SummarizeOptions) -> str:
    """Format a summary as one line of the output."""
    if args.output_format == "text":
        return " ".join((summary.text if args.keeps_marks else " ".join(summary.sentences)).split())
    problem = document.problem or summary.problem
    record = {"document": document.name, **summary.to_dict(), **({"problem": problem} if problem else {})}
    if args.evidence:
        from ..evaluation.evidence import find_evidence

        record["evidence"] = [one.to_dict() for one in find_evidence(document.text, summary.sentences)]
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


class _Documents:
    """The documents of the input files or of a split, whose model is loaded when it is needed."""

    def __init__(self, args: SummarizeOptions, kind: str):
        self._args, self._kind = args, kind
        self._split: Any = None

    @functools.cached_property
    def summarizer(self) -> Any:
        """The summariser, which is loaded once."""
        args = self._args
        if args.is_baseline:
            from ..summarizer.baselines import BaselineSummarizer

            return BaselineSummarizer(str(args.folder))
        of_run = {name: getattr(args, name) for name in ("checkpoint", "prepared", "extractor", "content")}
        of_run["shortlist"] = args.shortlist_file
        given = {name: value for name, value in of_run.items() if value is not None}
        return load_summarizer(args.folder, args.device, args.quiet, **given)

    def read(self) -> Iterator[InputDocument]:
        """Yield all documents."""
        args = self._args
        if args.split is None:
            files = [Path(name) for name in args.files]
            options = records.ReadingOptions(
                column=args.source_column, quotes=not args.no_quotes, join_lines=args.join_lines
            )
            yield from records.read_documents(files, self._kind, options)
            return
        self._split = self.summarizer.read_split(args.split)
        # Raise an error about missing probabilities of sentences before the first summary.
        self.summarizer.stream(self._split, **args.decoding)
        for number, document in enumerate(self._split, 1):
            yield InputDocument(str(number), str(document))

    def summarise(self, documents: Iterator[InputDocument], report: _ProgressReport, write: Callable[..., Any]) -> None:
        """Summarise documents, and pass each to ``write`` with its line of the output and whether it has failed."""
        args, decoding, summarizer = self._args, self._args.decoding, self.summarizer
        read, waiting = itertools.tee(documents)
        options = {"max_tokens": args.max_tokens, "read_ahead": args.read_ahead, "errors": "keep"}
        if args.selection is not None:
            from ..summarizer import WordSelection

            options["selection"] = WordSelection(args.selection, args.selection_threshold, args.selection_factor)
        if args.shortlist_file is not None:
            decoding.setdefault("shortlist", True)
        if args.split is None:
            summarizer.check_reads_raw_text()
        report.start_progress_bar()
        texts = (one.text if self._split is None else self._split[int(one.name) - 1] for one in read)
        summaries = summarizer.stream(texts, copied=args.output_format == "jsonl", **options, **decoding)
        for summary, document in zip(summaries, waiting):
            line = _format_summary_line(document, summary, args)
            write(document, line, bool(document.problem or summary.problem))
            report.count_document(document, summary)


def _write_to_stream(documents: _Documents, report: _ProgressReport, stream: Any) -> int:
    """Write summaries to standard output or a pipe one by one. Returns the number of documents without a summary."""

    def write(document: InputDocument, line: str, failed: bool) -> None:
        if stream is sys.stdout and stream.isatty():
            print(line, flush=True)
        else:
            getattr(stream, "buffer", stream).write(line.encode("utf-8", "replace") + b"\n")
            stream.flush()

    documents.summarise(documents.read(), report, write)
    return report.counts["failed"]


def _write_to_file(args: SummarizeOptions, documents: _Documents, kind: str, report: _ProgressReport) -> int:
    """Write summaries to --output or continue an earlier run. Returns the number of documents without a summary."""
    path = Path(args.output)
    if path.is_dir() or not ResumableWriter.list_files(path)[0].parent.is_dir():
        raise InputError(f"--output {path}: {'is a folder; name a file' if path.is_dir() else 'no such folder'}")
    for name in args.files:
        if Path(name).is_dir() and path.parent.resolve() == Path(name).resolve():
            raise InputError(f"--output {path}: FILE {name} is this folder, so its files are documents; name another")
    of_model = [] if args.is_baseline else list_model_files(args.folder, args.run)
    read = {"FILE": [*args.files, *_list_document_files(args)], "FOLDER": of_model}
    check_output_paths({"--output": ResumableWriter.list_files(path)}, read)
    settings = _collect_output_settings(args, kind)
    if args.split or args.shard is not None:
        files = _list_split_files(args) if args.split else _list_document_files(args)
        settings["inputs"] = [compute_sha256(file) for file in files if file.is_file()]
    if args.shard is None:
        return _write_summaries(args, documents, report, path, settings)
    share = shards.get_shard_path(path, args.shard)
    failed = 0
    if shards.is_shard_complete(share, settings):
        report.print_message(f"shard {args.shard} exists already: {share}")
    else:
        share.parent.mkdir(exist_ok=True)
        failed = _write_summaries(args, documents, report, share, settings)
    if shards.join_shards(path, args.shard, settings):
        report.print_message(f"all shards are complete: {path}")
    return failed


def _list_document_files(args: SummarizeOptions) -> List[Path]:
    """Return the files that contain the documents, including those in folders."""
    inside = [sorted(path.iterdir()) if path.is_dir() else [path] for path in map(Path, args.files)]
    return list(itertools.chain.from_iterable(inside))


def _list_split_files(args: SummarizeOptions) -> List[Path]:
    """Return the files of the split and of the probabilities that it needs."""
    folders = [args.selection, args.run.extractor and args.run.extractor.run]
    probabilities = [folder.glob(f"probabilities.*.{args.split}") for folder in folders if folder is not None]
    return [*sorted(args.run.data.glob(f"{args.split}.*.bin")), *itertools.chain.from_iterable(probabilities)]


def _write_summaries(
    args: SummarizeOptions, documents: _Documents, report: _ProgressReport, path: Path, settings: Dict[str, Any]
) -> int:
    """Write the summaries of all documents, or of one shard, to a file. Continue the file of an interrupted run."""
    shard: Optional[shards.Shard] = args.shard
    output = ResumableWriter(path, settings, args.restart or shard is not None)
    marked = time.monotonic()

    def write(document: InputDocument, line: str, failed: bool) -> None:
        nonlocal marked
        if shard is not None:
            done = output.progress.documents - 1  # without the header
            line = shards.format_shard_line(shard.number - 1 + done * shard.shares, line)
        output.write(document, line, failed)
        if time.monotonic() - marked > SECONDS_BETWEEN_MARKS:
            output.record_progress()
            marked = time.monotonic()

    with contextlib.closing(output):
        wanted = documents.read()
        if shard is not None:
            share = itertools.islice(wanted, shard.number - 1, None, shard.shares)
            wanted = itertools.chain([InputDocument("", "")], share)
        if output.progress.documents and not output.is_complete:
            report.print_message(f"{path}: {output.progress.documents:,} documents are finished; continuing")
        wanted = output.skip_processed(wanted)
        if output.is_complete:
            if next(wanted, None) is not None:
                raise InputError(
                    f"--output {path}: it contains summaries of the first {output.progress.documents:,} documents; "
                    f"give another --output, or delete it and {output.journal.name}"
                )
            report.print_message(f"{path} is complete already")
        else:
            try:
                if shard is not None and not output.progress.documents:
                    output.write(next(wanted), shards.format_shard_header(settings), False)
                documents.summarise(wanted, report, write)
            except BaseException:
                # Record the progress, so that finished work is not repeated by a later run after Ctrl-C or an error.
                output.record_progress()
                raise
        output.finish()
    return output.progress.failed


def _check_arguments(args: SummarizeOptions) -> None:
    """Check the options, and add the files of a run (``args.run``), or None for a model folder."""
    args.run = None
    suffix = Path(args.output or "").suffix
    args.output_format = args.output_format or ("jsonl" if suffix in (".jsonl", ".json") else "text")
    first = "" if args.folder is None else str(args.folder)
    if args.folder is None or first == STANDARD_INPUT or (args.folder.is_file() and first not in BASELINES):
        args.files = [*([first] if first else []), *args.files]
        args.folder = find_default_folder()
    if is_run(args.folder):
        args.run = find_run_files(args.folder, args.checkpoint, args.prepared, args.extractor, args.content)
        if args.shortlist_file is not None and not args.shortlist_file.is_file():
            raise InputError(f"--shortlist-file {args.shortlist_file}: no such file; etads-shortlist creates it")
    else:
        decoding = {} if args.is_baseline else read_config(args.folder).decoding
        for name in ("split", "checkpoint", "prepared", "extractor", "content", "shortlist_file"):
            if getattr(args, name) is not None:
                option = f"{format_option_name(name)} {getattr(args, name)}"
                raise InputError(f"{option}: FOLDER {args.folder} is not a training run, which this option needs")
        check_call(decoding, args.decoding)
    if args.split is not None:
        for option, value in (("FILE", args.files), ("--input-format", args.format)):
            if value:
                raise InputError(f"--split {args.split}: cannot be combined with {option}, which names other documents")
    args.files = args.files or ([] if args.split else [STANDARD_INPUT])
    args.shard = None if args.shard is None else shards.Shard.parse(args.shard)
    if args.shard is None:
        args.shard = shards.find_launched_shard()
        if args.shard is not None and args.device is None:
            import torch

            gpus = torch.cuda.device_count()
            args.device = f"cuda:{shards.find_local_rank() % gpus}" if gpus else None
    if args.shard is not None:
        if args.output in (None, "-"):
            raise InputError(f"--shard {args.shard}: shards need a file; give --output")
        if STANDARD_INPUT in args.files:
            raise InputError(f"--shard {args.shard}: every shard would read all of standard input; name a file")


@options_command(
    "etads-summarize",
    SummarizeOptions,
    description="Summarise new documents, or a split of the prepared data, with a trained model.",
    epilog=EXAMPLES,
)
def main(args: SummarizeOptions) -> None:
    """Run the command ``etads-summarize``."""
    _check_arguments(args)
    kind = "" if args.split else records.choose_input_format(args.files, args.format)
    report = _ProgressReport(args.quiet, args.folder)
    what = f"every document of {args.split} is summarised" if args.split else ""
    report.print_message(what or records.describe_document_unit(kind, args.files, args.format))
    if args.run is not None:
        given = args.decoding
        chosen = {name: value for name, value in args.run.decoding.items() if name not in given}
        shown = " ".join(f"{format_option_name(name)} {value}" for name, value in chosen.items())
        if shown:
            report.print_message(f"from the training summaries ({args.folder / RECIPE}): {shown}")
        if args.run.content is not None:
            report.print_message(f"by the content model {args.run.content} (--content none: without it)")
    documents = _Documents(args, kind)
    if args.output in (None, "-"):
        failed = _write_to_stream(documents, report, sys.stdout)
    elif Path(args.output).exists() and not Path(args.output).is_file() and not Path(args.output).is_dir():
        with open_binary_output(args.output) as stream:  # a pipe or device can be neither resumed nor replaced
            failed = _write_to_stream(documents, report, stream)
    else:
        failed = _write_to_file(args, documents, kind, report)
    report.print_report(failed)
    if failed:
        sys.exit(1)
