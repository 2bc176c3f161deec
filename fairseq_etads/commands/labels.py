"""The command ``etads-labels``: label words or sentences of documents for content selection."""

import argparse
import os
import sys
from pathlib import Path

from ..data.labels.label_files import make_label_file_name
from ..jobs.runs import silence_info_logs
from ..platform.console import Parser, check_positive_options, command
from ..platform.errors import InputError

KINDS = {
    "words": "words",
    "match": "sentences",
    "extract": "sentences",
    "f1": "sentences",
    "distribution": "sentences",
}
"""Dictionary that maps each value of ``--kind`` to the unit that is labelled."""


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-labels",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Create content-selection labels for prepared documents from their reference summaries. Labels "
        "are written to labels.words.SPLIT or labels.sentences.SPLIT, one line per document. With --pairs, write "
        "pairs of matching sentences instead.",
        epilog="""\
kinds:
  words          1 for each word that the summary copies, at the first occurrence of the longest matches; otherwise 0
  match          for each summary sentence, the document sentence with the highest ROUGE-L recall of it; no document
                 sentence is chosen twice
  extract        sentences that together have a high ROUGE-L recall of the summary, chosen greedily
  f1             sentences that together are most similar to the summary, chosen greedily by word and bigram F1; selects
                 fewer sentences than extract, and is much faster
  distribution   for each summary sentence, a weight for every document sentence, from their TF-IDF cosine similarity

examples:
  etads-labels runs/mine/prepared --kind words          # train, valid and test, if present
  etads-labels runs/mine/prepared --kind extract --subset train valid --jobs 4
  etads-labels runs/mine/prepared --pairs sentences/text
  etads-prepare sentences/text sentences/prepared --like runs/mine/prepared

  With --pairs, the command writes one pair per summary sentence that --kind match matches: the summary sentence goes to
  SPLIT.target, and the document sentence goes to SPLIT.source. These files are input for etads-prepare. A model trained
  on them learns to rewrite sentences. For --pairs and for all kinds except words, the documents must contain
  sentence marks (etads-prepare --source-sentence-marks). The four kinds of sentence labels share one file name; use
  --out to keep more than one kind. docs/selection.md describes the kinds.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="output folder of etads-prepare, or its bin folder")
    add("--kind", choices=tuple(KINDS), help="kind of label to create; the kinds are described below (default: words)")
    add(
        "--pairs",
        metavar="DIR",
        type=Path,
        help="write sentence pairs to text files in this folder instead of creating labels",
    )
    add("--subset", metavar="NAME", nargs="+", help="splits to label (default: train, valid and test, if present)")
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        default=400,
        help="read only the first N tokens of each document; N should be at least the truncation length of the models "
        "that will use the labels (default: %(default)s)",
    )
    add("--out", metavar="DIR", type=Path, help="output folder for the labels (default: the data folder)")
    add("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="number of processes (default: %(default)s)")
    return parser


def get_binarised_folder(data: Path) -> Path:
    """Return the path of the folder that contains the binarised data.

    Args:
        data: path of an output folder of etads-prepare, or of its subfolder ``bin``.

    Raises:
        InputError: the folder with the binarised data does not exist.
    """
    folder = data / "bin" if (data / "bin").is_dir() else data
    if not folder.is_dir():
        raise InputError(f"DATA {data}: no such folder; create it with etads-prepare")
    return folder


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-labels``."""
    check_positive_options(jobs=args.jobs, truncate_source=args.truncate_source)
    if args.pairs is not None:
        for option, value in (("kind", args.kind), ("out", args.out)):
            if value is not None:
                raise InputError(f"--{option} {value}: has no effect with --pairs; leave it out")
    folder = get_binarised_folder(args.data)
    from ..jobs.labels import list_splits, make_labels, write_pairs

    silence_info_logs()
    kind = args.kind or "words"
    for split in args.subset or list_splits(folder):
        if args.pairs is not None:
            said = write_pairs(folder, split, args.truncate_source, args.pairs, args.jobs)
            print(f"{args.pairs / split}.source and .target: {said}")
            continue
        path = (args.out or folder) / make_label_file_name("labels", KINDS[kind], split)
        print(f"{path}: {make_labels(folder, split, kind, args.truncate_source, path, args.jobs)}")


if __name__ == "__main__":
    sys.exit(main())
