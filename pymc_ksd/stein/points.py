r"""Points in the coordinates in which a kernel compares them, and how they are brought there.

Points are centred before any distance is formed: distances come from matrix products, which would
otherwise lose the digits that a common offset takes up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: What the argument `scale` may be.
SCALES = (None, "std", "cov", "stein")
#: Below this many points per coordinate a sample covariance is pulled towards its diagonal.
_POINTS_PER_COORDINATE = 10
#: Smallest admitted eigenvalue of a correlation matrix, relative to the largest.
_EIGENVALUE_FLOOR = 1e-10


@dataclass(frozen=True)
class Points:
    """Scaled points and the numbers that belong to them, by name.

    Attributes
    ----------
    positions : ndarray of shape (n, d)
        The points z, centred and scaled.
    terms : mapping of str to ndarray of shape (n, d)
        What the Stein operator takes of every point: scores, or rates of steps.
    constants : mapping of str to ndarray
        What it takes once.
    """

    positions: np.ndarray
    terms: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.positions)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(self.positions.shape[1])

    def arrays(self, **sides: slice) -> dict[str, np.ndarray]:
        """Return what functions take, by name: of some points on every side, and once.

        Sides are ``row`` and ``column``; an array of the rows is called ``row.scores``.
        """
        arrays = dict(self.constants)
        for side, rows in sides.items():
            arrays[f"{side}.positions"] = self.positions[rows]
            arrays |= {f"{side}.{name}": term[rows] for name, term in self.terms.items()}
        return arrays

    def at(self, rows: np.ndarray) -> Points:
        """Return some of the points, or all in another order."""
        terms = {name: term[rows] for name, term in self.terms.items()}
        return Points(self.positions[rows], terms, self.constants)

    def stretches(self, multiple: int) -> Iterator[Points]:
        """Give all points at once; streams of draws give some at a time."""
        yield self


def check_scale(scale: Any) -> None:
    """Refuse what is no way to scale points."""
    if scale not in SCALES:
        raise ValueError(f"`scale` must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")


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
    def of_points(cls, points: np.ndarray, scale: str | None) -> Scaling:
        """Return the scaling of points by nothing, their standard deviations or covariance."""
        check_scale(scale)
        n, dim = points.shape
        # The median, because a single point far off would drag the mean, and the digits, with it.
        centre = np.median(points, axis=0)
        covariance = np.empty((dim, dim))
        if scale == "cov":
            covariance = np.atleast_2d(np.cov(points - centre, rowvar=False))
        elif scale == "std":
            covariance = np.diag(np.var(points - centre, axis=0, ddof=1))
        return cls.of_moments(centre, covariance, n, scale)

    @classmethod
    def of_scores(cls, points: np.ndarray, scores: np.ndarray) -> Scaling:
        r"""Return the scaling by what the spread of points and of their scores agree on.

        It is the geometric mean of the points' covariance and the inverse of the scores' second
        moment. Both are the covariance of a normal density if the points come from it; their mean
        is that even if they do not, so that whitening by it takes nothing from what is to be found.
        """
        centre, n = np.median(points, axis=0), len(points)
        covariance = np.atleast_2d(np.cov(points - centre, rowvar=False))
        deviations = np.sqrt(np.diag(covariance))
        if not deviations.all():
            return cls.of_moments(centre, covariance, n, "cov")  # which says what is wrong
        correlation = covariance / np.outer(deviations, deviations)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, _EIGENVALUE_FLOOR * values[-1]))
        standard = scores * deviations @ root
        values, vectors = np.linalg.eigh(standard.T @ standard / n)
        values = np.maximum(values, _EIGENVALUE_FLOOR * values[-1])
        if not values[-1] > 0:
            return cls.of_moments(centre, covariance, n, "cov")  # all scores are zero
        half = deviations[:, None] * root @ (vectors * values**-0.25)
        return cls.of_moments(centre, half @ half.T, n, "cov")

    @classmethod
    def of_moments(
        cls, centre: np.ndarray, covariance: np.ndarray, n: int, scale: str | None
    ) -> Scaling:
        """Return the scaling for n points of a given covariance."""
        if scale is None:
            return cls(centre)
        if scale == "stein":
            raise ValueError(
                "`scale` 'stein' takes the scores of all points at once, which counts, and draws "
                "that are too many to hold, do not have: whiten them by 'cov'."
            )
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

    @property
    def mixing(self) -> np.ndarray:
        """The matrix M with z = M y, y being single coordinates in their own units."""
        dim = len(self.centre)
        if self.factor is None:
            return np.eye(dim)
        from scipy.linalg import solve_triangular  # slow to import

        mixing: np.ndarray = solve_triangular(self.factor, np.eye(dim), lower=True)
        return mixing

    def positions(self, points: np.ndarray) -> np.ndarray:
        """Return points in the coordinates that a kernel compares."""
        standard: np.ndarray = points - self.centre
        if self.deviations is not None:
            standard /= self.deviations
        if self.factor is None:
            return standard
        return np.ascontiguousarray(standard @ self.mixing.T)

    def scores(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scores in these coordinates, and those of single coordinates in their units."""
        standard = scores if self.deviations is None else scores * self.deviations
        return (standard if self.factor is None else standard @ self.factor), standard


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
