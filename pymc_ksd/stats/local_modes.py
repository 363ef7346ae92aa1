"""Modes of a density: summits that are told apart, each with the size of its neighbourhood.

A summit counts as a mode if the density falls on both sides along every axis of its neighbourhood.
Neither a slope on which an ascent has ended, nor a plateau, nor a density that grows without bound
is one. The size is where the log density has fallen by one half, one standard deviation of a normal
distribution, so that it also exists where the density has an edge and no second derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_ksd.stats.ascent import ScoreAndDensity, Summits, evaluate

#: Differences for the first look at second derivatives, in units of the rough scales, and for the
#: second one in units of the standard deviations that it has shown.
_FIRST_LOOK, _SECOND_LOOK = 1e-3, 0.05
#: How often a summit is approached by Newton's method, and an axis is fitted to the density.
_NEWTON, _FITTED = 4, 12
#: The fall of the log density at one standard deviation, and how far from it an axis may stay.
_FALL, _FALLS = 0.5, (0.2, 2.0)
#: Part of an axis at which the density must have fallen, too, on both sides.
_NEAR = 0.25
#: Standard deviations within which two summits are one, and the fall of the log density between
#: two summits that makes them two.
_SAME, _VALLEY = 0.5, 0.25
#: The smallest eigenvalue, of second derivatives with ones on the diagonal, that may be rounding.
_SADDLE = -1e-4
#: Points looked at between two summits.
_BETWEEN = 15


@dataclass(frozen=True)
class Modes:
    """Modes and their neighbourhoods, the highest first.

    Attributes
    ----------
    locations : ndarray of shape (k, d)
        Where they are.
    log_densities : ndarray of shape (k,)
        Log densities there.
    centres : ndarray of shape (k, d)
        Centres of the neighbourhoods: the modes themselves, or the means of the mass near them.
    roots : ndarray of shape (k, d, d)
        Symmetric square roots of the neighbourhoods' covariances, in units of `scales`.
    scales : ndarray of shape (d,)
        Sizes of the coordinates.
    heights : ndarray of shape (k,)
        What the log density of a normal distribution with each neighbourhood's centre, covariance
        and share of the mass is at its centre.
    """

    locations: np.ndarray
    log_densities: np.ndarray
    centres: np.ndarray
    roots: np.ndarray
    scales: np.ndarray
    heights: np.ndarray

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.locations)

    @property
    def log_sizes(self) -> np.ndarray:
        """Logarithms of the determinants of the roots, shape (k,), up to a constant."""
        return np.linalg.slogdet(self.roots)[1]

    def standardised(self, points: np.ndarray) -> np.ndarray:
        """Return where points are from each mode, in its own units, shape (k, n, d)."""
        shifted = (points[None] - self.centres[:, None]) / self.scales
        return np.linalg.solve(self.roots, shifted.swapaxes(1, 2)).swapaxes(1, 2)

    def placed(self, standardised: np.ndarray, mode: int) -> np.ndarray:
        """Return the points of shape (n, d) that are there from a mode."""
        return np.asarray(self.centres[mode] + (standardised @ self.roots[mode].T) * self.scales)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Return the mode whose neighbourhood each point is in: the one denser there."""
        distances = (self.standardised(points) ** 2).sum(axis=2)
        return np.asarray((self.heights[:, None] - 0.5 * distances).argmax(axis=0))

    def chosen(self, rows: np.ndarray | Sequence[int]) -> Modes:
        """Return some of them."""
        names = ("locations", "log_densities", "centres", "roots", "heights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def with_neighbourhoods(
        self, centres: np.ndarray, roots: np.ndarray, heights: np.ndarray
    ) -> Modes:
        """Return the same modes with other neighbourhoods."""
        return replace(self, centres=centres, roots=roots, heights=heights)


@dataclass(frozen=True)
class _Summit:
    """A mode with its neighbourhood."""

    location: np.ndarray
    log_density: float
    root: np.ndarray


def distinct_modes(
    function: ScoreAndDensity, summits: Summits, scales: np.ndarray, most: int
) -> tuple[Modes, int]:
    """Tell modes apart among the ends of ascents.

    Parameters
    ----------
    function : callable
        Score and log density.
    summits : Summits
        Where ascents have ended.
    scales : ndarray of shape (d,)
        Rough sizes of the coordinates.
    most : int
        How many modes are looked for at the most.

    Returns
    -------
    modes : Modes
        The modes.
    n_lost : int
        How many ascents have ended at none: the density kept rising, or was flat.
    """
    found: list[_Summit] = []
    refused: list[np.ndarray] = []
    rows = np.flatnonzero(summits.ended & np.isfinite(summits.log_densities))
    n_lost = int(np.count_nonzero(np.isfinite(summits.log_densities)) - len(rows))
    for row in rows[np.argsort(-summits.log_densities[rows], kind="stable")]:
        point, height = summits.points[row], float(summits.log_densities[row])
        if any(_is_same(function, one, point, height, scales) for one in found):
            continue
        if any(np.linalg.norm((point - other) / scales) < _FIRST_LOOK for other in refused):
            n_lost += 1
            continue
        summit = _summit_at(function, point, scales) if len(found) < most else None
        if summit is None:
            refused.append(point)
            n_lost += 1
        elif not any(
            _is_same(function, one, summit.location, summit.log_density, scales) for one in found
        ):
            found.append(summit)
    dim = len(scales)
    locations = np.array([one.location for one in found]).reshape(-1, dim)
    heights = np.array([one.log_density for one in found])
    roots = np.array([one.root for one in found]).reshape(-1, dim, dim)
    order = np.argsort(-heights, kind="stable")
    modes = Modes(locations, heights, locations, roots, scales, heights)
    return modes.chosen(order), n_lost


def _is_same(
    function: ScoreAndDensity, mode: _Summit, point: np.ndarray, height: float, scales: np.ndarray
) -> bool:
    """Whether a point is near a mode, or has no valley between it and the mode."""
    distance = np.linalg.solve(mode.root, (point - mode.location) / scales)
    if np.linalg.norm(distance) < _SAME:
        return True
    parts = np.linspace(0, 1, _BETWEEN + 2)[1:-1, None]
    heights = evaluate(function, mode.location + parts * (point - mode.location))[1]
    return bool(heights.min() > min(mode.log_density, height) - _VALLEY)


def _summit_at(function: ScoreAndDensity, point: np.ndarray, scales: np.ndarray) -> _Summit | None:
    """Return the mode at a point with its neighbourhood, or nothing if it is none."""
    units = scales
    look = _FIRST_LOOK
    for _ in range(_NEWTON):
        curvature = _curvature(function, point, look * units) * units[:, None] * units
        diagonal = np.diag(curvature)
        if not np.isfinite(curvature).all() or (diagonal <= 0).any():
            return None
        units, look = units / np.sqrt(diagonal), _SECOND_LOOK
        curvature = curvature / np.sqrt(diagonal[:, None] * diagonal)
        values, axes = np.linalg.eigh(curvature)
        score, height = (array[0] for array in evaluate(function, point[None]))
        gain = axes.T @ (score * units)
        if (gain**2 / np.maximum(values, 1e-12)).sum() < 1e-10:
            break
        step = point + units * (axes @ (gain / np.maximum(np.abs(values), 1e-6)))
        if evaluate(function, step[None])[1][0] <= height:
            break
        point = step
    if values[0] < _SADDLE:
        return None
    # Axes in the coordinates' own units, one standard deviation long.
    axes = units[:, None] * axes / np.sqrt(np.maximum(np.abs(values), 1e-8))
    height = float(evaluate(function, point[None])[1][0])
    fitted = _fitted_axes(function, point, height, axes)
    if fitted is None:
        return None
    scaled = fitted / scales[:, None]
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    if values[0] <= 0:
        return None
    return _Summit(point, height, (vectors * np.sqrt(values)) @ vectors.T)


def _curvature(function: ScoreAndDensity, point: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return minus the second derivatives of the log density, by differences of the score."""
    shifts = np.diag(steps)
    scores, heights = evaluate(function, np.concatenate([point + shifts, point - shifts]))
    if not np.isfinite(heights).all():
        return np.full(shifts.shape, np.nan)
    up, down = np.split(scores, 2)
    second = (down - up) / (2 * steps[:, None])
    return np.asarray((second + second.T) / 2)


def _fitted_axes(
    function: ScoreAndDensity, point: np.ndarray, height: float, axes: np.ndarray
) -> np.ndarray | None:
    """Return axes, as columns, as long as the log density takes to fall by one half.

    Nothing where it does not, or does so on one side only.
    """
    lengths = np.ones(axes.shape[1])

    def falls(part: float) -> np.ndarray:
        shifts = (axes * (part * lengths)).T
        sides = np.concatenate([point + shifts, point - shifts])
        return height - evaluate(function, sides)[1].reshape(2, -1)

    for _ in range(_FITTED):
        mean = falls(1.0).mean(axis=0)
        if (np.abs(mean - _FALL) < 0.05).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(mean > 0, np.sqrt(_FALL / mean), 4.0)
        lengths *= np.clip(factors, 0.25, 4.0)
    mean = falls(1.0).mean(axis=0)
    near = falls(_NEAR)
    if not ((mean > _FALLS[0]) & (mean < _FALLS[1])).all() or (near <= 0).any():
        return None
    return np.asarray(axes * lengths)
