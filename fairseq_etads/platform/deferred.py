"""Defer the import of large modules that other packages import, but that are not needed for summarisation."""

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
"""Modules that fairseq and nltk import for scores, classifiers and parsers. These imports take 1.8 seconds."""


class _StandIn(ModuleType):
    """Placeholder for a module. Its functions import the real module when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def function(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return function


@contextlib.contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Defer ``from NAME import function`` and ``from PACKAGE import MODULE`` inside this context.

    The imported functions work as usual, but import the real module when they are first called. Modules that have
    already been imported, and imports outside the context, are not affected.

    Args:
        names: names of modules, such as "scipy.stats". If importing a package is also slow, the name of the package
            must precede the names of its modules.
    """
    stand_ins = {name: _StandIn(name) for name in names if name not in sys.modules}
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
def importing_fairseq() -> Iterator[None]:
    """Import fairseq inside this context without slow statistics modules and without a message about tensorboardX."""
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    with deferred(*STATISTICS):
        yield
