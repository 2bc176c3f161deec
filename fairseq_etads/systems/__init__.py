"""Systems with which the papers compare their models, one folder or module per system.

The rest of the package never imports them. The module, or the ``__init__`` module of the folder, imports what registers
itself; docs/overview.md lists the system's command, recipes, page and tests.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import Any, List, Type

from ..platform.optional_parts import BROUGHT, explain_missing_system, is_system_installed


def import_installed_systems() -> List[ModuleType]:
    """Import all installed systems in alphabetical order, and return their modules. Import errors are propagated."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def register_systems() -> None:
    """Register all systems with fairseq.

    If a system is missing, placeholders are registered for its architectures and criterions. When such a placeholder is
    used, it raises an error that names the missing system.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY

    import_installed_systems()
    for system, brought in BROUGHT.items():
        for what in [] if is_system_installed(system) else brought:
            option, _, name = what.partition(" ")
            registry: Any = {"--arch": ARCH_MODEL_REGISTRY, "--criterion": CRITERION_REGISTRY}.get(option)
            if registry is not None:
                registry[name] = _make_missing_system_placeholder(explain_missing_system(what, system))


def _make_missing_system_placeholder(sentence: str) -> Type[Any]:
    """Create a placeholder for a model or criterion of a missing system. Using the placeholder raises ValueError."""

    class Missing:
        @classmethod
        def add_args(cls, parser: Any) -> None:
            raise ValueError(sentence)

        @classmethod
        def build_model(cls, *_: Any) -> None:
            raise ValueError(sentence)

        build_criterion = build_model

    return Missing
