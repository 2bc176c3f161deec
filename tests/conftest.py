"""Fixtures for all tests."""

import json
import logging
import math
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest
import seeds  # first: it replaces what test modules import and call
import torch
from browser import browser  # noqa: F401  # a fixture
from hypothesis import seed, settings

# test modules share a few helpers, and one may stand in another folder
sys.path += [str(path) for path in sorted((Path(__file__).parent / "unit").rglob("*")) if path.is_dir()]

# a shell starts background jobs with Ctrl-C ignored, and processes of the tests would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run, and nothing written beside the tests
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


def _preload_for_all(modules, preload=forkserver.set_forkserver_preload):
    """Commands fork processes from a server that has imported what these need; all tests have the same server."""
    from etads_preprocess.processes import TOKENIZER_MODULES

    preload([*TOKENIZER_MODULES])


forkserver.set_forkserver_preload = _preload_for_all


SECONDS = json.loads((Path(__file__).parent / "seconds.json").read_text(encoding="utf-8"))
"""Test file -> seconds that it takes; scripts/quick_tests.py --record writes it."""


def pytest_collection_modifyitems(config, items):
    """Draw other examples with another seed, also for Hypothesis; start long files first where processes share them."""
    for item in items:
        if seeds.OFFSET and hasattr(item.function, "hypothesis"):
            seed(seeds.OFFSET)(item.function)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -SECONDS.get(item.nodeid.split("::")[0], math.inf))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Before the fixtures of each test."""
    seeds.start()
    logging.getLogger("fairseq_etads").setLevel(logging.NOTSET)  # importing Summarizer silences it


@pytest.fixture
def documents():
    """Ragged documents of ids: a single token, an empty one, and some longer."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in (11, 1, 7, 0, 4)]
