"""Functions shared by commands that process a run or its data.

Importing this module imports neither torch nor fairseq.
"""

import argparse
import logging
from pathlib import Path
from typing import Any, Callable, Optional, Tuple

from ..evaluation.likelihood_file import CHECKPOINTS
from ..platform.console import add_device, add_max_tokens
from ..platform.errors import InputError
from ..text.subwords import OPAQUE
from .run_record import prepared_of


def checkpoint_and_data(args: argparse.Namespace) -> Tuple[Path, Optional[Path]]:
    """Return the path of the checkpoint in RUN that ``--checkpoint`` selects, and the path of the data folder.

    The second path is None if the training data recorded in the checkpoint should be used.

    Raises:
        InputError: there is no such checkpoint, or no data in ``--prepared``.
    """
    checkpoint = args.run / "checkpoints" / f"checkpoint_{args.checkpoint}.pt"
    if not checkpoint.is_file():
        raise InputError(f"RUN {args.run}: it has no {checkpoint.relative_to(args.run)}")
    if args.prepared:
        if not (args.prepared / "bin").is_dir():
            raise InputError(f"--prepared {args.prepared}: has no folder bin; create it with etads-prepare")
        return checkpoint, args.prepared / "bin"
    try:
        data = prepared_of(args.run, None) / "bin"
    except InputError:  # the path of the training data is also stored in the checkpoint
        data = args.run / "prepared" / "bin"
    return checkpoint, data if data.is_dir() else None


def add_run_options(add: Callable[..., Any]) -> None:
    """Add options to a parser that select the checkpoint in RUN, the data, the batch size and the device."""
    add(
        "--checkpoint",
        choices=CHECKPOINTS,
        default="best",
        help="checkpoint to load: checkpoint_best.pt or checkpoint_last.pt in RUN (default: %(default)s)",
    )
    add(
        "--prepared",
        metavar="DIR",
        type=Path,
        help="folder containing the prepared data (default: RUN/prepared, or the data used for training)",
    )
    add_max_tokens(add)
    add_device(add)


def only_warnings() -> None:
    """Suppress all log messages of fairseq and this project except warnings and errors."""
    for name in ("fairseq", "fairseq_etads"):
        logging.getLogger(name).setLevel(logging.WARNING)


def device_of(name: Optional[str]) -> Any:
    """Return the torch device that ``--device`` names. The default is the GPU, if there is one.

    Raises:
        InputError: the device does not exist.
    """
    from ..summarizer.summarizer import device_of as checked  # imported here, because it imports torch

    return checked(name)


def detokenizer_of(dictionary: Any, subwords: str, folder: Path) -> Any:
    """Return a TextTokenizer that joins subwords into words and words into text, but keeps sentence marks.

    Args:
        dictionary: dictionary of the data.
        subwords: kind of subwords; see :func:`~fairseq_etads.text.subwords.word_ends`.
        folder: folder of the data, for the error message.

    Raises:
        InputError: the data consists of subwords of a kind in OPAQUE.
    """
    from ..text.tokenizer import TextTokenizer  # imported here, because it imports fairseq
    from ..vocabulary.kinds import detect_words

    if subwords in OPAQUE:
        raise InputError(
            f"DATA {folder}: consists of {OPAQUE[subwords]}, which are not words; prepare the text with other --tokens"
        )
    kind = detect_words(dictionary, subwords)
    return TextTokenizer(
        argparse.Namespace(text_words=kind, text_keep_case=True, text_language="en", text_sentence_marks="keep")
    )
