"""Options and functions of commands that process a run or its data.

Importing this module does not import torch or fairseq.
"""

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Tuple

from ..data.run_record import CHECKPOINTS, find_checkpoint, find_prepared_folder
from ..files import SPLITS
from ..platform.command_options import DeviceOption, MaxTokensOption, option
from ..platform.errors import InputError
from ..text.subwords import OPAQUE


def find_checkpoint_and_data(run: Path, checkpoint: str, prepared: Optional[Path]) -> Tuple[Path, Optional[Path]]:
    """Return the path of a checkpoint in a run folder and the path of the folder that contains the binarised data.

    The second path is None if the data recorded in the checkpoint should be used.

    Args:
        run: path of the run folder.
        checkpoint: "best" or "last".
        prepared: path of a folder that contains prepared data, or None to use the data of the run.

    Raises:
        InputError: the checkpoint does not exist, or the folder ``--prepared`` contains no data.
    """
    path = find_checkpoint(run, checkpoint)
    if prepared:
        if not (prepared / "bin").is_dir():
            raise InputError(f"--prepared {prepared}: has no folder bin; create it with etads-prepare")
        return path, prepared / "bin"
    try:
        data = find_prepared_folder(run, None) / "bin"
    except InputError:  # the checkpoint also contains the path of the training data
        data = run / "prepared" / "bin"
    return path, data if data.is_dir() else None


@dataclass
class RunOptions(MaxTokensOption, DeviceOption):
    """Options of commands that run the model of a training run."""

    checkpoint: str = option(
        "best", "checkpoint to load: checkpoint_best.pt or checkpoint_last.pt in RUN", choices=CHECKPOINTS
    )
    prepared: Optional[Path] = option(
        None,
        "folder containing the prepared data (default: the data used for training, or RUN/prepared)",
        metavar="DIR",
    )


def get_binarised_folder(data: Path) -> Path:
    """Return the folder that contains the binarised data: ``data/bin``, or ``data`` itself.

    Raises InputError if the folder does not exist.
    """
    folder = data / "bin" if (data / "bin").is_dir() else data
    if not folder.is_dir():
        raise InputError(f"DATA {data}: no such folder; create it with etads-prepare")
    return folder


def list_data_files(folder: Path) -> List[Path]:
    """Return the files that a command may read from a folder of binarised data, which no output may replace."""
    return [path for pattern in ("*.bin", "*.idx", "dict.*", "SHA256SUMS") for path in folder.glob(pattern)]


def list_splits(folder: Path) -> List[str]:
    """Return the splits (train, valid and test) that a folder of binarised data contains.

    Raises InputError if the folder contains none of these splits.
    """
    found = [split for split in SPLITS if any(folder.glob(f"{split}.*.idx"))]
    if not found:
        raise InputError(f"DATA {folder}: it has no split train, valid or test; name its splits with --subset")
    return found


def silence_info_logs() -> None:
    """Suppress all log messages of fairseq and of this project that are less severe than warnings."""
    for name in ("fairseq", "fairseq_etads"):
        logging.getLogger(name).setLevel(logging.WARNING)


def make_detokenizer(dictionary: Any, subwords: str, folder: Path) -> Any:
    """Return a TextTokenizer that joins subwords into words and words into text, but keeps sentence marks.

    Args:
        dictionary: dictionary of the tokens in the data.
        subwords: type of subwords in the data; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
        folder: path of the data folder, for the error message.

    Raises:
        InputError: the data consists of a kind of subwords in OPAQUE, which cannot be joined.
    """
    from ..text.tokenizer import TextTokenizer  # imported here, because it imports fairseq
    from ..vocabulary.token_kinds import detect_word_type

    if subwords in OPAQUE:
        raise InputError(
            f"DATA {folder}: consists of {OPAQUE[subwords]}, which are not words; prepare the text with other --tokens"
        )
    kind = detect_word_type(dictionary, subwords)
    return TextTokenizer(
        argparse.Namespace(text_words=kind, text_keep_case=True, text_language="en", text_sentence_marks="keep")
    )
