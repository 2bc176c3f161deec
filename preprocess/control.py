"""The command ``etads-control`` (prepare data): insert control words before documents."""

import bisect
import itertools
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from fairseq_etads.files import ORIGIN, SIDES, SPLITS
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_json, read_lines, report_damage, zip_lines
from fairseq_etads.files.outputs import copy_file, lock_output, open_output, write_json
from fairseq_etads.platform.command_options import NOT_NEGATIVE, argument, option, options_command
from fairseq_etads.platform.console import escape_unprintable
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.words import SENTENCE_MARK

RECORD = "control.json"
LENGTH_WORD, ORIGIN_WORD = "lengthbin", "origin"
"""Prefixes of the control words: the number of a length bin or an origin follows. Tokenisers do not split them."""
BINS = 10
_NAME = re.compile(r"[A-Za-z0-9]+")
DESCRIPTION = f"""\
Insert control words before the documents of TEXT (Fan et al. 2017). The output folder OUT has the same format as TEXT:

  {LENGTH_WORD}3 {ORIGIN_WORD}cnn the united nations said on monday ...

{LENGTH_WORD}K stands for the length bin of the reference. The bins contain nearly equal numbers of training summaries;
bin 1 contains the shortest summaries. {ORIGIN_WORD}NAME (with --by-origin) stands for the origin of the document. The
origins are read from TEXT/SPLIT.source.origin, which contains one word per document and is written by "etads-corpus
cnndm --keep-origin".

  etads-control data/cnndm/text data/controlled/text --by-origin
  etads-prepare data/controlled/text data/controlled/prepared --tokens bpe --size 30000

By default, each document receives the control words of its own reference. This is correct for training and for the
validation loss, but not for scores, because the length of the reference is unknown for a new document. --length and
--origin insert the same control words before all documents. Try several values on the validation set, and use the best
ones for the test set:

  etads-control data/cnndm/text data/valid-5/text --like data/controlled/text --subset valid --length 5 --origin cnn
  etads-prepare data/valid-5/text data/valid-5/prepared --like data/controlled/prepared

In new text, write the control words before the document. They count as words of the document, so --truncate-source 402
keeps 400 other words."""


class LengthBins(NamedTuple):
    """Maximum summary length of each bin, ascending (the last has all longer ones, too), and its summaries."""

    longest: List[int]
    counts: List[int]

    @classmethod
    def from_lengths(cls, lengths: Sequence[int], wanted: int) -> "LengthBins":
        """Create at most ``wanted`` bins with nearly equal numbers of summaries.

        Each bin ends at the length for which the cumulative number of summaries is closest to that of bins of equal
        size. Bins that would end at the same length are merged.
        """
        counts = sorted(Counter(lengths).items())
        ends = list(itertools.accumulate(count for _, count in counts))  # number of summaries up to each length
        last = []
        for number in range(1, wanted):
            share = number * len(lengths) / wanted
            place = bisect.bisect_left(ends, share)
            if place and share - ends[place - 1] <= ends[place] - share:
                place -= 1
            last.append(place)
        chosen = sorted({*last, len(ends) - 1})
        held = [ends[place] - before for place, before in zip(chosen, [0, *(ends[place] for place in chosen)])]
        return cls([counts[place][0] for place in chosen], held)

    def find_bin_number(self, length: int) -> int:
        """Return the number of the bin for summaries of the given length."""
        return min(bisect.bisect_left(self.longest, length), len(self.longest) - 1) + 1


class ControlWords(NamedTuple):
    """Bins of summary lengths and number of training documents of each origin, or None if not controlled."""

    bins: Optional[LengthBins]
    origins: Optional[Dict[str, int]]

    @classmethod
    def read(cls, folder: Path) -> "ControlWords":
        """Read control.json from an output folder. Raises InputError if the file is missing or damaged."""
        path = folder / RECORD
        if not path.is_file():
            raise InputError(f"--like {folder}: not an output folder of etads-control, because it has no {RECORD}")
        Checksums(folder, "Make it again").verify([RECORD])
        with report_damage(path, "make it again"):
            content = read_json(path, "make it again")
            lengths, origins = content["lengths"], content["origins"]
            bins = lengths and LengthBins(*(list(map(int, lengths[name])) for name in LengthBins._fields))
            return cls(bins or None, origins and {str(name): int(count) for name, count in origins.items()})


def count_summary_words(line: str) -> int:
    """Count the space-separated words in a summary, without sentence marks."""
    words = line.split()
    return len(words) - words.count(SENTENCE_MARK)


def _iterate_origins(text: Path, split: str) -> Iterator[str]:
    """Yield the origin of each document in a split, in order."""
    path = text / f"{split}.source.{ORIGIN}"
    if not path.is_file():
        raise InputError(f'--by-origin: there is no {path}; "etads-corpus cnndm --keep-origin" writes it')
    for number, line in enumerate(read_lines(path), 1):
        name = line.strip()
        if not _NAME.fullmatch(name):
            raise InputError(f'{path}, line {number}: "{name[:60]}" is not one word of letters and digits')
        yield name.lower()


def learn_control_words(text: Path, bins: int, by_origin: bool) -> ControlWords:
    """Determine the control words from the training pairs. Raises InputError if there are none, or too few lengths."""
    path = text / "train.target"
    if not path.is_file():
        raise InputError(f'TEXT "{text}" has no train.target, from which control words are derived; or give --like')
    found = None
    if bins:
        found = LengthBins.from_lengths([count_summary_words(line) for line in read_lines(path)] or [0], bins)
        if len(found.longest) < 2:
            raise InputError(f"--length-bins {bins}: the summary lengths in {path} cannot be divided into two bins")
    return ControlWords(found, dict(sorted(Counter(_iterate_origins(text, "train")).items())) if by_origin else None)


def write_split_with_control_words(args: "ControlOptions", split: str, control: ControlWords) -> List[str]:
    """Write a split with control words, and return its files' names. Raises InputError for files that do not fit."""
    text, origin = args.text, (args.origin or "").lower()
    paths = [text / f"{split}.{side}" for side in SIDES]
    for path in paths:
        if not path.is_file():
            raise InputError(f'TEXT "{text}" has no file {path.name}')
    columns = [read_lines(path) for path in paths]
    if control.origins is not None and not origin:
        paths.append(text / f"{split}.source.{ORIGIN}")
        columns.append(_iterate_origins(text, split))
    bins = range(1, len(control.bins.longest) + 1) if control.bins else ()
    all_words = {*(f"{LENGTH_WORD}{n}" for n in bins), *(f"{ORIGIN_WORD}{name}" for name in control.origins or ())}
    with open_output(args.out / f"{split}.source") as file:
        for number, (document, summary, *own) in enumerate(zip_lines(paths, columns), 1):
            words = []
            if control.bins:
                length = args.length or control.bins.find_bin_number(count_summary_words(summary))
                words.append(f"{LENGTH_WORD}{length}")
            if control.origins is not None:
                name = origin or own[0]
                if name not in control.origins:
                    raise InputError(f'{split}, document {number}: no training document has the origin "{name}"')
                words.append(f"{ORIGIN_WORD}{name}")
            first = "".join(document.split(maxsplit=1)[:1])
            if first in all_words:
                raise InputError(f"{text}/{split}.source, line {number}: begins with a control word, {first}, already")
            file.write(" ".join([*words, document]).rstrip() + "\n")
    targets = [f"{split}.target", *(path.name for path in sorted(text.glob(f"{split}.target.*[0-9]")))]
    for name in targets:
        copy_file(text / name, args.out / name)
    return [f"{split}.source", *targets]


@dataclass
class ControlOptions:
    """Options of ``etads-control``."""

    text: Path = argument("TEXT", "folder containing {train,valid,test}.{source,target}")
    out: Path = argument("OUT", "output folder for the same files with control words, and for control.json")
    length_bins: Optional[int] = option(
        None, f"maximum number of length bins; 0: no words for lengths (default: {BINS})", bounds=NOT_NEGATIVE
    )
    by_origin: bool = option(False, "also insert a control word for the origin of each document")
    like: Optional[Path] = option(
        None,
        "reuse the length bins and origins of an earlier output folder, such as the one used to train the model",
        metavar="MADE",
        excludes=dict.fromkeys(("--length-bins", "--by-origin"), "it determines the control words"),
    )
    subset: Optional[List[str]] = option(
        None, "splits to write (default: all)", metavar="NAME", nargs="+", choices=SPLITS
    )
    length: Optional[int] = option(
        None,
        "insert the control word of the K-th length bin, counting from 1, before all documents",
        metavar="K",
        excludes={"--length-bins 0": "there are no control words for lengths"},
    )
    origin: Optional[str] = option(None, "insert the control word of this origin before all documents", metavar="NAME")


def write_text_with_control_words(args: ControlOptions) -> Iterator[str]:
    """Write the output folder, and yield lines about it. Raises InputError for wrong options, text or output."""
    if not args.text.is_dir():
        raise InputError(f'TEXT "{args.text}" is not a folder; etads-corpus makes one')
    if os.path.realpath(args.out) == os.path.realpath(args.text):
        raise InputError(f"OUT {args.out}: is the same folder as TEXT; choose another one")
    bins = BINS if args.length_bins is None else args.length_bins
    if bins == 1:
        raise InputError("--length-bins 1: choose 0, or 2 or more")
    if not (args.like or bins or args.by_origin):
        raise InputError("--length-bins 0: without --by-origin, there is nothing to control")
    splits = args.subset or [split for split in SPLITS if (args.text / f"{split}.source").is_file()]
    if not splits:
        raise InputError(f'TEXT "{args.text}" has no file train.source, valid.source or test.source')
    read = Checksums(args.text, "Make the text again")
    read.verify(name for name in read.listed if name.split(".")[0] in splits)
    control = ControlWords.read(args.like) if args.like else learn_control_words(args.text, bins, args.by_origin)
    bins = len(control.bins.longest) if control.bins else 0
    if args.length is not None and not 1 <= args.length <= bins:
        advice = (
            f"choose a bin from 1 to {bins}" if bins else "there are no control words for lengths (--length-bins 0)"
        )
        raise InputError(f"--length {args.length}: {advice}")
    if args.origin is not None and args.origin.lower() not in (control.origins or ()):
        advice = f"choose one of {', '.join(control.origins or ())}"
        advice = "there are no control words for origins; give --by-origin" if control.origins is None else advice
        raise InputError(f"--origin {args.origin}: {advice}")
    with lock_output(args.out, "OUT", folder=True):
        made = Checksums(args.out, "Make it again")
        record = {"lengths": control.bins and control.bins._asdict(), "origins": control.origins}
        path, others = args.out / RECORD, [split for split in SPLITS if split not in splits]
        if path.is_file() and any((args.out / f"{split}.source").is_file() for split in others):
            made.verify([RECORD])
            if read_json(path, f"give another OUT or delete {args.out}") != record:
                advice = "give another OUT or delete it"
                raise InputError(f"OUT {args.out}: was made with other control words (see {path}); {advice}")
            made.add(RECORD)
        else:
            with made.record_new_files(RECORD):
                write_json(path, record)
        earlier = [name for name in made.listed if name.split(".")[0] in splits]
        for name in earlier:
            if fnmatch(name, "*.target.*[0-9]") and not (args.text / name).exists():
                (args.out / name).unlink(missing_ok=True)  # an earlier text had more references
        made.forget(*earlier)
        for split in splits:
            names = write_split_with_control_words(args, split, control)
            read.verify_unchanged()
            made.add(*names)
            own = " with the lengths of its references, so not for scores" if control.bins and not args.length else ""
            yield f"{args.out / split}.source: {split}{own}"
    if args.like:
        return
    first = 0
    for number, (longest, count) in enumerate(zip(*(control.bins or ((), ()))), 1):
        most = "more" if number == bins else str(longest)
        yield f"{LENGTH_WORD}{number}: {first} to {most} words, {count:,} training summaries"
        first = longest + 1
    for name, count in (control.origins or {}).items():
        yield f"{ORIGIN_WORD}{name}: {count:,} training documents"


@options_command("etads-control", ControlOptions, description=DESCRIPTION)
def main(args: ControlOptions) -> None:
    """Run the command ``etads-control``."""
    for line in write_text_with_control_words(args):
        print(escape_unprintable(line))


if __name__ == "__main__":
    sys.exit(main())
