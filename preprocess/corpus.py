"""The command ``etads-corpus`` (prepare data): convert a corpus to parallel text of documents and summaries.

The main process lists the items of a split (files, lines or rows), and writes the lines of text to which worker
processes convert them, in the same order. Only a few hundred documents are in memory at the same time.
"""

import argparse
import contextlib
import copy
import hashlib
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, TextIO, Tuple, Type

from tqdm import tqdm

from fairseq_etads.files import ORIGIN, ORIGINAL, SIDES, SPLITS
from fairseq_etads.files.checksums import NAME, Checksums, compute_sha256
from fairseq_etads.files.inputs import STANDARD_INPUT, is_read_once, open_binary, read_json
from fairseq_etads.files.outputs import check_no_colon, check_output_paths, lock_output, open_output, write_json
from fairseq_etads.platform import command_options
from fairseq_etads.platform.command_options import (
    NOT_NEGATIVE,
    SIZE,
    Bounds,
    JobsOption,
    add_options,
    make_options,
    option,
)
from fairseq_etads.platform.console import ForwardingParser, command, escape_unprintable, print_message
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import (
    SPLITTER_MODULES,
    WARNINGS,
    BadDocumentError,
    DocumentLines,
    ExcludedDocumentError,
    join_cleaned_words,
    make_lines,
)
from fairseq_etads.text.words import LANGUAGES, SENTENCE_MARK

from . import debian, near_duplicates, prepare
from .encode import map_in_order
from .near_duplicates import DEFAULT_SIMILARITY, LIST, SHINGLE
from .readers import READERS, Reader

DESCRIPTION = f"""\
Convert a raw corpus to TEXT/{{train,valid,test}}.{{source,target}}, the input of etads-prepare: one document or
summary per line, with {SENTENCE_MARK} between sentences. TEXT/report.json contains the numbers of documents that were
written, changed, cut and dropped.

  etads-corpus cnndm --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm
  etads-corpus table --train train.csv --valid valid.csv --test test.csv --out data/mine
  etads-corpus table --input all.jsonl --split 90/5/5 --out data/mine

With --prepare OUT, the text is written to OUT/text and then binarised by etads-prepare, whose options follow after --,
in OUT/prepared/bin. For cnndm, gigaword and sumpubmed, etads-prepare receives --corpus KIND.

  etads-corpus table --input all.jsonl --split 90/5/5 --prepare runs/mine -- --tokens word --size 8000
  etads-corpus gigaword --data DIR --prepare data/gigaword
  etads-corpus duc --docs DIR --models DIR --like data/gigaword/prepared --prepare data/duc
  etads-corpus debian --sample --prepare data/debian

Further references of valid and test are written to test.target.1, test.target.2, and so on. These files have the same
number of lines; a line is empty if its document has fewer references. If you run the command again, it writes only
missing splits."""

OPTIONAL_FILES = (ORIGINAL, ORIGIN)
"""Endings of the files SPLIT.source.NAME, which are written only with the option --keep-NAME."""
_OF_CORPUS = re.compile(rf"({'|'.join(SPLITS)})\.(source(\.({ORIGINAL}|{ORIGIN}|pos|ner|salience))?|target(\.[0-9]+)?)")
"""Pattern for the files of a corpus, with the tags and levels that other commands add. --force deletes them."""
SPLIT_BY = "cleaned words"
"""Value for report.json that tells from which words --split computes hashes. Earlier versions hashed the raw words."""
NAMED_DROPPED = LISTED_INPUTS = 20
"""Maximum numbers of dropped documents and of input files per split that report.json lists individually."""
NOT_RECORDED = {"out", "jobs", "force", "reader", "kind", "expect", "near_duplicates"}
NOT_RECORDED |= {"prepare", "forwarded", "like", "show"}
"""Options that report.json does not record, because they do not change the text."""

DEFAULTS = {"split": True, "full_stops": False, "join_tokens": False}
"""Default values of the options for which readers have others."""


@dataclass
class CorpusOptions(JobsOption):
    """Options that all corpus kinds share."""

    fallback_encoding: str = option(
        "",
        'encoding of lines that are not valid UTF-8, such as cp1252, or "replace" for U+FFFD (default: stop)',
        metavar="NAME",
    )
    skip_bad: bool = option(False, "drop and count records that are unreadable or not valid UTF-8 (default: stop)")
    keep_empty: bool = option(False, "keep pairs with an empty document or summary instead of dropping them")
    split: bool = option(None, "split paragraphs into sentences by rules (default: %(default)s)", flag="--sentences")
    full_stops: bool = option(None, "add a full stop to lines without final punctuation (default: %(default)s)")
    join_tokens: bool = option(None, "join tokens as people write them: don't, not do n't (default: %(default)s)")
    language: str = option("en", "language, whose abbreviations and ordinals do not end sentences", choices=LANGUAGES)
    sentence_marks: List[str] = option(
        [],
        "mark of another tool between sentences or paragraphs, such as '<t>' or '[SEP]'; may be repeated (default: "
        "count such marks and warn)",
        metavar="MARK",
        flag="--sentence-mark",
    )
    strip_html: bool = option(False, "remove HTML tags, comments and scripts, and decode entities (default: warn)")
    strip_invisible: bool = option(False, "remove zero-width and bidirectional control characters (default: warn)")
    source_sentences: int = option(0, "keep only the first N sentences (default: 0, all)", bounds=NOT_NEGATIVE)
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
        "of several references of a training document, use the first, or make a pair with each (all)",
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


Result = Optional[Tuple[DocumentLines, str]]
"""Lines made of an item, with its location, or None if it is in another split."""


def _make_converter(reader: Reader, split: str, options: CorpusOptions) -> Callable[[Tuple[Any, ...]], Result]:
    """Return a function that converts an item to text, as each worker process does."""
    reader, shares = copy.copy(reader), reader.shares
    reader.counts = Counter()  # the original reader's counter is also used if the main process converts items

    def convert(item: Tuple[Any, ...]) -> Result:
        reader.counts.clear()
        try:
            document = reader.parse(item)
            if shares and shares.assign_split(join_cleaned_words(document, options)) != split:
                return None
            made = make_lines(document, options)
        except BadDocumentError as error:
            if not options.skip_bad and not isinstance(error, ExcludedDocumentError):
                raise InputError(f"{item[0]}: {error}; --skip-bad drops and counts such records") from None
            if shares and reader.list_splits()[0] != split:
                return None  # of the splits of the same items, only the first counts those that are no documents
            made = DocumentLines(dropped=str(error))
        made.counts.update(reader.counts)
        return made, item[0]

    return convert


class SplitWriter:
    """Writer for the files of a split, which are renamed when ``stack`` is closed. It also counts what it writes."""

    def __init__(self, split: str, args: argparse.Namespace, stack: contextlib.ExitStack):
        self.split, self.args, self.stack = split, args, stack
        self.optional = [name for name in OPTIONAL_FILES if getattr(args, f"keep_{name}", False)]
        self.files: Dict[str, TextIO] = {}  # by what follows the split in their names
        self.lines = 0
        self.counts: Counter = Counter()
        self.dropped: Counter = Counter()
        self.named_dropped: List[str] = []
        self.warnings: Dict[str, Dict[str, Any]] = {}
        self.lengths: Dict[str, Counter] = {side: Counter() for side in SIDES}  # in words between spaces

    def write(self, made: DocumentLines, where: str) -> None:
        """Write a document, or count it as dropped. ``where`` is the location of the document in the input."""
        self.counts.update(made.counts)
        for name in filter(made.warnings.get, made.warnings):
            self.warnings.setdefault(name, {"count": 0, "first": where})["count"] += made.warnings[name]
        if made.dropped:
            self.dropped[made.dropped] += 1
            if len(self.named_dropped) < NAMED_DROPPED:
                self.named_dropped.append(f"{where}: {made.dropped}")
        elif self.split != "train":
            self._write_line(made, made.targets)
        else:  # each training pair consists of a document and one summary
            used = made.targets if self.args.train_references == "all" else made.targets[:1]
            for target in used:
                self._write_line(made, [target])
            self.counts["references not used (--train-references)"] += len(made.targets) - len(used)

    def _write_line(self, made: DocumentLines, targets: List[str]) -> None:
        """Write one line to each file in the split."""
        lines = {"source": made.source, "target": targets[0]}
        for name in self.optional:
            lines[f"source.{name}"] = getattr(made, name)
        for number, target in enumerate(targets[1:], 1):
            lines[f"target.{number}"] = target
        for end in sorted(lines.keys() - self.files.keys()):
            self.files[end] = self.stack.enter_context(open_output(self.args.out / f"{self.split}.{end}"))
            self.files[end].writelines("\n" for _ in range(self.lines))
        for end, file in self.files.items():
            file.write(lines.get(end, "") + "\n")
        self.lines += 1
        for lengths, text in zip(self.lengths.values(), (made.source, targets[0])):
            marks = text.count(SENTENCE_MARK)  # not counted as words
            words = len(text.split()) - marks
            lengths["words"] += words
            lengths["sentences"] += marks + bool(text)
            lengths["longest"] = max(lengths["longest"], words)

    def make_report(self) -> Dict[str, Any]:
        """Return the statistics about this split for report.json, after its files have been closed."""
        names = {end: f"{self.split}.{end}" for end in sorted(self.files)}
        report: Dict[str, Any] = {"documents": self.lines, "references": sum(end.startswith("target") for end in names)}
        for side, found in self.lengths.items():
            means = {f"mean {what}": round(found[what] / max(self.lines, 1), 2) for what in ("words", "sentences")}
            report[side] = {**means, "max words": found["longest"]}
        return {
            **report,
            "changed": {name: number for name, number in sorted(self.counts.items()) if number},
            "dropped": dict(sorted(self.dropped.items())),
            "dropped, the first": self.named_dropped,
            "warnings": {name: self.warnings[name] for name in WARNINGS if name in self.warnings},
            "files": {name: compute_sha256(self.args.out / name) for name in names.values()},
        }


def show_documents(reader: Reader, args: argparse.Namespace) -> Iterator[str]:
    """Yield lines that show the first documents of each input as they are understood, and notes about the input."""
    options = make_options(CorpusOptions, args)
    for key in ["input"] if reader.shares else reader.list_splits():
        for item in itertools.islice(reader.iterate_raw_documents(key), args.show):
            yield f"{item[0]}:"
            try:
                made = make_lines(reader.parse(item), options)
                yield f"  document: {made.source}"
                yield from (f"  summary: {target}" for target in made.targets)
            except BadDocumentError as error:
                yield f"  no document: {error}"
    yield from (f"columns of {name}: {', '.join(columns)}" for name, columns in reader.columns.items())
    yield from reader.notes


def write_split(reader: Reader, split: str, args: argparse.Namespace) -> Dict[str, Any]:
    """Write the files of a split, and return its statistics. Raises InputError if no document is left."""
    options: CorpusOptions = make_options(CorpusOptions, args)
    shares, key = reader.shares, "input" if reader.shares else split
    preload = SPLITTER_MODULES if reader.splits_text and options.split else ()
    reader.counts.clear()
    items = reader.iterate_raw_documents(key)
    results = map_in_order(_make_converter, (reader, split, options), items, args.jobs, preload)
    with contextlib.ExitStack() as stack:
        writer = SplitWriter(split, args, stack)
        result: Result
        for result in tqdm(results, desc=split, unit=" documents", total=reader.sizes.get(key), disable=None):
            if result is not None:
                writer.write(*result)
        # Items of "input" are read once for each split, but counted only once.
        if split == reader.list_splits()[0] or not shares:
            writer.counts.update(reader.counts)
        if not writer.lines:
            reasons = ", ".join(f"{number:,} {reason}" for reason, number in writer.dropped.items())
            if not reasons and shares:
                advice = "choose a larger share or another --split-seed"
                reasons = f"none falls into {split} by --split {shares.text}: {advice}"
            raise InputError(f"{split}: no document is left ({reasons or 'the input is empty'})")
    # Delete files with additional references that are left from an earlier corpus without a report.
    for stale in args.out.glob(f"{split}.target.*"):
        if _OF_CORPUS.fullmatch(stale.name) and stale.name.split(".", 1)[1] not in writer.files:
            stale.unlink()
    return writer.make_report()


def compute_input_checksums(reader: Reader) -> Iterator[Tuple[str, str]]:
    """Yield the name and the SHA-256 checksum of each input file, or of the files of a split if over LISTED_INPUTS.

    The checksum of a large folder is that of the names and sizes of its files.
    """
    for split, paths in reader.files.items():
        named = [(f"{split} {number}: {path.name}", compute_sha256(path)) for number, path in enumerate(paths, 1)]
        if len(named) <= LISTED_INPUTS:
            yield from named
        else:
            together = "".join(f"{name} {digest}\n" for name, digest in named)
            yield f"{split}: {len(named)} files", hashlib.sha256(os.fsencode(together)).hexdigest()
    for number, folder in enumerate(reader.large_folders, 1):
        with os.scandir(folder) as entries:
            lines = [os.fsencode(f"{entry.name} {entry.stat().st_size}") for entry in entries]
        # The order of the files does not matter.
        total = sum(int.from_bytes(hashlib.sha256(line).digest(), "big") for line in lines)
        yield f"folder {number}: {folder.name}", f"{total % 2**256:064x}"


def _read_finished_splits(out: Path, report: Dict[str, Any]) -> Dict[str, Any]:
    """Read the statistics about the finished splits from an existing report.json."""
    path = out / "report.json"
    if not path.exists():
        return {}
    known = read_json(path, "--force replaces the corpus")

    def list_given_options(about: Dict[str, Any]) -> Dict[str, Any]:
        # Earlier versions did not record newer options, so one that is not set is as good as missing. Seeds are set.
        options = about.get("options")
        pairs = options.items() if isinstance(options, dict) else ()
        return {name: value for name, value in pairs if value or (name.endswith("seed") and value == 0)}

    before, now = ({**about, "options": list_given_options(about)} for about in (known, report))
    different = ", ".join(key for key in ("corpus", "options", "inputs") if before.get(key) != now[key])
    if different:
        raise InputError(f"--out {out} was made with other {different} (see {path}); --force replaces it")
    splits: Dict[str, Any] = known.get("splits", {})
    if splits and "split by" in report:
        report["split by"] = known.get("split by", "raw words")
    return splits


def build_corpus(reader: Reader, args: argparse.Namespace) -> Dict[str, Any]:
    """Write the splits that are missing or outdated, and return the report. The caller locks the folder."""
    out: Path = args.out
    paths = [path for files in reader.files.values() for path in files]
    if args.force:
        old = [path for path in sorted(out.iterdir()) if _OF_CORPUS.fullmatch(path.name) and path.is_file()]
        for path in old:
            if path.resolve() in {path.resolve() for path in paths}:
                raise InputError(f"--force would delete {path}, which is also an input; give another --out")
        for path in (out / NAME, out / "report.json", out / LIST, *old):
            path.unlink(missing_ok=True)
    ends = (*SIDES, *(f"source.{name}" for name in OPTIONAL_FILES))
    written = [out / f"{split}.{end}" for split in reader.list_splits() for end in ends]
    check_output_paths({"--out": written}, {"input": paths})
    Checksums(out, "--force replaces the corpus").verify(["report.json"], may_be_missing=True)
    inputs = Checksums(out)
    inputs.watch(*paths)
    options = {name: value for name, value in sorted(vars(args).items()) if name not in NOT_RECORDED}
    report: Dict[str, Any] = {
        "corpus": reader.name,
        "options": json.loads(json.dumps(options, default=lambda path: path.name)),
        "inputs": dict(compute_input_checksums(reader)),
    }
    if reader.shares:
        report["split by"] = SPLIT_BY
    report.update(notes=reader.notes, splits=_read_finished_splits(out, report))
    report.update({"columns": reader.columns} if reader.columns else {})
    (out / NAME).unlink(missing_ok=True)  # only a complete corpus contains this file
    for split in reader.list_splits():
        files = report["splits"].get(split, {}).get("files", {})
        if files and all((out / name).is_file() and compute_sha256(out / name) == files[name] for name in files):
            continue
        if report.get("split by", SPLIT_BY) != SPLIT_BY:
            reason = "an earlier version assigned its documents to splits by other rules; --force replaces it"
            raise InputError(f"--out {out} is incomplete, and {reason}")
        report["splits"][split] = write_split(reader, split, args)
        inputs.verify_unchanged()
        write_json(out / "report.json", report)
    splits, least = reader.list_splits(), args.near_duplicates
    report["overlap"] = near_duplicates.count_repeated_documents(out, splits, args.train_references == "all")
    if least is None:
        (out / LIST).unlink(missing_ok=True)
    else:
        report["near-duplicates"] = near_duplicates.find_near_duplicates(out, splits, least, args.jobs)
    write_json(out / "report.json", report)
    Checksums(out).add("report.json", *(name for about in report["splits"].values() for name in about["files"]))
    reader.check_split_sizes({split: about["documents"] for split, about in report["splits"].items()})
    return report


def summarise_report(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text for the terminal."""
    yield from report["notes"]
    for split, about in report["splits"].items():
        text = f"{split}: {about['documents']:,} documents"
        for side in SIDES:
            words, sentences, longest = about[side].values()
            text += f"; {side} {words:.1f} words in {sentences:.1f} sentences (longest {longest:,})"
        yield text
        if about["references"] > 1:
            yield f"  up to {about['references']} references each"
        for what in ("dropped", "changed"):
            yield from (f"  {what}: {number:,} {reason}" for reason, number in about[what].items())
        for name, found in about.get("warnings", {}).items():
            place = f"the first at {found['first']}"
            yield f"  warning: {found['count']:,} {name}, {place}; left as they are, {WARNINGS.get(name, '')}"
        shared = report["overlap"].get(split, {})
        yield from (f"  the same documents: {number:,} {where}" for where, number in shared.items() if number)
    if "near-duplicates" in report:
        yield from near_duplicates.summarise_near_duplicates(report["near-duplicates"])


def add_output_options(parser: argparse.ArgumentParser, shows: bool = False) -> None:
    """Add --out, --prepare and (with ``shows``) --show to a parser, one of which is required."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--out", metavar="TEXT", type=Path, help="output folder for the text and report.json")
    then = "write the text to OUT/text, and then prepare it in OUT/prepared with the options of etads-prepare after --"
    add("--prepare", metavar="OUT", type=Path, help=then)
    if shows:
        add("--show", metavar="N", type=int, help="print the first N documents of each file, and write nothing")


def check_options(args: argparse.Namespace) -> None:
    """Raise InputError if a shared option has an invalid value or cannot be combined with another option."""
    for config in (CorpusOptions, args.reader.Options):
        command_options.check_options(args, config)
    check_no_colon("--prepare", args.prepare)
    try:
        # Text is split into lines before it is decoded, so a line feed must be encoded as a single byte.
        fits = args.fallback_encoding in ("", "replace") or b"a\n".decode(args.fallback_encoding) == "a\n"
    except (LookupError, UnicodeError):
        fits = False
    if not fits:
        reason = "not an encoding of text that can be read line by line, such as cp1252, latin-1 or gb18030"
        advice = "convert the file first (iconv -t UTF-8), or choose replace"
        raise InputError(f"--fallback-encoding {args.fallback_encoding}: {reason}; {advice}")
    if args.near_duplicates is not None:
        near_duplicates.check_datasketch()
    if args.show is not None and not SIZE.contains(args.show):
        raise InputError(f"--show {args.show}: choose {SIZE}")


@contextlib.contextmanager
def copy_pipes_to_files(args: argparse.Namespace) -> Iterator[None]:
    """Replace standard input and pipes in ``args`` with files, which can be read often, within the context."""
    inputs = {name: value for name, value in vars(args).items() if name not in ("out", "prepare")}
    given = [path for value in inputs.values() for path in (value if isinstance(value, list) else [value])]
    pipes = [path for path in given if isinstance(path, Path) and is_read_once(path)]
    if given.count(Path(STANDARD_INPUT)) > 1:
        raise InputError("standard input (-) is given twice; it can be read only once: write it to a file first")
    with contextlib.ExitStack() as stack:
        copies = {}
        for number, pipe in enumerate(pipes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etads-corpus-")))
            copies[pipe] = folder / (STANDARD_INPUT if str(pipe) == STANDARD_INPUT else f"pipe-{number}")
            with open_binary(pipe) as source, open(copies[pipe], "wb") as destination:
                shutil.copyfileobj(source, destination)
        for name, value in inputs.items() if copies else ():
            is_list = isinstance(value, list)
            setattr(args, name, [copies.get(path, path) for path in value] if is_list else copies.get(value, value))
        yield


def build_parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = ForwardingParser("etads-corpus", description=DESCRIPTION, formatter_class=layout)
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    reader: Type[Reader]
    for reader in READERS:
        sub = kinds.add_parser(reader.name, help=reader.summary, description=reader.description, formatter_class=layout)
        add_options(sub, reader.Options)
        add_options(sub, CorpusOptions)
        add_output_options(sub, shows=True)
        sub.set_defaults(reader=reader, **{**DEFAULTS, **reader.defaults})
    sub = kinds.add_parser("debian", help="descriptions of Debian packages and their synopses, as etads-debian")
    add_options(sub, debian.DebianOptions)
    add_options(sub, JobsOption)
    add_output_options(sub)
    return parser


def _parse_prepare_options(args: argparse.Namespace) -> argparse.Namespace:
    """Parse and check the options of etads-prepare, before a corpus is read that may take hours."""
    words = [str(args.out), str(args.prepare / "prepared"), "--jobs", str(args.jobs)]
    words += ["--corpus", args.kind] if args.kind in prepare.CORPORA else []
    words += ["--like", str(args.like)] if getattr(args, "like", None) else []
    options = prepare.build_parser().parse_args([*words, *args.forwarded])
    settings = prepare.make_settings(options)
    if not options.like:
        settings.check()
    return options


@command(build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-corpus``."""
    options = None
    if args.prepare:
        args.out = args.prepare / "text"
        options = _parse_prepare_options(args)
        print_message(f"reading the corpus into {args.out}")
    elif args.forwarded:
        raise InputError(f"{args.forwarded[0]} after --: is for etads-prepare, and needs --prepare OUT")
    if args.kind == "debian":
        debian.make_corpus(args)
    else:
        check_options(args)
        with copy_pipes_to_files(args):
            reader = args.reader(args)
            if args.show is not None:
                said = show_documents(reader, args)
            elif options and not options.like and "train" not in reader.list_splits():
                raise InputError("--like is missing: without training pairs, --prepare needs --like PREPARED")
            else:
                with lock_output(args.out, "--out", folder=True):
                    said = itertools.chain(summarise_report(build_corpus(reader, args)), [f"text: {args.out}"])
            for line in said:
                print(escape_unprintable(line))
    if options:
        print_message(f"preparing {options.out}")
        prepare.prepare_text(options)


if __name__ == "__main__":
    sys.exit(main())
