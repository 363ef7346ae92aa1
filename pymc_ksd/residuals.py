"""Observations of a fitted model as residuals, with the Stein operator of each.

Every observation is centred and scaled by what the model predicts for it, in unconstrained
coordinates. The scale is fixed before any discrepancy is computed, from replicated data of their
own, so Stein's identity holds for the residuals as it does for the observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.fitted_density import FittedDensity
from pymc_ksd.points import LatticePoints, Points, ScaledPoints
from pymc_ksd.posterior_given import Given

__all__ = ["Residuals", "find_scale", "replicate"]

#: Numbers that replicated data for the scale may have; fewer replicates are made of large data.
_NUMBERS = 25_000_000
#: Least number of those replicates.
_FEWEST = 30
#: How often values are drawn again that rounding has put on the boundary of the support.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Residuals:
    """How observations become residuals.

    Attributes
    ----------
    density : FittedDensity
        The observed variable.
    centre, spread : ndarray of shape (n, d)
        What is subtracted from every unconstrained coordinate, and what it is divided by.
    """

    density: FittedDensity
    centre: np.ndarray
    spread: np.ndarray

    def of_data(self, given: Given) -> Points:
        """Return the residuals of the model's own observations."""
        data = self.density.data()
        points = self.density.unconstrain(data, *given)
        residuals, arrays = self._scaled(points, given)
        self._check(
            np.isinf(points),
            "lie on the boundary of its support{}, where unconstrained coordinates are infinite: "
            "leave them out, or model them as atoms and check the rest",
        )
        self._check(
            ~np.isfinite(np.concatenate([points, *arrays], axis=1)),
            "have no finite density under one of the draws in `idata`{}: the draws do not belong "
            "to this model and its data",
        )
        return residuals

    def _check(self, bad: np.ndarray, problem: str) -> None:
        rows = np.flatnonzero(bad.any(axis=1))
        if rows.size:
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            text = problem.format(f" (rows {shown})")
            raise ValueError(
                f"{len(rows)} of {len(bad)} observations of {self.density.places.name!r} {text}."
            )

    def of_points(self, points: np.ndarray, given: Given) -> Points:
        """Return the residuals of replicated observations, in unconstrained coordinates."""
        return self._scaled(points, given)[0]

    def _scaled(self, points: np.ndarray, given: Given) -> tuple[Points, tuple[np.ndarray, ...]]:
        positions = (points - self.centre) / self.spread
        arrays = self.density.operator(points, *given)
        identity = np.eye(positions.shape[1])
        if self.density.discrete:
            births, deaths = arrays
            return LatticePoints(positions, births, deaths, 1 / self.spread, identity), arrays
        scores = arrays[0] * self.spread
        return ScaledPoints(positions, scores, scores, identity), arrays


def replicate(density: FittedDensity, n: int, rng: np.random.Generator, given: Given) -> np.ndarray:
    """Draw observations from the model and return them in unconstrained coordinates.

    Values that rounding has put on the boundary of the support have no score and are drawn again.
    """

    def draw() -> np.ndarray:
        try:
            values = density.simulate(n, rng, *given)
        except (NotImplementedError, ValueError) as error:
            raise ValueError(
                f"Data of {density.places.name!r} cannot be replicated with one of the draws in "
                f"`idata`: {str(error).splitlines()[0]}."
            ) from error
        return density.unconstrain(values, *given)

    points = draw()
    for _ in range(_ATTEMPTS):
        bad = ~np.isfinite(points).all(axis=1)
        if not density.discrete and not bad.all():
            full = np.where(bad[:, None], points[np.flatnonzero(~bad)[:1]], points)
            bad |= ~np.isfinite(density.log_density(full, *given)[0])
        if not bad.any():
            return points
        points[bad] = draw()[bad]
    raise ValueError(
        f"Data replicated from the model have no finite density at {np.count_nonzero(bad)} of {n} "
        f"observations of {density.places.name!r}: its distribution piles up at the boundary of "
        "its support, beyond the precision of numbers."
    )


def find_scale(
    density: FittedDensity, given: Sequence[Given], rng: np.random.Generator
) -> Residuals:
    """Find what the model predicts for every observation, from one replicate for each draw.

    Continuous observations are centred by the median and scaled by half the width of the central
    68 %, which heavy tails do not move; counts by mean and standard deviation, because half of
    them may be the same. Angles stay as they are.
    """
    data = density.data()
    shape = density.unconstrain(data, *given[0]).shape
    if density.circular:
        return Residuals(density, np.zeros(shape), np.ones(shape))
    most = max(_FEWEST, _NUMBERS // int(np.prod(shape)))
    some = np.linspace(0, len(given) - 1, min(len(given), most)).round().astype(int)
    sample = np.stack([replicate(density, len(data), rng, given[s]) for s in some])
    if density.discrete:
        centre, spread = sample.mean(axis=0), sample.std(axis=0)
    else:
        low, centre, high = np.quantile(sample, [0.16, 0.5, 0.84], axis=0)
        spread = (high - low) / 2
    return Residuals(density, centre, np.where(spread > 0, spread, 1.0))
