r"""Observations of a fitted model as residuals, with the Stein operator of each.

Every observation is centred and scaled by its distribution given one draw :math:`\theta_s` of the
free variables, in unconstrained coordinates. Centre and scale are those of the model with the same
draw, from quantiles or moments where they are known and from simulated values elsewhere. A
posterior *mean* would have seen the observation: where each has a parameter of its own, residuals
around it are smaller than those of any replicated data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pymc_ksd.diagnostics.scoring import redrawn
from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.functions import draws_in_a_loop
from pymc_ksd.models.target import first_line
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stein.langevin import CENTRAL
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Values simulated for the centre and scale of every observation, fewer where that takes long.
_SIMULATED, _FEWEST = 101, 21
#: The least spread of counts, as simulated values show it: one of them is a step away.
_LEAST_DEVIATION = 1 / np.sqrt(_SIMULATED)
#: Numbers that they may have together.
_NUMBERS = 25_000_000


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

    @property
    def alike(self) -> bool:
        """Whether all observations have the same centre and scale."""
        return all(np.allclose(part, part[:1]) for part in (self.centre, self.spread))

    def of_data(self, data: np.ndarray, rng: np.random.Generator) -> Points:
        """Return the residuals of observations, on the scale the model is written in.

        Values that are hidden beyond a bound are drawn from the model.
        """
        data = self._completed(data, rng)
        points = self.density.unconstrain(data, *self.given)
        self._check(
            np.isinf(points),
            "lie on the boundary of its support{}, where unconstrained coordinates are infinite: "
            "leave them out, or model them as atoms and check the rest",
        )
        values = self.density.values(points, *self.given)
        self._check(
            ~np.isfinite(np.concatenate([points, *values], axis=1)),
            "have no finite density under one of the draws in `data`{}: the draws do not belong "
            "to this model and its data",
        )
        return self._scaled(points, values)

    def _check(self, bad: np.ndarray, problem: str) -> None:
        rows = np.flatnonzero(bad.any(axis=1))
        if rows.size:
            shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            text = problem.format(f" (rows {shown})")
            raise ValueError(
                f"{len(rows)} of {len(bad)} observations of {self.density.places.name!r} {text}."
            )

    def replicated(self, rng: np.random.Generator) -> tuple[Points, np.ndarray]:
        """Draw observations from the model and return their residuals, and themselves.

        Values that rounding has put on the boundary of the support have no score: their residuals
        are drawn again. Values beyond a bound are hidden, as those of data are.
        """
        n, drawn = len(self.centre), []

        def draw() -> np.ndarray:
            with _explained(self.density):
                drawn.append(self.density.simulate(n, rng, *self.given))
                values = self._completed(drawn[-1], rng)
            return self.density.unconstrain(values, *self.given)

        points, values = redrawn(
            draw,
            lambda points: self.density.values(points, *self.given),
            OPERATORS[self.density.operator],
            lambda count: (
                f"Data replicated from the model have no finite density at {count} observations "
                f"of {self.density.places.name!r}: its distribution piles up at the boundary of "
                "its support, beyond the precision of numbers."
            ),
        )
        return self._scaled(points, values), drawn[0]

    def _completed(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        completed = self.density.completed
        return values if completed is None else completed(values, rng, *self.given)

    def _scaled(self, points: np.ndarray, values: tuple[np.ndarray, ...]) -> Points:
        operator = OPERATORS[self.density.operator]
        return operator.standardised(points, values, self.centre, self.spread)


def residuals_given(
    density: FittedDensity, n: int, given: Given, rng: np.random.Generator
) -> Residuals:
    """Find centre and scale of n observations from their distributions given one draw.

    Angles stay as they are.
    """
    shape = (n, density.variable.unconstrained_size)
    if density.circular:
        return Residuals(density, given, np.zeros(shape), np.ones(shape))
    centre, spread = _known(density, given, shape)
    usable = _usable(centre, spread)
    if not usable.all():
        sample = _simulated(density, shape, given, rng)
        simulated = OPERATORS[density.operator].location_and_spread(sample)
        centre, spread = np.where(usable, (centre, spread), simulated)
        usable = _usable(centre, spread)
    return Residuals(density, given, np.where(usable, centre, 0.0), np.where(usable, spread, 1.0))


def _usable(centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.isfinite(centre) & np.isfinite(spread) & (spread > 0)


def _known(
    density: FittedDensity, given: Given, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of counts, of others median and half the central 68 %.

    NaN where they are not known.
    """
    with _explained(density):
        if density.moments is not None:
            mean, deviation = (part.reshape(shape) for part in density.moments(*given))
            return mean, np.maximum(deviation, _LEAST_DEVIATION)
        values = density.quantiles(CENTRAL, *given)
    if values is None:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    # Coordinates of single numbers keep their order, or reverse it.
    low, middle, high = (density.unconstrain(part, *given) for part in values)
    with np.errstate(invalid="ignore"):
        return middle, np.abs(high - low) / 2


def _simulated(
    density: FittedDensity, shape: tuple[int, int], given: Given, rng: np.random.Generator
) -> np.ndarray:
    """Draw unconstrained values of all observations, shape (count, n, d)."""
    # Simplexes, too, are drawn one by one.
    slow = draws_in_a_loop(density.rv) or density.variable.transform == "simplex"
    most = _FEWEST if slow else _SIMULATED
    count = max(_FEWEST, min(most, _NUMBERS // int(np.prod(shape))))
    with _explained(density):
        values = density.simulate_many(count, rng, *given)
    if density.complete is None:
        try:
            flat = values.reshape(-1, *values.shape[2:])
            return density.unconstrain(flat, *given).reshape(count, *shape)
        except ValueError:
            pass  # observations have bounds of their own, and go one set at a time
    return np.stack([density.unconstrain(part, *given) for part in values])


@contextmanager
def _explained(density: FittedDensity) -> Iterator[None]:
    """Say which variable cannot be simulated, and with what."""
    try:
        yield
    except (NotImplementedError, ValueError, ArithmeticError) as error:
        raise ValueError(
            f"Data of {density.places.name!r} cannot be replicated with one of the draws in "
            f"`data`: {first_line(error)}."
        ) from error
