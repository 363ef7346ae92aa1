r"""Observations of a fitted model as residuals, with the Stein operator of each.

Every observation is centred and scaled by its distribution given one draw :math:`\theta_s` of the
free variables, in unconstrained coordinates. Centre and scale are those of the model with the same
draw, from quantiles where PyMC knows them and from simulated values elsewhere. A posterior *mean*
would have seen the observation: where each has a parameter of its own, residuals around it are
smaller than those of any replicated data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pymc_ksd.fitted_density import FittedDensity
from pymc_ksd.points import LatticePoints, Points, ScaledPoints
from pymc_ksd.posterior_given import Given

__all__ = ["Residuals", "residuals_given"]

#: Values simulated for the centre and scale of every observation, fewer of large data.
_SIMULATED, _FEWEST = 101, 21
#: Numbers that they may have together.
_NUMBERS = 25_000_000
#: Shares below the central 68 %, below the median, and below the upper end of the 68 %.
_CENTRAL = (0.16, 0.5, 0.84)
#: How often values are drawn again that rounding has put on the boundary of the support.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Residuals:
    """How observations become residuals, for one draw of the free variables.

    Attributes
    ----------
    density : FittedDensity
        The observed variable.
    given : tuple of ndarray
        The draw.
    centre, spread : ndarray of shape (n, d)
        What is subtracted from every unconstrained coordinate, and what it is divided by.
    """

    density: FittedDensity
    given: Given
    centre: np.ndarray
    spread: np.ndarray

    def of_data(self, data: np.ndarray) -> Points:
        """Return the residuals of observations, on the scale the model is written in."""
        points = self.density.unconstrain(data, *self.given)
        self._check(
            np.isinf(points),
            "lie on the boundary of its support{}, where unconstrained coordinates are infinite: "
            "leave them out, or model them as atoms and check the rest",
        )
        arrays = self.density.operator(points, *self.given)
        self._check(
            ~np.isfinite(np.concatenate([points, *arrays], axis=1)),
            "have no finite density under one of the draws in `idata`{}: the draws do not belong "
            "to this model and its data",
        )
        return self._scaled(points, arrays)

    def _check(self, bad: np.ndarray, problem: str) -> None:
        rows = np.flatnonzero(bad.any(axis=1))
        if rows.size:
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            text = problem.format(f" (rows {shown})")
            raise ValueError(
                f"{len(rows)} of {len(bad)} observations of {self.density.places.name!r} {text}."
            )

    def replicated(self, rng: np.random.Generator) -> Points:
        """Draw observations from the model and return their residuals.

        Values that rounding has put on the boundary of the support have no score and are drawn
        again.
        """
        n = len(self.centre)
        points = self._draw(n, rng)
        for _ in range(_ATTEMPTS):
            bad = ~np.isfinite(points).all(axis=1)
            if not bad.all():
                full = np.where(bad[:, None], points[np.flatnonzero(~bad)[:1]], points)
                arrays = self.density.operator(full, *self.given)
                if not self.density.discrete:
                    bad |= ~np.isfinite(arrays[0]).all(axis=1)
                if not bad.any():
                    return self._scaled(points, arrays)
            points[bad] = self._draw(n, rng)[bad]
        raise ValueError(
            f"Data replicated from the model have no finite density at {np.count_nonzero(bad)} of "
            f"{n} observations of {self.density.places.name!r}: its distribution piles up at the "
            "boundary of its support, beyond the precision of numbers."
        )

    def _draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        with _explained(self.density):
            values = self.density.simulate(n, rng, *self.given)
        return self.density.unconstrain(values, *self.given)

    def _scaled(self, points: np.ndarray, arrays: tuple[np.ndarray, ...]) -> Points:
        positions = (points - self.centre) / self.spread
        identity = np.eye(positions.shape[1])
        if self.density.discrete:
            births, deaths = arrays
            return LatticePoints(positions, births, deaths, 1 / self.spread, identity)
        scores = arrays[0] * self.spread
        return ScaledPoints(positions, scores, scores, identity)


def residuals_given(
    density: FittedDensity, n: int, given: Given, rng: np.random.Generator
) -> Residuals:
    """Find centre and scale of n observations from their distributions given one draw.

    Continuous observations are centred by the median and scaled by half the width of the central
    68 %, which heavy tails do not move; counts by mean and standard deviation, because half of
    them may be the same. Angles stay as they are.
    """
    shape = (n, density.variable.unconstrained_size)
    if density.circular:
        return Residuals(density, given, np.zeros(shape), np.ones(shape))
    count = max(_FEWEST, min(_SIMULATED, _NUMBERS // int(np.prod(shape))))
    if density.discrete:
        sample = _simulated(density, count, given, rng)
        # One simulated value that is a step away makes the least spread that can be seen.
        spread = np.maximum(sample.std(axis=0), 1 / np.sqrt(count))
        return Residuals(density, given, sample.mean(axis=0), spread)
    if density.quantiles is not None:
        # Coordinates of single numbers keep their order, or reverse it.
        with _explained(density):
            values = density.quantiles(_CENTRAL, *given)
        bounds = np.stack([density.unconstrain(part, *given) for part in values])
    else:
        ranks = [round(share * (count - 1)) for share in _CENTRAL]
        bounds = np.partition(_simulated(density, count, given, rng), ranks, axis=0)[ranks]
    with np.errstate(invalid="ignore"):
        spread = np.abs(bounds[2] - bounds[0]) / 2
    usable = np.isfinite(bounds).all(axis=0) & (spread > 0)
    return Residuals(
        density, given, np.where(usable, bounds[1], 0.0), np.where(usable, spread, 1.0)
    )


def _simulated(
    density: FittedDensity, count: int, given: Given, rng: np.random.Generator
) -> np.ndarray:
    """Draw unconstrained values of all observations, shape (count, n, d)."""
    with _explained(density):
        values = density.simulate_many(count, rng, *given)
    return np.stack([density.unconstrain(part, *given) for part in values])


@contextmanager
def _explained(density: FittedDensity) -> Iterator[None]:
    """Say which variable cannot be simulated, and with what."""
    try:
        yield
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"Data of {density.places.name!r} cannot be replicated with one of the draws in "
            f"`idata`: {str(error).splitlines()[0]}."
        ) from error
