"""Another seed for the whole suite (tests/seeds.py)."""

import random

import numpy as np
import pytest
import seeds
import torch

REPLACED = ((torch, "Generator"), (torch, "manual_seed"), (random.Random, "__init__"), (random, "seed")) + (
    (np.random, "seed"),
    (np.random, "default_rng"),
)


def draws(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    return [
        torch.rand(()).item(),
        torch.rand((), generator=torch.Generator().manual_seed(seed)).item(),
        random.random(),
        random.Random(seed).random(),
        np.random.random(),
        np.random.default_rng(seed).random(),
    ]


@pytest.mark.skipif(seeds.OFFSET, reason="seeds are already shifted")
def test_every_seed_of_a_test_is_shifted_and_no_other(monkeypatch):
    with monkeypatch.context() as patch:
        for owner, name in REPLACED:
            patch.setattr(owner, name, getattr(owner, name))
        seeds._shift_generators()
        three, eight, text = draws(3), draws(8), random.Random("3+5").random()
        patch.setattr(seeds, "OFFSET", 5)
        assert draws(3) == eight != three
        assert random.Random("3").random() == text
        elsewhere = {}  # as if the code under test called it
        code = "import torch, random; torch.manual_seed(3); r = random.Random(3)"
        exec(compile(code, "/src/x.py", "exec"), elsewhere)
        assert [torch.rand(()).item(), elsewhere["r"].random()] == [three[0], three[3]]
        assert random.Random().random() != random.Random().random()


def test_a_test_without_a_seed_draws_the_same_whatever_ran_before():
    torch.manual_seed(9)
    seeds.start()
    first = torch.rand(3), random.random(), np.random.random()
    torch.rand(5), random.random(), np.random.random()
    seeds.start()
    again = torch.rand(3), random.random(), np.random.random()
    assert torch.equal(first[0], again[0]) and first[1:] == again[1:]
