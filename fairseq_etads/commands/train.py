"""The command ``etads-train`` (train): train a model from text or a table of pairs."""

import functools
import math
import os
import resource
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional

from ..data.labels import SALIENCE, check_word_budget
from ..files.inputs import is_read_once
from ..files.outputs import check_no_colon
from ..pipeline import training_settings
from ..pipeline.long_documents import plan_shortening, shorten_documents
from ..pipeline.steps import Step, run_command
from ..pipeline.training import train
from ..pipeline.training_settings import NAMES, get_option
from ..platform.command_options import SIZE, format_option_name, option, options_command
from ..platform.console import ForwardingParser, print_message
from ..platform.errors import InputError
from ..text.records import NO_QUOTES_HELP

DESCRIPTION = """\
Prepare parallel text, and train a model on it. To continue after an interruption, run the same command again.

  etads-train --text mine.jsonl --out runs/mine
  etads-train --text data/mine --out runs/mine --recipe base --minutes 30 -- --seed 2
  etads-train --text mine.jsonl --out runs/mine --long            for documents that are longer than a model's input

Then summarise with the run, or export a model folder:

  etads-export runs/mine model
"""
EPILOG = """\
A recipe chooses the model's size, the optimiser and its settings, the variants of the pointer and of focus-attention,
and the first word vectors. The command prints and stores them (DIR/recipe.json), together with limits for the length of
summaries, which are the defaults when the model summarises. Options that you give override the recipe. Options of
fairseq-train follow after --. The page etads docs long describes --long.

--recipe paper has the settings of the ETADS paper (etads docs etads), with a warm-up of a tenth of fewer than 80,000
steps. The other recipes are for Transformers trained from scratch. For other architectures, or if DIR contains a run
that was started without a recipe, the default is paper.

During training, the command shows steps, the remaining time, validations and warnings; DIR/train.log contains the
complete output, and etads-plot DIR draws its curves. For curves in a browser, give -- --tensorboard-logdir DIR/curves
or -- --wandb-project NAME; for summaries at each validation, give -- --validation-samples 3. The model is validated and
saved every 1,000 steps (-- --validate-interval-updates N) and at the end of each epoch; the last and the best
checkpoint are kept. Ctrl-C saves the current step. If the machine stops, at most ten minutes of training are lost
(-- --save-interval-minutes N).
"""
DECIDED = {"--save-dir": "--out", "--arch": "--arch before --"}
"""Options of fairseq-train that this command decides, and what to give instead."""
WARMUP = 8000
"""Warm-up steps of the paper's schedule, for 80,000 training steps or more."""


_text_option = functools.partial(
    option, needs=("--text",), without="without --text, because the data of --prepared is used unchanged"
)


@dataclass
class TrainOptions:
    """Options of ``etads-train``."""

    text: Path = option(
        None,
        "folder containing {train,valid,test}.{source,target} with one document or summary per line, or table of "
        "pairs (.jsonl, .csv, .tsv, .parquet), which is converted to such a folder, DIR/text",
        metavar="PATH",
    )
    out: Path = option(None, "output folder for checkpoints/ and prepared/", metavar="DIR", required=True)
    prepared: Path = option(
        None,
        "folder of the prepared data, which several models can share (default: in --out); without --text, the "
        "folder must already exist, as output of etads-prepare",
        metavar="DIR",
    )
    recipe: Optional[str] = option(
        None,
        "small (minutes on two cores), base (an hour), large (a GPU), or paper (the settings of ETADS) (default: "
        "chosen and printed according to the size of the data and the machine)",
        choices=NAMES,
    )
    minutes: Optional[float] = option(
        None, "train at most N minutes; recipes except paper adapt steps and learning rate", metavar="N", bounds=SIZE
    )
    long: bool = option(
        False,
        "for documents that are longer than the input of a model: first train an extractor, which picks the most "
        "probable sentences of each document",
        requires={"--text": "etads docs long has the commands for --prepared"},
    )
    words: Optional[int] = option(
        None,
        "with --long: maximum number of words to pick (default: 200)",
        needs=("--long",),
        without="without --long; the rules for splitting words are set by --text-words",
    )
    no_content: bool = option(
        False,
        "do not train a content model. All recipes except paper train this model at the end, in a minute or two. "
        "During decoding, it chooses among the hypotheses in the beam or, with --long, the sentences of summaries",
    )
    arch: str = option("etads", "architecture, as listed by etads-models", metavar="NAME")
    pointer: Optional[str] = option(
        None,
        "mechanism for copying document words, including unknown words (default: soft; paper: as in the architecture)",
        choices=("none", "soft", "switch"),
    )
    tokens: Optional[str] = _text_option(
        None, "type of tokens (default: word; large and paper: bpe)", choices=("bpe", "sentencepiece", "word")
    )
    size: Optional[int] = _text_option(
        None, "number of BPE merges, SentencePiece pieces or words (default: by the data; paper: 8000)", bounds=SIZE
    )
    keep_case: bool = _text_option(False, "preserve case instead of converting the text to lower case")
    text_words: Optional[str] = _text_option(
        None,
        "rules for splitting text into words, as in etads-prepare --words (default: moses; ptb for the extractor "
        "of --long)",
        metavar="KIND",
    )
    split: Optional[str] = _text_option(None, "proportions of the splits of a table (default: 90/5/5)", metavar="A/B/C")
    source_column: Optional[str] = _text_option(None, "column of a table that contains the source text", metavar="NAME")
    target_column: Optional[str] = _text_option(None, "column of a table that contains the target text", metavar="NAME")
    no_quotes: bool = _text_option(False, NO_QUOTES_HELP)
    truncate_source: Optional[int] = option(
        None, "maximum number of source tokens to read (default: according to the data; paper: 400)", bounds=SIZE
    )
    truncate_target: Optional[int] = option(
        None, "maximum number of target tokens to read (default: according to the data; paper: 100)", bounds=SIZE
    )
    max_tokens: Optional[int] = option(
        None,
        "maximum number of source tokens per batch (default: 4000; large: 16000; paper: 4096). The number of "
        "pairs in a batch is a multiple of 8, unless it is smaller; to allow other numbers, give -- "
        "--required-batch-size-multiple 1",
        bounds=SIZE,
    )
    max_update: Optional[int] = option(
        None, "number of training steps (default: what the time allows; paper: 200000)", bounds=SIZE
    )
    processes: Optional[int] = option(None, "train with N processes (default: one per GPU, or one)", bounds=SIZE)
    cpu: bool = option(False, "do not use a GPU")
    forwarded: List[str] = field(default_factory=list)
    given: List[str] = field(default_factory=list)
    """Options of fairseq-train: all after ``--``, and all that the user has given."""


def _check_options(args: TrainOptions) -> None:
    """Reject options that contradict one another, have no effect, or would fail only after the data is prepared."""
    check_word_budget(args.words)
    if args.text is None and args.prepared is None:
        raise InputError("--text is missing (or --prepared, with data that etads-prepare has made)")
    for side in ("source", "target"):
        limit = getattr(args, f"truncate_{side}")
        if args.max_tokens and limit and args.max_tokens < limit:
            raise InputError(f"--max-tokens {args.max_tokens} is below --truncate-{side} {limit}: raise it")
    check_no_colon("--out", args.out)
    check_no_colon("--prepared", args.prepared)
    table = _list_table_options(args)
    if args.text is not None and not args.text.exists():
        raise InputError(f"--text {args.text}: no such file or folder")
    if args.text is not None and is_read_once(args.text):
        raise InputError(f"--text {args.text}: is not a file; training is resumed, so write the input to a file first")
    if table and args.text.is_dir():
        raise InputError(f"{' '.join(table[:2])}: needs a table, and --text {args.text} is not one")
    for name, instead in DECIDED.items():
        if get_option(args.forwarded, name) is not None:
            raise InputError(f"{name} after --: is decided by etads-train; give {instead}")


def _list_words(args: TrainOptions, *names: str) -> List[str]:
    """Return the options in ``names`` that the user has given, as words of a command."""
    given = [name for name in names if getattr(args, name) is not None]
    return [str(word) for name in given for word in (format_option_name(name), getattr(args, name))]


def _list_table_options(args: TrainOptions) -> List[str]:
    return _list_words(args, "split", "source_column", "target_column") + ["--no-quotes"] * args.no_quotes


def _list_given_options(args: TrainOptions, *names: str) -> List[str]:
    """Return the options of fairseq-train that the user has given: those in ``names``, and those after ``--``."""
    given = _list_words(args, *names) + (
        ["--source-factors", SALIENCE] if args.long else []
    )  # the user's own come later
    given += ["--distributed-world-size", str(args.processes)] if args.processes else []
    return [*given, *(["--cpu"] if args.cpu and "--cpu" not in args.forwarded else []), *args.forwarded]


def _train_content_model(what: str, run: Path, reads: List[Path], *options: str) -> None:
    content = run / "content.npz"
    print_message(f"{what}: {content}")
    Step(["etads-content", str(run), *options], [content], reads).run()


def _shorten(args: TrainOptions, text: Path) -> Path:
    """Train an extractor and its content model, and return the folder with the shortened text."""
    out = args.out / "shortened"
    extractor = out / "extractor"
    words = plan_shortening(text, args.arch, args.words, extractor, not args.no_content)
    print_message(f"sentence extractor: {extractor}")
    options = ["--cpu"] if args.cpu else []
    if (seed := get_option(args.forwarded, "--seed")) is not None:
        options += ["--seed", seed]
    shorten_documents(text, out, words, text_words=args.text_words or "ptb", options=options)
    if not args.no_content:
        probabilities = [extractor / f"probabilities.sentences.{split}" for split in ("train", "valid")]
        reads = [extractor / "prepared" / "bin", *probabilities]
        _train_content_model("content model of the sentences to choose", extractor, reads)
    return out / "text"


def _prepare(args: TrainOptions) -> None:
    """Tokenise and binarise the text."""
    chosen: List[str] = []
    if args.recipe != "paper" and (args.text / "train.source").is_file():
        chosen = training_settings.choose_prepare_options(args)
    run_command(
        [
            *("etads-prepare", str(args.text), str(args.prepared), "--tokens", args.tokens or "bpe"),
            *("--size", str(args.size or 8000), *chosen),
            *(["--words", args.text_words] if args.text_words else []),
            *(["--keep-case"] if args.keep_case else []),
            *(["--factors", SALIENCE] if args.long else []),
        ]
    )


def make_paper_options(args: TrainOptions) -> List[str]:
    """Return the options of fairseq-train for the recipe "paper", followed by the options that the user has given."""
    steps = args.max_update or 200_000
    warmup = min(WARMUP, -(-steps // 10))
    if warmup < WARMUP and all(
        get_option(args.forwarded, name) is None for name in ("--warmup-updates", "--lr-scheduler")
    ):
        print_message(f"--max-update {steps}: warming up for {warmup} steps instead of {WARMUP:,}")
    return [
        *("--arch", args.arch, *(["--pointer", args.pointer] if args.pointer else [])),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.998)", "--adam-eps", "1e-8", "--lr", "4.94e-4"),
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", str(warmup), "--clip-norm", "2"),
        *("--max-tokens", str(args.max_tokens or 4096), "--max-update", str(steps)),
        *_list_given_options(args, "truncate_source", "truncate_target"),
    ]


@options_command(
    "etads-train",
    TrainOptions,
    usage="etads-train --text PATH --out DIR [options] [-- options of fairseq-train]",
    description=DESCRIPTION,
    epilog=EPILOG,
    make_parser=ForwardingParser,
)
def main(args: TrainOptions) -> None:
    """Run the command ``etads-train``."""
    _check_options(args)
    if args.cpu or "--cpu" in args.forwarded:
        args.cpu = True
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with --cpu alone, parts of fairseq still use GPUs
    prepared = args.prepared = args.prepared or args.out / "prepared"
    args.given = _list_given_options(args, "pointer", "max_tokens", "max_update", "truncate_source", "truncate_target")
    training_settings.check_minutes(args)
    args.out.mkdir(parents=True, exist_ok=True)
    text = args.text
    if text is not None and text.is_file():
        table = ["etads-corpus", "table", "--input", str(text), *_list_table_options(args), "--out"]
        text = args.out / "text"
        print_message(f"{shlex.join([*table, str(text)])}; for other options, run it and give --text {text}")
        run_command([*table, str(text)])
    if args.long:
        text = _shorten(args, text)
    if text is None:
        if not (prepared / "bin" / "complete").is_file():
            raise InputError(f"--prepared {prepared}: no prepared data there; run etads-prepare, or give --text")
    else:
        args.text = text
        _prepare(args)
    recipe = training_settings.choose_settings(args)
    for line in recipe.says if recipe else ():
        print_message(line)
    options = ["--arch", args.arch, *recipe.train, *args.given] if recipe else make_paper_options(args)
    train(args.out, prepared, options, math.ceil(recipe.minutes) + 1 if recipe else None)
    if recipe and not args.no_content and not args.long and training_settings.can_have_content_model(prepared):
        what = "content model, by which decoding chooses among the hypotheses of the beam"
        reads = [prepared / "bin", args.out / "checkpoints" / "checkpoint_best.pt"]
        _train_content_model(what, args.out, reads, "--prepared", str(prepared))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print_message(f"{sum(each.ru_utime + each.ru_stime for each in used):.0f} s of processor time")
