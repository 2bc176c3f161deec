"""Train an extractor, and shorten long documents to their most probable sentences.

    python -m fairseq_etads.pipeline.long_documents --text DIR --out DIR [options] [-- options of fairseq-train]

A summariser can then read the shortened documents, with the probability level of each sentence as a factor:

    etads-prepare DIR/text DIR/prepared --factors salience …
    fairseq-train DIR/prepared/bin --source-factors salience …
    etads-export RUN FOLDER --extractor DIR/extractor

The exported model then accepts whole documents of any length. Two extractors are trained on one half of the training
documents each, and each training document is shortened by the extractor that was trained on the other half
(docs/long.md). To continue after an interruption, run the command again.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence

from ..data.labels import DEFAULT_WORDS, PICKING, SALIENCE, SentencePickingSettings, check_word_budget
from ..files import SPLITS
from ..platform.command_options import SIZE, argument, option, options_command
from ..platform.console import print_message
from ..platform.errors import InputError
from ..search.content_model import DOCUMENTS
from ..text.words import SENTENCE_MARK
from .steps import Step, run_command
from .training import train
from .training_settings import SUITABLE, TrainingDataSize, measure_text_lengths

FEWEST_PAIRS = 100
"""Minimum number of training pairs.

One extractor is trained on each half of the pairs. With fewer pairs, the extractors would not learn anything.
"""
SECONDS_COUNTED, SECONDS_LEARNED = 8e-6, 2.2e-5
"""Seconds per document word that ``etads-content`` takes to count a pair, and to train networks on a pair."""


def measure_training_text_lengths(text: Path) -> TrainingDataSize:
    """Measure the lengths of the training text. Raises InputError if a file is missing, or there are too few pairs."""
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
    with open(text / "train.source", "rb") as documents:
        if not any(SENTENCE_MARK.encode() in document for document in documents):
            raise InputError(
                f'--long: no document in {text} has "{SENTENCE_MARK}" between its sentences, which an extractor '
                "chooses from; create the text with etads-corpus, or leave out --long"
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
    default. Raises InputError if the requested number differs from the number in the extractor's settings, or the
    settings are damaged.
    """
    if not (extractor / PICKING).is_file():
        return asked or DEFAULT_WORDS
    words = SentencePickingSettings.read(extractor / PICKING, "delete its folder to train the extractor again").words
    if asked and asked != words:
        raise InputError(
            f"--words {asked}: the documents in {extractor.parent} were shortened to {words} words; name another "
            "--out, or delete this folder"
        )
    return words


def describe_lengths(data: TrainingDataSize, words: int) -> str:
    """Describe the lengths of the documents in comparison with the number of words to select from each document."""
    low, median, high = map(data.documents.get_percentile, (10, 50, 90))
    line = (
        f"documents have {median:,} words (median), {low:,} to {high:,} (10 % to 90 %); the model reads the most "
        f"probable sentences, up to {words:,} words (--words)"
    )
    if high <= words:
        line += ". Most documents are read whole, so training without --long is faster and no worse"
    return line


def describe_content_training_time(data: TrainingDataSize) -> str:
    """Describe the processor time of ``etads-content``, which counts all pairs, but trains its networks on some."""
    words = data.documents.get_percentile(50)
    seconds = 10 + words * (SECONDS_COUNTED * data.pairs + SECONDS_LEARNED * min(data.pairs, DOCUMENTS))
    minutes = max(round(seconds / 60), 1)
    return (
        f"its content model, which chooses the sentences of summaries, will take about {minutes:,} "
        f"minute{'' if minutes == 1 else 's'} on 1 core (--no-content leaves it out)"
    )


def plan_shortening(text: Path, arch: str, asked: Optional[int], extractor: Path, has_content: bool) -> int:
    """Check and describe the training documents, and return the maximum number of words to pick from each document.

    ``asked`` is the requested number of words, or None, and ``has_content`` whether a content model will be trained.
    Raises InputError if the text or the architecture does not suit an extractor, or the number of words has changed.
    """
    words = choose_word_budget(asked, extractor)
    data = measure_training_text_lengths(text)
    check_architecture_reads_salience(arch)
    print_message(describe_lengths(data, words))
    if has_content:
        print_message(describe_content_training_time(data))
    return words


def shorten_documents(
    text: Path,
    out: Path,
    words: int = DEFAULT_WORDS,
    size: int = 20000,
    text_words: str = "ptb",
    jobs: Optional[int] = None,
    options: Sequence[str] = (),
) -> None:
    """Train an extractor in OUT/extractor, and write the shortened documents and their summaries to OUT/text.

    A shortened document has at most ``words`` words. Training, to which ``options`` of fairseq-train apply, takes two
    epochs, but at least 120 steps. ``size`` and ``text_words`` are the vocabulary size and the word tokenisation of the
    extractor. Raises SystemExit if a command fails.
    """
    run = out / "extractor"
    whole, processes = ["--truncate-source", "100000"], [] if jobs is None else ["--jobs", str(jobs)]
    prepare = ["--tokens", "word", "--size", str(size), "--words", text_words, "--source-sentence-marks", *processes]
    run_command(["etads-prepare", str(text), str(run / "prepared"), *prepare])
    splits = [split for split in SPLITS if (text / f"{split}.source").is_file()]
    data = run / "prepared" / "bin"
    labels = [data / f"labels.sentences.{split}" for split in splits]
    make_labels = ["etads-labels", str(run / "prepared"), "--kind", "f1", *whole, *processes]
    Step(make_labels, labels, [run / "prepared" / "tokens", data]).run()
    documents = measure_text_lengths(text).pairs
    epoch = max(-(-documents // 64), 1)
    steps = max(2 * epoch, 120)
    every = str(-(-(steps // epoch) // 10))  # a small text takes many epochs, and is validated after about ten of them
    train(
        run,
        run / "prepared",
        [
            *("--criterion", "selection_nll", "--arch", "pooled_extractor", *whole, "--truncate-target", "1"),
            *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "3e-3"),
            *("--lr-scheduler", "polynomial_decay", "--warmup-updates", "50", "--total-num-update", str(steps)),
            *("--max-update", str(steps), "--clip-norm", "2", "--batch-size", "64"),
            *("--required-batch-size-multiple", "1", "--num-workers", "0", "--validate-interval", every),
            *("--save-interval", every, "--best-checkpoint-metric", "auc", "--maximize-best-checkpoint-metric"),
            *options,
        ],
    )
    probabilities = [run / f"probabilities.sentences.{split}" for split in splits]
    report = run / "report.json"
    select = ["etads-select", str(run), "--subset", *splits, "--report", str(report), "--max-tokens", "32000"]
    Step(select, [report, *probabilities], [run / "checkpoints" / "checkpoint_best.pt", data]).run()
    sources = [out / "text" / f"{split}.source" for split in splits]
    levels = [path.with_name(f"{path.name}.{SALIENCE}") for path in sources]
    targets = [out / "text" / path.name for split in splits for path in sorted(text.glob(f"{split}.target*"))]
    shorten = ["etads-shorten", str(text), str(out / "text"), "--run", str(run), "--words", str(words)]
    reads = [text, *probabilities, run / "prepared" / "prepare.json"]
    Step(shorten, [*sources, *levels, run / PICKING, *targets], reads).run()


@dataclass
class ShorteningOptions:
    """Options of ``scripts/shorten.sh``."""

    text: Path = option(None, "folder written by etads-corpus", metavar="DIR", required=True)
    out: Path = option(None, "output folder for text/ and extractor/", metavar="DIR", required=True)
    words: int = option(DEFAULT_WORDS, "maximum number of words in a shortened document")
    size: int = option(20000, "vocabulary size of the extractor", bounds=SIZE)
    text_words: str = option("ptb", "word tokenisation for the extractor", metavar="KIND")
    jobs: Optional[int] = option(None, "number of processes for data preparation (default: one per core)", bounds=SIZE)
    cpu: bool = option(False, "do not use a GPU")
    options: List[str] = argument("OPTION", "options of fairseq-train, given after --", nargs="*")


@options_command("shorten.sh", ShorteningOptions, description=__doc__)
def main(args: ShorteningOptions) -> None:
    """Run ``scripts/shorten.sh``."""
    check_word_budget(args.words)
    for split in ("train", "valid"):
        if not (args.text / f"{split}.source").is_file():
            raise InputError(f"--text {args.text}: no {split}.source in it; create it with etads-corpus")
    if args.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    options = [*(["--cpu"] if args.cpu else []), *args.options]
    shorten_documents(args.text, args.out, args.words, args.size, args.text_words, args.jobs, options)


if __name__ == "__main__":
    sys.exit(main())
