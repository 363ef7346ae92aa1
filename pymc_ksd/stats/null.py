"""What a null is: how a statistic's distribution is found for samples that come from the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from pymc_ksd.stats.statistic import Estimate, Statistic

__all__ = [
    "Null",
    "SampleShape",
    "critical_value",
    "fewest_replicates",
    "monte_carlo_p_value",
]


class SampleShape(Protocol):
    """What a null may know of a sample, see :class:`pymc_ksd.samples.sample.Sample`."""

    @property
    def n_points(self) -> int:
        """The number of points."""

    @property
    def n_chains(self) -> int:
        """Number of chains, 1 for independent points."""

    @property
    def n_draws(self) -> int:
        """The number of draws of a chain."""

    @property
    def chains(self) -> np.ndarray:
        """The points as an array of shape (chain, draw, d)."""


class Null:
    """How a statistic's distribution under the model is found.

    A subclass either draws :meth:`weights` of points, whose quadratic forms are replicates of the
    statistic, or overrides :meth:`distribution`. It is registered in :mod:`pymc_ksd.stats.nulls`.
    """

    #: What the argument `null` calls it.
    name: ClassVar[str] = ""
    #: Whether it simulates samples from the model.
    simulates: ClassVar[bool] = False

    def serves(self, statistic: Statistic) -> bool:
        """Whether it is right for a statistic; one that draws weights, if that takes them."""
        return statistic.takes_weights

    def fitted_to(self, shape: SampleShape) -> Null:
        """Return a null whose options are known, estimated from the sample if need be."""
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Its options, as results show them."""
        return {}

    def weights(
        self, shape: SampleShape, n_replicates: int, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Draw the weights of all replicates, shape (n_replicates, n); None if it needs none."""
        return None

    def pairs(self, n: int) -> float:
        """Return by what a quadratic form over different points is divided."""
        return float(n * (n - 1))

    def distribution(
        self, estimate: Estimate, again: Callable[[], float], n_replicates: int, progressbar: bool
    ) -> np.ndarray:
        """Return replicates of the statistic.

        Parameters
        ----------
        estimate : Estimate
            The statistic of the sample, with the replicates that came of the weights.
        again : callable
            Simulates a sample from the model and returns its statistic.
        n_replicates : int
            How many are wanted.
        progressbar : bool
            Whether to show a bar when the work is long.

        Returns
        -------
        ndarray of shape (n_replicates,)
            What the statistic may come to for samples from the model.
        """
        return estimate.replicates

    def p_value(self, estimate: Estimate, distribution: np.ndarray) -> float:
        """Return how often replicates are at least as large as the statistic."""
        return monte_carlo_p_value(estimate.value, distribution)

    def critical_value(self, estimate: Estimate, distribution: np.ndarray, alpha: float) -> float:
        """Return what the statistic must exceed to be rejected."""
        return critical_value(distribution, alpha)

    def __repr__(self) -> str:
        """Name the null and its options."""
        inner = ", ".join(f"{key}={value:g}" for key, value in self.options.items() if value)
        return f"{type(self).__name__}({inner})"


def monte_carlo_p_value(statistic: float, replicates: np.ndarray) -> float:
    """Return ``(1 + #{S* ≥ S}) / (1 + m)``."""
    return float((1 + np.count_nonzero(replicates >= statistic)) / (1 + len(replicates)))


def critical_value(replicates: np.ndarray, alpha: float) -> float:
    """Return the value that the statistic must exceed for a p-value of at most `alpha`.

    It is infinite when there are too few replicates to reject at this level.
    """
    m = len(replicates)
    allowed = int(np.floor(alpha * (m + 1) + 1e-9)) - 1
    if allowed < 0:
        return float(np.inf)
    return float(np.sort(replicates)[m - 1 - allowed])


def fewest_replicates(alpha: float) -> int:
    """Return the number of replicates below which nothing can be rejected at a level."""
    # The quotient has rounding errors: 1/0.05 may be slightly more than 20.
    return int(np.ceil(1 / alpha - 1e-9)) - 1
