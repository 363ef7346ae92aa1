"""How slowly chains move, and how far they disagree: of the least favourable function of draws."""

from __future__ import annotations

import numpy as np


def autocorrelation_time_of(chains: np.ndarray) -> float:
    r"""Return the integrated autocorrelation time of the least favourable function of the draws.

    It is :math:`n / \mathrm{ESS}` with ArviZ's effective sample size, for every coordinate and for
    the squared distance from the centre in units of the covariance, which alternating chains move
    slowly even where each coordinate looks better than independent. At least 1 and at most
    the length of a chain. Every chain is taken around its own mean: that chains disagree is a fault
    the test is to find, not a correlation.

    Parameters
    ----------
    chains : ndarray of shape (chain, draw, d)
        Draws in unconstrained coordinates.

    Returns
    -------
    float
    """
    from arviz_stats.base import array_stats

    n_chains, n = chains.shape[:2]
    if n < 4:
        return 1.0
    chains = chains - chains.mean(axis=1, keepdims=True)
    flat = chains.reshape(-1, chains.shape[-1])
    standard = flat / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
    directions, singular, _ = np.linalg.svd(standard, full_matrices=False)
    radius = (directions[:, singular > 1e-8 * singular[0]] ** 2).sum(axis=1)
    radius = radius.reshape(chains.shape[:2])
    radius -= radius.mean(axis=1, keepdims=True)
    series = [*np.moveaxis(chains, -1, 0), radius]
    sizes = np.array([array_stats.ess(values, method="mean") for values in series])
    total = n * n_chains
    times = np.where(np.isfinite(sizes) & (sizes > 0), total / np.maximum(sizes, 1e-300), n)
    return float(np.clip(times.max(), 1.0, n))


def largest_rhat_of(chains: np.ndarray) -> float:
    """Return ArviZ's rank-normalised split R-hat of the coordinate that has the largest.

    It is infinite where chains stand still, each in a place of its own, and NaN for chains of fewer
    than 4 draws. Of a single chain the halves are compared.
    """
    from arviz_stats.base import array_stats

    chains = _two_or_more(chains)
    if chains.shape[1] < 4:
        return float("nan")
    if (np.ptp(chains, axis=1) == 0).all(axis=0).any():
        return float("inf")
    with np.errstate(all="ignore"):
        values = [array_stats.rhat(values) for values in np.moveaxis(chains, -1, 0)]
    return float(np.nanmax(values)) if np.isfinite(values).any() else float("inf")


def rhat_by_chance(chains: np.ndarray) -> float:
    """Return the largest R-hat that independent draws of this number exceed once in 1,000 times.

    Means of half chains have a spread of their own, which R-hat takes for disagreement.
    """
    from scipy.special import chdtri  # slow to import

    n_chains, n_draws, dim = _two_or_more(chains).shape
    parts, length = 2 * n_chains, max(n_draws // 2, 1)
    return float(np.sqrt(1 + chdtri(parts - 1, 0.001 / dim) / (parts - 1) / length))


def _two_or_more(chains: np.ndarray) -> np.ndarray:
    """Return chains, or the halves of a single one: ArviZ knows no R-hat of one chain."""
    if len(chains) > 1:
        return chains
    half = chains.shape[1] // 2
    return chains[:, : 2 * half].reshape(2, half, -1)
