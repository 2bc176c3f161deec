"""fairseq-etads: abstractive summarisation models for fairseq.

Importing this package does not import torch or fairseq. :mod:`fairseq_etads.plugin` registers the task, the models, the
criterions, the optimisers and the tokeniser with fairseq. It also ensures that checkpoints are loaded safely. The
plugin is imported

- immediately if fairseq has already been imported, as with ``--user-dir fairseq_etads``;
- otherwise, as soon as a program or a module of this package has imported fairseq.
"""

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    __version__: str
    from .summarizer import CopiedWord as CopiedWord
    from .summarizer import Explanation as Explanation
    from .summarizer import PartialSummary as PartialSummary
    from .summarizer import Summarizer as Summarizer
    from .summarizer import Summary as Summary
    from .summarizer import Truncation as Truncation


class _RegisterWithFairseq(importlib.abc.MetaPathFinder):
    """Import hook that loads the plugin as soon as fairseq has been imported.

    If a module in this package imports fairseq, the plugin may itself need to import that module. The hook therefore
    waits until the outermost import from this package is complete.
    """

    def __init__(self) -> None:
        self.unfinished = 0
        """Number of modules in this package or in fairseq that are currently being imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """Use the other finders to find fairseq or a module of this package, and keep track of its import."""
        if name != "fairseq" and not name.startswith("fairseq_etads."):
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            self._track_module_import(spec.loader, quietly=name == "fairseq")
        return spec

    def _track_module_import(self, loader: Any, quietly: bool) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self.unfinished += 1
            try:
                if quietly:
                    from .platform.optional_parts import defer_statistics

                    with defer_statistics():
                        execute(module)
                else:
                    execute(module)
            finally:
                self.unfinished -= 1
            if not self.unfinished and "fairseq" in sys.modules and self in sys.meta_path:
                sys.meta_path.remove(self)
                from . import plugin  # noqa: F401  # imported for its effect

        loader.exec_module = exec_module


if "fairseq" in sys.modules:
    from . import plugin  # noqa: F401  # imported for its effect
else:
    sys.meta_path.insert(0, _RegisterWithFairseq())


def __getattr__(name: str) -> Any:
    """Import public names such as ``Summarizer`` when they are first used."""
    if name in ("CopiedWord", "Explanation", "PartialSummary", "Summarizer", "Summary", "Truncation"):
        from . import summarizer

        return getattr(summarizer, name)
    if name == "__version__":
        from .version import get_version

        return get_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
