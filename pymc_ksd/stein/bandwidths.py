"""How wide a kernel is: rules, numbers, and the median distance between points."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_ksd.options import positive_number
from pymc_ksd.stein.kernels import Kernel

#: Words that the argument `bandwidth` may be.
_RULES = ("auto", "median", "dimension")
#: Points used for the median distance.
_MEDIAN_POINTS = 1_000


def check_bandwidth(kernel: Kernel, bandwidth: Any) -> None:
    """Refuse a bandwidth that is neither rule nor number, or that the kernel would ignore."""
    if isinstance(bandwidth, str):
        if bandwidth not in _RULES:
            raise ValueError(
                f"`bandwidth` must be {', '.join(map(repr, _RULES))}, a positive number or "
                f"several, got {bandwidth!r}."
            )
        return
    _numbers(bandwidth)
    if not kernel.takes_bandwidth:
        raise ValueError(
            f"`bandwidth` was given, but `kernel` {kernel!r} does not take one from the test."
        )


def _numbers(bandwidth: Any) -> np.ndarray:
    numbers = np.atleast_1d(np.asarray(bandwidth, dtype=object))
    if numbers.ndim != 1 or numbers.size == 0:
        raise ValueError(
            f"`bandwidth` must be {', '.join(map(repr, _RULES))}, a positive number or a flat list "
            f"of them, got an array of shape {numbers.shape}."
        )
    return np.array([positive_number(number, "bandwidth") for number in numbers])


def bandwidth_rule(bandwidth: Any, *, draws: bool, scale: str | None) -> Any:
    """Replace ``"auto"`` by its meaning: the median, or the dimension for draws brought to scale.

    Scaled draws have variance 1 in every coordinate, so the root of the dimension is their typical
    size and need not be estimated; it is shorter than the median and sees wrong scales better.
    """
    if not (isinstance(bandwidth, str) and bandwidth == "auto"):
        return bandwidth
    return "dimension" if draws and scale is not None else "median"


def choose_bandwidths(
    bandwidth: Any, positions: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the bandwidths as an array.

    Parameters
    ----------
    bandwidth : {"median", "dimension"}, float or array_like
        The median distance between points, the square root of their dimension, a number, or
        several numbers, see :func:`check_bandwidth`.
    positions : ndarray of shape (n, d)
        Scaled points.
    rng : numpy.random.Generator
        Picks the points for the median when there are many.

    Returns
    -------
    ndarray of shape (number of bandwidths,)
    """
    if isinstance(bandwidth, str):
        if bandwidth == "dimension":
            return np.array([np.sqrt(positions.shape[1])])
        return np.array([median_distance(positions, rng)])
    return _numbers(bandwidth)


def median_distance(
    positions: np.ndarray, rng: np.random.Generator, most_points: int = _MEDIAN_POINTS
) -> float:
    """Return the median distance between different points, of a random subset if there are many."""
    from scipy.spatial.distance import pdist  # slow to import

    if len(positions) > most_points:
        positions = rng.choice(positions, most_points, replace=False, shuffle=False)
    distances = pdist(positions)
    median = float(np.median(distances))
    if median == 0:
        # More than half of all pairs coincide, as after many rejected proposals.
        distances = distances[distances > 0]
        median = float(np.median(distances)) if distances.size else 0.0
    # Points that are all the same are counts, one step apart from the next value.
    return median or 1.0
