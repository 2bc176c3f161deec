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
