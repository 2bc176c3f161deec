"""The command ``etads-dictionary`` (prepare data): build only a dictionary."""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List

from fairseq_etads.files.outputs import check_output_paths
from fairseq_etads.platform.command_options import JobsOption, argument, format_option_name, option, options_command
from fairseq_etads.platform.errors import InputError

DESCRIPTION = """\
Build one dictionary for documents and summaries, so that pointer models can copy rare words (--pointer).

  etads-dictionary dict.txt --train train.source train.target --documents valid.source test.source --size 50000
  fairseq-preprocess --srcdict dict.txt --joined-dictionary -s source -t target --trainpref train ...

  etads-dictionary dict.source.txt --train train.source --summaries train.target --documents valid.source test.source \\
      --size 119505 --target-size 68885 --target-dictionary dict.target.txt
  fairseq-preprocess --srcdict dict.source.txt --tgtdict dict.target.txt -s source -t target --trainpref train ...

The files contain words (or subwords) separated by spaces. The first entries are the --size most frequent words of the
--train files, which the model learns. All other words of the --train and --documents files follow with count 0. They
receive ids, so that they can be copied, but require no parameters. With --target-size, the first entries are the N most
frequent words of --summaries, the only words that the model generates. They are followed by the most frequent other
words of --train, which the model learns to read. The second dictionary contains the same words, with count 0 for words
that are only read. etads-prepare creates these dictionaries automatically."""


@dataclass
class DictionaryOptions(JobsOption):
    """Options of ``etads-dictionary``."""

    out: Path = argument("OUT", "output file for the dictionary")
    train: List[Path] = option(None, "text files containing the words that the model learns", nargs="+", required=True)
    documents: List[Path] = option([], "text files containing additional words that the model can only copy", nargs="*")
    size: int = option(50000, "number of words that the model learns; -1 for all words")
    target_size: int = option(None, "number of the words of --size that the model can generate (default: all)")
    summaries: List[Path] = option(
        None, "text files containing the summaries, which determine the words that the model can generate", nargs="+"
    )
    target_dictionary: Path = option(None, "output file for the target dictionary")


def _check_options(args: DictionaryOptions) -> None:
    """Raise InputError if a size is invalid, a file is missing, or the options for summaries are incomplete."""
    if args.size == 0 or args.size < -1:
        raise InputError(f"--size {args.size}: choose 1 or more, or -1 for all words")
    inputs = {"--train": args.train, "--documents": args.documents, "--summaries": args.summaries or []}
    for path in itertools.chain(*inputs.values()):
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    check_output_paths({"OUT": args.out, "--target-dictionary": args.target_dictionary}, inputs)
    names = ("target_size", "summaries", "target_dictionary")
    missing = [format_option_name(name) for name in names if getattr(args, name) is None]
    if missing and len(missing) < len(names):
        raise InputError(f"{missing[0]} is missing; give all of {', '.join(map(format_option_name, names))}")
    if not missing and (args.target_size < 1 or 0 < args.size <= args.target_size):
        most = "" if args.size < 0 else f", and fewer than --size {args.size}"
        raise InputError(f"--target-size {args.target_size}: choose 1 or more{most}")


@options_command("etads-dictionary", DictionaryOptions, description=DESCRIPTION)
def main(args: DictionaryOptions) -> None:
    _check_options(args)
    from fairseq_etads.vocabulary.dictionary import count_known_words

    from .dictionary import build_bounded_dictionaries, build_dictionary, write_dictionary

    if args.target_size:
        sizes = (args.size, args.target_size)
        both = build_bounded_dictionaries(args.train, args.summaries, args.documents, *sizes, args.jobs)
        written = dict(zip((args.out, args.target_dictionary), both))
    else:
        written = {args.out: build_dictionary(args.train, args.documents, args.size, args.jobs)}
    for path, dictionary in written.items():
        write_dictionary(dictionary, path)
        known = count_known_words(dictionary)
        print(f"{path}: {known:,} known words, {len(dictionary) - known:,} that can only be copied")


if __name__ == "__main__":
    sys.exit(main())
