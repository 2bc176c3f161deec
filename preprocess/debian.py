"""Builds a summarisation corpus from Debian package descriptions: long description -> one-line synopsis.

    etads-debian --translation Translation-en.xz --packages Packages.xz --out corpus

Input is APT's Translation-en index (descriptions) and the binary Packages index (source package names).
Output is DIR/{train,valid,test}.{source,target,package}: UTF-8, one document per line, line-aligned; .package
has ``binary<TAB>source`` package names, which lead to authors and licence. DIR/report.json counts what was
dropped, and why.

Guaranteed: no source package, no document, no synopsis, and no paragraph or sentence of UNIT_CHARS characters
or more is in two splits; nor are source packages whose names differ in digits and dots only (gcc-11, gcc-12).
Texts are the same if they are equal after case folding and putting 0 for each run of digits; paragraphs and
sentences also if they are equal once each package's own name is masked. Sentences are what ``.!?:;`` and a
space cut out of the line. The builder checks the finished splits, and fails rather than write others. Shorter
phrases ("This package contains the documentation.") and rewordings may be shared.

How: source packages that share such a text are merged (union-find), and a group goes to one split as a whole,
by a seeded hash of its name. In Debian 12 the largest group is 9 % of the corpus, by boilerplate of library
families; paragraphs of 40 characters would already tie a quarter together. A group above HELD_OUT_SHARE of
valid or test goes to train, so that no family dominates an evaluation. Without a Packages index, the stem of
a package's name stands for its source package.

One file on purpose: with the standard library and tqdm it runs anywhere, as ``python debian.py`` too.
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
import subprocess
import sys
import unicodedata
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NoReturn, Optional, Sequence, Set, Tuple

from tqdm import tqdm

UNIT_CHARS = 60  # shortest paragraph or sentence, in characters, that may not be in two splits
HELD_OUT_SHARE = 0.05  # of the size of valid or test: the largest group it may take ...
HELD_OUT_MINIMUM = 5  # ... but it may always take groups of up to this many pairs
SPLITS = ("train", "valid", "test")
OUTPUTS = [f"{split}.{side}" for split in SPLITS for side in ("source", "target", "package")]
SAMPLE = Path(__file__).resolve().parent / "sample"
MARK = re.compile(r"<(q)>", re.IGNORECASE)  # in text files it stands between sentences
BULLET = re.compile(r"\s*[-*+•·‣o]\s+(?=\S)")
TRANSITIONAL = re.compile(r"\b(transitional|dummy)[ -]+((transitional|dummy|meta)[ -]*)*packages?\b", re.I)
NAME_PREFIX = re.compile(r"^(lib)?((rust|golang|python\d?|node|ruby|r|php|ghc)-)?((github|cran|bioc)-)?")
NAME_SUFFIX = re.compile(r"-(bin|common|core|data|dbg|dev|doc|java|perl|prof|ruby|tests?|tools|utils)$")
Groups = Dict[str, List["Pair"]]
Report = Dict[str, Any]


class DebianError(Exception):
    """A problem the user can fix; the message is one line and names the option or the file."""


@dataclass(frozen=True)
class Pair:
    """One document: ``paragraphs`` of the long description (one line each) and the synopsis, ``target``."""

    package: str
    source_package: str
    paragraphs: Tuple[str, ...]
    target: str

    @property
    def source(self) -> str:
        """The whole description on one line."""
        return " ".join(self.paragraphs)


def read_bytes(path: Path) -> bytes:
    """The decompressed content of a plain, .gz, .xz, .bz2 or .lz4 file; raises DebianError."""
    openers: Dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as stream:
            data: bytes = stream.read()
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DebianError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix != ".lz4":
        return data
    # The standard library has no lz4, but a machine that stores its lists as .lz4 has APT, which reads them.
    for command in (["/usr/lib/apt/apt-helper", "cat-file"], ["lz4", "-dc"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, str(path.resolve())], capture_output=True, check=False)
            if done.returncode == 0 and done.stdout:
                return done.stdout
    raise DebianError(f"cannot read {path}: .lz4 needs /usr/lib/apt/apt-helper or lz4; neither could read it")


def decode(data: bytes) -> Tuple[str, int]:
    """UTF-8 text with ``\\n`` line ends, and the number of undecodable sequences replaced by U+FFFD."""
    text = data.decode("utf-8-sig", errors="replace")
    replaced = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    return text.replace("\r\n", "\n").replace("\r", "\n"), replaced


def parse_stanzas(text: str) -> Iterator[Dict[str, str]]:
    """Yields deb822 stanzas, field -> value; continuation lines stay lines, with their indentation."""
    for block in re.split(r"\n(?:[ \t]*\n)+", text):
        fields: Dict[str, str] = {}
        name = ""
        for line in block.strip("\n").split("\n"):
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def source_names(text: str) -> Dict[str, str]:
    """Binary package -> source package, from a Packages index; ``Source: name (1.0)`` gives name."""
    stanzas = (s for s in parse_stanzas(text) if "Package" in s)
    return {s["Package"]: s.get("Source", "").split(" ")[0] or s["Package"] for s in stanzas}


def stem(package: str) -> str:
    """A name without prefix, version and role: libfoo2-dev, foo-doc and python3-foo all become foo."""
    name, previous = package, ""
    while name != previous:
        previous, name = name, re.sub(r"(?<=[a-z])[\d.-]+$", "", NAME_SUFFIX.sub("", name))
    return NAME_PREFIX.sub("", name) or package


def clean(text: str) -> str:
    """Unicode NFC on one line: any white space becomes one space, control characters are dropped, ``<q>`` is cut."""
    return MARK.sub(r"< \1 >", visible(text))


def visible(text: str) -> str:
    """What :func:`clean` makes, marks as they are."""
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
    return clean(first), tuple(p for p in (clean(join_lines(block)) for block in blocks) if p)


def join_lines(lines: Sequence[str]) -> str:
    """One paragraph from wrapped lines. List items lose their marker and end in ``;``, the last one in ``.``.

    An unindented marker counts only where an item can begin: a dash may be just where a sentence was wrapped.
    """
    out: List[str] = []
    text = ""  # running text, and the list items after it
    items: List[str] = []

    def finish() -> str:
        ended = [i if re.search(r"([.,;:!?]|\b(and|or))$", i) else i + ";" for i in items]
        return " ".join([text, *ended[:-1], *(re.sub(r"[,;]$", ".", i) for i in ended[-1:])])

    for line in lines:
        indented, marker, rest = line[:1].isspace(), BULLET.match(line), line.strip()
        if marker and (indented or items or text[-1:] in ("", ".", ":", ";")):
            items.append(line[marker.end() :].strip())
        elif items and (indented or rest[:1].islower()):
            items[-1] += " " + rest
        elif items:  # running text again
            out.append(finish())
            text, items = rest, []
        else:
            text = f"{text} {rest}".strip()
    return " ".join([*out, finish()])


def canonical(text: str) -> str:
    """The form in which texts are compared: case folded, 0 for each run of digits."""
    return re.sub(r"\d+", "0", text.casefold())


def text_keys(pair: Pair) -> Set[str]:
    """All texts of a pair that may be in one split only, in the form in which they are compared."""
    keys = {"document " + canonical(pair.source), "synopsis " + canonical(pair.target)}
    names = {n for name in (pair.package, pair.source_package) for n in (name, stem(name)) if len(n) > 2}
    alternatives = "|".join(sorted((re.escape(canonical(n)) for n in names), key=len, reverse=True))
    own_name = re.compile(rf"(?<!\w)({alternatives})(?!\w)") if names else None
    # The whole line is cut as well as its paragraphs: that is what a reader of the files can check.
    for text in {*pair.paragraphs, pair.source}:
        for unit in (u for u in [text, *re.split(r"(?<=[.!?:;])\s+", text)] if len(u) >= UNIT_CHARS):
            unit = canonical(unit)
            keys |= {"text " + unit, "text " + (own_name.sub("@", unit) if own_name else unit)}
    return keys


def drop_reason(pair: Pair, options: argparse.Namespace) -> Optional[str]:
    """Why a pair is unfit, judged by itself; None if it is fit."""
    n_source, n_target = len(pair.source.split()), len(pair.target.split())
    checks = {
        "empty description": n_source == 0,
        "empty synopsis": n_target == 0,
        "transitional or dummy package": bool(TRANSITIONAL.search(f"{pair.target} | {pair.source}")),
        "below --min-source-words": n_source < options.min_source_words,
        "above --max-source-words": n_source > options.max_source_words,
        "below --min-target-words": n_target < options.min_target_words,
        "above --max-target-words": n_target > options.max_target_words,
    }
    return next((reason for reason, holds in checks.items() if holds), None)


def select(pairs: Iterable[Pair], options: argparse.Namespace) -> Tuple[List[Pair], Counter]:
    """The pairs to use, in order (the first of equal documents stays), and the number dropped per reason."""
    kept: Dict[str, Pair] = {}
    dropped: Counter = Counter()
    for pair in pairs:
        reason, document = drop_reason(pair, options), canonical(pair.source)
        if reason is None and document in kept:
            same = canonical(kept[document].target) == canonical(pair.target)
            reason = "duplicate pair" if same else "duplicate document"
        if reason is None:
            kept[document] = pair
        else:
            dropped[reason] += 1
    return list(kept.values()), dropped


def group_pairs(pairs: Sequence[Pair]) -> Groups:
    """Merges source packages that share a text, or a name but for digits; keyed by the first source name."""
    parent: Dict[str, str] = {}

    def find(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]  # path halving keeps the trees flat
            node = parent[node]
        return node

    for pair in tqdm(pairs, desc="grouping", unit="pair", disable=not sys.stderr.isatty()):
        name = pair.source_package
        for key in {"name " + (re.sub(r"[\d.]+", "", name).strip("-") or name), *text_keys(pair)}:
            parent[find(key)] = find("package " + name)
    members: Groups = defaultdict(list)
    for pair in pairs:
        members[find("package " + pair.source_package)].append(pair)
    return {min(p.source_package for p in group): group for group in members.values()}


def assign(groups: Groups, options: argparse.Namespace) -> Tuple[Groups, Counter]:
    """Split -> pairs, and the number dropped by ``--max-per-group`` and by the sizes.

    Groups come in the order of their seeded hash; each goes to the first of test, valid and train with room
    for all of it. The lines keep this order, so the first lines of a file are a fair sample of it.
    """

    def rank(text: str) -> Tuple[str, str]:
        return sha256(f"{options.seed} {text}".encode()), text

    sizes = {"test": options.test_size, "valid": options.valid_size}
    sizes["train"] = options.train_size or sys.maxsize
    splits: Groups = {split: [] for split in SPLITS}
    dropped: Counter = Counter()
    for name in sorted(groups, key=rank):
        group = sorted(groups[name], key=lambda p: rank(f"{p.package} {p.source}"))
        used = group[: options.max_per_group or None]
        dropped["above --max-per-group"] += len(group) - len(used)
        for split, size in sizes.items():
            largest = size if split == "train" else max(HELD_OUT_MINIMUM, int(size * HELD_OUT_SHARE))
            if len(used) <= min(largest, size - len(splits[split])):
                splits[split].extend(used)
                break
        else:
            dropped["no room in any split"] += len(used)
    return splits, dropped


def crossings(splits: Groups) -> List[str]:
    """The source packages and texts that are in more than one split; empty if the guarantee holds."""
    home: Dict[str, str] = {}
    pairs = ((split, pair) for split in splits for pair in splits[split])
    keys = ((split, key) for split, p in pairs for key in {"package " + p.source_package, *text_keys(p)})
    return sorted({key for split, key in keys if home.setdefault(key, split) != split})


def sha256(data: bytes) -> str:
    """The checksum, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_corpus(out: Path, files: Dict[str, bytes], report: Report) -> None:
    """Writes files and report.json; all under temporary names first, so that none is ever half there."""
    contents = {**files, "report.json": (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode()}
    temporary = {name: out / f".{name}.tmp" for name in contents}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, path in temporary.items():
            path.write_bytes(contents[name])
        for name, path in temporary.items():
            os.replace(path, out / name)
    except OSError as error:
        raise DebianError(f"cannot write to --out {out}: {error.strerror}") from None
    finally:
        for path in (p for p in temporary.values() if p.is_file()):
            path.unlink()


def is_done(out: Path, wanted: Report, force: bool) -> bool:
    """Whether ``out`` holds what ``wanted`` says (inputs, options, checksums); DebianError if another."""
    if force or not any((out / name).exists() for name in OUTPUTS):
        return False
    try:
        found = json.loads((out / "report.json").read_text(encoding="utf-8"))
        same = all(found[key] == wanted[key] for key in ("inputs", "options"))
        if same and all(sha256((out / name).read_bytes()) == found["outputs"][name] for name in OUTPUTS):
            return True
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no report, or not one of ours
    raise DebianError(f"--out {out} holds another corpus, or a changed one: give another folder, or --force")


def summarise(report: Report) -> str:
    """The report in a form to read."""
    lines = [f"{report['stanzas']} descriptions read, {report['undecodable']} undecodable sequences replaced"]
    if report.get("neutralised_marks"):
        lines.append(f"  {report['neutralised_marks']} literal <q> neutralised")
    lines += [f"  dropped {n:6d}  {reason}" for reason, n in report["dropped"].items()]
    for split, about in report["splits"].items():
        words = f"{about['source_words']['mean']} -> {about['target_words']['mean']} words on average"
        lines.append(f"{split:>7} {about['pairs']:6d} pairs, {about['source_packages']} sources, {words}")
    biggest = ", ".join(f"{name} ({n})" for name, n in report["groups"]["largest"])
    lines.append(f"{report['groups']['count']} groups, the largest: {biggest}")
    return "\n".join([*lines, f"checked: no text of {UNIT_CHARS} characters or more is in two splits"])


def find_inputs(options: argparse.Namespace) -> Tuple[List[Path], List[Path]]:
    """(Translation-en files, Packages files), as given or found in ``--lists``; raises DebianError."""
    for name in ("translation", "packages"):
        for path in (p for p in getattr(options, name) if not p.is_file()):
            raise DebianError(f"--{name} {path}: there is no such file")
    listed = sorted(options.lists.iterdir()) if options.lists.is_dir() else []
    kind = r"_(i18n_Translation-en|binary-\w+_Packages)(\.(gz|xz|bz2|lz4))?$"
    found: Dict[str, List[Path]] = defaultdict(list)
    for path in listed:
        match = re.search(kind, path.name)
        found[match.group(1)[:4] if match else ""].append(path)
    if options.translation:  # the lists may be of another release than a file given
        return options.translation, options.packages
    if not found["i18n"]:
        how = "run 'apt-get update -o Acquire::Languages=en', give --translation FILE, or use --sample"
        raise DebianError(f"--lists {options.lists} has no *_i18n_Translation-en*: {how}")
    return found["i18n"], options.packages or found["bina"]


def build(options: argparse.Namespace) -> str:
    """Builds the corpus into ``options.out``; returns what to tell the user."""
    translation, packages = find_inputs(options)
    contents = [read_bytes(path) for path in (*packages, *translation)]
    names = [path.name for path in (*packages, *translation)]
    report: Report = {  # checksums are of the content, however it is compressed; folders do not matter
        "inputs": [{"name": name, "sha256": sha256(data)} for name, data in zip(names, contents)],
        "options": {name: getattr(options, name) for name, _, _ in NUMBERS},
    }
    if is_done(options.out, report, options.force):
        return f"{options.out} is up to date; --force builds it again"
    if not packages:
        print("warning: no Packages index (--packages): grouping by stems of names", file=sys.stderr)
    texts = [decode(content) for content in contents]
    known = {k: v for text, _ in texts[: len(packages)] for k, v in source_names(text).items()}
    stanzas = [s for text, _ in texts[len(packages) :] for s in parse_stanzas(text)]
    described = [s for s in stanzas if s.get("Package") and "Description-en" in s]
    if not described:
        raise DebianError(f"no Description-en in {', '.join(names)}: is it an index named Translation-en?")
    pairs = []
    report["neutralised_marks"] = sum(
        len(MARK.findall(visible(s["Description-en"]))) for s in described if "<" in s["Description-en"]
    )
    for stanza in tqdm(described, desc="reading", unit="pair", disable=not sys.stderr.isatty()):
        target, paragraphs = split_description(stanza["Description-en"])
        name = stanza["Package"]
        pairs.append(Pair(name, known.get(name) or stem(name), paragraphs, target))
    kept, dropped = select(pairs, options)
    groups = group_pairs(kept)
    splits, not_used = assign(groups, options)
    dropped += not_used + Counter({"no Package or Description-en field": len(stanzas) - len(described)})
    for split in (s for s in SPLITS if not splits[s]):
        raise DebianError(f"--valid-size, --test-size: nothing left for {split} of {len(kept)} pairs")
    wrong = crossings(splits)
    if wrong:
        raise DebianError(f"{len(wrong)} texts are in two splits, the first: {wrong[0][:80]}")
    files = {}
    for split, members in splits.items():
        files[f"{split}.source"] = "".join(f"{p.source}\n" for p in members).encode()
        files[f"{split}.target"] = "".join(f"{p.target}\n" for p in members).encode()
        files[f"{split}.package"] = "".join(f"{p.package}\t{p.source_package}\n" for p in members).encode()
    report.update(describe(splits, groups), dropped=dict(sorted(dropped.items())))
    report.update(stanzas=len(stanzas), undecodable=sum(n for _, n in texts[len(packages) :]))
    report.update(guessed_source_packages=sum(p.package not in known for p in pairs))
    report.update(outputs={name: sha256(files[name]) for name in OUTPUTS})
    write_corpus(options.out, files, report)
    return summarise(report)


def describe(splits: Groups, groups: Groups) -> Report:
    """Sizes and lengths (in words) of the splits, and the largest groups, for the report."""
    about: Report = {}
    for split, pairs in splits.items():
        about[split] = {"pairs": len(pairs), "source_packages": len({p.source_package for p in pairs})}
        for side in ("source", "target"):
            n = sorted(len(getattr(p, side).split()) for p in pairs)
            at = {"min": n[0], "median": n[len(n) // 2], "p95": n[int(0.95 * (len(n) - 1))], "max": n[-1]}
            about[split][f"{side}_words"] = {**at, "mean": round(sum(n) / len(n), 2)}
    largest = sorted(((len(group), name) for name, group in groups.items()), reverse=True)[:5]
    return {
        "splits": about,
        "groups": {"count": len(groups), "largest": [[name, n] for n, name in largest]},
        "guarantee": {"unit_chars": UNIT_CHARS, "crossings": 0},
    }


def unpack_sample(options: argparse.Namespace) -> str:
    """Unpacks the embedded sample into ``options.out``; returns what to tell the user."""
    report = json.loads(read_bytes(SAMPLE / "report.json"))
    if is_done(options.out, report, options.force):
        return f"{options.out} is up to date; --force unpacks it again"
    files = {name: read_bytes(SAMPLE / f"{name}.xz") for name in OUTPUTS}
    for name in (n for n in OUTPUTS if sha256(files[n]) != report["outputs"][n]):
        raise DebianError(f"--sample: {SAMPLE / name}.xz is damaged: its checksum is not the report's")
    write_corpus(options.out, files, report)
    return summarise(report)


class Parser(argparse.ArgumentParser):
    """Errors in one line, without argparse's usage in front."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


NUMBERS = (
    ("train_size", 0, "pairs in train, 0 for all that are left"),
    ("valid_size", 2000, "pairs in valid"),
    ("test_size", 2000, "pairs in test"),
    ("seed", 1, "of the hash that assigns groups to splits"),
    ("max_per_group", 0, "use at most this many pairs of packages that share texts, 0 for all"),
    ("min_source_words", 1, "drop shorter descriptions"),
    ("max_source_words", 10000, "drop longer descriptions"),
    ("min_target_words", 1, "drop shorter synopses"),
    ("max_target_words", 10000, "drop longer synopses"),
)
EXAMPLES = """examples:
  etads-debian --sample --out data/sample     the sample that comes with this package: no APT, no network
  apt-get update -o Acquire::Languages=en     (as root) fetch the lists, then build from them:
  etads-debian --out data/debian"""


def parse_options(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    """The options; exits with code 2 and one line on stderr if they are wrong."""
    about = "Build a summarisation corpus from Debian package descriptions (description -> synopsis)."
    layout = argparse.RawDescriptionHelpFormatter
    parser = Parser("etads-debian", description=about, epilog=EXAMPLES, formatter_class=layout)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the corpus and report.json")
    add("--sample", action="store_true", help="unpack the embedded sample instead of building")
    add("--force", action="store_true", help="build again, or replace another corpus in --out")
    add("--lists", type=Path, default=Path("/var/lib/apt/lists"), metavar="DIR", help="default: %(default)s")
    for option, text in (("--translation", "Translation-en"), ("--packages", "Packages, for source names")):
        text = f"index ({text}), plain or .gz .xz .bz2 .lz4; repeatable (without --translation: all in --lists)"
        add(option, type=Path, action="append", default=[], metavar="FILE", help=text)
    for name, default, text in NUMBERS:
        option = "--" + name.replace("_", "-")
        add(option, type=int, default=default, metavar="N", help=f"{text} (default: {default})")
    options = parser.parse_args(argv)
    for name, value in ((n, getattr(options, n)) for n, _, _ in NUMBERS if n != "seed"):
        if value < 0:
            parser.error(f"--{name.replace('_', '-')} {value} is negative: give 0 or more")
    chosen = [n for n, default, _ in NUMBERS if getattr(options, n) != default]
    if options.sample and (options.translation or options.packages or chosen):
        parser.error("--sample is ready-made: it goes with --out and --force only")
    for side in ("source", "target"):
        low, high = getattr(options, f"min_{side}_words"), getattr(options, f"max_{side}_words")
        if low > high:
            parser.error(f"--min-{side}-words {low} is more than --max-{side}-words {high}")
    return options


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs etads-debian; returns the exit code, 0, or 2 after one line on stderr."""
    options = parse_options(argv)
    try:
        print(unpack_sample(options) if options.sample else build(options), file=sys.stderr)
    except DebianError as error:
        print(f"etads-debian: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
