r"""The posterior predictive density of new observations, a mixture over draws.

.. math::

    p(\tilde y) = \frac{1}{S} \sum_s p(\tilde y \mid \theta_s), \qquad
    \nabla \log p(\tilde y) = \sum_s w_s(\tilde y)\, \nabla \log p(\tilde y \mid \theta_s),

with :math:`w_s` in proportion to :math:`p(\tilde y \mid \theta_s)`. Draws are added one by one, so
nothing of the size of all of them is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_ksd.models.lattice import step_rates
from pymc_ksd.models.observed.fitted import FittedDensity, Given
from pymc_ksd.models.target import Target

#: What a Stein operator takes of a density.
Values = tuple[np.ndarray, ...]


def predictive_target(
    density: FittedDensity,
    given: Sequence[Given],
    watch: Callable[[Sequence[Given]], Iterable[Given]],
) -> Target:
    """Return the posterior predictive distribution of an observed variable.

    Parameters
    ----------
    density : FittedDensity
        The observed variable.
    given : sequence of tuple of ndarray
        Draws of the free variables. Every other one is mixed, and new data are replicated with the
        rest.
    watch : callable
        Walks through the draws of the mixture, so that progress can be shown.

    Returns
    -------
    Target
    """
    mixture = _Mixture(density, given[::2], given[1::2] or given, watch)
    return Target(
        variables=(density.variable,),
        operator=density.operator,
        values=mixture.rates if density.operator == "birth_death" else mixture.scores,
        unconstrain=mixture.unconstrain,
        simulate=mixture.simulate,
        circular=density.circular,
        kind="predictive",
    )


def predictive_values(
    density: FittedDensity,
    given: Sequence[Given],
    points: np.ndarray,
    watch: Callable[[Sequence[Given]], Iterable[Given]],
    batches: int,
) -> list[Values]:
    """Return what the Stein operator takes of mixtures, at unconstrained points.

    The arguments are those of :func:`predictive_target`; every point belongs to an observation. The
    first mixture is over all draws, each other one over those outside one of as many consecutive
    batches as are asked for. Every draw is evaluated once.
    """
    ends = np.linspace(0, len(given), batches + 1).astype(int)
    parts = [_Mixture(density, given[i:j], given, watch) for i, j in pairwise(ends)]
    everyone = list(range(batches))
    mixtures = [everyone]
    if batches > 1:
        mixtures += [[other for other in everyone if other != one] for one in everyone]
    if density.operator != "birth_death":
        terms = [part.mixed(points) for part in parts]
        return [(_mixed((terms[i] for i in chosen), points)[1],) for chosen in mixtures]
    known: dict[bytes, list[np.ndarray]] = {}

    def log_probabilities(moved: np.ndarray) -> list[np.ndarray]:
        key = moved.tobytes()
        if key not in known:
            known[key] = [part.log_probability(moved) for part in parts]
        return known[key]

    def rates(chosen: Sequence[int]) -> Values:
        return step_rates(
            lambda moved: np.logaddexp.reduce([log_probabilities(moved)[i] for i in chosen]),
            points,
        )

    return [rates(chosen) for chosen in mixtures]


def _mixed(
    terms: Iterable[tuple[np.ndarray, Any]], points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of a sum of densities at points, and its gradient."""
    largest, total = np.full(len(points), -np.inf), np.zeros(len(points))
    weighted = np.zeros(points.shape)
    for values, scores in terms:
        known = np.isfinite(values)
        higher = np.where(known, np.maximum(largest, values), largest)
        with np.errstate(invalid="ignore"):
            shrink = np.where(np.isfinite(largest), np.exp(largest - higher), 0.0)
            weight = np.where(known, np.exp(values - higher), 0.0)
        weighted *= shrink[:, None]
        weighted += weight[:, None] * np.where(known[:, None], scores, 0.0)
        total = total * shrink + weight
        largest = higher
    with np.errstate(invalid="ignore", divide="ignore"):
        return largest + np.log(total), weighted / total[:, None]


@dataclass
class _Mixture:
    """The mixture of a variable's distributions over draws.

    Replicated data come from other draws than those that are mixed, as real ones do: they would be
    closer to a mixture that their own parameters are part of.
    """

    density: FittedDensity
    given: Sequence[Given]
    others: Sequence[Given]
    watch: Callable[[Sequence[Given]], Iterable[Given]]
    _waiting: list[int] = field(default_factory=list)

    def unconstrain(self, samples: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return unconstrained points, the same for all draws."""
        values = samples[self.density.variable.name]
        points = self.density.unconstrain(values, *self.given[0])
        other = self.density.unconstrain(values, *self.given[-1])
        if not np.allclose(points, other, equal_nan=True):
            raise ValueError(
                f"The support of {self.density.variable.name!r} depends on free variables, so the "
                "draws have no common unconstrained coordinates and their mixture has no score in "
                "them. Check the model on its own data with ksd_ppc."
            )
        return points

    def mixed(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithm of the sum of all draws' densities, and its score."""
        return _mixed(self._terms(points), points)

    def scores(self, points: np.ndarray) -> tuple[np.ndarray]:
        """Return the score of the mixture."""
        return (self.mixed(points)[1],)

    def rates(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates of steps up and down under the mixture."""
        return step_rates(self.log_probability, points)

    def log_probability(self, points: np.ndarray) -> np.ndarray:
        """Return the logarithm of the sum of all draws' probabilities."""
        total = np.full(len(points), -np.inf)
        for values, _ in self._terms(points):
            total = np.logaddexp(total, np.where(np.isnan(values), -np.inf, values))
        return total

    def _terms(self, points: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
        for given in self.watch(self.given):
            yield self.density.log_density(points, *given)

    def simulate(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw new observations that share one draw of the free variables, as real ones would."""
        # Each of them once before any comes again: few draws stand for all others.
        if not self._waiting:
            self._waiting = rng.permutation(len(self.others)).tolist()
        chosen = self.others[self._waiting.pop()]
        return {self.density.variable.name: self.density.simulate(n, rng, *chosen)}
