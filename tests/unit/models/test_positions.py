"""Positions that are computed instead of learned."""

import pytest
import reference
import torch
from helpers import PAD, make_batch, make_model


@pytest.mark.parametrize("left", [False, True])
def test_positions_that_are_not_learned_are_those_of_the_equations(left, documents):
    positions = make_model("etads_basic", encoder_learned_pos=False).encoder.embed_positions
    tokens = make_batch(documents, left=left)
    found = positions(tokens).double()
    for row, ids in zip(found, tokens):
        for place, vector in enumerate(row[ids.ne(PAD)]):
            # fairseq counts from the number after the padding symbol's number
            expected = reference.sinusoidal_position(place + PAD + 1, row.shape[1])
            torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
        assert row[ids.eq(PAD)].eq(0).all(), "padding has no position"
