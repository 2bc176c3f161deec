"""How strongly a word of a document goes with a word of its summary. Without torch and fairseq."""

import numpy as np


def log_likelihood_ratio(both: np.ndarray, first: np.ndarray, second: np.ndarray, total: int) -> np.ndarray:
    """Dunning's G² (1993, section 4.2) of two events in ``total`` pairs of document and summary.

    G² = 2 Σ O ln(O / E) over the four cells of the table of how often both, either and neither happened, O as counted and
    E as expected if the two were independent. Unlike the ratio O / E alone (pointwise mutual information), it is not
    largest for what has been seen once or twice, and unlike the frequency O it is small for words that are everywhere.

    Args:
        both: how many pairs had both events. first, second: how many had the one, or the other. All can be broadcast.
        total: how many pairs there are.

    Returns:
        float64; 0 where the two came together no more often than by chance.
    """
    both, first, second = (np.asarray(counts, dtype=np.float64) for counts in (both, first, second))
    cells = (
        (both, first, second),
        (first - both, first, total - second),
        (second - both, total - first, second),
        (total - first - second + both, total - first, total - second),
    )
    ratio = sum(_cell(observed, row * column / total) for observed, row, column in cells)
    return np.where(both * total > first * second, 2 * ratio, 0.0)


def _cell(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """O ln(O / E), which is 0 where nothing was observed."""
    seen = observed > 0
    quotient = np.divide(observed, expected, out=np.ones(np.broadcast(observed, expected).shape), where=seen)
    return observed * np.log(quotient)
