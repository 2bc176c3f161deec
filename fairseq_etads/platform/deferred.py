"""Postpone the import of large modules that other packages import at their start and that summarising never uses."""

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
"""Modules that fairseq and nltk import for scores, classifiers and parsers; they take 1.8 seconds."""


class _StandIn(ModuleType):
    """A module with functions that import the real module when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def function(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return function


@contextlib.contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Make ``from NAME import function`` and ``from PACKAGE import MODULE`` free of cost inside the block.

    The imported functions work as usual, and import the real module at the first call. Modules that have already been
    imported are not affected, nor are imports after the block.

    Args:
        names: names of modules, such as "scipy.stats". If the package is slow to import, too, its name comes before
            them.
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
    """Import fairseq inside the block without its slow statistics and without a message about missing tensorboardX."""
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    with deferred(*STATISTICS):
        yield
