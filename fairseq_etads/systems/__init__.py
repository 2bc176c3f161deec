"""Systems that the papers compare with, one folder each. The rest of the package never imports them.

Each folder's ``__init__`` imports the system's fairseq classes, and lists the places of its other parts.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import Any, List, Type

from ..platform.systems import BROUGHT, belongs_to, is_there


def present() -> List[ModuleType]:
    """Import the systems with a folder, in alphabetical order; a broken one raises its error."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg)
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def register() -> None:
    """Register all systems with fairseq; architectures and criterions of a missing one name the system."""
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY

    present()
    for system, brought in BROUGHT.items():
        for what in [] if is_there(system) else brought:
            option, _, name = what.partition(" ")
            registry: Any = {"--arch": ARCH_MODEL_REGISTRY, "--criterion": CRITERION_REGISTRY}.get(option)
            if registry is not None:
                registry[name] = _missing(belongs_to(what, system))


def _missing(sentence: str) -> Type[Any]:
    """Make a placeholder for a model or criterion of a missing system; it raises ValueError when fairseq uses it."""

    class Missing:
        @classmethod
        def add_args(cls, parser: Any) -> None:
            raise ValueError(sentence)

        @classmethod
        def build_model(cls, *_: Any) -> None:
            raise ValueError(sentence)

        build_criterion = build_model

    return Missing
