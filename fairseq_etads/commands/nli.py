"""The command ``etads-nli``: train and use entailment models, which are required by the reward ``entail``."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from ..platform.console import Parser, add_device_option, check_positive_options, command
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from ..text.words import WORD_KINDS
from .run_options import silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-nli",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train and evaluate a model that predicts the probability that a premise entails a hypothesis "
        "(decomposable attention, Parikh et al. 2016). Suitable training data are SNLI and MultiNLI, or pairs "
        "generated from the reference summaries of a corpus.",
        epilog="""\
examples:
  etads-nli synthesise runs/mine/text runs/nli/pairs
  etads-nli train runs/nli/model --train runs/nli/pairs/train.tsv --valid runs/nli/pairs/valid.tsv
  etads-nli train nli --train snli_1.0_train.jsonl multinli_1.0_train.jsonl --valid snli_1.0_dev.jsonl \\
      --vectors glove.840B.300d.txt --more-words runs/mine/text/train.target
  etads-nli score nli snli_1.0_test.jsonl

  A file of pairs is either in the JSON Lines format of SNLI and MultiNLI, or contains one line
  per pair, in the form PREMISE<tab>HYPOTHESIS<tab>LABEL. To use a model as a reward, pass its folder to fairseq-train
  with --rewards entail --entail-model (see docs/rewards.md).""",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="synthesise|train|score")
    _add_synthesise_parser(commands)
    _add_train_parser(commands)
    add = commands.add_parser("score", help="evaluate a trained model on labelled pairs").add_argument
    add("model", metavar="MODEL", type=Path, help="model folder written by etads-nli train")
    add("pairs", metavar="PAIRS", type=Path, nargs="+", help="files containing labelled pairs")
    add(
        "--out",
        metavar="FILE",
        type=Path,
        help="also write the entailment probability of each labelled pair to FILE, one per line",
    )
    add_device_option(add)
    return parser


def _add_synthesise_parser(commands: Any) -> None:
    add = commands.add_parser("synthesise", help="generate training pairs from reference summaries").add_argument
    add(
        "text",
        metavar="TEXT",
        type=Path,
        help="folder containing one or more of train.target, valid.target and test.target",
    )
    add("out", metavar="OUT", type=Path, help="output folder for train.tsv, valid.tsv and test.tsv")
    add(
        "--documents",
        metavar="N",
        type=int,
        default=100_000,
        help="maximum number of summaries to use from each split, selected at even intervals (default: %(default)s)",
    )
    add("--seed", metavar="N", type=int, default=1, help="random seed (default: %(default)s)")


def _add_train_parser(commands: Any) -> None:
    train = commands.add_parser(
        "train", help="train a model; to continue after an interruption, run the same command again"
    )
    add = train.add_argument
    add("out", metavar="MODEL", type=Path, help="output folder for the model")
    add("--train", metavar="FILE", type=Path, nargs="+", required=True, help="files containing the training pairs")
    add(
        "--valid",
        metavar="FILE",
        type=Path,
        nargs="+",
        required=True,
        help="files containing the validation pairs, which determine the best epoch",
    )
    add(
        "--vectors",
        metavar="FILE",
        help="pretrained word vectors in word2vec text format, such as GloVe; the vectors are frozen (default: learn "
        "word embeddings during training)",
    )
    add(
        "--more-words",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help="text files with words to add to the vocabulary, such as the summaries to score; only with --vectors",
    )
    add(
        "--size",
        metavar="N",
        type=int,
        default=50_000,
        help="vocabulary size; the N most frequent words in the pairs are kept (default: %(default)s)",
    )
    add(
        "--embed-dim",
        metavar="N",
        type=int,
        default=300,
        help="dimension of the word embeddings (default: %(default)s)",
    )
    add("--width", metavar="N", type=int, default=300, help="hidden size of the network (default: %(default)s)")
    add(
        "--dropout",
        metavar="P",
        type=float,
        default=0.2,
        help="dropout probability before each layer (default: %(default)s)",
    )
    add("--lr", metavar="R", type=float, default=0.001, help="learning rate for Adam (default: %(default)s)")
    add("--batch-size", metavar="N", type=int, default=64, help="number of pairs per batch (default: %(default)s)")
    add("--epochs", metavar="N", type=int, default=50, help="maximum number of epochs (default: %(default)s)")
    add(
        "--patience",
        metavar="N",
        type=int,
        default=5,
        help="stop training if the accuracy on --valid does not improve for N epochs (default: %(default)s)",
    )
    add(
        "--seed",
        metavar="N",
        type=int,
        default=1,
        help="random seed for the initial weights, the order of the pairs and dropout (default: %(default)s)",
    )
    add(
        "--words",
        choices=WORD_KINDS,
        default="ptb",
        help="tokenisation of raw text; use the value given to etads-prepare --words for the summaries to score "
        "(default: %(default)s)",
    )
    add("--keep-case", action="store_true", help="do not convert words to lower case")
    add("--hide-digits", action="store_true", help="replace each digit with #, as in the Gigaword headlines")
    add_device_option(add)


def _synthesise_entailment_pairs(args: argparse.Namespace) -> None:
    from ..jobs.nli_synthesis import write_synthetic_pairs

    check_positive_options(documents=args.documents)
    for line in write_synthetic_pairs(args.text, args.out, args.documents, args.seed):
        print(line)


def _train_model(args: argparse.Namespace) -> None:
    check_positive_options(size=args.size, embed_dim=args.embed_dim, width=args.width, batch_size=args.batch_size)
    check_positive_options(epochs=args.epochs, patience=args.patience)
    if not 0 <= args.dropout < 1:
        raise InputError(f"--dropout {args.dropout}: choose a probability, at least 0 and below 1")
    if not 0 < args.lr < math.inf:
        raise InputError(f"--lr {args.lr}: choose a number above 0")
    if args.more_words and not args.vectors:
        raise InputError("--more-words has no effect without --vectors, which provide the additional words")
    from ..jobs.nli_training import EntailmentSettings, train_entailment_model

    silence_info_logs()
    names = EntailmentSettings.__dataclass_fields__
    given = {name: value for name, value in vars(args).items() if name in names}
    print(train_entailment_model(args.out, EntailmentSettings(**given), args.epochs, args.patience, args.device))


def _evaluate_entailment_model(args: argparse.Namespace) -> None:
    in_model = list(args.model.iterdir()) if args.model.is_dir() else [args.model]
    check_output_paths({"--out": args.out}, {"MODEL": in_model, "PAIRS": args.pairs})
    from ..jobs.nli_training import evaluate_entailment_model

    silence_info_logs()
    print(evaluate_entailment_model(args.model, args.pairs, args.out, args.device))


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-nli``."""
    {"synthesise": _synthesise_entailment_pairs, "train": _train_model, "score": _evaluate_entailment_model}[
        args.command
    ](args)


if __name__ == "__main__":
    sys.exit(main())
