"""Fixtures for all tests."""

import signal

import pytest
import torch
from hypothesis import settings

# a shell starts background jobs with Ctrl-C ignored, and processes of the tests would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run, and nothing written beside the tests
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def documents():
    """Ragged documents of ids: a single token, an empty one, and some longer."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in (11, 1, 7, 0, 4)]
