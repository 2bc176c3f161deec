"""Build a summarisation corpus from the descriptions of Debian packages: the command ``etads-debian``.

    etads-debian --translation Translation-en.xz --packages Packages.xz --out corpus

The document is the long description of a package, and the summary is the one-line synopsis of the package. The inputs
are APT's Translation-en index, which contains the descriptions, and the binary Packages index, which contains the names
of the source packages. Without a Packages index, the stem of the binary package name is used instead of the source
package name.

The output files DIR/{train,valid,test}.{source,target,package} are line-aligned UTF-8 text with one document per line.
Each line of a .package file contains ``binary<TAB>source``, i.e. the names of the binary and the source package. These
names identify the authors and the licence of the text. DIR/report.json contains the number of dropped pairs for each
reason. No text occurs in two splits (debian_splits.py defines when two texts are equal). The command checks this
condition before it writes the splits.
"""

import argparse
import contextlib
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from tqdm import tqdm

from fairseq_etads.platform.console import Parser, command
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import lock_output, open_binary_output
from fairseq_etads.text.checksums import NAME, Checksums, format_checksum_list
from fairseq_etads.text.documents import WARNINGS
from fairseq_etads.text.json_files import SPLITS

from .debian_index import (
    Stanza,
    count_cleaning_changes,
    decode_text,
    map_source_names,
    parse_stanzas,
    read_index,
    split_description,
    stem_package_name,
)
from .debian_splits import (
    UNIT_CHARS,
    DescriptionPair,
    Groups,
    assign_groups_to_splits,
    find_split_overlaps,
    group_related_pairs,
    select_pairs,
)

OUTPUTS = [f"{split}.{side}" for split in SPLITS for side in ("source", "target", "package")]
SAMPLE = Path(__file__).resolve().parent / "sample"
Report = Dict[str, Any]


def compute_sha256(data: bytes) -> str:
    """Return the SHA-256 digest of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_corpus(out: Path, files: Dict[str, bytes], report: Report) -> None:
    """Write the files of the corpus, report.json and SHA256SUMS.

    All files are first written under temporary names, so an incomplete file never has its final name.

    Raises:
        InputError: the folder ``out`` cannot be written to.
    """
    about = (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode()
    listed = format_checksum_list(
        {name: compute_sha256(content) for name, content in {**files, "report.json": about}.items()}
    )
    # The report and the checksums are renamed first. If a run is interrupted, the next run can then identify the files
    # that the interrupted run has left behind.
    contents = {"report.json": about, NAME: listed.encode(), **files}
    try:
        with contextlib.ExitStack() as stack:
            opened = {name: stack.enter_context(open_binary_output(out / name)) for name in reversed(contents)}
            for name, file in opened.items():
                file.write(contents[name])
    except OSError as error:
        raise InputError(f"cannot write to --out {out}: {error.strerror}") from None


def is_corpus_complete(out: Path, wanted: Report, force: bool) -> bool:
    """Return whether ``out`` already contains the complete corpus for the inputs and options in ``wanted``.

    Raises:
        InputError: ``out`` contains a different corpus, and ``force`` is False.
    """
    existing = [name for name in OUTPUTS if (out / name).exists()]
    if force or not existing:
        return False
    Checksums(out, "Give another folder, or --force").verify(["report.json", *OUTPUTS], may_be_missing=True)
    try:
        found = json.loads((out / "report.json").read_text(encoding="utf-8"))
        same = all(found[key] == wanted[key] for key in ("inputs", "options"))
        if same and all(compute_sha256((out / name).read_bytes()) == found["outputs"][name] for name in existing):
            return existing == OUTPUTS  # if files are missing, an earlier run was interrupted
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the report is missing or was written by another program
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


def find_index_files(options: argparse.Namespace) -> Tuple[List[Path], List[Path]]:
    """Return the Translation-en and Packages files that are specified by options or found in APT's lists folder.

    Raises:
        InputError: a file is missing, or there is no Translation-en index.
    """
    for name in ("translation", "packages"):
        for path in (p for p in getattr(options, name) if not p.is_file()):
            raise InputError(f"--{name} {path}: there is no such file")
    lists = options.lists or LISTS
    listed = sorted(lists.iterdir()) if lists.is_dir() else []
    suffix = r"(\.(gz|xz|bz2|lz4))?$"
    translations = [path for path in listed if re.search(rf"_i18n_Translation-en{suffix}", path.name)]
    packages = [path for path in listed if re.search(rf"_binary-\w+_Packages{suffix}", path.name)]
    if options.translation:  # the lists in APT's folder may belong to a different release
        if options.lists:
            raise InputError(f"--lists {options.lists} has no effect with --translation: leave it out")
        return options.translation, options.packages
    if not translations:
        how = "run 'apt-get update -o Acquire::Languages=en', give --translation FILE, or use --sample"
        raise InputError(f"--lists {lists} has no *_i18n_Translation-en*: {how}")
    return translations, options.packages or packages


def make_pairs(stanzas: Sequence[Stanza], known_sources: Dict[str, str]) -> List[DescriptionPair]:
    """Create a document-summary pair from each stanza.

    If the source package is unknown, the stem of the binary package name is used instead.
    """
    pairs = []
    for stanza in tqdm(stanzas, desc="reading", unit="pair", disable=not sys.stderr.isatty()):
        target, paragraphs = split_description(stanza["Description-en"])
        name = stanza["Package"]
        pairs.append(DescriptionPair(name, known_sources.get(name) or stem_package_name(name), paragraphs, target))
    return pairs


def assign_pairs_to_splits(
    pairs: Sequence[DescriptionPair], options: argparse.Namespace
) -> Tuple[Groups, Groups, Counter]:
    """Assign the pairs to splits. Returns the splits, the groups, and the number of dropped pairs for each reason.

    Raises:
        InputError: a split is empty, or a text occurs in two splits.
    """
    kept, dropped = select_pairs(pairs, options)
    groups = group_related_pairs(kept)
    splits, not_used = assign_groups_to_splits(groups, options)
    for split in SPLITS:
        if not splits[split]:
            raise InputError(f"--valid-size, --test-size: of {len(kept)} pairs, none is left for {split}")
    shared = find_split_overlaps(splits)
    if shared:
        raise InputError(f"{len(shared)} texts are in two splits; the first is: {shared[0][:80]}")
    return splits, groups, dropped + not_used


def build_corpus(options: argparse.Namespace) -> str:
    """Build the corpus in ``options.out``, and return a message for the user.

    Raises:
        InputError: an input or an earlier output is invalid, or a split would be empty.
    """
    translation, packages = find_index_files(options)
    paths = [*packages, *translation]
    contents = [read_index(path) for path in paths]
    # The checksums are computed from the decompressed contents, so they depend on neither the compression format nor
    # the folder.
    report: Report = {
        "inputs": [{"name": path.name, "sha256": compute_sha256(data)} for path, data in zip(paths, contents)],
        "options": {name: getattr(options, name) for name, _, _ in NUMBERS},
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
    pairs = make_pairs(described, known)
    splits, groups, dropped = assign_pairs_to_splits(pairs, options)
    dropped += Counter({"no Package or Description-en field": len(stanzas) - len(described)})
    report.update(_count_description_changes(described))
    report.update(describe_splits(splits, groups), dropped=dict(sorted(dropped.items())))
    report.update(stanzas=len(stanzas), undecodable=sum(replaced for _, replaced in texts[len(packages) :]))
    report.update(guessed_source_packages=sum(pair.package not in known for pair in pairs))
    files = make_file_contents(splits)
    report.update(outputs={name: compute_sha256(files[name]) for name in OUTPUTS})
    write_corpus(options.out, files, report)
    return summarise_report(report)


def _count_description_changes(described: Sequence[Stanza]) -> Report:
    """Count the changes to the descriptions and possible remaining errors, for report.json."""
    counts: Counter = Counter()
    first: Dict[str, str] = {}
    for stanza in described:
        found = +count_cleaning_changes(stanza["Description-en"])
        counts += found
        for what in found:
            first.setdefault(what, stanza["Package"])
    return {
        "changed": {what: counts[what] for what in sorted(counts) if what not in WARNINGS},
        "warnings": {what: {"count": counts[what], "first": first[what]} for what in WARNINGS if counts[what]},
    }


def make_file_contents(splits: Groups) -> Dict[str, bytes]:
    """Return a dictionary that maps the name of each file in OUTPUTS to its content."""
    files = {}
    for split, pairs in splits.items():
        files[f"{split}.source"] = "".join(f"{pair.source}\n" for pair in pairs).encode()
        files[f"{split}.target"] = "".join(f"{pair.target}\n" for pair in pairs).encode()
        files[f"{split}.package"] = "".join(f"{pair.package}\t{pair.source_package}\n" for pair in pairs).encode()
    return files


def describe_splits(splits: Groups, groups: Groups) -> Report:
    """Return the sizes of the splits, text lengths in words, and the largest groups, for report.json."""
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


def unpack_sample_corpus(options: argparse.Namespace) -> str:
    """Extract the sample corpus in this package to ``options.out``, and return a message for the user.

    Raises:
        InputError: the sample corpus is damaged, or ``options.out`` contains another corpus.
    """
    report = json.loads(read_index(SAMPLE / "report.json"))
    if is_corpus_complete(options.out, report, options.force):
        return f"{options.out} is up to date; --force unpacks it again"
    files = {name: read_index(SAMPLE / f"{name}.xz") for name in OUTPUTS}
    for name in (n for n in OUTPUTS if compute_sha256(files[n]) != report["outputs"][n]):
        raise InputError(f"--sample: {SAMPLE / name}.xz is damaged: its checksum is not the report's")
    write_corpus(options.out, files, report)
    return summarise_report(report)


NUMBERS = (
    ("train_size", 0, "number of training pairs; 0 keeps all remaining pairs"),
    ("valid_size", 2000, "number of validation pairs"),
    ("test_size", 2000, "number of test pairs"),
    ("seed", 1, "seed of the hash that assigns groups of packages to splits"),
    ("max_per_group", 0, "maximum number of pairs from a group of packages that share texts; 0 for no limit"),
    ("min_source_words", 1, "drop descriptions with fewer than N words"),
    ("max_source_words", 10000, "drop descriptions with more than N words"),
    ("min_target_words", 1, "drop synopses with fewer than N words"),
    ("max_target_words", 10000, "drop synopses with more than N words"),
)
"""Name, default value and help text of each numeric option. The values are recorded in report.json."""

LISTS = Path("/var/lib/apt/lists")
"""Folder in which APT stores the indexes that it has downloaded."""
EXAMPLES = """examples:
  etads-debian --sample --out data/sample     unpack the sample corpus; requires neither APT nor a network
  apt-get update -o Acquire::Languages=en     (as root) fetch the lists; then build a corpus from them:
  etads-debian --out data/debian"""


def build_parser() -> argparse.ArgumentParser:
    about = "Build a summarisation corpus from Debian package descriptions and their synopses."
    layout = argparse.RawDescriptionHelpFormatter
    parser = Parser("etads-debian", description=about, epilog=EXAMPLES, formatter_class=layout)
    out = "output folder for the corpus and report.json"
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=out)
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options except --out, which ``etads-corpus debian`` has in common with other corpora, to a parser."""
    add = parser.add_argument
    add(
        "--sample",
        action="store_true",
        help="unpack the sample corpus included in this package instead of building a corpus",
    )
    add(
        "--force",
        action="store_true",
        help="rebuild the corpus if it already exists, or replace another corpus in --out",
    )
    add("--lists", type=Path, metavar="DIR", help=f"folder containing APT's package indexes (default: {LISTS})")
    for option, text in (("--translation", "Translation-en"), ("--packages", "Packages, for names of source packages")):
        text = (
            f"APT index file ({text}), plain or compressed (.gz, .xz, .bz2, .lz4); may be repeated (default without "
            "--translation: all index files in --lists)"
        )
        add(option, type=Path, action="append", default=[], metavar="FILE", help=text)
    for name, default, text in NUMBERS:
        option = "--" + name.replace("_", "-")
        add(option, type=int, default=default, metavar="N", help=f"{text} (default: {default})")


def _check_options(options: argparse.Namespace) -> None:
    """Raise InputError if a numeric option has an invalid value, or if incompatible options are combined."""
    for name, value in ((n, getattr(options, n)) for n, _, _ in NUMBERS if n != "seed"):
        if value < 0:
            raise InputError(f"--{name.replace('_', '-')} {value} is negative: give 0 or more")
    chosen = [n for n, default, _ in NUMBERS if getattr(options, n) != default]
    if options.sample and (options.translation or options.packages or options.lists or chosen):
        raise InputError("--sample is ready-made: combine it only with --out and --force")
    for side, low, high in (
        ("source", options.min_source_words, options.max_source_words),
        ("target", options.min_target_words, options.max_target_words),
    ):
        if low > high:
            raise InputError(f"--min-{side}-words {low} is more than --max-{side}-words {high}")


def make_corpus(args: argparse.Namespace) -> None:
    """Build or unpack the corpus as the parsed options of ``etads-debian`` say, and report its size.

    Raises:
        InputError: an option, an input or an earlier output is invalid.
    """
    _check_options(args)
    with lock_output(args.out, "--out", folder=True):
        print(unpack_sample_corpus(args) if args.sample else build_corpus(args), file=sys.stderr)


@command(build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-debian``."""
    make_corpus(args)


if __name__ == "__main__":
    sys.exit(main())
