"""List the options and modules that belong to the systems in ``fairseq_etads/systems/``.

The list is used in messages about systems that are not installed.
"""

import importlib.util
from typing import Dict, List, Optional

BROUGHT: Dict[str, List[str]] = {
    "abs": ["--arch abs", "--extractive-weights", "fairseq_etads.tuning.extractive_weights"],
    "convs2s": ["--arch convs2s", "--arch convs2s_gigaword", "--arch convs2s_cnndm"],
    "entailment": ["--auxiliary-task entailment", "--rewards entail"],
    "rewards": ["--criterion summarization_rl", "--criterion summarization_raml"],
    "rewriting": ["--arch pointer_extractor", "--criterion extractor_rl"],
}
"""Mapping from the folder name of each system to the options and modules that require the system."""


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
