"""The command ``etads-dictionary``."""

import argparse
from pathlib import Path
from typing import List, Optional

from fairseq_etads.text.files import InputError

from .command import Parser, add_jobs, errors_in_one_line

DESCRIPTION = """\
Make one dictionary for documents and summaries with which pointer models can copy rare words (--pointer).

  etads-dictionary dict.txt --train train.source train.target --documents valid.source test.source --size 50000
  fairseq-preprocess --srcdict dict.txt --joined-dictionary -s source -t target --trainpref train ...

The files hold words (or subwords) separated by spaces. The first entries are the --size most frequent words of the
--train files, which the model learns. Behind them, with count 0, stands every other word of the --train and --documents
files: it has an id, so that it can be copied, and costs the model nothing. etads-prepare does this by itself."""


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-dictionary", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="dictionary to write")
    parser.add_argument("--train", metavar="FILE", type=Path, nargs="+", required=True, help="texts to learn words of")
    parser.add_argument(
        "--documents", metavar="FILE", type=Path, nargs="*", default=[], help="texts to copy words from"
    )
    parser.add_argument("--size", type=int, default=50000, help="words to learn; -1: all (default: %(default)s)")
    add_jobs(parser)
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """The command etads-dictionary."""
    args = build_parser().parse_args(argv)
    with errors_in_one_line("etads-dictionary"):
        if args.size == 0 or args.size < -1:
            raise InputError(f"--size {args.size}: choose 1 or more, or -1 for all words")
        for path in [*args.train, *args.documents]:
            if not path.is_file():
                raise InputError(f"{path}: no such file")
        # here, so that --help and wrong options are answered without waiting for fairseq
        import fairseq_etads.plugin  # noqa: F401  # first: it keeps fairseq quiet
        from fairseq_etads.vocabulary.dictionary import known_words

        from .dictionary import build_dictionary, write_dictionary

        dictionary = build_dictionary(args.train, args.documents, args.size, max(1, args.jobs))
        write_dictionary(dictionary, args.out)
        known = known_words(dictionary)
        print(f"{args.out}: {known:,} known words, {len(dictionary) - known:,} only to be copied")


if __name__ == "__main__":
    main()
