r"""From unconstrained points and their scores to the coordinates in which a kernel compares them.

Points are centred before any distance is formed: distances come from matrix products, which would
otherwise lose the digits that a common offset takes up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.kernels import positive_number

__all__ = [
    "BANDWIDTH_RULES",
    "SCALES",
    "LatticePoints",
    "Points",
    "ScaledPoints",
    "Scaling",
    "bandwidth_rule",
    "choose_bandwidths",
    "scale_lattice_points",
    "scale_points",
]

#: What the argument `scale` may be.
SCALES = (None, "std", "cov")
#: Words that the argument `bandwidth` may be.
BANDWIDTH_RULES = ("auto", "median", "dimension")
#: Points used for the median distance.
_MEDIAN_POINTS = 1_000
#: Below this many points per coordinate a sample covariance is pulled towards its diagonal.
_POINTS_PER_COORDINATE = 10
#: Smallest admitted eigenvalue of a correlation matrix, relative to the largest.
_EIGENVALUE_FLOOR = 1e-10


@dataclass(frozen=True)
class ScaledPoints:
    """Points and scores in the coordinates z that a kernel compares.

    Attributes
    ----------
    positions : ndarray of shape (n, d)
        The points z, centred and scaled.
    scores : ndarray of shape (n, d)
        The score with respect to z.
    standard_scores : ndarray of shape (n, d)
        The score with respect to each coordinate alone in units of its standard deviation, or in
        its own units when points are not scaled.
    mixing : ndarray of shape (d, d)
        The matrix M with z = M y, y being those single coordinates.
    """

    positions: np.ndarray
    scores: np.ndarray
    standard_scores: np.ndarray
    mixing: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What a Stein kernel takes of every point."""
        return self.positions, self.scores

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """What it takes once."""
        return ()

    @property
    def coordinate_arrays(self) -> tuple[np.ndarray, ...]:
        """What single coordinates' terms take of every point in addition."""
        return (self.standard_scores,)

    @property
    def coordinate_constants(self) -> tuple[np.ndarray, ...]:
        """What they take once."""
        return (self.mixing,)


@dataclass(frozen=True)
class LatticePoints:
    """Points of discrete variables in the coordinates z that a kernel compares, with their rates.

    Attributes
    ----------
    positions : ndarray of shape (n, d)
        The points z, centred and scaled.
    births, deaths : ndarray of shape (n, d)
        Rates of steps up and down in every coordinate, see :mod:`pymc_ksd.lattice`.
    lengths : ndarray of shape (n, d)
        How long each point's steps are.
    steps : ndarray of shape (d, d)
        Where a step of length 1 up in each coordinate leads, one row a coordinate.
    """

    positions: np.ndarray
    births: np.ndarray
    deaths: np.ndarray
    lengths: np.ndarray
    steps: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What a Stein kernel takes of every point."""
        return self.positions, self.births, self.deaths, self.lengths

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """What it takes once."""
        return (self.steps,)

    @property
    def coordinate_arrays(self) -> tuple[np.ndarray, ...]:
        """Nothing: single coordinates' terms are what the whole is made of."""
        return ()

    @property
    def coordinate_constants(self) -> tuple[np.ndarray, ...]:
        """Nothing either."""
        return ()


Points = ScaledPoints | LatticePoints


@dataclass(frozen=True)
class Scaling:
    """How points are centred and scaled.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        What is taken away.
    deviations : ndarray of shape (d,), optional
        Standard deviations to divide by.
    factor : ndarray of shape (d, d), optional
        Cholesky factor L of the correlation matrix, to whiten by.
    """

    centre: np.ndarray
    deviations: np.ndarray | None = None
    factor: np.ndarray | None = None

    @classmethod
    def of_moments(
        cls, centre: np.ndarray, covariance: np.ndarray, n: int, scale: str | None
    ) -> Scaling:
        """Return the scaling for n points of a given covariance."""
        if scale is None:
            return cls(centre)
        deviations = np.sqrt(np.diag(covariance))
        if not deviations.all():
            raise ValueError(
                f"`scale` {scale!r} divides by the spread of every coordinate, but "
                f"{np.count_nonzero(deviations == 0)} coordinate(s) do not vary, first at position "
                f"{int(np.argmin(deviations))}."
            )
        if scale == "std" or len(centre) == 1:
            return cls(centre, deviations)
        correlation = covariance / np.outer(deviations, deviations)
        return cls(centre, deviations, _correlation_factor(correlation, n))

    def apply(self, points: np.ndarray, scores: np.ndarray) -> ScaledPoints:
        """Bring points and their scores to the coordinates in which a kernel compares them."""
        dim = len(self.centre)
        centred = points - self.centre
        if self.deviations is None:
            return ScaledPoints(centred, scores, scores, np.eye(dim))
        standard, standard_scores = centred, scores * self.deviations
        standard /= self.deviations
        if self.factor is None:
            return ScaledPoints(standard, standard_scores, standard_scores, np.eye(dim))
        from scipy.linalg import solve_triangular  # slow to import

        mixing = solve_triangular(self.factor, np.eye(dim), lower=True)
        return ScaledPoints(
            np.ascontiguousarray(standard @ mixing.T),
            standard_scores @ self.factor,
            standard_scores,
            mixing,
        )


def scale_points(points: np.ndarray, scores: np.ndarray, scale: str | None) -> ScaledPoints:
    """Centre points and scale them by nothing, standard deviations or the covariance.

    Parameters
    ----------
    points, scores : ndarray of shape (n, d)
        Unconstrained points and the score there.
    scale : {None, "std", "cov"}
        With ``"cov"``, points are whitened: z = L⁻¹(x − mean), L the Cholesky factor of their
        covariance, and the score becomes Lᵀs.

    Returns
    -------
    ScaledPoints
    """
    if scale not in SCALES:
        raise ValueError(f"`scale` must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")
    n, dim = points.shape
    # The median, because a single point far off would drag the mean, and the digits, with it.
    centre = np.median(points, axis=0)
    covariance = np.empty((dim, dim))
    if scale == "cov":
        covariance = np.atleast_2d(np.cov(points - centre, rowvar=False))
    elif scale == "std":
        covariance = np.diag(np.var(points - centre, axis=0, ddof=1))
    return Scaling.of_moments(centre, covariance, n, scale).apply(points, scores)


def scale_lattice_points(
    points: np.ndarray, births: np.ndarray, deaths: np.ndarray, scale: str | None
) -> LatticePoints:
    """Centre and scale points of discrete variables as :func:`scale_points` does.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Points on the lattice.
    births, deaths : ndarray of shape (n, d)
        Rates of steps up and down.
    scale : {None, "std", "cov"}
        How points are scaled; their steps are scaled with them.

    Returns
    -------
    LatticePoints
    """
    constant = (points == points[0]).all(axis=0)
    deviations = np.ones(points.shape[1])
    if scale is not None:
        deviations = np.where(constant, 1.0, points.std(axis=0, ddof=1))
    # Counts that are all the same have a scale too: the step to the next value.
    moving = np.flatnonzero(~constant)
    positions, mixing = np.zeros(points.shape), np.eye(points.shape[1])
    if moving.size:
        scaled = scale_points(points[:, moving], np.zeros((len(points), moving.size)), scale)
        positions[:, moving] = scaled.positions
        mixing[np.ix_(moving, moving)] = scaled.mixing
    steps = np.ascontiguousarray((mixing / deviations).T)
    return LatticePoints(positions, births, deaths, np.ones(points.shape), steps)


def _correlation_factor(correlation: np.ndarray, n: int) -> np.ndarray:
    """Return the Cholesky factor of n points' correlations, regularised where it has to be."""
    dim = len(correlation)
    if n < _POINTS_PER_COORDINATE * dim:
        weight = dim / (n + dim)
        correlation = (1 - weight) * correlation + weight * np.eye(dim)
    values, vectors = np.linalg.eigh(correlation)
    floor = _EIGENVALUE_FLOOR * values[-1]
    if values[0] < floor:
        correlation = (vectors * np.maximum(values, floor)) @ vectors.T
    factor: np.ndarray = np.linalg.cholesky(correlation)
    return factor


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
        several numbers.
    positions : ndarray of shape (n, d)
        Scaled points.
    rng : numpy.random.Generator
        Picks the points for the median when there are many.

    Returns
    -------
    ndarray of shape (number of bandwidths,)
    """
    if isinstance(bandwidth, str):
        if bandwidth not in BANDWIDTH_RULES:
            raise ValueError(
                f"`bandwidth` must be {', '.join(map(repr, BANDWIDTH_RULES))}, a positive number "
                f"or several, got {bandwidth!r}."
            )
        if bandwidth == "dimension":
            return np.array([np.sqrt(positions.shape[1])])
        return np.array([median_distance(positions, rng)])
    numbers = np.atleast_1d(np.asarray(bandwidth, dtype=object))
    if numbers.ndim != 1 or numbers.size == 0:
        raise ValueError(
            f"`bandwidth` must be {', '.join(map(repr, BANDWIDTH_RULES))}, a positive number or a "
            f"flat list of them, got an array of shape {numbers.shape}."
        )
    return np.array([positive_number(number, "bandwidth") for number in numbers])


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
