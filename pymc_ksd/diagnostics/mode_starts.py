"""Where to look for modes from: the prior, the draws, and widely around both.

Many more points are scattered than ascents are made. Half of the ascents begin where the density is
higher than at all neighbours, so that a narrow mode is found if a few of many points are near it.
"""

from __future__ import annotations

import numpy as np

from pymc_ksd.models.target import Target
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.ascent import evaluate

#: Sizes of the clouds that points are scattered in where nothing is known of the prior.
_CLOUDS = (0.3, 1.0, 3.0, 10.0)
#: Standard deviations of the draws that points are scattered in around them.
_AROUND = (1.0, 3.0, 10.0)
#: How close to the middle of the prior every second draw from it is brought, where the density of a
#: vague prior's draws can often not even be computed.
_TOWARDS_THE_MIDDLE = 0.2
#: Points that are scattered for every ascent, and neighbours that each is compared with.
_SCATTERED, _NEIGHBOURS = 20, 6
#: Interquartile ranges of a normal distribution.
_QUARTILES = 1.349


def starting_points(
    target: Target,
    sample: Sample | None,
    given: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return points from which modes are looked for, shape (n, d), unconstrained.

    Parameters
    ----------
    target : Target
        The density.
    sample : Sample, optional
        Draws that are to be tested.
    given : ndarray of shape (m, d)
        Points that a user has given.
    count : int
        The number of points that are made up, beside the centres of chains.
    rng : numpy.random.Generator
        Randomness.

    Returns
    -------
    ndarray of shape (n, d)
    """
    scattered = _scattered(target, sample, _SCATTERED * count, rng)
    chosen = _higher_than_neighbours(target, scattered)[: count // 2]
    others = np.setdiff1d(rng.permutation(len(scattered))[:count], chosen)
    parts = [given, scattered[chosen], scattered[others[: count - len(chosen)]]]
    if sample is not None:
        parts += [sample.chains.mean(axis=1), sample.chains[:, -1]]
    return np.concatenate(parts)


def _scattered(
    target: Target, sample: Sample | None, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return points from the prior and, where there are draws, half of them around these."""
    if sample is None:
        return _from_prior(target, count, rng)
    half = count // 2
    drawn = sample.points[rng.integers(sample.n_points, size=half)]
    sizes = np.resize(_AROUND, half)[:, None] * sample.points.std(axis=0)
    around = drawn + sizes * rng.normal(size=drawn.shape)
    return np.concatenate([_from_prior(target, count - half, rng), around])


def _higher_than_neighbours(target: Target, points: np.ndarray) -> np.ndarray:
    """Return rows of points where the density is higher than at those nearest, highest first."""
    from scipy.spatial import cKDTree  # slow to import

    heights = evaluate(target.values, points)[1]
    rows = np.flatnonzero(np.isfinite(heights))
    if len(rows) <= _NEIGHBOURS:
        return rows
    scaled = points[rows] / rough_scales(points[rows])
    near = cKDTree(scaled).query(scaled, _NEIGHBOURS + 1)[1]
    highest = heights[rows] >= heights[rows][near].max(axis=1)
    rows = rows[highest]
    return np.asarray(rows[np.argsort(-heights[rows], kind="stable")])


def _from_prior(target: Target, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws from the prior as far as it has any, and points around zero in their place."""
    clouds = np.resize(_CLOUDS, count)[:, None] * rng.normal(size=(count, target.dim))
    simulate = target.prior or target.simulate
    if simulate is None:
        return clouds
    # A generator of their own: how many numbers PyMC takes must not change what follows.
    (own,) = rng.spawn(1)
    try:
        points = target.unconstrain(simulate(count, own))
    except (NotImplementedError, ValueError):
        return clouds  # a flat prior, or one that PyMC cannot draw from
    usable = np.isfinite(points).all(axis=1)
    if not usable.any():
        return clouds
    middle = np.median(points[usable], axis=0)
    points[::2] = middle + _TOWARDS_THE_MIDDLE * (points[::2] - middle)
    return np.where(usable[:, None], points, middle + clouds)


def rough_scales(points: np.ndarray) -> np.ndarray:
    """Return the sizes of the coordinates of scattered points, shape (d,)."""
    low, high = np.percentile(points, [25, 75], axis=0)
    scales = (high - low) / _QUARTILES
    usable = np.isfinite(scales) & (scales > 0)
    return np.where(usable, scales, 1.0)
