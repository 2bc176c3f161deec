"""Fixtures for all tests."""

import logging
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest
import seeds  # first: it replaces functions that test modules import and call
import torch
from browser import browser  # noqa: F401  # a fixture
from hypothesis import seed, settings

# test modules share a few helpers, and may be in another folder
sys.path += [str(path) for path in sorted((Path(__file__).parent / "unit").rglob("*")) if path.is_dir()]

# a shell starts background jobs with Ctrl-C ignored, and processes of the tests would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run, and no files next to the tests
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


def _preload_for_all(modules, preload=forkserver.set_forkserver_preload):
    """Preload the modules of commands in the server that all tests share."""
    from etads_preprocess.encode import TOKENIZER_MODULES

    preload([*TOKENIZER_MODULES])


forkserver.set_forkserver_preload = _preload_for_all


def pytest_collection_modifyitems(config, items):
    """Apply another seed to Hypothesis, too; start with the longest files if processes share the tests."""
    for item in items:
        if seeds.OFFSET and hasattr(item.function, "hypothesis"):
            seed(seeds.OFFSET)(item.function)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: ("/test_recipes.py" not in item.nodeid, "/e2e/" not in item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed generators before the fixtures of each test."""
    seeds.start()
    logging.getLogger("fairseq_etads").setLevel(logging.NOTSET)  # importing Summarizer silences it


@pytest.fixture
def documents():
    """Ragged documents of ids: a single token, an empty one, and some longer ones."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in (11, 1, 7, 0, 4)]
