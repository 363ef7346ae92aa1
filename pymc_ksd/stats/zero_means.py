r"""Tests of means that are zero under the density, from correlated series, many at a time.

The standard error of a mean counts the autocorrelation of its series. Of slow chains the estimate
for a single series is noisy, and the largest of many z-scores tends to be that with the smallest
error, so that no series gets a shorter autocorrelation time than those of its kind typically have.
Squares are skewed, and so are their means: Hall's transformation takes the skewness out of a
z-score, which matters where the largest of many is to be judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: By what factor a series must be slower than those of its kind to get a time of its own.
_NOISE = 1.25
#: How much more skewed than that of as many independent numbers the mean of a slow series is, less
#: one. It is one half for squares of an autoregression.
_SLOW_SKEWNESS = 0.5


@dataclass(frozen=True)
class ZeroMeans:
    """Means of series that should be zero, and how far they are from it.

    Attributes
    ----------
    mean : ndarray of shape (p,)
        The means.
    error : ndarray of shape (p,)
        Their standard errors.
    time : ndarray of shape (p,)
        The autocorrelation times that these count.
    z : ndarray of shape (p,)
        The means in standard errors, free of skewness.
    p_value : ndarray of shape (p,)
        Two-sided p-value of each by itself; 1 where a series does not vary.
    """

    mean: np.ndarray
    error: np.ndarray
    time: np.ndarray
    z: np.ndarray
    p_value: np.ndarray


def zero_means(series: np.ndarray, mean: np.ndarray, times: np.ndarray) -> ZeroMeans:
    """Test whether means of series are zero.

    Parameters
    ----------
    series : ndarray of shape (chain, draw, p)
        The series, of one kind, or means of consecutive stretches of them.
    mean : ndarray of shape (p,)
        Their means.
    times : ndarray of shape (p,)
        Their estimated autocorrelation times.

    Returns
    -------
    ZeroMeans
    """
    from scipy.special import stdtr  # slow to import

    flat = series.reshape(-1, series.shape[-1])
    flat = flat - flat.mean(axis=0)
    time = cautious_times(times)
    squares = flat**2
    variance = squares.mean(axis=0)
    size = len(flat) / time
    error = np.sqrt(variance / size)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = np.einsum("np,np->p", squares, flat) / len(flat) / variance**1.5
        skewness *= (1 + _SLOW_SKEWNESS * np.clip(1 - 1 / time, 0, 1)) / np.sqrt(size)
        z = _without_skewness(mean / error, skewness)
    z = np.where(error > 0, z, 0.0)
    # Of half as many as there are independent numbers: autocorrelation is estimated, too.
    p_value = 2 * stdtr(np.maximum(size / 2, 1), -np.abs(z))
    return ZeroMeans(mean, error, time, z, p_value)


def cautious_times(times: np.ndarray) -> np.ndarray:
    """Return autocorrelation times of series of one kind, none shorter than is typical of it.

    Series that do not vary have none (NaN), and get a time of 1.
    """
    known = times[np.isfinite(times)]
    if not known.size:
        return np.ones_like(times)
    typical = float(np.median(known))
    slow = np.where(times > _NOISE * typical, times, typical)
    return np.where(np.isfinite(times), slow, 1.0)


def _without_skewness(z: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """Return z-scores by Hall's transformation; `skewness` is that of the mean."""
    return np.asarray(z + skewness * z**2 / 3 + skewness**2 * z**3 / 27 + skewness / 6)


def family_wise(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values for their number, by Šidák's inequality."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(p_values.size * np.log1p(-p_values)))
