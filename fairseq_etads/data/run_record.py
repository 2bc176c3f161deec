"""Read and write the records of a training run: RUN/training.json and the decoding options in RUN/recipe.json.

``etads-train`` records the training command and the data in training.json.

Importing this module does not import torch or fairseq.
"""

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from ..files.checksums import compute_sha256
from ..files.inputs import read_json, report_damage
from ..files.outputs import write_text
from ..platform.errors import InputError

OptionalPath = Union[str, "os.PathLike[str]", None]
CHECKPOINTS = ("best", "last")
RECORD = "training.json"
RECIPE = "recipe.json"
"""Name of the file that records the recipe of a run; see :mod:`fairseq_etads.pipeline.training_settings`."""
_COMMANDS = ("started.txt", "finished.txt")
"""Files in which earlier versions recorded the training command as words separated by spaces."""


@dataclass(frozen=True)
class RunRecord:
    """Training command and training data of a run."""

    command: List[str]  # the words of the fairseq-train command
    prepared: str  # path of the folder with the prepared data, or an empty string if it is unknown
    data: Dict[str, str]  # identifies the prepared data; see :func:`compute_data_fingerprint`
    files: Dict[str, str] = field(default_factory=dict)  # SHA-256 by path of the checkpoints in the command

    @classmethod
    def read(cls, run: Path) -> Optional["RunRecord"]:
        """Read the record of a run, or return None if there is none. Raises InputError if it is damaged."""
        path = run / RECORD
        if not path.is_file():
            for old in filter(Path.is_file, (run / name for name in _COMMANDS)):
                line = old.read_text(encoding="utf-8", errors="replace").split("\n")[0]
                data, found, _ = line.partition("/bin --")
                return cls(line.split(), data.partition(" ")[2] if found else "", {})
            return None
        with report_damage(path, "delete it"):
            record = cls(**read_json(path, "delete it"))
            words = [*record.command, record.prepared, *record.data.values(), *record.files.values()]
            if not all(isinstance(word, str) for word in words):
                raise ValueError("not texts")
        return record

    def write(self, run: Path) -> None:
        """Write the record to the folder of a run."""
        write_text(run / RECORD, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", errors="replace")


def compute_data_fingerprint(prepared: Path) -> Dict[str, str]:
    """Map prepare.json, which contains the checksums of the texts, to its SHA-256 hash, if it exists."""
    path = prepared / "prepare.json"
    return {path.name: compute_sha256(path)} if path.is_file() else {}


def find_prepared_folder(run: Path, given: Optional[Path]) -> Path:
    """Return the folder with the prepared data of a run: the ``given`` one (``--prepared``) or that of the training.

    If the run has no record or was moved, it is RUN/prepared. Raises InputError if the data was moved or changed.
    """
    if given is not None:
        return given
    inside = run / "prepared"
    record = RunRecord.read(run)
    if record is None or not record.prepared:
        return inside
    # If the run folder was moved, look for the prepared data inside this folder.
    for folder in (Path(record.prepared), inside):
        if (folder / "prepare.json").is_file() and record.data in ({}, compute_data_fingerprint(folder)):
            return folder
    others = (Path(record.prepared) / "prepare.json").is_file()
    there = "but the data there has changed" if others else "which no longer exists"
    raise InputError(f"RUN {run}: it was trained with the data in {record.prepared}, {there}; give --prepared")


def list_checkpoints(run: Path) -> List[Path]:
    """Return the checkpoints of a run: the best one, the last one and all others, as far as they exist."""
    named = [run / "checkpoints" / f"checkpoint_{name}.pt" for name in CHECKPOINTS]
    return [path for path in dict.fromkeys([*named, *sorted(named[0].parent.glob("checkpoint*.pt"))]) if path.is_file()]


def find_checkpoint(run: Path, wanted: OptionalPath = None, option: str = "RUN") -> Path:
    """Return the path of the checkpoint ``wanted`` of a run: "best", "last", a path or, by default, best or else last.

    ``run`` is a run folder, or the path of a checkpoint. Raises InputError, which names ``option``, if there is none.
    """
    paths = {name: run / "checkpoints" / f"checkpoint_{name}.pt" for name in CHECKPOINTS}
    named = (run, *paths.values()) if wanted is None else [paths.get(str(wanted), Path(wanted))]
    found = next(filter(Path.is_file, named), None)
    if found is not None:
        return found
    if wanted is not None:
        raise InputError(f"--checkpoint {wanted}: no such file ({named[0]})")
    if not run.exists():
        raise InputError(f"{option} {run}: no such folder; name the output folder of etads-train")
    raise InputError(f"{option} {run}: no checkpoints/checkpoint_best.pt or checkpoint_last.pt")


def read_recipe(run: Path) -> Optional[Dict[str, Any]]:
    """Read RUN/recipe.json. Returns None if the file is missing or damaged."""
    with contextlib.suppress(InputError):
        record = read_json(run / RECIPE, "")
        return record if isinstance(record.get("decoding"), dict) else None
    return None
