"""Choose a recipe for a data folder and this machine, and record it in RUN/recipe.json, without torch or fairseq.

The record contains the chosen options of fairseq-train, and decoding options that suit the data, so that a resumed run
uses the same settings on any machine.
"""

import argparse
import itertools
import os
import re
import subprocess
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Iterator, List, Optional

from ..data.preparation import read_preparation_settings
from ..data.run_record import RECIPE, RECORD, read_recipe
from ..platform.console import print_message
from ..platform.errors import InputError
from ..search.lengths import TextLengths
from ..text.json_files import read_json, write_json
from ..text.subwords import OPAQUE
from ..text.words import SENTENCE_MARK
from .recipes import (
    NAMES,
    SUITABLE,
    Machine,
    Recipe,
    TrainingDataSize,
    check_recipe_suits_architecture,
    choose_recipe_name,
    choose_vocabulary_size,
    make_recipe,
)

SAMPLE = 20_000
"""Maximum number of texts to measure in a file. The sample is evenly spaced."""

_GPU = re.compile(r"\s*(\d|GPU-|MIG-)")
"""Pattern for the beginning of a GPU's name in CUDA_VISIBLE_DEVICES."""


def measure_text_lengths(folder: Path, one_dictionary: bool = True, marks: bool = True) -> TrainingDataSize:
    """Measure text lengths in FOLDER/train.source and FOLDER/train.target, in tokens separated by spaces.

    Args:
        marks: whether sentence marks are counted as tokens.

    Raises:
        InputError: one of the files is missing or empty.
    """
    paths = [folder / f"train.{side}" for side in ("source", "target")]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    pairs = _count_lines(paths[0])
    if not pairs:
        raise InputError(f"{paths[0]}: it is empty")
    texts = [map(bytes.split, _sample_lines(path, pairs)) for path in paths]
    mark = SENTENCE_MARK.encode()
    documents, summaries = (
        TextLengths(len(text) - (not marks and text.count(mark)) for text in side) for side in texts
    )
    return TrainingDataSize(pairs, documents, summaries, one_dictionary)


def _count_lines(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _sample_lines(path: Path, lines: int) -> Iterator[bytes]:
    every = -(-lines // SAMPLE) or 1
    with open(path, "rb") as file:
        yield from (line for number, line in enumerate(file) if number % every == 0)


def detect_training_hardware(cpu: bool, processes: int = 1) -> Machine:
    """Return the number of cores or GPUs of this machine that a training run with ``processes`` processes can use.

    Args:
        cpu: whether to train only on the CPU, even if GPUs are available.
    """
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


def _was_started_without_recipe(args: argparse.Namespace) -> bool:
    """Return whether no recipe is requested, and training in RUN was started without a recipe."""
    # Earlier versions wrote started.txt. With a recipe, recipe.json is written before all of these files. A record
    # without checkpoints is ignored, because training may have failed immediately.
    begun = any((args.out / name).is_file() for name in ("started.txt", "finished.txt"))
    begun = begun or ((args.out / RECORD).is_file() and any((args.out / "checkpoints").glob("*.pt")))
    return args.recipe is None and begun and read_recipe(args.out) is None


def check_minutes(args: argparse.Namespace) -> None:
    """Raise InputError if a duration was given, but the recipe "paper", which ignores it, will be chosen.

    Args:
        args: options of ``etads-train``, also in the other functions.
    """
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


def choose_recipe(args: argparse.Namespace) -> Optional[Recipe]:
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
        return Recipe(
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
    recipe = make_recipe(name, data, machine, args.arch, args.given, args.minutes)
    words = data.pairs * (data.documents.compute_mean() + data.summaries.compute_mean())
    why = (
        ""
        if args.recipe
        else f", chosen for {data.pairs:,} pairs with {words / 1e6:.1f} million words in total and {machine.describe()}"
    )
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


def choose_prepare_options(args: argparse.Namespace) -> List[str]:
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
        return [
            word for option, (given, made) in wanted.items() if given is None and made for word in (option, str(made))
        ]
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
