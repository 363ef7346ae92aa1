"""The other tests: two samples, distribution functions, and the oracle that knows the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist, pdist

from benchmarks.paper.trials import Measured

__all__ = ["classical_tests", "likelihood_ratio", "maximum_mean_discrepancy"]

#: Points that stand for all where the median distance is wanted.
_MEDIAN_POINTS = 500


def maximum_mean_discrepancy(
    x: np.ndarray, y: np.ndarray, rng: np.random.Generator, n_replicates: int = 1000
) -> Measured:
    r"""Test whether two samples have one distribution, by permutations of the pooled sample.

    The squared maximum mean discrepancy is :math:`w^\top K w` with an RBF kernel whose bandwidth is
    the median distance, :math:`w_i = 1/n` for points of x and :math:`-1/n'` for points of y.

    Parameters
    ----------
    x, y : ndarray of shape (n, d), (n', d)
        The samples.
    rng : numpy.random.Generator
        Randomness of the permutations.
    n_replicates : int, default 1000
        Number of permutations.

    Returns
    -------
    Measured
        With the biased estimate of the squared discrepancy.
    """
    pooled = np.concatenate([x, y])
    n, total = len(x), len(pooled)
    some = rng.choice(total, size=min(total, _MEDIAN_POINTS), replace=False)
    bandwidth = np.median(pdist(pooled[some]))
    squared = cdist(pooled, pooled, "sqeuclidean")
    squared *= -0.5 / bandwidth**2
    kernel = np.exp(squared.astype(np.float32))
    # Which points stand in the place of x; the rest in the place of y.
    first = np.zeros((n_replicates + 1, total), dtype=np.float32)
    first[0, :n] = 1
    chosen = np.argpartition(rng.random((n_replicates, total), dtype=np.float32), n - 1)[:, :n]
    np.put_along_axis(first[1:], chosen, 1, axis=1)
    within = np.einsum("ij,ij->i", first @ kernel, first, dtype=np.float64)
    rows = kernel.sum(axis=1, dtype=np.float64)
    crossed = first @ rows - within
    others = rows.sum() - within - 2 * crossed
    rest = total - n
    values = within / n**2 + others / rest**2 - 2 * crossed / (n * rest)
    exceeding = np.count_nonzero(values[1:] >= values[0] * (1 - 1e-6))
    return Measured((1 + exceeding) / (1 + n_replicates), float(values[0]))


def classical_tests(uniforms: np.ndarray) -> dict[str, Measured]:
    """Test a univariate sample through the tested distribution function's values at its points.

    Parameters
    ----------
    uniforms : ndarray of shape (n,)
        Independent and uniform on [0, 1] if the model is true.

    Returns
    -------
    dict
        The χ² test over cells of equal probability, about 2 n^(2/5) of them, and the tests of
        Kolmogorov–Smirnov and Cramér–von Mises.
    """
    n = len(uniforms)
    cells = round(2 * n**0.4)
    counts = np.bincount(np.minimum((uniforms * cells).astype(int), cells - 1), minlength=cells)
    found = {
        "χ²": stats.chisquare(counts),
        "Kolmogorov–Smirnov": stats.kstest(uniforms, "uniform"),
        "Cramér–von Mises": stats.cramervonmises(uniforms, "uniform"),
    }
    return {
        name: Measured(float(result.pvalue), float(result.statistic))
        for name, result in found.items()
    }


def likelihood_ratio(
    x: np.ndarray,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    simulate: Callable[[int], np.ndarray],
    n_replicates: int = 199,
) -> Measured:
    """Test a model against the one true alternative, as no one can who does not know it.

    Parameters
    ----------
    x : ndarray of shape (n, ...)
        The sample.
    log_ratio : callable
        Logarithm of the alternative's density over the model's, of every point.
    simulate : callable
        Draws points from the model.
    n_replicates : int, default 199
        Samples of the model from which the null distribution comes.

    Returns
    -------
    Measured
        With twice the logarithm of the likelihood ratio.
    """
    n = len(x)
    observed = 2 * float(np.sum(log_ratio(x)))
    replicates = 2 * log_ratio(simulate(n * n_replicates)).reshape(n_replicates, n).sum(axis=1)
    exceeding = np.count_nonzero(replicates >= observed)
    return Measured((1 + exceeding) / (1 + n_replicates), observed)
