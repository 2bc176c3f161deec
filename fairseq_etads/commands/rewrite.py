"""The command ``etads-rewrite``: summarise documents by selecting sentences and rewriting each of them."""

import argparse
import math
import sys
from pathlib import Path

from ..evaluation.reranking import LENGTHS
from ..jobs.runs import silence_info_logs
from ..platform.console import Parser, add_device_option, check_positive_options, command
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from .labels import get_binarised_folder


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-rewrite",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Summarise prepared documents with two models. An extractor (--arch pointer_extractor) selects "
        "sentences one by one, and an abstractor, such as --arch sentence_rewriter, rewrites each selected sentence.",
        epilog="""\
examples:
  etads-rewrite runs/mine/prepared summaries.txt --extractor runs/rl --abstractor runs/abstractor --rerank
  etads-rewrite runs/mine/prepared greedy.txt --extractor runs/rl --abstractor runs/abstractor --beam 1
  etads-rouge summaries.txt runs/mine/text/test.target

  --extractor and --abstractor accept fairseq-train checkpoints, or folders that contain checkpoints/checkpoint_best.pt.
  After an interruption, run the same command again to continue. docs/rewrite.md describes how to train both models.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="output folder of etads-prepare, or its bin folder")
    add(
        "output",
        metavar="OUTPUT",
        type=Path,
        help="output file for the summaries, one per line, with <q> between sentences",
    )
    add(
        "--extractor",
        metavar="CHECKPOINT",
        type=Path,
        required=True,
        help="model that selects sentences; if it selects none, the first five sentences of the document are rewritten",
    )
    add(
        "--abstractor",
        metavar="CHECKPOINT",
        type=Path,
        required=True,
        help="model that rewrites the selected sentences",
    )
    add("--subset", metavar="NAME", default="test", help="split to summarise (default: %(default)s)")
    add(
        "--beam",
        metavar="N",
        type=int,
        default=5,
        help="beam size for each sentence; 1 selects greedy search (default: %(default)s)",
    )
    add(
        "--diversity",
        metavar="X",
        type=float,
        default=1.0,
        help="diversity penalty: X times i is subtracted from the score of the i-th best continuation of each "
        "hypothesis, where i is counted from 0 (default: %(default)s)",
    )
    add(
        "--rerank",
        action="store_true",
        help="choose the combination of sentence hypotheses with the fewest repeated bigrams in the whole summary "
        "(default: choose the best hypothesis of each sentence)",
    )
    add(
        "--rerank-length",
        choices=LENGTHS,
        default="tokens",
        help="length by which --rerank normalises scores: tokens includes the end symbol; words excludes it, as in "
        "Chen and Bansal's code (default: %(default)s)",
    )
    add(
        "--max-len",
        metavar="N",
        type=int,
        default=30,
        help="maximum number of tokens in a rewritten sentence (default: %(default)s)",
    )
    add(
        "--sentences",
        metavar="N",
        type=int,
        help="number of sentences to select with an extractor that was trained without --learn-to-stop (default: 5)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        help="read only the first N tokens of each document (default: the truncation length used to train the "
        "extractor)",
    )
    add("--batch-size", metavar="N", type=int, default=32, help="number of documents per batch (default: %(default)s)")
    add_device_option(add)
    return parser


def find_checkpoint(path: Path, option: str) -> Path:
    """Return the path of the checkpoint for an option that accepts a checkpoint or a run folder.

    Raises:
        InputError: the checkpoint does not exist, or the run folder contains no checkpoint.
    """
    checkpoint = path / "checkpoints" / "checkpoint_best.pt" if path.is_dir() else path
    if not checkpoint.is_file():
        raise InputError(f"{option} {path}: there is no checkpoint {checkpoint}")
    return checkpoint


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-rewrite``."""
    check_positive_options(
        beam=args.beam,
        max_len=args.max_len,
        sentences=args.sentences,
        truncate_source=args.truncate_source,
        batch_size=args.batch_size,
    )
    if not 0 <= args.diversity < math.inf:
        raise InputError(f"--diversity {args.diversity:g}: choose 0 (off) or more, a finite number")
    if args.output.is_dir():
        raise InputError(f"OUTPUT {args.output}: it is a folder; name a file")
    if args.rerank and args.beam == 1:
        raise InputError("--rerank: has no effect with --beam 1, which produces only one candidate")
    if args.rerank_length != LENGTHS[0] and not args.rerank:
        raise InputError(f"--rerank-length {args.rerank_length}: has no effect without --rerank")
    check_output_paths({"OUTPUT": args.output}, {})
    folder = get_binarised_folder(args.data)
    for option in ("extractor", "abstractor"):
        setattr(args, option, find_checkpoint(getattr(args, option), f"--{option}"))
    from ..jobs.rewrite import write_rewritten_summaries

    silence_info_logs()
    print(f"{args.output}: {write_rewritten_summaries(folder, args)}")


if __name__ == "__main__":
    sys.exit(main())
