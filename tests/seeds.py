"""Another seed for the whole suite: ``ETADS_TEST_SEED=N`` adds N to every seed that the tests give to a generator.

Only calls in test files are shifted; the code under test draws the same numbers as before. Without the variable,
nothing is replaced. ``conftest.py`` imports this before any test module, because modules may draw numbers when
imported.
"""

import functools
import os
import random
import sys
from pathlib import Path

import numpy as np
import torch

OFFSET = int(os.environ.get("ETADS_TEST_SEED") or 0)
_TESTS = str(Path(__file__).resolve().parent) + os.sep


def shifted(seed):
    """Return another seed of the same type. Only numbers and strings are changed (None: the system's seed)."""
    if isinstance(seed, int):
        return seed + OFFSET
    return f"{seed}+{OFFSET}" if OFFSET and isinstance(seed, str) else seed


def _shifting(function):
    """Wrap ``function``, with a seed as its last argument, to shift that seed when a test calls it."""

    @functools.wraps(function)
    def call(*arguments):
        if arguments and sys._getframe(1).f_code.co_filename.startswith(_TESTS):
            arguments = (*arguments[:-1], shifted(arguments[-1]))
        return function(*arguments)

    return call


def _shift_generators() -> None:
    class Generator(torch.Generator):  # C code; its methods cannot be replaced
        manual_seed = _shifting(torch.Generator.manual_seed)

    torch.Generator, torch.manual_seed = Generator, _shifting(torch.manual_seed)
    random.Random.__init__, random.seed = _shifting(random.Random.__init__), _shifting(random.seed)
    np.random.seed, np.random.default_rng = _shifting(np.random.seed), _shifting(np.random.default_rng)


def start() -> None:
    """Seed the global generators, so that no test depends on earlier ones."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


if OFFSET:
    _shift_generators()
