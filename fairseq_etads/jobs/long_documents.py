"""Check and describe long training documents for ``scripts/train.sh --long``.

python -c 'from fairseq_etads.jobs.long_documents import main; main()' TEXT --arch NAME --extractor DIR [--words N]

The module prints the maximum number of words to pick from each document. Pass --no-content if no content model will be
trained.
"""

import argparse
import sys
from pathlib import Path
from typing import Optional

from ..platform.console import Parser, command
from ..platform.errors import InputError
from ..search.content.features import DOCUMENTS
from ..text.picking import FILE, WORDS, SentencePickingSettings
from .recipe_choice import measure_text_lengths
from .recipes import SUITABLE, TrainingDataSize

FEWEST_PAIRS = 100
"""Minimum number of training pairs.

One extractor is trained on each half of the pairs. With fewer pairs, the extractors would not learn anything.
"""
SECONDS_COUNTED, SECONDS_LEARNED = 8e-6, 2.2e-5
"""Seconds per document word that ``etads-content`` takes to count a pair, and to train networks on a pair."""


def measure_training_text_lengths(text: Path) -> TrainingDataSize:
    """Measure the lengths of the training text.

    Raises:
        InputError: a file is missing from the folder, or there are too few pairs.
    """
    for split in ("train", "valid"):
        for side in ("source", "target"):
            if not (text / f"{split}.{side}").is_file():
                raise InputError(f"--text {text}: no {split}.{side} in it; create it with etads-corpus")
    data = measure_text_lengths(text, marks=False)
    if data.pairs < FEWEST_PAIRS:
        raise InputError(
            f"--long: {text} has {data.pairs} training pairs, but the extractor needs {FEWEST_PAIRS} or more; leave "
            "out --long"
        )
    return data


def check_architecture_reads_salience(arch: str) -> None:
    """Raise InputError if an architecture cannot read the salience levels of the selected sentences."""
    if arch in SUITABLE:
        return  # return before torch and fairseq are imported, which takes seconds
    from fairseq.models import ARCH_MODEL_REGISTRY

    from .architectures import PRESETS

    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None:
        return  # either another --user-dir defines the architecture, or fairseq-train will reject it as unknown
    if not _reads_factors(model):
        able = [name for name in PRESETS if _reads_factors(ARCH_MODEL_REGISTRY[name])]
        raise InputError(f"--long: --arch {arch} has no --source-factors; choose one of {', '.join(able)}")


def _reads_factors(model: type) -> bool:
    options = getattr(model, "__dataclass", None)
    return "source_factors" in getattr(options, "__dataclass_fields__", {})


def choose_word_budget(asked: Optional[int], extractor: Path) -> int:
    """Return the maximum total number of words in the sentences that are selected from each document.

    If an extractor already exists, its settings determine the number. Otherwise, it is the requested number or the
    default.

    Raises:
        InputError: the requested number differs from the number in the extractor's settings, or the settings are
            damaged.
    """
    if not (extractor / FILE).is_file():
        return asked or WORDS
    words = SentencePickingSettings.read(extractor / FILE, "delete its folder to train the extractor again").words
    if asked and asked != words:
        raise InputError(
            f"--words {asked}: the documents in {extractor.parent} were shortened to {words} words; name another "
            "--out, or delete this folder"
        )
    return words


def describe_lengths(data: TrainingDataSize, words: int) -> str:
    """Describe the lengths of the documents in comparison with the number of words to select from each document."""
    documents = data.documents
    line = (
        f"documents have {documents.get_percentile(50):,} words (median), {documents.get_percentile(10):,} to "
        f"{documents.get_percentile(90):,} (10 % to 90 %); the model reads the most probable sentences, up to {words:,}"
        " words (--words)"
    )
    if documents.get_percentile(90) <= words:
        line += ". Most documents are read whole, so training without --long is faster and no worse"
    return line


def estimate_content_training_seconds(data: TrainingDataSize) -> float:
    """Estimate the processor time of ``etads-content`` in seconds.

    The command counts the words and bigrams in all pairs, but trains its networks on only some of the pairs.
    """
    words = data.documents.get_percentile(50)
    return 10 + words * (SECONDS_COUNTED * data.pairs + SECONDS_LEARNED * min(data.pairs, DOCUMENTS))


def describe_content_training_time(data: TrainingDataSize) -> str:
    """Describe how long it takes to train the content model."""
    minutes = max(round(estimate_content_training_seconds(data) / 60), 1)
    return (
        f"its content model, which chooses the sentences of summaries, will take about {minutes:,} "
        f"minute{'' if minutes == 1 else 's'} on 1 core (--no-content leaves it out)"
    )


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="train.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--arch", default="etads")
    parser.add_argument("--words", type=int)
    parser.add_argument("--extractor", type=Path, required=True)
    parser.add_argument("--no-content", action="store_true")
    return parser


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Print the maximum number of words to select, and describe the documents on standard error."""
    words = choose_word_budget(args.words, args.extractor)
    data = measure_training_text_lengths(args.text)
    check_architecture_reads_salience(args.arch)
    print(f"== {describe_lengths(data, words)}", file=sys.stderr)
    if not args.no_content:
        print(f"== {describe_content_training_time(data)}", file=sys.stderr)
    print(words)
