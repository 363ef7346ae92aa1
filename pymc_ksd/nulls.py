r"""What a statistic looks like when the sample does come from the model.

The bootstraps replace the sum over pairs by a quadratic form in random weights,
:math:`S^* = \frac{1}{N} \sum_{i \ne j} w_i w_j u(x_i, x_j)`, all of whose replicates come from the
same pass over the pairs.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "NULLS",
    "bootstrap_weights",
    "critical_value",
    "fewest_replicates",
    "monte_carlo_p_value",
    "normal_test",
    "wild_weights",
]

#: Which nulls go with which statistic; the first is the default.
NULLS: dict[str, tuple[str, ...]] = {
    "u": ("multinomial", "rademacher", "wild", "parametric"),
    "v": ("rademacher", "multinomial", "wild", "parametric"),
    "linear": ("normal", "parametric"),
    "block": ("normal", "parametric"),
}
#: Correlation time of wild multipliers in autocorrelation times of the draws.
_CORRELATION_TIMES = 8.0
#: The longest correlation time of wild multipliers, in lengths of a chain.
_LONGEST = 0.4
#: Random numbers drawn at a time: they stay in the processor's cache.
_BATCH = 100_000


def bootstrap_weights(null: str, n: int, n_bootstrap: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the weights of all replicates, in one byte each.

    Parameters
    ----------
    null : {"multinomial", "rademacher"}
        Multinomial counts less one, or random signs.
    n : int
        Number of points.
    n_bootstrap : int
        Number of replicates.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_bootstrap, n)
        Integers whose products are to be divided by n² (multinomial; sample frequencies less 1/n)
        or by the number of pairs (signs).
    """
    replicates = np.empty((n_bootstrap, n), dtype=np.int8)
    step = max(1, _BATCH // n)
    for start in range(0, n_bootstrap, step):
        rows = min(step, n_bootstrap - start)
        if null == "multinomial":
            draws = rng.integers(n, size=(rows, n))
            draws += n * np.arange(rows)[:, None]
            counts = np.bincount(draws.ravel(), minlength=rows * n).reshape(rows, n)
            # A point is drawn more than 126 times with a probability below 1e-200.
            replicates[start : start + rows] = np.minimum(counts, 126) - 1
        else:
            replicates[start : start + rows] = (
                2 * rng.integers(2, size=(rows, n), dtype=np.int8) - 1
            )
    return replicates


def wild_weights(
    n_chains: int,
    n_draws: int,
    n_bootstrap: int,
    autocorrelation_time: float,
    rng: np.random.Generator,
) -> np.ndarray:
    r"""Draw multipliers for dependent draws, in four bytes each.

    In every chain they are a stationary Gaussian process with correlation
    :math:`e^{-k / 8\tau}` between draws k apart, :math:`\tau` the autocorrelation time of the
    draws, so that they vary slowly beside the draws themselves; :math:`8\tau` is taken as 0.4
    chains where it is more. The multipliers of one replicate have mean square 1: with few
    independent stretches in a chain their size would otherwise vary from replicate to replicate,
    and the test would hardly ever reject.

    Returns
    -------
    ndarray of shape (n_bootstrap, n_draws * n_chains)
        Points ordered as in :class:`pymc_ksd.draws.Draws`.
    """
    from scipy.signal import lfilter  # slow to import

    length = min(_CORRELATION_TIMES * autocorrelation_time, _LONGEST * n_draws)
    correlation = np.exp(-1 / length)
    scale = np.sqrt(1 - correlation**2)
    by_chain = np.empty((n_bootstrap, n_draws, n_chains), dtype=np.float32)
    step = max(1, _BATCH // n_draws)
    for chain in range(n_chains):
        for start in range(0, n_bootstrap, step):
            noise = rng.standard_normal((min(step, n_bootstrap - start), n_draws))
            noise[:, 1:] *= scale
            filtered = lfilter([1.0], [1.0, -correlation], noise, axis=1)
            by_chain[start : start + step, :, chain] = filtered
    weights = by_chain.reshape(n_bootstrap, -1)
    weights /= np.sqrt(np.einsum("ij,ij->i", weights, weights) / weights.shape[1])[:, None]
    return weights


def monte_carlo_p_value(statistic: float, replicates: np.ndarray) -> float:
    """Return ``(1 + #{S* ≥ S}) / (1 + m)``."""
    return float((1 + np.count_nonzero(replicates >= statistic)) / (1 + len(replicates)))


def critical_value(replicates: np.ndarray, alpha: float) -> float:
    """Return the value that the statistic must exceed for a p-value of at most `alpha`.

    It is infinite when there are too few replicates to reject at this level.
    """
    m = len(replicates)
    allowed = int(np.floor(alpha * (m + 1) + 1e-9)) - 1
    if allowed < 0:
        return float(np.inf)
    return float(np.sort(replicates)[m - 1 - allowed])


def fewest_replicates(alpha: float) -> int:
    """Return the number of replicates below which nothing can be rejected at a level."""
    # The quotient has rounding errors: 1/0.05 may be slightly more than 20.
    return int(np.ceil(1 / alpha - 1e-9)) - 1


def normal_test(
    statistic: float, error: float, alpha: float, n_bootstrap: int
) -> tuple[float, float, np.ndarray]:
    r"""Test whether a mean of independent terms is zero, by the central limit theorem.

    Rejects when the statistic exceeds :math:`z_{1-\alpha}` times its standard error.

    Returns
    -------
    p_value, critical_value : float
    null_distribution : ndarray of shape (n_bootstrap,)
        Evenly spaced quantiles of the normal null distribution.
    """
    from scipy.special import ndtr, ndtri  # slow to import

    quantiles = ndtri((np.arange(n_bootstrap) + 0.5) / n_bootstrap) * error
    return float(ndtr(-statistic / error)), float(-ndtri(alpha) * error), quantiles
