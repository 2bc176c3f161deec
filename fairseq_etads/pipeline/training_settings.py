"""Settings of a training run, for ``etads-train --recipe``: named sizes, adapted to data, machine and training time.

The chosen options of fairseq-train, and decoding options that suit the data, are recorded in RUN/recipe.json, so that a
resumed run uses the same settings on any machine. The result of :func:`make_settings` depends only on its arguments.
This module does not import torch or fairseq.

docs/experiments.md contains the measurements on which these settings are based. If the number of epochs is too small
for texts to be memorised, Muon's learning rate is 6e-3 at an embedding size of 128, and dropout is not used. Otherwise,
the learning rate is halved, and dropout is used. The centres of focus-attention are relative to the query, and most of
its initial scopes are narrow. The pointer favours the continuation of a copied phrase, and the model also reads the
neighbours of each word. Word embeddings and the output bias are initialised from the training text. The settings of
``large`` extend the same rules to the model sizes in the paper, but they have not been measured.
"""

import itertools
import math
import os
import re
import subprocess
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..data.labels import SALIENCE
from ..data.preparation import read_preparation_settings
from ..data.run_record import RECIPE, RECORD, read_recipe
from ..files.inputs import read_json
from ..files.outputs import write_json
from ..platform.console import print_message
from ..platform.errors import InputError
from ..search.lengths import TextLengths, choose_length_bounds
from ..text.subwords import OPAQUE
from ..text.words import SENTENCE_MARK

NAMES = ("small", "base", "large", "paper")
SUITABLE = (
    *("etads", "etads_basic", "etads_focus", "etads_saliency"),
    *("aggregation_transformer", "es_transformer", "gated_es_transformer"),
)
"""Architectures that support recipes other than "paper".

These are Transformers that are trained from scratch.
"""
_WITH_FOCUS = ("etads", "etads_focus")

FEW_WORDS, MANY_WORDS = 3_000_000, 20_000_000
"""Numbers of words in the training text that determine the default recipe.

On a CPU, the default is "small" for fewer words than the first number, and "base" otherwise. On a GPU, the default is
"base" for fewer words than the second number, and "large" otherwise.
"""
CORE_SPEED, GPU_SPEED = 28e9, 5e12
"""Floating-point operations per second during training, on one core and on one GPU. The value for a GPU is a guess."""
SOME_EPOCHS = 3
"""Number of epochs below which texts are not memorised, so that more steps improve results more than larger batches."""
FILLED = 0.88
"""Proportion of real tokens, as opposed to padding, in a batch of documents of similar length."""
SAMPLE = 20_000
"""Maximum number of texts to measure in a file. The sample is evenly spaced."""

_GPU = re.compile(r"\s*(\d|GPU-|MIG-)")
"""Pattern for the beginning of a GPU's name in CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True)
class TrainingDataSize:
    """Properties of the training data."""

    pairs: int  # number of document-summary pairs
    documents: TextLengths  # distribution of the lengths of documents
    summaries: TextLengths  # distribution of the lengths of summaries
    one_dictionary: bool = True  # whether documents and summaries share one dictionary

    @property
    def words(self) -> float:
        """Return the number of words in all documents and summaries."""
        return self.pairs * (self.documents.compute_mean() + self.summaries.compute_mean())


@dataclass(frozen=True)
class Machine:
    """CPU cores or GPUs that are available for training."""

    cores: int
    gpus: int = 0

    @property
    def speed(self) -> float:
        """Return the number of floating-point operations per second during training.

        The speed of a CPU increases less than proportionally to the number of cores.
        """
        return GPU_SPEED * self.gpus if self.gpus else CORE_SPEED * self.cores**0.85

    def describe(self) -> str:
        count, name = (self.gpus, "GPU") if self.gpus else (self.cores, "core")
        return f"{count} {name}{'s' if count != 1 else ''}"


@dataclass(frozen=True)
class RecipeSize:
    """Model size and limits of a named recipe.

    If the number of epochs is small, the learning rate is ``rate``, and batches have half of ``max_tokens``. Otherwise,
    they have ``max_tokens``, and the learning rate is half of ``rate``.
    """

    layers: int  # number of layers in the encoder and in the decoder
    width: int  # size of the word embeddings
    heads: int  # number of attention heads
    minutes: float  # maximum duration of training
    core_minutes: float  # maximum on one core, which more cores divide by their speed-up, or 0 to use ``minutes``
    most_epochs: float  # maximum number of epochs
    truncation: Tuple[int, int, int]  # per cent of documents to read whole, most tokens of documents, of summaries
    max_tokens: int  # maximum number of source tokens per batch
    rate: float  # learning rate of Muon
    smoothing: float  # amount of label smoothing


SIZES = {
    "small": RecipeSize(2, 128, 4, 0, 9, 6, (50, 200, 130), 4000, 6e-3, 0),
    "base": RecipeSize(2, 192, 4, 60, 0, 12, (75, 400, 200), 4000, 4e-3, 0),
    "large": RecipeSize(4, 512, 8, 12 * 60, 0, 20, (90, 800, 400), 16000, 1.5e-3, 0.1),
}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings that were chosen for a training run, and its duration."""

    name: str  # of the recipe, one of ``NAMES`` except "paper"
    train: List[str]  # command-line options of fairseq-train
    decoding: Dict[str, int]  # values of decoding options by their names
    steps: int
    epochs: float
    minutes: float
    says: List[str] = field(default_factory=list)  # lines of text that explain the choice to the user


def choose_recipe_name(data: TrainingDataSize, machine: Machine, arch: str) -> str:
    """Return the name of the recipe that suits the amount of text and the machine."""
    if arch not in SUITABLE:
        return "paper"
    if machine.gpus:
        return "large" if data.words >= MANY_WORDS else "base"
    return "small" if data.words < FEW_WORDS else "base"


def check_recipe_suits_architecture(name: str, arch: str) -> None:
    """Raise InputError if the recipe is not available for the architecture."""
    if name != "paper" and arch not in SUITABLE:
        raise InputError(
            f"--recipe {name}: works only with --arch {', '.join(SUITABLE)}; choose --recipe paper for {arch}"
        )


def choose_vocabulary_size(data: TrainingDataSize) -> int:
    """Return the number of words that a model can learn well from the summaries. All other words are copied.

    If the summaries contain a total of a hundred thousand words, a model can learn about a thousand words well. The
    result is proportional to the total raised to the power of 0.65.
    """
    words = data.pairs * data.summaries.compute_mean()
    size = 1000 * (words / 91_000) ** 0.65
    step = 500 if size >= 1000 else 100
    return min(max(round(size / step) * step, 500), 30_000)


def choose_dropout(epochs: float) -> float:
    """Return the dropout probability for a number of epochs.

    The probability is 0 for fewer than three epochs. From three epochs, it increases from 0.1 to at most 0.3.
    """
    return 0.0 if epochs < SOME_EPOCHS else round(min(0.3, 0.1 + 0.02 * (epochs - 3)), 2)


def make_settings(
    name: str,
    data: TrainingDataSize,
    machine: Machine,
    arch: str,
    given: Sequence[str] = (),
    minutes: Optional[float] = None,
) -> TrainingSettings:
    """Choose the settings of a training run according to a recipe, "small", "base" or "large".

    Options of fairseq-train that are ``given`` override those of the recipe, of which others that depend on them are
    adapted or omitted. ``minutes`` is the maximum duration, or None for that of the recipe. Raises InputError if the
    recipe is not available for this architecture.
    """
    check_recipe_suits_architecture(name, arch)
    size, options = SIZES[name], _UserOptions(given)
    share, longest_document, longest_summary = size.truncation
    if options.reads_picked_sentences():
        share, longest_document = 100, data.documents.get_percentile(100)  # the model reads all selected sentences
    most = min(data.documents.get_percentile(share), longest_document), data.summaries.get_percentile(99)
    cut = (
        options.get_number("--truncate-source", _round_up_length(most[0])),
        options.get_number("--truncate-target", _round_up_length(min(most[1], longest_summary))),
    )
    read = data.documents.compute_mean(cut[0]), data.summaries.compute_mean(cut[1])
    workers = options.get_number("--distributed-world-size", max(machine.gpus, 1))
    if machine.gpus:
        machine = replace(machine, gpus=workers)  # each worker uses one GPU, possibly on another machine
    if minutes is None:
        minutes = size.core_minutes / (machine.speed / CORE_SPEED) if size.core_minutes else size.minutes
    batches = workers * options.get_update_frequency()
    plan = _plan_training(size, size.max_tokens, batches, data, machine, options, read, minutes)
    if plan.epochs < SOME_EPOCHS:
        plan = _plan_training(size, size.max_tokens // 2, batches, data, machine, options, read, minutes)
    steps, epochs = plan.steps, plan.epochs
    train = [
        *_make_model_options(size, arch, data, options),
        *_make_optimiser_options(size, arch, steps, epochs, options),
        *([] if machine.gpus else ["--num-workers", "0"]),
        *("--max-tokens", str(plan.max_tokens), "--max-update", str(steps)),
        *("--truncate-source", str(cut[0]), "--truncate-target", str(cut[1])),
    ]
    lengths = choose_length_bounds(data.summaries.get_percentiles(), cut[1])
    decoding = {**lengths, "no_repeat_ngram_size": 2 if data.summaries.get_percentile(50) < 15 else 3}
    found = TrainingSettings(name, train, decoding, steps, epochs, plan.minutes)
    found.says.extend(_explain_recipe(found, size, machine, data, plan, options))
    if not options.reads_picked_sentences() and data.documents.get_percentile(50) > max(cut[0], longest_document):
        found.says.append(
            f"half of the documents have more than {data.documents.get_percentile(50):,} tokens, and their ends are not"
            " read; with --long, documents are read whole"
        )
    return found


class _TrainingPlan(NamedTuple):
    """Batch size and duration of a training run."""

    max_tokens: int  # maximum number of source tokens in a batch
    pairs: float  # mean number of pairs in a batch
    batches: int  # number of batches in a step
    steps: int
    epochs: float
    minutes: float


def _plan_training(
    size: RecipeSize,
    max_tokens: int,
    batches: int,
    data: TrainingDataSize,
    machine: Machine,
    given: "_UserOptions",
    read: Tuple[float, float],
    minutes: float,
) -> _TrainingPlan:
    """Plan the steps that a time limit allows; ``batches`` and ``machine`` are those of all workers together."""
    max_tokens = given.get_number("--max-tokens", max_tokens)
    pairs = max(max_tokens * FILLED / (max(read) + 1), 1)
    batches_of_epoch = steps_of_epoch = max(data.pairs / pairs, 1)
    if batches > 1:
        steps_of_epoch = math.ceil(batches_of_epoch / batches)  # the last step of an epoch has the remaining batches
    pairs_of_step = pairs * batches_of_epoch / steps_of_epoch
    seconds = (
        _count_floating_point_operations(size, given, read, pairs_of_step, choose_vocabulary_size(data)) / machine.speed
    )
    steps = given.get_number("--max-update", 0)
    if not steps:
        most_epochs = given.get_number("--max-epoch", 0) or size.most_epochs
        steps = max(int(min(minutes * 60 / seconds, most_epochs * steps_of_epoch)), 1)
    return _TrainingPlan(max_tokens, pairs, batches, steps, steps / steps_of_epoch, steps * seconds / 60)


def read_options(words: Sequence[str]) -> Dict[str, List[str]]:
    """Map the options on a command line to their last values, as argparse does, and "" to the words before them."""
    found: Dict[str, List[str]] = {"": []}
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            option = name
            found[option] = [value] if equals else []
        else:
            found[option].append(word)
    return found


class _UserOptions(Dict[str, str]):
    """Options on a command line with their values."""

    def __init__(self, words: Sequence[str]):
        super().__init__({name: " ".join(values) for name, values in read_options(words).items()})

    def reads_picked_sentences(self) -> bool:
        """Return whether the model reads sentences selected by an extractor, together with their salience levels."""
        factors = self.get("--source-factors", "none").split(",")
        return any(name.partition(":")[0].strip() == SALIENCE for name in factors)

    def get_number(self, name: str, default: int) -> int:
        value = self.get(name, "")
        return int(value) if value.isdecimal() else default

    def get_update_frequency(self) -> int:
        """Return the number of batches that each worker processes per step.

        If the user has given several numbers, the last one is returned, because it applies to most epochs.
        """
        numbers = re.findall(r"\d+", self.get("--update-freq", "1"))
        return max(int(numbers[-1]), 1) if numbers else 1


def get_option(words: Sequence[str], name: str) -> Optional[str]:
    """Return the last value of an option on a command line, or None."""
    return _UserOptions(words).get(name)


def _make_model_options(size: RecipeSize, arch: str, data: TrainingDataSize, given: _UserOptions) -> List[str]:
    """Return the model options. Options that have no effect or conflict with the user's options are omitted."""
    width, layers, heads = str(size.width), str(size.layers), str(size.heads)
    # The decoder has the same layer sizes as the encoder, even if the user has specified them.
    found = ["--encoder-embed-dim", width, "--encoder-ffn-embed-dim", str(4 * size.width)]
    for side in ("encoder", "decoder"):
        found += [f"--{side}-layers", layers, f"--{side}-attention-heads", heads, f"--no-{side}-learned-pos"]
    pointer = given.get("--pointer", "soft" if data.one_dictionary else "none")
    found += ["--pointer", pointer]
    if pointer != "none":
        found.append("--pointer-continue")
    if not data.one_dictionary:
        found.append("--no-share-all-embeddings")
    if arch in _WITH_FOCUS and given.get("--focus-layers", "all") != "none":
        count = given.get_number("--encoder-attention-heads", size.heads)
        narrow = ["2"] * min(count * 3 // 4, count - 1)
        found += ["--focus-center", "relative", "--focus-initial-scope", ",".join([*narrow, "half"])]
    if "--no-token-positional-embeddings" not in given:
        found += ["--encoder-neighbours", "1", "--decoder-neighbours", "2"]
    if not any(option in given for option in ("--no-output-bias", "--adaptive-softmax-cutoff")):
        found += ["--output-bias", "--output-bias-init", "frequencies"]
    if not any(option in given for option in ("--encoder-embed-path", "--decoder-embed-path")):
        found.append("--embed-from-text")
    return found


def _make_optimiser_options(size: RecipeSize, arch: str, steps: int, epochs: float, given: _UserOptions) -> List[str]:
    """Return the training options that are valid with the user's optimiser, schedule and criterion."""
    optimiser = given.get("--optimizer", "muon")
    rate = size.rate * (1 if epochs < SOME_EPOCHS else 0.5) * (1 if optimiser == "muon" else 0.25)
    found = [
        *("--optimizer", optimiser, "--lr", f"{rate:g}", "--clip-norm", "2"),
        *("--dropout", f"{choose_dropout(epochs):g}"),
    ]
    if optimiser in ("muon", "adam"):
        found += ["--adam-betas", "(0.9, 0.98)"]
    if optimiser == "muon" and ("--fp16" in given or "--bf16" in given):
        found.append("--fp16-no-flatten-grads")  # Muon requires matrices, which fairseq would flatten
    if arch == "aggregation_transformer":  # its dropout within attention would make a step twice as long on a CPU
        found += ["--attention-dropout", "0", "--activation-dropout", "0"]
    schedule = given.get("--lr-scheduler", "polynomial_decay")
    found += ["--lr-scheduler", schedule]
    if schedule in ("polynomial_decay", "inverse_sqrt"):
        found += ["--warmup-updates", str(min(500, -(-steps // 9)))]
    if schedule == "polynomial_decay":
        found += ["--total-num-update", str(steps)]
    if given.get("--criterion", "summarization_nll") == "summarization_nll":
        found += ["--label-smoothing", f"{size.smoothing:g}"]
    return found


def _count_floating_point_operations(
    size: RecipeSize, given: _UserOptions, read: Tuple[float, float], pairs: float, known: int
) -> float:
    """Count the floating-point operations of a step: six per weight and token, plus those in attention."""
    total, width, wide = 0.0, size.width, 4 * size.width
    for side, length, of_layer in (("encoder", read[0], 4 + 2), ("decoder", read[1], 8 + 2)):
        width = given.get_number(f"--{side}-embed-dim", width)  # the decoder has the same size as the encoder
        wide = given.get_number(f"--{side}-ffn-embed-dim", wide)
        layers = given.get_number(f"--{side}-layers", size.layers)
        weights = layers * (of_layer * width**2 + 2 * width * wide)
        attended = read[0] + (read[1] if side == "decoder" else 0)
        total += length * (6 * weights + 12 * layers * width * attended)
        if side == "decoder":
            total += 6 * length * width * known
    return total * pairs


def _round_up_length(length: int) -> int:
    """Round a length up to a multiple of ten."""
    return max(-(-length // 10) * 10, 10)


def _explain_recipe(
    recipe: TrainingSettings,
    size: RecipeSize,
    machine: Machine,
    data: TrainingDataSize,
    plan: _TrainingPlan,
    given: _UserOptions,
) -> List[str]:
    """Return lines of text that explain the choice to the user."""
    value = _UserOptions(recipe.train)
    chosen = {**value, **given}
    low, median, high = map(data.summaries.get_percentile, (10, 50, 90))
    minutes = recipe.minutes
    time = f"{minutes:.0f} minutes" if 2 <= minutes < 90 else f"{minutes * 60:.0f} seconds"
    time = f"{minutes / 60:.1f} hours" if minutes >= 90 else time
    layers = [given.get_number(f"--{side}-layers", size.layers) for side in ("encoder", "decoder")]
    pairs = f"{round(plan.pairs / 8) * 8} pairs (in multiples of 8)" if plan.pairs >= 8 else f"{plan.pairs:.0f} pairs"
    return [
        f"{layers[0]}+{layers[1]} layers of width {given.get_number('--encoder-embed-dim', size.width)}; "
        f"{chosen['--optimizer']}, rate {chosen['--lr']}, decaying to 0 over {recipe.steps:,} steps "
        f"({recipe.epochs:.1f} epochs); dropout {chosen['--dropout']}",
        f"batches of up to {value['--max-tokens']} source tokens, about {pairs}"
        + (f"; {plan.batches:,} batches in a step" if plan.batches > 1 else ""),
        f"documents are read up to {value['--truncate-source']} tokens, summaries up to {value['--truncate-target']}",
        f"summaries will have {recipe.decoding['min_len']} to {recipe.decoding['max_len']} tokens: training summaries "
        f"have {median} (median), {low} to {high} (10 % to 90 %)",
        f"training will take about {time} on {machine.describe()}"
        + (" (a guess; this speed was not measured)" if machine.gpus else " without other work"),
    ]


def measure_text_lengths(folder: Path, one_dictionary: bool = True, marks: bool = True) -> TrainingDataSize:
    """Measure text lengths in FOLDER/train.source and FOLDER/train.target, in tokens separated by spaces.

    ``marks`` tells whether sentence marks count as tokens. Raises InputError if one of the files is missing or empty.
    """
    paths = [folder / f"train.{side}" for side in ("source", "target")]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    with open(paths[0], "rb") as file:
        pairs = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    if not pairs:
        raise InputError(f"{paths[0]}: it is empty")
    lengths, mark = [], SENTENCE_MARK.encode()
    for path in paths:
        with open(path, "rb") as file:
            texts = map(bytes.split, itertools.islice(file, 0, None, -(-pairs // SAMPLE)))
            lengths.append(TextLengths(len(text) - (not marks and text.count(mark)) for text in texts))
    documents, summaries = lengths
    return TrainingDataSize(pairs, documents, summaries, one_dictionary)


def detect_training_hardware(cpu: bool, processes: int = 1) -> Machine:
    """Return the cores or, unless ``cpu``, the GPUs of this machine that a training with ``processes`` can use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", "")
    cores = min(available, int(threads) * processes) if threads.isdecimal() and int(threads) else available
    return Machine(max(cores, 1), 0 if cpu else _count_gpus())


def _count_gpus() -> int:
    """Return the number of GPUs that the driver reports. torch is not used, because importing it takes seconds."""
    if metadata.version("torch").endswith("+cpu"):
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # CUDA ignores the first name that does not identify a GPU, such as -1, and all names after it.
        return len(list(itertools.takewhile(_GPU.match, visible.split(","))))
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def _was_started_without_recipe(args: Any) -> bool:
    """Return whether no recipe is requested, and training in RUN was started without a recipe."""
    # Earlier versions wrote started.txt. With a recipe, recipe.json is written before all of these files. A record
    # without checkpoints is ignored, because training may have failed immediately.
    begun = any((args.out / name).is_file() for name in ("started.txt", "finished.txt"))
    begun = begun or ((args.out / RECORD).is_file() and any((args.out / "checkpoints").glob("*.pt")))
    return args.recipe is None and begun and read_recipe(args.out) is None


def check_minutes(args: Any) -> None:
    """Raise InputError if etads-train has --minutes, but will choose the recipe "paper", which ignores a duration."""
    if args.minutes is None or args.recipe not in (None, "paper"):
        return
    advice = "leave it out"
    if args.recipe == "paper":
        why, advice = "", "choose another recipe"
    elif _was_started_without_recipe(args):
        why = f", with which {args.out} was started"
    elif args.arch not in SUITABLE:
        why = f", which is used for --arch {args.arch}"
    else:
        return
    raise InputError(f"--minutes {args.minutes:g} has no effect with --recipe paper{why}: {advice}")


def choose_settings(args: Any) -> Optional[TrainingSettings]:
    """Choose the recipe requested by ``args``, and record it in RUN. Returns None for the recipe "paper"."""
    record = read_recipe(args.out)
    if _was_started_without_recipe(args):
        print_message(f"{args.out} was started without a recipe: continuing with the paper's settings (--recipe paper)")
        return None
    if args.recipe == "paper":
        return None
    before = record["asked"] if record and isinstance(record.get("asked"), dict) else {}
    if args.recipe is None:
        args.recipe, args.minutes = before.get("recipe"), args.minutes or before.get("minutes")
    asked = {"recipe": args.recipe, "arch": args.arch, "minutes": args.minutes, "given": args.given}
    if record and before == asked:
        return TrainingSettings(
            **{name: record[name] for name in ("train", "decoding", "steps", "epochs", "minutes", "says")},
            name=record["recipe"],
        )
    check_recipe_suits_architecture(args.recipe or "paper", args.arch)
    settings = read_preparation_settings(args.prepared, "--prepared")
    data = measure_text_lengths(args.prepared / "tokens", not settings.separate)
    machine = detect_training_hardware(args.cpu, args.processes or 1)
    name = args.recipe or choose_recipe_name(data, machine, args.arch)
    if name == "paper":
        return None
    recipe = make_settings(name, data, machine, args.arch, args.given, args.minutes)
    text = f"{data.pairs:,} pairs with {data.words / 1e6:.1f} million words in total"
    why = "" if args.recipe else f", chosen for {text} and {machine.describe()}"
    recipe.says.insert(
        0, f"recipe {name}{why} (--recipe {', '.join(NAMES[:-1])} or {NAMES[-1]}; every option overrides)"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    sides = {"documents": data.documents, "summaries": data.summaries}
    tokens = {side: of.get_percentiles() for side, of in sides.items()}
    content = {**asdict(recipe), "recipe": name, "asked": asked, "pairs": data.pairs, "percentiles of tokens": tokens}
    del content["name"]
    write_json(args.out / RECIPE, content)
    return recipe


def choose_prepare_options(args: Any) -> List[str]:
    """Return options for etads-prepare, without the options that the user has given.

    If etads-prepare has already been run, its options are used again. Otherwise, the options split the text
    into whole words, with a vocabulary of as many words as a model can learn from the text. The recipe "large" uses the
    default tokenisation, and the recipe "paper" uses no options.
    """
    if args.recipe == "paper" or _was_started_without_recipe(args):
        return []
    check_recipe_suits_architecture(args.recipe or "paper", args.arch)
    before = args.prepared / "prepare.json"
    if before.is_file():
        settings = read_json(before, "give another --out or delete it").get("settings", {})
        wanted = {"--tokens": (args.tokens, settings.get("tokens")), "--size": (args.size, settings.get("size"))}
        missing = [(option, str(made)) for option, (given, made) in wanted.items() if given is None and made]
        return [*itertools.chain(*missing)]
    data = measure_text_lengths(args.text)
    name = args.recipe or choose_recipe_name(data, detect_training_hardware(args.cpu), args.arch)
    if name == "paper":
        return []
    found: List[str] = []
    if args.tokens is None and name != "large":
        found += ["--tokens", "word"]
    if args.size is None and (args.tokens or found) and "bpe" not in (args.tokens or ""):
        found += ["--size", str(choose_vocabulary_size(data))]
    return found


def can_have_content_model(prepared: Path) -> bool:
    """Return whether the data consists of words, or of subwords that can be joined into words."""
    return read_preparation_settings(prepared, "--prepared").tokens not in OPAQUE
