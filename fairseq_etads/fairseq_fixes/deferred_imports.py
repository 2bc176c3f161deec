"""Defer the import of large modules that other packages import but that are not needed for summarisation."""

import contextlib
import importlib
import logging
import sys
from types import ModuleType
from typing import Any, Callable, Iterator

STATISTICS = (
    *("sklearn", "sklearn.feature_extraction", "sklearn.metrics", "sklearn.preprocessing"),
    *("scipy.sparse", "scipy.stats"),
)
"""Modules that fairseq and nltk import for scores, classifiers and parsers. Importing them takes 1.8 seconds."""


class _ModulePlaceholder(ModuleType):
    """Placeholder for a module. Its functions import the real module when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def function(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return function


@contextlib.contextmanager
def defer_imports(*names: str) -> Iterator[None]:
    """Context manager that defers ``from NAME import function`` and ``from PACKAGE import MODULE``.

    The imported functions work as usual, but the real module is imported only when one of them is first called.
    Modules that have already been imported and imports outside the context are not affected.

    Args:
        names: names of the modules to defer, such as "scipy.stats". If importing a package is also slow, its name must
            precede the names of its modules.
    """
    stand_ins = {name: _ModulePlaceholder(name) for name in names if name not in sys.modules}
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


@contextlib.contextmanager
def speed_up_fairseq_import() -> Iterator[None]:
    """Context manager for importing fairseq without slow statistics modules or a message about tensorboardX."""
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    with defer_imports(*STATISTICS):
        yield
