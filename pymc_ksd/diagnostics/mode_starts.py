"""Where to look for modes from: the prior, the draws, and widely around both."""

from __future__ import annotations

import numpy as np

from pymc_ksd.models.target import Target
from pymc_ksd.samples.sample import Sample

#: Sizes of the clouds that points are scattered in where nothing is known of the prior.
_CLOUDS = (0.3, 1.0, 3.0, 10.0)
#: Standard deviations of the draws that points are scattered in around them.
_AROUND = (1.0, 3.0, 10.0)
#: How close to the middle of the prior every second draw from it is brought, where the density of a
#: vague prior's draws can often not even be computed.
_TOWARDS_THE_MIDDLE = 0.2
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
    n_around = 0 if sample is None else count // 2
    scattered = _from_prior(target, count - n_around, rng)
    parts = [given, scattered]
    if sample is not None:
        chains = sample.chains
        drawn = sample.points[rng.integers(sample.n_points, size=n_around)]
        spread = sample.points.std(axis=0)
        sizes = np.resize([0.0, *_AROUND], n_around)[:, None]
        parts += [chains.mean(axis=1), chains[:, -1]]
        parts.append(drawn + sizes * spread * rng.normal(size=drawn.shape))
    return np.concatenate(parts)


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
