"""Options and functions of commands that process a run or its data, without importing torch or fairseq."""

import argparse
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ..data.run_record import CHECKPOINTS, RECIPE, RECORD, find_checkpoint, find_prepared_folder
from ..files import SPLITS
from ..files.checksums import list_recorded_files
from ..platform.command_options import DeviceOption, MaxTokensOption, argument, option
from ..platform.errors import InputError
from ..summarizer.folder.config import CONFIG, WEIGHTS
from ..text.subwords import OPAQUE

if TYPE_CHECKING:
    from ..data.prepared_pairs import PreparedPairs


def prepared_option(default: str, **metadata: Any) -> Any:
    """Declare the option --prepared of a command, whose help describes the default."""
    return option(None, f"folder containing the prepared data (default: {default})", metavar="DIR", **metadata)


@dataclass
class RunOptions(MaxTokensOption, DeviceOption):
    """Options of commands that run the model of a training run."""

    run: Path = argument("RUN", "run folder created by etads-train, which contains checkpoints/")
    checkpoint: str = option(
        "best", "checkpoint to load: checkpoint_best.pt or checkpoint_last.pt in RUN", choices=CHECKPOINTS
    )
    prepared: Optional[Path] = prepared_option("the data used for training, or RUN/prepared")


def find_checkpoint_and_data(args: RunOptions) -> Tuple[Path, Optional[Path]]:
    """Return the path of a run's checkpoint, and the folder of the binarised data, or None for the checkpoint's."""
    path = find_checkpoint(args.run, args.checkpoint)
    try:
        data = find_prepared_folder(args.run, args.prepared) / "bin"
    except InputError:  # the checkpoint also contains the path of the training data
        data = args.run / "prepared" / "bin"
    if args.prepared and not data.is_dir():
        raise InputError(f"--prepared {args.prepared}: has no folder bin; create it with etads-prepare")
    return path, data if data.is_dir() else None


def get_binarised_folder(data: Path) -> Path:
    """Return ``data/bin`` or ``data`` itself. Raises InputError if it does not exist."""
    folder = data / "bin" if (data / "bin").is_dir() else data
    if not folder.is_dir():
        raise InputError(f"DATA {data}: no such folder; create it with etads-prepare")
    return folder


def list_data_files(folder: Path) -> List[Path]:
    """Return the files of binarised data and of the folder in which it was prepared, which no output may replace."""
    prepared = list_recorded_files(folder.parent) if (folder.parent / "prepare.json").is_file() else []
    return [*prepared, *(path for name in ("*.bin", "*.idx", "dict.*", "SHA256SUMS") for path in folder.glob(name))]


def list_model_files(folder: Path, run: Any) -> List[Path]:
    """Return the files of a model folder or of a run (RunFiles) and its data, which no output may replace."""
    if run is None:
        return [folder / CONFIG, folder / WEIGHTS, *list_recorded_files(folder)]
    checkpoints = run.checkpoint.parent.glob("*.pt")
    return [run.run / RECIPE, run.run / RECORD, *run.list_all(), *checkpoints, *list_data_files(run.data)]


def list_splits(folder: Path) -> List[str]:
    """Return the splits in a folder of binarised data. Raises InputError if train, valid and test are missing."""
    found = [split for split in SPLITS if any(folder.glob(f"{split}.*.idx"))]
    if not found:
        raise InputError(f"DATA {folder}: it has no split train, valid or test; name its splits with --subset")
    return found


def open_split(folder: Path, split: str) -> "PreparedPairs":
    """Open a split of the binarised data in a folder. Raises FileNotFoundError if there is no such split."""
    from ..data.prepared_pairs import PreparedPairs
    from ..training.task import SummarizationTask  # imported here, because it imports torch

    return PreparedPairs(SummarizationTask.of_folder(folder), split)


def load_summarizer(folder: Path, device: Optional[str], quiet: bool = False, **files: Any) -> Any:
    """Load the summariser of a model folder or of a run, with the ``files`` of :meth:`.Summarizer.load`."""
    # By default, torch and oneDNN cache kernels for the last 1,024 shapes of matrices, but each batch of documents has
    # new shapes, so memory use would grow by 170 MB over 2,600 documents. The speed does not change.
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    from ..summarizer import Summarizer

    logging.getLogger("fairseq_etads").setLevel(logging.ERROR if quiet else logging.WARNING)
    return Summarizer.load(folder, device, **files)


def make_detokenizer(pairs: "PreparedPairs", folder: Path) -> Any:
    """Return a TextTokenizer that joins subwords into words and words into text, but keeps sentence marks."""
    from ..text.tokenizer import TextTokenizer  # imported here, because it imports fairseq
    from ..vocabulary.dictionary import detect_word_type

    if pairs.subwords in OPAQUE:
        kind = OPAQUE[pairs.subwords]
        raise InputError(f"DATA {folder}: consists of {kind}, which are not words; prepare it with other --tokens")
    kind = detect_word_type(pairs.dictionary, pairs.subwords)
    return TextTokenizer(
        argparse.Namespace(text_words=kind, text_keep_case=True, text_language="en", text_sentence_marks="keep")
    )
