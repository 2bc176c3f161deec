"""Fixtures for all tests."""

import pytest
import torch


@pytest.fixture
def documents():
    """Ragged documents of ids: a single token, an empty one, and some longer."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in (11, 1, 7, 0, 4)]
