"""Builds a summarisation corpus from Debian package descriptions: long description -> one-line synopsis.

    etads-debian --translation Translation-en.xz --packages Packages.xz --out corpus

Input is APT's ``Translation-en`` index (the descriptions) and the binary ``Packages`` index (which source package
each binary package is built from). Output is ``DIR/{train,valid,test}.{source,target,package}``: UTF-8, one document
per line, line-aligned; ``.package`` holds ``binary<TAB>source`` package names, by which every line can be traced to
its authors and licence. ``DIR/report.json`` counts everything that was dropped, and why.

What is guaranteed between splits. Two texts are "the same" if they are equal after case folding and after replacing
every run of digits by ``0``. No source package, no document, no synopsis, and no paragraph or sentence of
``UNIT_CHARS`` characters or more occurs in two splits; nor do two source packages whose names differ only in digits
and dots (gcc-11 and gcc-12). The builder checks the texts after splitting, and fails rather than write a corpus which
breaks this. Sentences are what a simple rule (``.!?:;`` and a space) cuts out of a document. Shorter phrases, such as
"This package contains the documentation.", may be shared.

How. Source packages which share any of these are merged (union-find), and a group goes to one split as a whole, by a
seeded hash of its name. With 60 characters the largest group of Debian 12 is about 8 % of the corpus; with 45 it
swallows a fifth. A group that would be more than ``HELD_OUT_SHARE`` of a held-out split goes to train, so that
one family of packages cannot dominate an evaluation.
"""

import argparse
import bz2
import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import statistics
import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NoReturn, Optional, Sequence, Set, Tuple

from tqdm import tqdm

SPLITS = ("train", "valid", "test")
SIDES = ("source", "target", "package")
UNIT_CHARS = 60  # shortest paragraph or sentence, in characters, that may not occur in two splits
HELD_OUT_SHARE = 0.05  # of a held-out split's size: the largest group it may take ...
HELD_OUT_MINIMUM = 5  # ... but groups up to this many pairs always may
SAMPLE = Path(__file__).resolve().parent / "sample"
OUTPUTS = [f"{split}.{side}" for split in SPLITS for side in SIDES]

BULLET = re.compile(r"\s*[*+•·‣o–-]\s+(?=\S)")
TRANSITIONAL = re.compile(r"\b(transitional|dummy)[ -]+((transitional|dummy|empty|meta)[ -]*)*packages?\b", re.I)
ROLE_SUFFIX = re.compile(r"(?<=.)-(bin|common|core|data|dbg|dev|doc|examples|locales?|perl|plugins?|tests?|utils)$")
Stanza = Dict[str, str]
Report = Dict[str, Any]


class DebianError(Exception):
    """A problem the user can fix; the message is one line and names the option or file."""


@dataclass(frozen=True)
class Pair:
    """One document: ``paragraphs`` of the long description (each one line) and the synopsis, ``target``."""

    package: str
    source_package: str
    paragraphs: Tuple[str, ...]
    target: str

    @property
    def source(self) -> str:
        """The whole description on one line."""
        return " ".join(self.paragraphs)


# Reading


def read_bytes(path: Path) -> bytes:
    """The decompressed content of a plain, .gz, .xz, .bz2 or .lz4 file. Raises DebianError if that cannot be had."""
    openers: Dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    try:
        if path.suffix == ".lz4":
            return _read_lz4(path)
        with openers.get(path.suffix, open)(path, "rb") as stream:
            data: bytes = stream.read()
            return data
    except (OSError, EOFError, lzma.LZMAError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise DebianError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _read_lz4(path: Path) -> bytes:
    """The standard library has no lz4, but a machine which stores .lz4 lists has APT, whose helper reads them."""
    path.open("rb").close()  # a missing file is reported as such, not as a failed helper
    commands = [["/usr/lib/apt/apt-helper", "cat-file"], ["lz4", "-dc"]]
    for command in (c for c in commands if shutil.which(c[0])):
        done = subprocess.run([*command, str(path.resolve())], capture_output=True, check=False)
        if done.returncode == 0 and done.stdout:
            return done.stdout
    raise DebianError(f"cannot read {path}: .lz4 needs /usr/lib/apt/apt-helper or lz4, and neither could read it")


def decode(data: bytes) -> Tuple[str, int]:
    """UTF-8 text with ``\\n`` line ends, and how many undecodable sequences were replaced by U+FFFD."""
    text = data.decode("utf-8-sig", errors="replace")
    replaced = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    return text.replace("\r\n", "\n").replace("\r", "\n"), replaced


def parse_stanzas(text: str) -> Iterator[Stanza]:
    """Yields deb822 stanzas as field -> value. Continuation lines stay on their own lines, indentation kept."""
    fields: Dict[str, List[str]] = {}
    lines: List[str] = []
    for line in text.split("\n"):
        if not line.strip():
            if fields:
                yield {name: "\n".join(value) for name, value in fields.items()}
            fields, lines = {}, []
        elif line[0] in " \t":
            lines.append(line)
        elif ":" in line:
            name, _, value = line.partition(":")
            lines = fields[name] = [value.strip()]
    if fields:
        yield {name: "\n".join(value) for name, value in fields.items()}


def source_names(stanzas: Iterable[Stanza]) -> Dict[str, str]:
    """Binary package -> source package from a Packages index; ``Source: name (version)`` loses the version."""
    pairs = ((s["Package"], s.get("Source", "").split(" ")[0] or s["Package"]) for s in stanzas if "Package" in s)
    return dict(pairs)


def stem(package: str) -> str:
    """A stand-in for an unknown source package: the name without ``lib``, version digits and role suffixes.

    ``libfoo2-dev``, ``foo-doc`` and ``libfoo3`` all become ``foo``.
    """
    name, previous = package, ""
    while name != previous:
        previous, name = name, ROLE_SUFFIX.sub("", name)
        name = re.sub(r"(?<=[a-z])[\d.-]+$", "", name)
    return re.sub(r"^lib(?=..)", "", name)


# Text


def clean(text: str) -> str:
    """Unicode NFC on one line: white space of all kinds becomes single spaces, control characters are dropped."""
    text = " ".join(unicodedata.normalize("NFC", text).split())
    return "".join(c for c in text if unicodedata.category(c) != "Cc" and c not in "\ufeff\u200b\u00ad")


def split_description(value: str) -> Tuple[str, Tuple[str, ...]]:
    """A Description field as (synopsis, paragraphs), each one clean line; either may be empty."""
    first, *rest = value.split("\n")
    blocks: List[List[str]] = [[]]
    for line in rest:
        if line.strip() == ".":
            blocks.append([])
        else:
            blocks[-1].append(line[1:])
    paragraphs = (clean(join_lines(block)) for block in blocks)
    return clean(first), tuple(p for p in paragraphs if p)


def join_lines(lines: Sequence[str]) -> str:
    """One paragraph from wrapped lines; list items lose their marker, and end in ``;`` (the last one in ``.``).

    A line that begins with a marker but is not indented is an item only where one can begin: a dash is often just
    where a sentence was wrapped. Indented lines without a marker continue the text before them.
    """
    parts: List[str] = [""]  # parts[0] is the text before the list, the others are its items
    out: List[str] = []
    for line in lines:
        indented = line[:1] in (" ", "\t")
        marker = BULLET.match(line)
        may_begin = indented or len(parts) > 1 or not parts[0] or parts[0][-1] in ".:;"
        if marker and may_begin:
            parts.append(line[marker.end() :].strip())
        elif len(parts) > 1 and not indented:  # plain text after a list
            out.append(_finish_list(parts))
            parts = [line.strip()]
        else:
            parts[-1] = f"{parts[-1]} {line.strip()}".strip()
    return " ".join([*out, _finish_list(parts)])


def _finish_list(parts: Sequence[str]) -> str:
    items = [p if p[-1:] in ".,;:!?" else p + ";" for p in parts[1:]]
    if items:
        items[-1] = re.sub(r"[,;]$", ".", items[-1])
    return " ".join([parts[0], *items])


def canonical(text: str) -> str:
    """The form in which two texts count as the same: case folded, each run of digits replaced by ``0``."""
    return re.sub(r"\d+", "0", text.casefold())


def text_keys(pair: Pair) -> Set[str]:
    """Every text of a pair that may be in one split only: document, synopsis, long paragraphs and sentences."""
    keys = {"document " + canonical(pair.source), "synopsis " + canonical(pair.target)}
    # The document is cut as a whole too: that is what a reader of the output files can check.
    for text in {*pair.paragraphs, pair.source}:
        for unit in [text, *re.split(r"(?<=[.!?:;])\s+", text)]:
            if len(unit) >= UNIT_CHARS:
                keys.add("unit " + canonical(unit))
    return keys


# Selecting, grouping and splitting


def drop_reason(pair: Pair, options: argparse.Namespace) -> Optional[str]:
    """Why a pair is not used, judged by itself; None if it is used."""
    n_source, n_target = len(pair.source.split()), len(pair.target.split())
    checks = (
        ("empty description", n_source == 0),
        ("empty synopsis", n_target == 0),
        ("transitional or dummy package", bool(TRANSITIONAL.search(f"{pair.target} | {pair.source}"))),
        ("description too short", n_source < options.min_source_words),
        ("description too long", n_source > options.max_source_words),
        ("synopsis too short", n_target < options.min_target_words),
        ("synopsis too long", n_target > options.max_target_words),
    )
    return next((reason for reason, is_so in checks if is_so), None)


def select(pairs: Iterable[Pair], options: argparse.Namespace) -> Tuple[List[Pair], Counter]:
    """The pairs to use, in order, and how many were dropped for each reason."""
    kept: List[Pair] = []
    dropped: Counter = Counter()
    seen: Dict[str, str] = {}  # canonical document -> synopsis of the pair that was kept
    for pair in pairs:
        document, target = canonical(pair.source), canonical(pair.target)
        reason = drop_reason(pair, options)
        if reason is None and document in seen:
            reason = "duplicate pair" if seen[document] == target else "duplicate document"
        if reason is None:
            seen[document] = target
            kept.append(pair)
        else:
            dropped[reason] += 1
    return kept, dropped


def group_pairs(pairs: Sequence[Pair]) -> Dict[str, List[Pair]]:
    """Merges source packages that share a text or a name without digits; a group's key is its first source name."""
    parent: Dict[str, str] = {}

    def find(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]  # path halving keeps the trees flat
            node = parent[node]
        return node

    for pair in tqdm(pairs, desc="grouping", unit="pair", disable=not sys.stderr.isatty()):
        versionless = re.sub(r"[\d.]+", "", pair.source_package).strip("-") or pair.source_package
        node = "package " + pair.source_package
        for key in {"stem " + versionless, *text_keys(pair)}:
            parent[find(key)] = find(node)
    members: Dict[str, List[Pair]] = defaultdict(list)
    for pair in pairs:
        members[find("package " + pair.source_package)].append(pair)
    return {min(p.source_package for p in group): group for group in members.values()}


def seeded(seed: int, text: str) -> str:
    """A hash by which to order things; the same on every machine and independent of all other things."""
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()


def assign(groups: Dict[str, List[Pair]], options: argparse.Namespace) -> Tuple[Dict[str, List[Pair]], Counter]:
    """Splits -> pairs, and what was dropped by ``--max-per-group`` and the sizes.

    Groups come in the order of their seeded hash; each goes to the first of test, valid, train with room for all of
    it. The order is kept in the output, so the first lines of a file are a fair sample of it.
    """
    sizes = {"test": options.test_size, "valid": options.valid_size, "train": options.train_size or sys.maxsize}
    splits: Dict[str, List[Pair]] = {split: [] for split in SPLITS}
    dropped: Counter = Counter()
    for name in sorted(groups, key=lambda n: (seeded(options.seed, n), n)):
        group = sorted(groups[name], key=lambda p: seeded(options.seed, f"{p.package} {p.source}"))
        if options.max_per_group and len(group) > options.max_per_group:
            dropped["over --max-per-group"] += len(group) - options.max_per_group
            group = group[: options.max_per_group]
        for split, size in sizes.items():
            largest = size if split == "train" else max(HELD_OUT_MINIMUM, int(size * HELD_OUT_SHARE))
            if len(group) <= min(largest, size - len(splits[split])):
                splits[split].extend(group)
                break
        else:
            dropped["not drawn: splits are full"] += len(group)
    return splits, dropped


def crossings(splits: Dict[str, List[Pair]]) -> List[str]:
    """The texts and source packages that occur in more than one split; empty if the guarantee holds."""
    home: Dict[str, str] = {}
    crossing = set()
    for split, pairs in splits.items():
        for pair in pairs:
            for key in {"package " + pair.source_package, *text_keys(pair)}:
                if home.setdefault(key, split) != split:
                    crossing.add(key)
    return sorted(crossing)


# Writing


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def render(splits: Dict[str, List[Pair]]) -> Dict[str, bytes]:
    """Output file name -> content."""
    files = {}
    for split, pairs in splits.items():
        files[f"{split}.source"] = "".join(f"{p.source}\n" for p in pairs).encode()
        files[f"{split}.target"] = "".join(f"{p.target}\n" for p in pairs).encode()
        files[f"{split}.package"] = "".join(f"{p.package}\t{p.source_package}\n" for p in pairs).encode()
    return files


def write_corpus(out: Path, files: Dict[str, bytes], report: Report) -> None:
    """Writes ``files`` and then report.json, each under a temporary name first: no half file is ever in place."""
    contents = {**files, "report.json": (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode()}
    temporary = {name: out / f".{name}.tmp" for name in contents}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            temporary[name].write_bytes(content)
        for name, path in temporary.items():
            os.replace(path, out / name)
    except OSError as error:
        raise DebianError(f"cannot write to --out {out}: {error.strerror}") from None
    finally:
        for path in temporary.values():
            if path.is_file():
                path.unlink()


def is_done(out: Path, wanted: Report, force: bool) -> bool:
    """True if ``out`` already holds what ``wanted`` describes (inputs, options), checksums included.

    Raises DebianError if it holds another corpus, which only ``--force`` replaces.
    """
    if force or not any((out / name).exists() for name in OUTPUTS):
        return False
    try:
        found = json.loads((out / "report.json").read_text(encoding="utf-8"))
        same = all(found[key] == wanted[key] for key in ("inputs", "options"))
        if same and all(sha256((out / n).read_bytes()) == found["outputs"][n] for n in OUTPUTS):
            return True
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DebianError(f"--out {out} holds another corpus, or a changed one: give another folder, or --force")


def lengths(texts: Iterable[str]) -> Dict[str, float]:
    """Words (by white space) per text."""
    n = sorted(len(t.split()) for t in texts) or [0]
    at = {"min": n[0], "median": n[len(n) // 2], "p95": n[int(0.95 * (len(n) - 1))], "max": n[-1]}
    return {**at, "mean": round(statistics.mean(n), 2)}


def summarise(report: Report) -> str:
    """The report in a form to read."""
    lines = [f"{report['stanzas']} descriptions read, {report['undecodable']} undecodable byte sequences replaced"]
    lines += [f"  dropped {n:6d}  {reason}" for reason, n in report["dropped"].items()]
    for split, about in report["splits"].items():
        words = f"{about['source_words']['mean']} -> {about['target_words']['mean']} words on average"
        lines.append(f"{split:>7} {about['pairs']:6d} pairs of {about['source_packages']} source packages, {words}")
    biggest = ", ".join(f"{name} ({n})" for name, n in report["groups"]["largest"])
    lines.append(f"{report['groups']['count']} groups, the largest: {biggest}")
    lines.append(f"no document, synopsis, or sentence of {UNIT_CHARS} characters occurs in two splits (checked)")
    return "\n".join(lines)


# The two commands


def find_inputs(options: argparse.Namespace) -> Tuple[List[Path], List[Path]]:
    """(Translation-en files, Packages files), given or found under ``--lists``. Raises DebianError if there is none."""
    for name, paths in (("--translation", options.translation), ("--packages", options.packages)):
        for path in paths:
            if not path.is_file():
                raise DebianError(f"{name} {path}: there is no such file")
    kinds = r"(\.(gz|xz|bz2|lz4))?$"
    names = sorted(options.lists.iterdir()) if options.lists.is_dir() else []
    translation = options.translation or [p for p in names if re.search("_i18n_Translation-en" + kinds, p.name)]
    packages = options.packages
    if not packages and not options.translation:  # a given translation may be of another release than the lists
        packages = [p for p in names if re.search("_binary-[a-z0-9]+_Packages" + kinds, p.name)]
    if not translation:
        how = "run 'apt-get update -o Acquire::Languages=en', or give --translation FILE, or --sample"
        raise DebianError(f"no *_i18n_Translation-en* file in --lists {options.lists}: {how}")
    return translation, packages


def build(options: argparse.Namespace) -> str:
    """Builds the corpus into ``options.out``; returns what to tell the user."""
    translation, packages = find_inputs(options)
    inputs, stanzas, undecodable = [], {}, 0
    for path in tqdm([*packages, *translation], desc="reading", unit="file", disable=not sys.stderr.isatty()):
        data = read_bytes(path)
        text, replaced = decode(data)
        inputs.append({"name": path.name, "sha256": sha256(data)})  # of the content, however it is compressed
        undecodable += replaced if path in translation else 0
        stanzas[path] = text
    not_options = ("translation", "packages", "lists", "out", "force", "sample")
    report: Report = {"options": {k: v for k, v in vars(options).items() if k not in not_options}, "inputs": inputs}
    if is_done(options.out, report, options.force):
        return f"{options.out} is up to date; --force builds it again"
    if not packages:
        print("warning: no Packages index (--packages): grouping by the stem of package names", file=sys.stderr)
    known = {k: v for path in packages for k, v in source_names(parse_stanzas(stanzas[path])).items()}
    pairs, skipped = [], 0
    for stanza in (s for path in translation for s in parse_stanzas(stanzas[path])):
        if "Package" not in stanza or "Description-en" not in stanza:
            skipped += 1
            continue
        target, paragraphs = split_description(stanza["Description-en"])
        package = stanza["Package"]
        pairs.append(Pair(package, known.get(package) or stem(package), paragraphs, target))
    kept, dropped = select(pairs, options)
    groups = group_pairs(kept)
    splits, not_used = assign(groups, options)
    dropped += Counter({"no Package or Description-en field": skipped}) + not_used
    wrong = crossings(splits)
    if wrong:
        raise DebianError(f"{len(wrong)} texts occur in two splits, for instance: {wrong[0][:80]}")
    short = [s for s in SPLITS if len(splits[s]) == 0]
    if short:
        raise DebianError(f"--valid-size and --test-size leave no pairs for {short[0]}: {len(kept)} pairs in all")
    files = render(splits)
    largest = sorted(((name, len(g)) for name, g in groups.items()), key=lambda item: (-item[1], item[0]))[:5]
    report.update(
        stanzas=len(pairs) + skipped,
        undecodable=undecodable,
        source_package_guessed=sum(p.package not in known for p in pairs),
        dropped=dict(sorted(dropped.items())),
        groups={"count": len(groups), "largest": largest},
        guarantee={"unit_characters": UNIT_CHARS, "crossings": 0},
        splits={
            split: {
                "pairs": len(members),
                "source_packages": len({p.source_package for p in members}),
                "source_words": lengths(p.source for p in members),
                "target_words": lengths(p.target for p in members),
            }
            for split, members in splits.items()
        },
        outputs={name: sha256(files[name]) for name in OUTPUTS},
    )
    write_corpus(options.out, files, report)
    return summarise(report)


def unpack_sample(options: argparse.Namespace) -> str:
    """Unpacks the embedded sample into ``options.out``; returns what to tell the user."""
    try:
        report = json.loads((SAMPLE / "report.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise DebianError(f"--sample: the embedded sample is missing: {error}") from None
    if is_done(options.out, report, options.force):
        return f"{options.out} is up to date; --force unpacks it again"
    files = {name: read_bytes(SAMPLE / f"{name}.xz") for name in OUTPUTS}
    damaged = [name for name in OUTPUTS if sha256(files[name]) != report["outputs"][name]]
    if damaged:
        raise DebianError(f"--sample: {SAMPLE / damaged[0]}.xz is damaged: its checksum is not the report's")
    write_corpus(options.out, files, report)
    return summarise(report)


class Parser(argparse.ArgumentParser):
    """argparse prints its usage before an error; one line is easier to find."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


def whole(text: str) -> int:
    """An option's value: a whole number, 0 or more."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def parse_options(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = Parser(
        prog="etads-debian",
        description="Build a summarisation corpus from Debian package descriptions (long text -> synopsis).",
        epilog="example, from the lists APT has on this machine:\n"
        "  apt-get update -o Acquire::Languages=en\n"
        "  etads-debian --out data/debian\n"
        "example, the embedded sample (no network, no APT):\n"
        "  etads-debian --sample --out data/sample",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write {train,valid,test}.* and report.json")
    add("--sample", action="store_true", help="unpack the embedded sample instead of building")
    add("--force", action="store_true", help="build again, or replace another corpus in --out")
    add("--translation", type=Path, action="append", default=[], metavar="FILE",
        help="a Translation-en index, plain, .gz, .xz, .bz2 or .lz4; repeatable (default: all in --lists)")
    add("--packages", type=Path, action="append", default=[], metavar="FILE",
        help="a Packages index, for the source package names; repeatable (default: all in --lists)")
    add("--lists", type=Path, default=Path("/var/lib/apt/lists"), metavar="DIR", help="default: %(default)s")
    numbers = (
        ("--train-size", 0, "pairs in train, 0 for all there are"),
        ("--valid-size", 2000, "pairs in valid"),
        ("--test-size", 2000, "pairs in test"),
        ("--seed", 1, "of the hash that assigns groups to splits"),
        ("--max-per-group", 0, "keep at most this many pairs of packages that share texts, 0 for all"),
        ("--min-source-words", 1, "drop shorter descriptions"),
        ("--max-source-words", 10000, "drop longer descriptions"),
        ("--min-target-words", 1, "drop shorter synopses"),
        ("--max-target-words", 10000, "drop longer synopses"),
    )
    for name, default, text in numbers:
        add(name, type=whole, default=default, metavar="N", help=f"{text} (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.sample and (options.translation or options.packages):
        parser.error("--sample is ready-made: it goes with --out and --force only")
    for side in ("source", "target"):
        low, high = getattr(options, f"min_{side}_words"), getattr(options, f"max_{side}_words")
        if low > high:
            parser.error(f"--min-{side}-words {low} is more than --max-{side}-words {high}")
    return options


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs ``etads-debian``; returns the exit code: 0, or 2 after one line on stderr."""
    options = parse_options(argv)
    try:
        print(unpack_sample(options) if options.sample else build(options), file=sys.stderr)
    except DebianError as error:
        print(f"etads-debian: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
