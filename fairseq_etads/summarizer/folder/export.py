"""Create a model folder from a checkpoint and its training data. The command ``etads-export`` uses this module."""

import contextlib
import platform
import shutil
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

from fairseq.data import Dictionary
from torch import Tensor

from ...data.labels import SALIENCE
from ...data.pairs import FILE as FACTORS
from ...data.weights_file import FLOATS, write_weights
from ...files import SIDES
from ...files.checksums import NAME as CHECKSUMS
from ...files.checksums import Checksums
from ...files.outputs import make_output_folder
from ...layers.decoder_output import get_pointer
from ...platform.errors import InputError
from ...search.options import FOLDER_DEFAULTS, combine_options, get_value
from ...version import get_version
from ...vocabulary.dictionary import count_known_words
from ...vocabulary.shortlist import read_shortlist
from . import loading
from .config import CARD, CONFIG, DICTIONARIES, EXTRACTOR, SHORTLIST, WEIGHTS, FolderConfig
from .loading import (
    TrainedModel,
    choose_decoding_defaults,
    list_needed_files,
    load_folder,
    load_trained_model,
)
from .model_card import NO_METADATA, ModelCardMetadata, make_model_card
from .run_files import RunFiles

PACKAGES: Tuple[str, ...] = ("torch", "fairseq_fixed", "fairseq", "safetensors")
PACKAGES += ("sacremoses", "subword-nmt", "sentencepiece", "tokenizers")


def export_folder(
    source: RunFiles,
    folder: Path,
    decoding: Dict[str, Any],
    dtype: str = "fp32",
    card: ModelCardMetadata = NO_METADATA,
) -> Tuple[FolderConfig, int]:
    """Create a model folder, which must not exist or be empty, from a checkpoint and its training data.

    The folder receives its final name only after it is complete and has been loaded as a test. Returns the contents of
    config.json, and the number of parameters. Raises InputError if the folder is not empty, a decoding option has no
    effect, or the checkpoint is damaged, belongs to other data, or contains a model that cannot be exported.

    Args:
        decoding: decoding defaults that differ from the usual defaults. The usual values of ``min_len`` and ``max_len``
            depend on the lengths of the training summaries.
        dtype: data type of the stored weights, "fp32" or "fp16".
        card: information for README.md.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"FOLDER {folder} exists: name another one, or delete it")
    trained = load_trained_model(source)
    model, _, task, config = trained
    if source.extracts and source.extractor is not None:
        source = source._replace(extra_files=source.extractor.extra_files)
    if source.extractor is None and SALIENCE in getattr(model, "factors", ()):
        raise InputError(
            f"--checkpoint {source.checkpoint}: the model reads the source factor {SALIENCE}, which an extractor "
            "computes from raw text: name its run with --extractor"
        )
    decoding = choose_decoding_defaults(source, task, decoding)
    # Every model folder stores max_len, so do not report an error if --exact-length makes max_len ineffective.
    usual = {**FOLDER_DEFAULTS, "max_len": get_value("max_len", decoding)}
    combine_options(usual, decoding, get_pointer(model) is not None)
    if SHORTLIST in source.extra_files:
        read_shortlist(source.extra_files[SHORTLIST], task.source_dictionary, task.target_dictionary)
    config = replace(config, decoding=decoding)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    with make_output_folder(folder, "FOLDER") as partial:
        inside = []
        if source.extractor is not None and not source.extracts:
            extractor = load_trained_model(source.extractor, is_extractor=True)
            (partial / EXTRACTOR).mkdir()
            _write_files(partial / EXTRACTOR, source.extractor, extractor, extractor.config, dtype, extracts=True)
            inside.append(f"{EXTRACTOR}/{CHECKSUMS}")
        config = _write_files(partial, source, trained, config, dtype, source.extracts, inside)
        words = {side: count_known_words(getattr(task, f"{side}_dictionary")) for side in SIDES}
        (partial / CARD).write_bytes(make_model_card(config, parameters, words, card).encode("utf-8", "replace"))
        load_folder(partial)
    return config, parameters


def _write_files(
    folder: Path,
    source: RunFiles,
    trained: TrainedModel,
    config: FolderConfig,
    dtype: str,
    extracts: bool,
    inside: Sequence[str] = (),
) -> FolderConfig:
    """Write all files except the model card; ``inside`` lists what a subfolder contains. Returns the configuration."""
    model, cfg, task, _ = trained
    try:
        options = loading.to_plain_options(config.architecture, cfg.model, extracts)
    except InputError as error:
        raise InputError(f"--checkpoint {source.checkpoint}: cannot be exported: {error}") from None
    tensors, shared = convert_weights_for_storage(model.state_dict(), dtype)
    weights = {"dtype": dtype, "shared": shared}
    config = replace(config, model=options, weights=weights, made_by=get_versions())
    (folder / CONFIG).write_bytes(config.to_json().encode())
    write_weights(folder / WEIGHTS, tensors)
    # The dictionaries are written without words of training documents that are only copied.
    known = count_known_words(task.source_dictionary), count_known_words(task.target_dictionary)
    is_shared = task.target_dictionary.symbols == task.source_dictionary.symbols
    _write_dictionary(folder / DICTIONARIES[0], task.source_dictionary, known[0], known[0])
    _write_dictionary(folder / DICTIONARIES[1], task.target_dictionary, known[0] if is_shared else known[1], known[1])
    files = dict(source.extra_files)
    for option, name in config.subword_files.items():
        files[name] = source.get_subword_file(option)
    if config.task["factor_dictionaries"]:
        names = [FACTORS, *(f"dict.factor-{name}.txt" for name in config.task["factor_dictionaries"])]
        files.update({name: source.data / name for name in names})
    for name, path in files.items():
        shutil.copyfile(path, folder / name)
    Checksums(folder).add(*dict.fromkeys([*list_needed_files(config), *source.extra_files, *inside]))
    return config


def _write_dictionary(path: Path, dictionary: Dictionary, words: int, known: int) -> None:
    """Write the first ``words`` entries of a dictionary, those from ``known`` on with a count of 0: only copied."""
    entries = list(zip(dictionary.symbols, dictionary.count))[dictionary.nspecial : words]
    lines = [
        f"{word} {count if number < known else 0}\n"
        for number, (word, count) in enumerate(entries, dictionary.nspecial)
    ]
    path.write_bytes("".join(lines).encode())


def get_versions() -> Dict[str, Any]:
    """Return the versions of this package, of Python and of other relevant packages."""
    found: Dict[str, Any] = {"fairseq-etads": get_version(), "python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package.replace("_", "-")] = metadata.version(package)
    return found


def convert_weights_for_storage(state: Dict[str, Tensor], dtype: str) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """Convert the weights of a model to the form in which they are stored, on the CPU and as "fp32" or "fp16".

    Returns the tensors by name, tied tensors only once, and the names under which the others are stored, by their
    names. Raises InputError if a value is not finite, or would not be finite in the data type ``dtype``.
    """
    tensors: Dict[str, Tensor] = {}
    shared: Dict[str, str] = {}
    first: Dict[Any, str] = {}
    for name, value in state.items():
        identity = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and first.setdefault(identity, name) != name:
            shared[name] = first[identity]
            continue
        stored = value.detach().to("cpu", FLOATS[dtype] if value.is_floating_point() else value.dtype)
        if stored.is_floating_point() and not stored.isfinite().all():
            why = "" if not value.isfinite().all() else f" in --dtype {dtype}; choose fp32"
            raise InputError(f"the weight {name} contains numbers that are not finite{why}")
        tensors[name] = stored.contiguous().clone()  # safetensors does not accept tensors that share memory
    return tensors, shared
