"""A dictionary with a copy tail: the words that the model learns, then every other word that a document has."""

import argparse
import sys
from pathlib import Path
from typing import List, Optional

from fairseq_etads.dictionary import is_padding_word, known_words  # first: it keeps fairseq quiet

from fairseq.data import Dictionary  # isort: skip
from fairseq.tokenizer import tokenize_line  # isort: skip

from .files import PrepareError, add_jobs, atomic_writer, read_lines

DESCRIPTION = """\
Make one dictionary for documents and summaries with which pointer models can copy rare words (--pointer).

  etads-dictionary dict.txt --train train.source train.target --documents valid.source test.source --size 50000
  fairseq-preprocess --srcdict dict.txt --joined-dictionary -s source -t target --trainpref train ...

The files hold words (or subwords) separated by spaces. The first entries are the --size most frequent words of the
--train files, which the model learns. Behind them, with count 0, stands every other word of the --train and --documents
files: it has an id, so that it can be copied, and costs the model nothing. etads-prepare does this by itself."""


def count_words(files: List[Path], jobs: int) -> Dictionary:
    """All words of the files with their counts, by fairseq's counter.

    Raises:
        PrepareError: a file is missing or not UTF-8.
    """
    counts = Dictionary()
    for path in files:
        if not path.is_file():
            raise PrepareError(f"{path}: no such file")
        for _ in read_lines(path):  # fairseq would say of bad UTF-8 neither where it is nor that it is there
            pass
        Dictionary.add_file_to_dictionary(str(path), counts, tokenize_line, jobs)
    return counts


def build_dictionary(train: List[Path], documents: List[Path], size: int, jobs: int, tail: bool = True) -> Dictionary:
    """The dictionary: known words by frequency, padded to a multiple of 8 entries, then the tail in alphabetical order.

    Args:
        train: files whose words are learnt. documents: files whose words can be copied besides.
        size: how many words are learnt, -1 for all; the special symbols are not counted.
        jobs: processes. tail: words that are not learnt stand behind the others.
    """
    dictionary = count_words(train, jobs)
    seen = {*dictionary.symbols, *count_words(documents, jobs).symbols}
    dictionary.finalize(nwords=size + dictionary.nspecial if size > 0 else -1)
    for word in sorted(seen.difference(dictionary.symbols)) if tail else ():
        if not is_padding_word(word):  # it would count as a known word
            dictionary.add_symbol(word, n=0)
    return dictionary


def write_dictionary(dictionary: Dictionary, path: Path) -> None:
    """Write it as fairseq does, appearing under its name only when it is complete."""
    with atomic_writer(path) as file:
        dictionary.save(file)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    try:
        if args.size == 0 or args.size < -1:
            raise PrepareError(f"--size {args.size}: choose 1 or more, or -1 for all words")
        dictionary = build_dictionary(args.train, args.documents, args.size, max(1, args.jobs))
        write_dictionary(dictionary, args.out)
    except PrepareError as error:
        print(f"etads-dictionary: {error}", file=sys.stderr)
        sys.exit(2)
    known = known_words(dictionary)
    print(f"{args.out}: {known:,} known words, {len(dictionary) - known:,} only to be copied")


if __name__ == "__main__":
    main()
