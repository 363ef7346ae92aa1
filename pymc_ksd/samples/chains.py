"""How slowly chains move, and how far they disagree: of the least favourable function of draws."""

from __future__ import annotations

import numpy as np
from scipy import fft

#: Numbers whose Fourier transforms are taken together.
_NUMBERS_TOGETHER = 1_000_000
#: Series of which R-hat is computed, where there are more: those that look worst by a cheaper one.
_CANDIDATES = 25
#: Draws, evenly spaced, from which the place and the spread of series are taken for it.
_PLACING_DRAWS = 200
#: Series with a smaller range do not vary.
_RESOLUTION = float(np.finfo(float).resolution)


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
    n = chains.shape[1]
    if n < 4:
        return 1.0
    chains = chains - chains.mean(axis=1, keepdims=True)
    flat = chains.reshape(-1, chains.shape[-1])
    standard = flat / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
    directions, singular, _ = np.linalg.svd(standard, full_matrices=False)
    radius = (directions[:, singular > 1e-8 * singular[0]] ** 2).sum(axis=1)
    radius = radius.reshape(*chains.shape[:2], 1)
    radius = radius - radius.mean(axis=1, keepdims=True)
    times = autocorrelation_times(np.concatenate([chains, radius], axis=2))
    return float(np.clip(times.max(), 1.0, n))


def autocorrelation_times(chains: np.ndarray) -> np.ndarray:
    """Return the integrated autocorrelation time of many series at once.

    It is the number of draws over ArviZ's effective sample size of the mean (split chains, Geyer's
    initial monotone sequence), for all series in one Fourier transform. Chains of fewer than 4
    draws have a time of 1.

    Parameters
    ----------
    chains : ndarray of shape (chain, draw, p)
        The series.

    Returns
    -------
    ndarray of shape (p,)
    """
    if chains.shape[1] < 4:
        return np.ones(chains.shape[2])
    count = max(1, _NUMBERS_TOGETHER // chains[:, :, 0].size)
    starts = range(0, chains.shape[2], count)
    parts = [_times(chains[:, :, start : start + count]) for start in starts]
    return np.concatenate(parts) if parts else np.empty(0)


def _times(chains: np.ndarray) -> np.ndarray:
    n_chains, n_draws, p = chains.shape
    half = n_draws // 2
    halves = _halves(chains)
    means = halves.mean(axis=1)
    length = fft.next_fast_len(2 * half, real=True)
    transformed = fft.rfft(halves - means[:, None], length, axis=1)
    spectrum = (transformed.real**2 + transformed.imag**2).mean(axis=0)
    covariances = fft.irfft(spectrum, length, axis=0)[:half] / half
    within = covariances[0] * half / (half - 1)
    total = covariances[0] + means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1 - (within - covariances) / total
    correlations[0] = 1.0
    times = np.maximum(_initial_monotone_sum(correlations.T), 1 / np.log10(2 * n_chains * half))
    times *= n_draws / (2 * half)
    # Series that do not vary are as good as independent.
    return np.where(np.ptp(halves.reshape(-1, p), axis=0) < _RESOLUTION, 1.0, times)


def _initial_monotone_sum(correlations: np.ndarray) -> np.ndarray:
    """Sum autocorrelations of both signs of the lag, by Geyer's initial monotone sequence."""
    # As ArviZ does, the first negative pair of lags ends the sum, or else the last pair looked at.
    n_pairs = max((correlations.shape[1] - 1) // 2, 1)
    pairs = correlations[:, : 2 * n_pairs].reshape(len(correlations), -1, 2).sum(axis=2)
    ended = np.logical_or.accumulate(~(pairs > 0), axis=1)
    ended[:, -1] = True
    kept = np.where(ended, 0.0, np.minimum.accumulate(np.where(ended, np.inf, pairs), axis=1))
    # The even lag of the pair that ends it still counts, once.
    last = ended.argmax(axis=1)
    rows = np.arange(len(correlations))
    extra = correlations[rows, 2 * last]
    extra = np.where(pairs[rows, last] > 0, extra, np.maximum(extra, 0))
    return np.asarray(-1 + 2 * kept.sum(axis=1) + extra)


def largest_rhat_of(chains: np.ndarray) -> float:
    """Return ArviZ's rank-normalised split R-hat of the coordinate that has the largest.

    It is infinite where chains stand still, each in a place of its own, and NaN for chains of fewer
    than 4 draws. The halves of a single chain count as two chains, so that its quarters are
    compared, and it has to have 8 draws.
    """
    chains = _two_or_more(chains)
    if chains.shape[1] < 4:
        return float("nan")
    if (np.ptp(chains, axis=1) == 0).all(axis=0).any():
        return float("inf")
    values = rhats(chains[:, :, _candidates(chains)])
    return float(np.nanmax(values)) if np.isfinite(values).any() else float("inf")


def _candidates(chains: np.ndarray) -> np.ndarray:
    """Return the series that may have the largest R-hat, without ranking the draws of all.

    A bounded, increasing function of the draws stands in for their ranks.
    """
    p = chains.shape[2]
    if p <= 2 * _CANDIDATES:
        return np.arange(p)
    flat = chains.reshape(-1, p)
    lower, middle, upper = np.percentile(flat[:: len(flat) // _PLACING_DRAWS or 1], [25, 50, 75], 0)
    spread = np.where(upper > lower, upper - lower, 1.0)
    bounded = _halves(chains) - middle
    bounded /= spread
    np.arctan(bounded, out=bounded)
    worst = [np.argsort(-_rhats_of(values))[:_CANDIDATES] for values in (bounded, np.abs(bounded))]
    return np.unique(worst)


def rhats(chains: np.ndarray) -> np.ndarray:
    """Return ArviZ's rank-normalised split R-hat of many series at once, shape (p,).

    The larger one of that of the draws and that of their distances from the median.
    """
    halves = _halves(chains)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(*(_rhats_of(_normal_scores(values)) for values in (halves, folded)))


def _halves(chains: np.ndarray) -> np.ndarray:
    """Return the two halves of every chain, without the draw in the middle."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, chains.shape[1] - half :]])


def _normal_scores(values: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri  # slow to import
    from scipy.stats import rankdata

    ranks = rankdata(values.reshape(-1, values.shape[2]), axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (len(ranks) + 0.25)).reshape(values.shape))


def _rhats_of(halves: np.ndarray) -> np.ndarray:
    length = halves.shape[1]
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(between / within + (length - 1) / length))


def rhat_by_chance(chains: np.ndarray) -> float:
    """Return the largest R-hat that chains as long as these exceed once in 1,000 times by chance.

    Means of half chains have a spread of their own, which R-hat takes for disagreement; that of
    slow chains is larger.
    """
    from scipy.special import chdtri  # slow to import

    n_chains, n_draws, dim = _two_or_more(chains).shape
    # Every chain around its own mean: that they disagree is no correlation.
    slowest = autocorrelation_times(chains - chains.mean(axis=1, keepdims=True)).max()
    parts, length = 2 * n_chains, max(n_draws / 2 / max(slowest, 1.0), 1.0)
    return float(np.sqrt(1 + chdtri(parts - 1, 0.001 / dim) / (parts - 1) / length))


def _two_or_more(chains: np.ndarray) -> np.ndarray:
    """Return chains, or the halves of a single one: ArviZ knows no R-hat of one chain."""
    if len(chains) > 1:
        return chains
    half = chains.shape[1] // 2
    return chains[:, : 2 * half].reshape(2, half, -1)
