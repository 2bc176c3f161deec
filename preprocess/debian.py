"""The command ``etads-debian`` (prepare data): build a corpus from descriptions of Debian packages.

The document is the long description of a package, and the summary is its one-line synopsis. APT's Translation-en index
contains both; the binary Packages index contains the names of the source packages. Without it, the stem of the binary
package's name is used. Each line of DIR/{train,valid,test}.package contains ``binary<TAB>source``, the names that
identify the authors and the licence of the text.

No source package, document or synopsis occurs in two splits, nor does a paragraph or sentence of at least UNIT_CHARS
characters. Texts are compared after case folding, with 0 for each sequence of digits; paragraphs and sentences also
with the names of their packages masked. Source packages whose names differ only in digits and dots (gcc-11, gcc-12) are
the same. Packages that share such a text form a group, and a seeded hash of its name determines its split.
"""

import contextlib
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from tqdm import tqdm

from fairseq_etads.files import SIDES, SPLITS
from fairseq_etads.files.checksums import NAME, Checksums, format_checksum_list
from fairseq_etads.files.inputs import open_binary
from fairseq_etads.files.outputs import lock_output, open_binary_output
from fairseq_etads.platform.command_options import (
    NOT_NEGATIVE,
    check_options,
    get_given_options,
    option,
    options_command,
)
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import WARNINGS, clean_text, count_suspicious_content

ENDS = (*SIDES, "package")
OUTPUTS = [f"{split}.{end}" for split in SPLITS for end in ENDS]
SAMPLE = Path(__file__).resolve().parent / "sample"
LISTS = Path("/var/lib/apt/lists")
UNIT_CHARS = 60
"""Minimum length of paragraphs and sentences that must not be in two splits: with 40, a group has a quarter of all."""
HELD_OUT_SHARE, HELD_OUT_MINIMUM = 0.05, 5
"""Maximum fraction of valid or test that one group may fill, except groups of at most this number of pairs."""

BULLET = re.compile(r"\s*[-*+•·‣o]\s+(?=\S)")
NAME_PREFIX = re.compile(r"^(lib)?((rust|golang|python\d?|node|ruby|r|php|ghc)-)?((github|cran|bioc)-)?")
NAME_SUFFIX = re.compile(r"-(bin|common|core|data|dbg|dev|doc|java|perl|prof|ruby|tests?|tools|utils)$")
TRANSITIONAL = re.compile(r"\b(transitional|dummy)[ -]+((transitional|dummy|meta)[ -]*)*packages?\b", re.I)
Stanza = Dict[str, str]
Report = Dict[str, Any]
Groups = Dict[str, List["DescriptionPair"]]


@dataclass(frozen=True)
class DescriptionPair:
    """Binary and source package, the paragraphs of the long description (the document), and the synopsis (summary)."""

    package: str
    source_package: str
    paragraphs: Tuple[str, ...]
    target: str

    @property
    def source(self) -> str:
        return " ".join(self.paragraphs)


def read_index(path: Path) -> bytes:
    """Read an index file, plain or .gz, .xz, .bz2 or .lz4. Raises InputError if it cannot be read or is damaged."""
    if path.suffix != ".lz4":
        with open_binary(path) as file:
            return file.read()
    # The standard library does not support lz4. APT stores its lists as .lz4 files only on systems where apt-helper is
    # installed, which can read them.
    for tool in (["/usr/lib/apt/apt-helper", "cat-file"], ["lz4", "-dc"]):
        if shutil.which(tool[0]):
            done = subprocess.run([*tool, str(path.resolve())], capture_output=True, check=False)
            if done.returncode == 0 and done.stdout:
                return done.stdout
    raise InputError(f"{path}: cannot be read (.lz4 needs /usr/lib/apt/apt-helper or lz4, and neither could read it)")


def decode_text(data: bytes) -> Tuple[str, int]:
    """Decode UTF-8 with line endings ``\\n``. Returns the text, and how many invalid sequences U+FFFD replaces."""
    text = data.decode("utf-8-sig", errors="replace")
    replaced = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    return text.replace("\r\n", "\n").replace("\r", "\n"), replaced


def parse_stanzas(text: str) -> Iterator[Stanza]:
    """Yield the deb822 stanzas of an index as field names and values. Continuation lines keep their indentation."""
    for block in re.split(r"\n(?:[ \t]*\n)+", text):
        fields: Stanza = {}
        name = ""
        for line in block.strip("\n").split("\n"):
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def map_source_names(text: str) -> Dict[str, str]:
    """Map binary packages to source packages. The version is removed from values such as ``Source: name (1.0)``."""
    named = (s for s in parse_stanzas(text) if "Package" in s)
    return {s["Package"]: s.get("Source", "").split(" ")[0] or s["Package"] for s in named}


def stem_package_name(package: str) -> str:
    """Remove prefixes, versions and suffixes from a package's name: libfoo2-dev, foo-doc and python3-foo become foo."""
    name, previous = package, ""
    while name != previous:
        previous, name = name, re.sub(r"(?<=[a-z])[\d.-]+$", "", NAME_SUFFIX.sub("", name))
    return NAME_PREFIX.sub("", name) or package


def split_description(value: str, changes: Counter) -> Tuple[str, Tuple[str, ...]]:
    """Split a Description into the synopsis and the paragraphs, each cleaned to one line. Counts ``changes``."""
    first, *rest = value.split("\n")
    groups = itertools.groupby(rest, lambda line: line.strip() == ".")
    blocks = [[line[1:] for line in lines] for is_gap, lines in groups if not is_gap]
    texts = [clean_text(text, changes) for text in (first, *map(join_lines, blocks))]
    for text in texts:
        changes.update(count_suspicious_content(text))
    return texts[0], tuple(filter(None, texts[1:]))


def join_lines(lines: Sequence[str]) -> str:
    """Join the wrapped lines of a paragraph, and make its list items clauses that end in ``;``, the last one in ``.``.

    Items that end with punctuation, "and" or "or" keep their ends. A dash at the start of a line is a list marker only
    where a list item can begin. Otherwise, it may be part of a wrapped sentence.
    """
    out: List[str] = []
    text = ""  # running text that precedes the list items
    items: List[str] = []

    def join_list_items() -> str:
        ended = " ".join([text, *(i if re.search(r"([.,;:!?]|\b(and|or))$", i) else i + ";" for i in items)])
        return re.sub(r"[,;]$", ".", ended) if items else ended

    for line in lines:
        indented, marker, rest = line[:1].isspace(), BULLET.match(line), line.strip()
        if marker and (indented or items or text[-1:] in ("", ".", ":", ";")):
            items.append(line[marker.end() :].strip())
        elif items and (indented or rest[:1].islower()):
            items[-1] += " " + rest
        elif items:  # running text resumes after a list
            out.append(join_list_items())
            text, items = rest, []
        else:
            text = f"{text} {rest}".strip()
    return " ".join([*out, join_list_items()])


def normalise_for_comparison(text: str) -> str:
    """Fold the case of a text, and replace each sequence of digits with 0."""
    return re.sub(r"\d+", "0", text.casefold())


def make_overlap_keys(pair: DescriptionPair) -> Set[str]:
    """Return all texts in a pair that must not occur in two splits, normalised for comparison."""
    keys = {"document " + normalise_for_comparison(pair.source), "synopsis " + normalise_for_comparison(pair.target)}
    names = {n for name in (pair.package, pair.source_package) for n in (name, stem_package_name(name)) if len(n) > 2}
    alternatives = "|".join(sorted((re.escape(normalise_for_comparison(n)) for n in names), key=len, reverse=True))
    own_name = re.compile(rf"(?<!\w)({alternatives})(?!\w)") if names else None
    # Both the paragraphs and the whole line are split into sentences. The output files contain the whole line but not
    # the paragraphs, so a later check of these files can find only the sentences of the line.
    for text in {*pair.paragraphs, pair.source}:
        for unit in (u for u in [text, *re.split(r"(?<=[.!?:;])\s+", text)] if len(u) >= UNIT_CHARS):
            unit = normalise_for_comparison(unit)
            keys |= {"text " + unit, "text " + (own_name.sub("@", unit) if own_name else unit)}
    return keys


def select_pairs(pairs: Iterable[DescriptionPair], options: Any) -> Tuple[List[DescriptionPair], Counter]:
    """Select the pairs to keep, in their order, of equal documents the first. Also count the dropped by reason."""
    kept: Dict[str, DescriptionPair] = {}
    dropped: Counter = Counter()
    for pair in pairs:
        document = normalise_for_comparison(pair.source)
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
        first = kept.get(document, pair)
        same = normalise_for_comparison(first.target) == normalise_for_comparison(pair.target)
        checks["duplicate pair" if same else "duplicate document"] = document in kept
        reason = next((reason for reason, holds in checks.items() if holds), "")
        if reason:
            dropped[reason] += 1
        else:
            kept[document] = pair
    return list(kept.values()), dropped


def group_related_pairs(pairs: Sequence[DescriptionPair]) -> Groups:
    """Group pairs whose source packages share a text or differ only in digits and dots, with a union-find algorithm.

    The name of a group is its alphabetically first source package.
    """
    parent: Dict[str, str] = {}

    def find_root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]  # path halving limits the height of the trees
            node = parent[node]
        return node

    for pair in tqdm(pairs, desc="grouping", unit="pair", disable=not sys.stderr.isatty()):
        name = pair.source_package
        for key in {"name " + (re.sub(r"[\d.]+", "", name).strip("-") or name), *make_overlap_keys(pair)}:
            parent[find_root(key)] = find_root("package " + name)
    members: Groups = defaultdict(list)
    for pair in pairs:
        members[find_root("package " + pair.source_package)].append(pair)
    return {min(p.source_package for p in group): group for group in members.values()}


def assign_groups_to_splits(groups: Groups, options: Any) -> Tuple[Groups, Counter]:
    """Assign each group of pairs to a split. Returns the splits, and the number of dropped pairs for each reason.

    In the order of their seeded hashes, each group goes to the first of test, valid and train that has space for all of
    its pairs. The pairs in each split remain in this order, so the first lines of each output file are a random sample.
    """

    def compute_sort_key(text: str) -> Tuple[str, str]:
        return hashlib.sha256(f"{options.seed} {text}".encode()).hexdigest(), text

    sizes = {"test": options.test_size, "valid": options.valid_size, "train": options.train_size or sys.maxsize}
    splits: Groups = {split: [] for split in SPLITS}
    dropped: Counter = Counter()
    for name in sorted(groups, key=compute_sort_key):
        group = sorted(groups[name], key=lambda p: compute_sort_key(f"{p.package} {p.source}"))
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


def find_split_overlaps(splits: Groups) -> List[str]:
    """Return the source packages and texts that occur in several splits. The list is empty for a valid corpus."""
    home: Dict[str, str] = {}
    pairs = ((split, p) for split in splits for p in splits[split])
    keys = ((split, key) for split, p in pairs for key in {"package " + p.source_package, *make_overlap_keys(p)})
    return sorted({key for split, key in keys if home.setdefault(key, split) != split})


def compute_sha256(data: bytes) -> str:
    """Return the SHA-256 digest of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_corpus(out: Path, files: Dict[str, bytes], report: Report) -> str:
    """Write the corpus, report.json and SHA256SUMS, first under temporary names, and return a message for the user."""
    about = (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode()
    listed = format_checksum_list({**report["outputs"], "report.json": compute_sha256(about)})
    # The report and the checksums, which are opened last, are renamed first. If a run is interrupted, the next run can
    # then identify the files that the interrupted run has left behind.
    contents = {**files, NAME: listed.encode(), "report.json": about}
    try:
        with contextlib.ExitStack() as stack:
            opened = {name: stack.enter_context(open_binary_output(out / name)) for name in contents}
            for name, file in opened.items():
                file.write(contents[name])
    except OSError as error:
        raise InputError(f"cannot write to --out {out}: {error.strerror}") from None
    return summarise_report(report)


def is_corpus_complete(out: Path, wanted: Report, force: bool) -> bool:
    """Return whether ``out`` has the ``wanted`` corpus. Raises InputError if it has another one, unless forced."""
    existing = {name: (out / name).read_bytes() for name in OUTPUTS if (out / name).exists()}
    if force or not existing:
        return False
    Checksums(out, "Give another folder, or --force").verify(["report.json", *OUTPUTS], may_be_missing=True)
    # Without a report, or with one that another program has written, the corpus is another one.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((out / "report.json").read_text(encoding="utf-8"))
        same = all(found[key] == wanted[key] for key in ("inputs", "options"))
        if same and all(compute_sha256(content) == found["outputs"][name] for name, content in existing.items()):
            return [*existing] == OUTPUTS  # if files are missing, an earlier run was interrupted
    raise InputError(f"--out {out} contains another or changed corpus: give another folder, or --force")


def summarise_report(report: Report) -> str:
    """Summarise the report in a few lines of text for the terminal."""
    lines = [f"{report['stanzas']} descriptions read, {report['undecodable']} undecodable sequences replaced"]
    lines += [f"  changed {n:6d}  {what}" for what, n in report.get("changed", {}).items()]
    for what, found in report.get("warnings", {}).items():
        lines.append(f"  warning {found['count']:6d}  {what}, the first of package {found['first']}; left as they are")
    lines += [f"  dropped {n:6d}  {reason}" for reason, n in report["dropped"].items()]
    for split, about in report["splits"].items():
        words = f"{about['source_words']['mean']} -> {about['target_words']['mean']} words on average"
        lines.append(f"{split:>7} {about['pairs']:6d} pairs, {about['source_packages']} sources, {words}")
    biggest = ", ".join(f"{name} ({n})" for name, n in report["groups"]["largest"])
    lines.append(f"{report['groups']['count']} groups, the largest: {biggest}")
    return "\n".join([*lines, f"checked: no text of {UNIT_CHARS} characters or more is in two splits"])


def find_index_files(options: Any) -> Tuple[List[Path], List[Path]]:
    """Return the Translation-en and Packages files of the options or of APT's lists. Raises InputError without any."""
    for name, paths in (("translation", options.translation), ("packages", options.packages)):
        for path in itertools.filterfalse(Path.is_file, paths):
            raise InputError(f"--{name} {path}: there is no such file")
    if options.translation:  # the lists in APT's folder may belong to a different release
        return options.translation, options.packages
    lists = options.lists or LISTS
    listed = sorted(lists.iterdir()) if lists.is_dir() else []
    translations, packages = (
        [path for path in listed if re.search(rf"_{name}(\.(gz|xz|bz2|lz4))?$", path.name)]
        for name in ("i18n_Translation-en", r"binary-\w+_Packages")
    )
    if not translations:
        how = "run 'apt-get update -o Acquire::Languages=en', give --translation FILE, or use --sample"
        raise InputError(f"--lists {lists} has no *_i18n_Translation-en*: {how}")
    return translations, options.packages or packages


def build_corpus(options: Any) -> str:
    """Build the corpus, and return a message. Raises InputError for wrong inputs or outputs, or an empty split."""
    translation, packages = find_index_files(options)
    paths = [*packages, *translation]
    contents = [read_index(path) for path in paths]
    # The checksums are computed from the decompressed contents, so they depend on neither the compression format nor
    # the folder.
    report: Report = {
        "inputs": [{"name": path.name, "sha256": compute_sha256(data)} for path, data in zip(paths, contents)],
        "options": {each.name: getattr(options, each.name) for each in fields(DebianNumbers)},
    }
    if is_corpus_complete(options.out, report, options.force):
        return f"{options.out} is up to date; --force builds it again"
    if not packages:
        print("etads-debian: warning: no Packages index (--packages): grouping by stems of names", file=sys.stderr)
    texts = [decode_text(content) for content in contents]
    known = {name: source for text, _ in texts[: len(packages)] for name, source in map_source_names(text).items()}
    stanzas = [stanza for text, _ in texts[len(packages) :] for stanza in parse_stanzas(text)]
    described = [stanza for stanza in stanzas if stanza.get("Package") and "Description-en" in stanza]
    if not described:
        names = ", ".join(path.name for path in paths)
        raise InputError(f"no Description-en in {names}: is it an index named Translation-en?")
    pairs: List[DescriptionPair] = []
    first: Dict[str, str] = {}
    counts: Counter = Counter()
    for stanza in tqdm(described, desc="reading", unit="pair", disable=not sys.stderr.isatty()):
        changes: Counter = Counter()
        name = stanza["Package"]
        target, paragraphs = split_description(stanza["Description-en"], changes)
        pairs.append(DescriptionPair(name, known.get(name) or stem_package_name(name), paragraphs, target))
        counts += changes
        first = {**dict.fromkeys(+changes, name), **first}
    kept, dropped = select_pairs(pairs, options)
    groups = group_related_pairs(kept)
    splits, not_used = assign_groups_to_splits(groups, options)
    for split in (split for split in SPLITS if not splits[split]):
        raise InputError(f"--valid-size, --test-size: of {len(kept)} pairs, none is left for {split}")
    shared = find_split_overlaps(splits)
    if shared:
        raise InputError(f"{len(shared)} texts are in two splits; the first is: {shared[0][:80]}")
    dropped += not_used + Counter({"no Package or Description-en field": len(stanzas) - len(described)})
    report["changed"] = {what: counts[what] for what in sorted(counts) if what not in WARNINGS}
    report["warnings"] = {what: {"count": counts[what], "first": first[what]} for what in WARNINGS if counts[what]}
    report.update(describe_splits(splits, groups), dropped=dict(sorted(dropped.items())))
    report.update(stanzas=len(stanzas), undecodable=sum(replaced for _, replaced in texts[len(packages) :]))
    report["guessed_source_packages"] = sum(pair.package not in known for pair in pairs)
    files = {
        f"{split}.{end}": "".join(f"{line}\n" for line in lines).encode()
        for split, chosen in splits.items()
        for end, lines in zip(ENDS, zip(*((p.source, p.target, f"{p.package}\t{p.source_package}") for p in chosen)))
    }
    report.update(outputs={name: compute_sha256(files[name]) for name in OUTPUTS})
    return write_corpus(options.out, files, report)


def describe_splits(splits: Groups, groups: Groups) -> Report:
    """Return the sizes of the splits, text lengths in words, and the largest groups, for report.json."""
    about: Report = {}
    for split, pairs in splits.items():
        about[split] = {"pairs": len(pairs), "source_packages": len({p.source_package for p in pairs})}
        for side in SIDES:
            n = sorted(len(getattr(p, side).split()) for p in pairs)
            at = {"min": n[0], "median": n[len(n) // 2], "p95": n[int(0.95 * (len(n) - 1))], "max": n[-1]}
            about[split][f"{side}_words"] = {**at, "mean": round(sum(n) / len(n), 2)}
    largest = sorted(((len(group), name) for name, group in groups.items()), reverse=True)[:5]
    return {
        "splits": about,
        "groups": {"count": len(groups), "largest": [[name, n] for n, name in largest]},
        "guarantee": {"unit_chars": UNIT_CHARS, "crossings": 0},
    }


def unpack_sample_corpus(options: Any) -> str:
    """Extract the sample corpus, and return a message. Raises InputError if it is damaged, or OUT has another one."""
    report = json.loads(read_index(SAMPLE / "report.json"))
    if is_corpus_complete(options.out, report, options.force):
        return f"{options.out} is up to date; --force unpacks it again"
    files = {name: read_index(SAMPLE / f"{name}.xz") for name in OUTPUTS}
    for name, content in files.items():
        if compute_sha256(content) != report["outputs"][name]:
            raise InputError(f"--sample: {SAMPLE / name}.xz is damaged: its checksum is not the report's")
    return write_corpus(options.out, files, report)


@dataclass
class DebianNumbers:
    """Numeric options, whose values report.json records."""

    train_size: int = option(0, "number of training pairs; 0 keeps all remaining pairs", bounds=NOT_NEGATIVE)
    valid_size: int = option(2000, "number of validation pairs", bounds=NOT_NEGATIVE)
    test_size: int = option(2000, "number of test pairs", bounds=NOT_NEGATIVE)
    seed: int = option(1, "seed of the hash that assigns groups of packages to splits")
    max_per_group: int = option(0, "most pairs of packages that share texts (default: 0, all)", bounds=NOT_NEGATIVE)
    min_source_words: int = option(1, "drop descriptions with fewer than N words", bounds=NOT_NEGATIVE)
    max_source_words: int = option(10000, "drop descriptions with more than N words", bounds=NOT_NEGATIVE)
    min_target_words: int = option(1, "drop synopses with fewer than N words", bounds=NOT_NEGATIVE)
    max_target_words: int = option(10000, "drop synopses with more than N words", bounds=NOT_NEGATIVE)


_INDEX = "plain or compressed (.gz, .xz, .bz2, .lz4); may be repeated (default: without --translation, all in --lists)"


@dataclass
class DebianOptions(DebianNumbers):
    """Options except --out, which ``etads-corpus debian`` has in common with other corpora."""

    sample: bool = option(False, "unpack the sample corpus in this package instead of building a corpus")
    force: bool = option(False, "rebuild an existing corpus, or replace another corpus in --out")
    lists: Optional[Path] = option(
        None, f"folder of APT's indexes (default: {LISTS})", metavar="DIR", excludes={"--translation": ""}
    )
    translation: List[Path] = option([], f"APT index file (Translation-en), {_INDEX}")
    packages: List[Path] = option([], f"APT index file (Packages, for names of source packages), {_INDEX}")


@dataclass
class DebianCommandOptions(DebianOptions):
    """Options of ``etads-debian``."""

    out: Path = option(None, "output folder for the corpus and report.json", metavar="DIR", required=True)


EXAMPLES = """examples:
  etads-debian --sample --out data/sample     unpack the sample corpus; requires neither APT nor a network
  apt-get update -o Acquire::Languages=en     (as root) fetch the lists; then build a corpus from them:
  etads-debian --out data/debian"""


def make_corpus(args: Any) -> None:
    """Build or unpack the corpus, and report its size. Raises InputError for wrong options, inputs or old outputs."""
    check_options(args, DebianOptions)
    if args.sample and get_given_options(args, DebianOptions).keys() - {"sample", "force"}:
        raise InputError("--sample is ready-made: combine it only with --out and --force")
    for side in SIDES:
        low, high = (getattr(args, f"{end}_{side}_words") for end in ("min", "max"))
        if low > high:
            raise InputError(f"--min-{side}-words {low} is more than --max-{side}-words {high}")
    with lock_output(args.out, "--out", folder=True):
        print(unpack_sample_corpus(args) if args.sample else build_corpus(args), file=sys.stderr)


ABOUT = "Build a summarisation corpus from Debian package descriptions and their synopses."
main = options_command("etads-debian", DebianCommandOptions, description=ABOUT, epilog=EXAMPLES)(make_corpus)


if __name__ == "__main__":
    sys.exit(main())
