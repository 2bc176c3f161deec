"""Raw corpora to parallel text: ``etads-corpus KIND ... --out TEXT``.

One process finds the items of a split, any number make documents of them, and lines are written in order; memory holds
a few hundred documents, whatever the size of the corpus.
"""

import argparse
import contextlib
import copy
import hashlib
import os
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, TextIO, Tuple, Type

from tqdm import tqdm

from fairseq_etads.text.files import InputError
from fairseq_etads.text.words import SENTENCE_MARK

from .documents import BadDocument, Finished, Finishing, Unfit, finish
from .files import SIDES, SPLITS, add_jobs, atomic_writer, checked_lines, ordered_map, printable, read_json, write_json
from .overlap import overlap
from .readers import READERS, Reader

DESCRIPTION = f"""\
Turn a raw corpus into TEXT/{{train,valid,test}}.{{source,target}}: a document or summary a line, {SENTENCE_MARK}
between sentences, which etads-prepare reads. TEXT/report.json counts what was written, changed, cut and dropped.

  etads-corpus cnndm --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm
  etads-corpus table --train train.csv --valid valid.csv --test test.csv --out data/mine

Further references of valid and test are in test.target.1, test.target.2, ...: as many lines, an empty one where a
document has fewer. A second call does only the splits that are missing."""

EXAMPLES = 20
"""Dropped documents that report.json names, of each split."""

Result = Tuple[Finished, Optional[str]]
_reader: Reader
_how: Finishing
_skip_bad: bool


def _start_worker(reader: Reader, how: Finishing, skip_bad: bool) -> None:
    global _reader, _how, _skip_bad
    _reader, _how, _skip_bad = copy.copy(reader), how, skip_bad
    _reader.counts = Counter()  # the reader's own are of the process that finds the items, which may be this one


def _work(items: List[Any]) -> List[Result]:
    """Documents of items, and of a dropped one where it stood."""
    results: List[Result] = []
    for item in items:
        _reader.counts.clear()
        try:
            done = finish(_reader.parse(item), _how)
        except BadDocument as error:
            if not _skip_bad and not isinstance(error, Unfit):
                reason = f"{error}; --skip-bad drops and counts such records"
                raise InputError(f"{_reader.where(item)}: {reason}") from None
            done = Finished(dropped=str(error))
        done.counts.update(_reader.counts)
        results.append((done, _reader.where(item) if done.dropped else None))
    return results


class SplitWriter:
    """The files of one split, and what was written to them."""

    def __init__(self, out: Path, split: str, stack: contextlib.ExitStack, train_references: str):
        self.out, self.split, self.stack = out, split, stack
        self.every = train_references == "all"
        self.source = stack.enter_context(atomic_writer(out / f"{split}.source"))
        self.targets: List[TextIO] = [stack.enter_context(atomic_writer(out / f"{split}.target"))]
        self.lines = 0
        self.counts: Counter = Counter()
        self.dropped: Counter = Counter()
        self.examples: List[str] = []
        self.lengths: Dict[str, List[int]] = {side: [0, 0, 0] for side in ("source", "target")}

    def write(self, done: Finished, where: Optional[str]) -> None:
        self.counts.update(done.counts)
        if done.dropped:
            self.dropped[done.dropped] += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(f"{where}: {done.dropped}")
            return
        if self.split != "train":
            self._line(done.source, done.targets)
        else:  # a pair has one summary
            for target in done.targets if self.every else done.targets[:1]:
                self._line(done.source, [target])
            self.counts["references not used (--train-references)"] += 0 if self.every else len(done.targets) - 1

    def _line(self, source: str, targets: List[str]) -> None:
        self.source.write(source + "\n")
        while len(self.targets) < len(targets):
            path = self.out / f"{self.split}.target.{len(self.targets)}"
            file = self.stack.enter_context(atomic_writer(path))
            for _ in range(self.lines):
                file.write("\n")
            self.targets.append(file)
        for number, file in enumerate(self.targets):
            file.write((targets[number] if number < len(targets) else "") + "\n")
        self.lines += 1
        for side, text in (("source", source), ("target", targets[0])):
            words = len(text.split()) - text.count(SENTENCE_MARK)
            lengths = self.lengths[side]
            lengths[0] += words
            lengths[1] = max(lengths[1], words)
            lengths[2] += text.count(SENTENCE_MARK) + bool(text)

    def report(self) -> Dict[str, Any]:
        """Counts and lengths; words are what stands between spaces, without sentence marks."""
        about: Dict[str, Any] = {"documents": self.lines, "references": len(self.targets)}
        for side, (words, longest, sentences) in self.lengths.items():
            mean = {"words": words, "sentences": sentences}
            about[side] = {f"mean {name}": round(n / max(self.lines, 1), 2) for name, n in mean.items()}
            about[side]["max words"] = longest
        about["changed"] = {name: number for name, number in sorted(self.counts.items()) if number}
        about["dropped"] = dict(sorted(self.dropped.items()))
        about["dropped, the first"] = self.examples
        return about


def write_split(reader: Reader, split: str, out: Path, args: argparse.Namespace, how: Finishing) -> Dict[str, Any]:
    """All files of one split, which appear when they are complete; returns the split's part of the report."""
    reader.counts.clear()
    with contextlib.ExitStack() as stack:
        total = reader.total(split)
        reader.counts.clear()
        writer = SplitWriter(out, split, stack, args.train_references)
        shown = stack.enter_context(tqdm(desc=split, unit=" documents", total=total, disable=None))
        worker = (reader, how, args.skip_bad)
        plugin = reader.splits_text and how.split
        for done, where in ordered_map(_work, reader.items(split), args.jobs, _start_worker, worker, plugin):
            writer.write(done, where)
            shown.update()
        writer.counts.update(reader.counts)
        if not writer.lines:
            reasons = ", ".join(f"{number:,} {reason}" for reason, number in writer.dropped.items())
            raise InputError(f"{split}: no document is left ({reasons or 'the input is empty'})")
    for number in range(len(writer.targets), 100):  # of an earlier corpus whose report is gone
        stale = out / f"{split}.target.{number}"
        if not stale.exists():
            break
        stale.unlink()
    return writer.report()


def identity(reader: Reader) -> Iterator[Tuple[str, str]]:
    """Split, place and name, and SHA-256, of each input; of very many files, of all together."""
    for split, paths in reader.inputs().items():
        sums = [(f"{split} {n}: {path.name}", checked_lines(path)[0]) for n, path in enumerate(paths, 1)]
        if len(sums) <= 20:
            yield from sums
        else:
            together = "".join(f"{name} {digest}\n" for name, digest in sums)
            yield f"{split}: {len(sums)} files", hashlib.sha256(os.fsencode(together)).hexdigest()
    for number, folder in enumerate(reader.folders(), 1):
        yield f"folder {number}: {folder.name}", _listing(folder)


def _listing(folder: Path) -> str:
    """A sum, in any order, over names and sizes of a folder's files: there can be 300,000."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            line = os.fsencode(f"{entry.name} {entry.stat().st_size}")
            total += int.from_bytes(hashlib.sha256(line).digest(), "big")
    return f"{total % 2**256:064x}"


def _start_again(reader: Reader, out: Path) -> None:
    """Delete what --force replaces: also splits, references and tags that the new corpus may not have.

    Raises:
        InputError: an input is among it.
    """
    old = [path for split in SPLITS for side in SIDES for path in out.glob(f"{split}.{side}*") if path.is_file()]
    inputs = {path.resolve() for paths in reader.inputs().values() for path in paths}
    for path in old:
        if path.resolve() in inputs:
            raise InputError(f"--force would delete {path}, which is an input; give another --out")
    for path in (out / "report.json", *old):
        path.unlink(missing_ok=True)


def build(reader: Reader, args: argparse.Namespace) -> Dict[str, Any]:
    """Write the splits that are missing, and the report; returns the report.

    Raises:
        InputError: the input or an earlier output does not fit.
    """
    out: Path = args.out
    how = Finishing(**{field.name: getattr(args, field.name) for field in fields(Finishing)})
    unimportant = ("out", "jobs", "force", "reader", "kind", "expect")
    options = {name: _plain(value) for name, value in sorted(vars(args).items()) if name not in unimportant}
    report: Dict[str, Any] = {"corpus": reader.name, "options": options, "inputs": dict(identity(reader))}
    report.update(notes=reader.notes, splits={})
    path = out / "report.json"
    if args.force:
        _start_again(reader, out)
    elif path.exists():
        known = read_json(path, "--force replaces the corpus")
        different = [key for key in ("corpus", "options", "inputs") if known.get(key) != report[key]]
        if different:
            what = ", ".join(different)
            raise InputError(f"--out {out} was made with other {what} (see {path}); --force replaces it")
        report["splits"] = known.get("splits", {})
    for split in reader.splits():
        files = report["splits"].get(split, {}).get("files", {})
        if files and all((out / name).is_file() and checked_lines(out / name)[0] == files[name] for name in files):
            continue
        about = write_split(reader, split, out, args, how)
        names = sorted(file.name for file in out.glob(f"{split}.*") if not file.name.endswith(".partial"))
        made = [name for name in names if name == f"{split}.source" or name.startswith(f"{split}.target")]
        about["files"] = {name: checked_lines(out / name)[0] for name in made}
        report["splits"][split] = about
        write_json(path, report)
    report["overlap"] = overlap(out, reader.splits(), args.train_references == "all")
    write_json(path, report)
    reader.check({split: about["documents"] for split, about in report["splits"].items()})
    return report


def _plain(value: Any) -> Any:
    """An option for the report; of a path its last part, so that a corpus may move."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.name if isinstance(value, Path) else value


def summarise(report: Dict[str, Any]) -> str:
    """A few lines for people."""
    lines = list(report["notes"])
    for split, about in report["splits"].items():
        sizes = [
            f"{side} {about[side]['mean words']:.1f} words in {about[side]['mean sentences']:.1f} sentences (longest "
            f"{about[side]['max words']:,})"
            for side in ("source", "target")
        ]
        lines.append(f"{split}: {about['documents']:,} documents; {'; '.join(sizes)}")
        if about["references"] > 1:
            lines.append(f"  up to {about['references']} references each")
        for what in ("dropped", "changed"):
            lines += [f"  {what}: {number:,} {reason}" for reason, number in about[what].items()]
        shared = report["overlap"].get(split, {})
        lines += [f"  the same documents: {number:,} {where}" for where, number in shared.items() if number]
    return "\n".join(lines)


def _add_shared(parser: argparse.ArgumentParser, defaults: Dict[str, Any]) -> None:
    add = parser.add_argument
    add("--out", metavar="TEXT", type=Path, required=True, help="directory for the text and report.json")
    add("--fallback-encoding", metavar="NAME", default="",
        help='how to read lines that are not UTF-8: an encoding such as cp1252, or "replace" for U+FFFD; such lines '
        "are counted (default: stop and name the line)")  # fmt: skip
    add("--skip-bad", action="store_true", help="drop and count records that cannot be read instead of stopping")
    add("--keep-empty", action="store_true", help="keep documents or summaries that are empty instead of dropping them")
    split = defaults.get("split", True)
    add("--sentences", dest="split", action=argparse.BooleanOptionalAction, default=split,
        help=f"cut paragraphs into sentences by rules (default: {'yes' if split else 'no'})")  # fmt: skip
    stops = defaults.get("full_stops", False)
    add("--full-stops", action=argparse.BooleanOptionalAction, default=stops,
        help=f"add a full stop to lines that lack one (default: {'yes' if stops else 'no'})")  # fmt: skip
    add("--source-sentences", metavar="N", type=int, default=0, help="only the first N sentences of a document")
    add("--short-lead", metavar="CHARS", type=int, default=0,
        help="... and one more if those have fewer characters (NAMAS on DUC: 1 sentence, 130)")  # fmt: skip
    add("--source-words", metavar="N", type=int, default=0, help="only the first N words of a document")
    add("--train-references", choices=("first", "all"), default="first",
        help="of several references in train: the first, or a pair for each (default: %(default)s)")  # fmt: skip
    add("--force", action="store_true", help="replace another corpus in TEXT")
    add_jobs(parser)


def build_parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("etads-corpus", description=DESCRIPTION, formatter_class=layout)
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    reader: Type[Reader]
    for reader in READERS:
        sub = kinds.add_parser(reader.name, help=reader.summary, description=reader.description, formatter_class=layout)
        reader.add_options(sub)
        _add_shared(sub, reader.defaults)
        sub.set_defaults(reader=reader)
    return parser


def _check(args: argparse.Namespace) -> None:
    for name in ("source_sentences", "source_words", "short_lead"):
        if getattr(args, name) < 0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(args, name)}: choose 0 (no limit) or more")
    if args.fallback_encoding not in ("", "replace"):
        try:
            fits = b"a\n".decode(args.fallback_encoding) == "a\n"  # lines are found before they are decoded
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
    args.jobs = max(1, args.jobs)


def main(argv: Optional[List[str]] = None) -> None:
    """The command etads-corpus."""
    args = build_parser().parse_args(argv)
    try:
        _check(args)
        report = build(args.reader(args), args)
    except (InputError, OSError) as error:
        print(f"etads-corpus: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(map(printable, [*summarise(report).split("\n"), f"text: {args.out}"])))


if __name__ == "__main__":
    main()
