"""Half precision with a loss scaler: the scale does not change while nothing overflows, and the model learns."""

import pytest
from loss_scale import FIRST_SCALE, scales


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_the_loss_scale_stays_in_twenty_updates(arch):
    found, (first, last), skipped = scales(arch, 20)
    assert set(found) == {FIRST_SCALE} and skipped == {}
    assert last < first - 0.02


def test_a_scale_that_is_too_large_shrinks_and_the_record_says_why():
    """The gradients that overflow are too large for float16 in float64, too: nothing else makes them infinite."""
    found, _, skipped = scales("pg_coverage", 20, first=2.0**24)
    assert found[0] < 2.0**24 and found[-1] == found[-2]
    assert next(iter(skipped)) == 0 and len(skipped) == sum(a > b for a, b in zip([2.0**24, *found], found))
    assert max(skipped[0].values()) > 1
