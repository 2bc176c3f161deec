"""Read and check the file config.json of a model folder. This module does not import torch or fairseq."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, NoReturn, Tuple, Union

from ...files.inputs import check_format, report_damage
from ...platform.command_options import argument
from ...platform.errors import InputError
from ...search.lengths import are_percentiles
from ...search.options import combine_options
from ...text.subwords import SUBWORDS
from ...text.words import WORD_KINDS
from ..surprisal import PERCENTS

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
SHORTLIST = "shortlist.safetensors"
"""Name of the optional shortlist file, which is created with etads-shortlist."""
EXTRACTOR = "extractor"
"""Name of the extractor's subfolder in the folder of a model for long documents."""
_Entries = Dict[str, Tuple[Callable[[Any], bool], str]]
"""Type that maps each entry name to a pair of a function that checks the value and a description of valid values."""
BUNDLED = Path(__file__).parents[2] / "bundled"
DICTIONARIES = ("dict.source.txt", "dict.target.txt")
DEFAULT = "news"
"""Bundled model that commands use if no model is named."""
BASELINES = ("lead", "textrank")
"""Names that stand for a choice of sentences without a model; see :mod:`fairseq_etads.summarizer.baselines`."""
KIND = "model folder"
SCHEMA_VERSION = 1
"""Version of the folder format. It is increased whenever older versions of this package cannot read new folders."""

ADVICE = "Download or copy it again, or create it again with etads-export"
MARKS = ("drop", "keep", "insert")
DTYPES = ("fp32", "fp16")

_LARGEST_FILE = 1 << 22
"""Maximum size of config.json in bytes. A typical file contains a few thousand bytes."""
_LONGEST_TEXT = 1_000_000
"""Upper bound for truncation lengths, in tokens. No model exceeds it."""


@dataclass(frozen=True)
class FolderConfig:
    """Contents of config.json.

    The task has truncation lengths, the padding side and dictionary fingerprints. It can also contain the length
    percentiles of the training summaries ("summary_lengths") and the surprisal percentiles of the training documents
    ("document_surprisal"). The text has the options of ``--tokenizer etads`` without the prefix "text\\_", and
    "subwords", a key of :data:`SUBWORDS` or None. In the weights, "dtype" is one of :data:`DTYPES`, and "shared" maps
    the name of each tied weight to the name under which it is stored.
    """

    architecture: str  # name of the model preset (``--arch``)
    model: Dict[str, Any]  # options of the architecture
    task: Dict[str, Any]
    text: Dict[str, Any]
    decoding: Dict[str, Any]  # default values of decoding options, by names in :data:`CALL`
    weights: Dict[str, Any]
    made_by: Dict[str, Any]  # versions of the packages that were used to create the folder

    def to_json(self) -> str:
        """Convert the configuration to the text of config.json."""
        content = {"format": f"fairseq-etads {KIND}", "schema_version": SCHEMA_VERSION, **asdict(self)}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def subword_files(self) -> Dict[str, str]:
        """Return the file names of the subword model, if any, by fairseq's options."""
        return SUBWORDS.get(self.text["subwords"], {})


def list_bundled_models() -> List[str]:
    """Return the names of the models that are included in the package, in alphabetical order."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{CONFIG}"))


def folder_argument(more: str = "", **metadata: Any) -> Any:
    """Declare the argument FOLDER of a command, whose help may end in ``more``. :func:`find_folder` converts it."""
    names = ", ".join(list_bundled_models())
    about = f"path of a model folder or training run, or name of a model included in the package ({names}){more}"
    return argument("FOLDER", about, parse=find_folder, **metadata)


def find_default_folder() -> Path:
    """Return the folder of the bundled model for texts of any kind. Raises InputError if it is not included."""
    if DEFAULT not in list_bundled_models():
        names = ", ".join([*list_bundled_models(), *BASELINES])
        raise InputError(f"FOLDER is missing: name a model folder or one of {names}, as in etads-summarize lead FILE")
    return BUNDLED / DEFAULT


def find_folder(name: Union[str, "os.PathLike[str]"]) -> Path:
    """Return the path of a model folder, given its path or the name of a bundled model.

    A model folder or training run in the current directory takes precedence over a bundled model of the same name.
    Other folders do not take precedence, because Debian source packages contain a folder "debian".
    """
    path = Path(name)
    is_name = path.name == os.fspath(name) and path.name in list_bundled_models()
    is_local = (path / CONFIG).is_file() or (path / "checkpoints").is_dir()
    return BUNDLED / path.name if is_name and not is_local else path


def read_config(folder: Path) -> FolderConfig:
    """Read config.json from a model folder, and check its contents.

    Raises InputError, with a remedy, if the folder is not a model folder, is damaged, or is of a later version.
    """
    path = folder / CONFIG
    if not folder.is_dir():
        bundled = f"a model that comes with the package ({', '.join(list_bundled_models())})"
        raise InputError(f"{folder}: no such folder; name an output folder of etads-export, or {bundled}")
    if not path.is_file():
        raise InputError(
            f"{folder}: not a model folder, because it has no {CONFIG}; create one with etads-export RUN FOLDER"
        )
    if path.stat().st_size > _LARGEST_FILE:
        raise InputError(f"{path}: {path.stat().st_size:,} bytes are not the settings of a model. {ADVICE}")
    with report_damage(path, ADVICE):
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_reject_json_constant)
    sections = check_format(content, KIND, path, "create one with etads-export", SCHEMA_VERSION)
    try:
        return _check_config(sections)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def _reject_json_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _check_config(sections: Dict[str, Any]) -> FolderConfig:
    """Return the configuration, or raise InputError, to which the caller adds the path."""
    names = set(FolderConfig.__dataclass_fields__)
    for name in sorted(names ^ set(sections)):
        raise InputError(f"{'no' if name in names else 'unknown'} section {_shorten_value(name)}. {ADVICE}")
    for name, value in sections.items():
        if not isinstance(value, str if name == "architecture" else dict):
            raise InputError(f'"{name}" is {_shorten_value(value)}. {ADVICE}')
    known = {name: entry for name, entry in _PERHAPS_OF_TASK.items() if name in sections["task"]}
    for section, wanted in (("task", {**_TASK, **known}), ("text", _TEXT), ("weights", _WEIGHTS)):
        values = sections[section]
        for name in sorted(set(values) ^ set(wanted)):
            kind = "no" if name in wanted else "unknown"
            raise InputError(f'"{section}": {kind} entry {_shorten_value(name)}. {ADVICE}')
        for name, (fits, what) in wanted.items():
            if not fits(values[name]):
                raise InputError(f'"{section}": "{name}" is {_shorten_value(values[name])}, not {what}. {ADVICE}')
    try:
        combine_options(sections["decoding"], {})
    except InputError as error:
        raise InputError(f'"decoding": {error}') from None
    return FolderConfig(**sections)


def _is_fingerprint(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}", value) is not None


def _make_mapping_check(of: Callable[[Any], bool], name: str = ".+") -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and all(re.fullmatch(name, key) and of(entry) for key, entry in value.items())
    )


def _make_choice_check(*choices: Any) -> Tuple[Callable[[Any], bool], str]:
    shown = ", ".join("null" if choice is None else str(choice) for choice in choices)
    return lambda value: isinstance(value, (str, type(None))) and value in choices, f"one of {shown}"


_LENGTH = (
    lambda value: type(value) is int and 1 <= value <= _LONGEST_TEXT,
    f"a number of tokens from 1 to {_LONGEST_TEXT:,}",
)
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_FINGERPRINT = (_is_fingerprint, "16 hexadecimal digits")
_TASK = {
    "truncate_source": _LENGTH,
    "truncate_target": _LENGTH,
    "left_pad_source": _FLAG,
    "source_dictionary": _FINGERPRINT,
    "target_dictionary": _FINGERPRINT,
    "factor_dictionaries": (
        _make_mapping_check(_is_fingerprint, "[A-Za-z0-9_-]+"),
        "fingerprints by the names of factors",
    ),
}
_PERHAPS_OF_TASK: _Entries = {
    "summary_lengths": (are_percentiles, "percentiles of lengths, by percent"),
    "document_surprisal": (
        lambda value: are_percentiles(value, PERCENTS, (int, float)),
        "percentiles of surprisals in bits, by percent",
    ),
}
_TEXT = {
    "words": _make_choice_check(*WORD_KINDS),
    "keep_case": _FLAG,
    # sacremoses uses the language code as part of a file name, so only letters are allowed.
    "language": (lambda value: isinstance(value, str) and bool(re.fullmatch("[a-z]{2,3}", value)), "a language's code"),
    "sentence_marks": _make_choice_check(*MARKS),
    "subwords": _make_choice_check(None, *SUBWORDS),
}
_WEIGHTS = {
    "dtype": _make_choice_check(*DTYPES),
    "shared": (_make_mapping_check(lambda value: isinstance(value, str)), "names of weights"),
}


def _shorten_value(value: Any) -> str:
    """Shorten the representation of a value for an error message."""
    shown = json.dumps(value, ensure_ascii=True) if not isinstance(value, (dict, list)) else type(value).__name__
    return shown if len(shown) <= 60 else shown[:57] + "..."
