"""Half precision with a loss scaler: the scale does not change while nothing overflows, and the model learns."""

import pytest
from loss_scale import FIRST_SCALE, scales


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_the_loss_scale_stays_in_twenty_updates(arch):
    found, (first, last) = scales(arch, 20)
    assert set(found) == {FIRST_SCALE}
    assert last < first - 0.02


def test_a_scale_that_is_too_large_shrinks():
    found, _ = scales("pg_coverage", 20, first=2.0**24)
    assert found[0] < 2.0**24 and found[-1] == found[-2]
