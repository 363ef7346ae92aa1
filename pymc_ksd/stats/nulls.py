r"""How statistics are distributed under the model: bootstraps, simulation, central limit theorem.

The bootstraps replace the sum over pairs by a quadratic form in random weights,
:math:`S^* = \frac{1}{N} \sum_{i \ne j} w_i w_j u(x_i, x_j)`, all of whose replicates come from the
same pass over the pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.options import positive_number
from pymc_ksd.stats.panel import spread_of
from pymc_ksd.stats.statistics import Estimate, Statistic

#: Correlation time of wild multipliers in autocorrelation times of the draws.
_CORRELATION_TIMES = 8.0
#: The longest correlation time of wild multipliers, in lengths of a chain.
_LONGEST = 0.4
#: Rounding errors of replicates in single precision, in their standard deviations.
_ROUNDING = 1e-5
#: And of numbers in double precision, where replicates hardly vary.
_DOUBLE_ROUNDING = 1e-12
#: Random numbers drawn at a time: they stay in the processor's cache.
_BATCH = 100_000

#: Tests another sample, which is simulated from the model.
Again = Callable[[], np.ndarray]


def _check_finite(statistic: float, replicates: np.ndarray) -> None:
    """Refuse numbers from which no p-value follows."""
    if not (np.isfinite(statistic) and np.isfinite(replicates).all()):
        raise ValueError(
            "The statistic or its null distribution is not finite: scores of `data` are so "
            "large that their squares overflow. Look for points at the edge of the support."
        )


def monte_carlo_p_value(statistic: float, replicates: np.ndarray) -> float:
    """Return ``(1 + #{S* ≥ S}) / (1 + m)``."""
    _check_finite(statistic, replicates)
    reached = replicates >= statistic - _rounding(replicates)
    return float((1 + np.count_nonzero(reached)) / (1 + len(replicates)))


def _rounding(replicates: np.ndarray) -> float:
    """Return by how much a replicate may differ from a statistic that it is equal to.

    With random signs that are all the same, as few points often have them, it is.
    """
    size = float(np.abs(replicates).max())
    spread = float(spread_of(replicates)) if np.ptp(replicates) > 0 else 0.0
    return max(_ROUNDING * spread, _DOUBLE_ROUNDING * size)


def critical_value(replicates: np.ndarray, alpha: float) -> float:
    """Return the value that the statistic must exceed for a p-value of at most `alpha`.

    It is infinite when there are too few replicates to reject at this level.
    """
    m = len(replicates)
    allowed = int(np.floor(alpha * (m + 1) + 1e-9)) - 1
    if allowed < 0:
        return float(np.inf)
    return float(np.sort(replicates)[m - 1 - allowed]) + _rounding(replicates)


def fewest_replicates(alpha: float) -> int:
    """Return the number of replicates below which nothing can be rejected at a level."""
    # The quotient has rounding errors: 1/0.05 may be slightly more than 20.
    return int(np.ceil(1 / alpha - 1e-9)) - 1


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
    def autocorrelation_time(self) -> float:
        """The integrated autocorrelation time of draws, 1 for independent points."""

    @property
    def interacting(self) -> bool:
        """Whether chains move by where others are."""


class Null:
    """How a statistic's distribution under the model is found.

    A subclass either draws :meth:`weights` of points, whose quadratic forms are replicates of the
    statistic, or overrides :meth:`distribution`. It is registered by :func:`register_null`.
    """

    #: What the argument `null` calls it.
    name: ClassVar[str] = ""
    #: Whether it simulates samples from the model.
    simulates: ClassVar[bool] = False

    def serves(self, statistic: Statistic) -> bool:
        """Whether it is right for a statistic; one that draws weights, if that takes them."""
        return statistic.takes_weights

    def has_power(self, shape: SampleShape) -> bool:
        """Whether a sample of this shape could be rejected, however wrong it is."""
        return True

    def fitted_to(self, shape: SampleShape) -> Null:
        """Return a null whose options are known, estimated from the sample if need be."""
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Its options, as results show them."""
        return {}

    def weights(self, shape: SampleShape, n_replicates: int, rng: Generator) -> np.ndarray | None:
        """Draw the weights of all replicates, shape (n_replicates, n); None if it needs none."""
        return None

    def pairs(self, n: int) -> float:
        """Return by what a quadratic form over different points is divided."""
        return float(n * (n - 1))

    def distribution(
        self, estimate: Estimate, again: Again, n_replicates: int, progressbar: bool
    ) -> np.ndarray:
        """Return replicates of the statistic.

        Parameters
        ----------
        estimate : Estimate
            The statistic of the sample, with the replicates that came of the weights.
        again : callable
            Simulates a sample from the model and returns its statistic, one number for every
            member of a panel.
        n_replicates : int
            How many are wanted.
        progressbar : bool
            Whether to show a bar when the work is long.

        Returns
        -------
        ndarray of shape (n_replicates, members)
            What the statistic may come to for samples from the model; without the last axis where
            one kernel is tested.
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


class _Independent(Null):
    """Weights of independent points, in one byte each, drawn some replicates at a time."""

    def weights(self, shape: SampleShape, n_replicates: int, rng: Generator) -> np.ndarray:
        """Draw the weights of all replicates."""
        n = shape.n_points
        replicates = np.empty((n_replicates, n), dtype=np.int8)
        step = max(1, _BATCH // n)
        for start in range(0, n_replicates, step):
            rows = min(step, n_replicates - start)
            replicates[start : start + rows] = self._some(rows, n, rng)
        return replicates

    def _some(self, rows: int, n: int, rng: Generator) -> np.ndarray:
        raise NotImplementedError


class Multinomial(_Independent):
    """Bootstrap of independent points: sample frequencies less 1/n, in one byte each."""

    name = "multinomial"

    def _some(self, rows: int, n: int, rng: Generator) -> np.ndarray:
        """Draw counts less one, whose products are to be divided by n²."""
        draws = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(draws.ravel(), minlength=rows * n).reshape(rows, n)
        # A point is drawn more than 126 times with a probability below 1e-200.
        return np.minimum(counts, 126) - 1

    def pairs(self, n: int) -> float:
        """Return n²: weights are frequencies."""
        return float(n**2)


class Rademacher(_Independent):
    """Random signs of independent points, in one byte each."""

    name = "rademacher"

    def _some(self, rows: int, n: int, rng: Generator) -> np.ndarray:
        return 2 * rng.integers(2, size=(rows, n), dtype=np.int8) - 1


class Wild(Null):
    r"""Multipliers of dependent draws that vary slowly along each chain, in four bytes each.

    In every chain they are a stationary Gaussian process with correlation
    :math:`e^{-k / 8\tau}` between draws k apart, :math:`\tau` the autocorrelation time of the
    draws, so that they vary slowly beside the draws themselves; :math:`8\tau` is taken as 0.4
    chains where it is more. The multipliers of one replicate have mean square 1: with few
    independent stretches in a chain their size would otherwise vary from replicate to replicate,
    and the test would hardly ever reject. Chains that move by where others are have the same
    multipliers at the same time.

    Parameters
    ----------
    autocorrelation_time : float, optional
        Integrated autocorrelation time of the draws, 1 for independent draws; by default estimated.
    """

    name = "wild"

    def __init__(self, autocorrelation_time: float | None = None) -> None:
        if autocorrelation_time is not None:
            autocorrelation_time = positive_number(autocorrelation_time, "autocorrelation_time")
        self.autocorrelation_time = autocorrelation_time

    def fitted_to(self, shape: SampleShape) -> Wild:
        """Return a null with the autocorrelation time of the draws, unless it was given."""
        if self.autocorrelation_time is not None:
            return self
        return Wild(shape.autocorrelation_time)

    def has_power(self, shape: SampleShape) -> bool:
        """Whether chains are long enough that the multipliers vary as slowly as they should."""
        time = self.fitted_to(shape).autocorrelation_time
        return _CORRELATION_TIMES * float(time or 1.0) < _LONGEST * shape.n_draws

    @property
    def options(self) -> dict[str, Any]:
        """Its autocorrelation time."""
        return {"autocorrelation_time": self.autocorrelation_time}

    def weights(self, shape: SampleShape, n_replicates: int, rng: Generator) -> np.ndarray:
        """Draw multipliers, points ordered as in the sample."""
        from scipy.signal import lfilter  # slow to import

        n_chains, n_draws = shape.n_chains, shape.n_draws
        time = self.fitted_to(shape).autocorrelation_time
        length = min(_CORRELATION_TIMES * float(time or 1.0), _LONGEST * n_draws)
        correlation = np.exp(-1 / length)
        scale = np.sqrt(1 - correlation**2)
        n_own = 1 if shape.interacting else n_chains
        by_chain = np.empty((n_replicates, n_draws, n_own), dtype=np.float32)
        step = max(1, _BATCH // n_draws)
        for chain in range(n_own):
            for start in range(0, n_replicates, step):
                noise = rng.standard_normal((min(step, n_replicates - start), n_draws))
                noise[:, 1:] *= scale
                filtered = lfilter([1.0], [1.0, -correlation], noise, axis=1)
                by_chain[start : start + step, :, chain] = filtered
        if n_own < n_chains:
            by_chain = np.repeat(by_chain, n_chains, axis=2)
        weights = by_chain.reshape(n_replicates, -1)
        weights /= np.sqrt(np.einsum("ij,ij->i", weights, weights) / weights.shape[1])[:, None]
        return weights


class Parametric(Null):
    """Samples simulated from the model, tested as the sample is: exact, at many times the cost."""

    name = "parametric"
    simulates = True

    def serves(self, statistic: Statistic) -> bool:
        """Whatever the statistic."""
        return True

    def distribution(
        self, estimate: Estimate, again: Again, n_replicates: int, progressbar: bool
    ) -> np.ndarray:
        """Simulate."""
        null = np.empty((n_replicates, len(estimate.values)))
        with progress_bar("Simulating the null", n_replicates, progressbar) as bar:
            for index in range(n_replicates):
                null[index] = again()
                bar.advance(1)
        return null


class Normal(Null):
    r"""The central limit theorem, for statistics that are means of independent terms.

    Rejects when the statistic exceeds :math:`z_{1-\alpha}` times its standard error.
    """

    name = "normal"

    def serves(self, statistic: Statistic) -> bool:
        """Whether the statistic knows its standard error."""
        return statistic.has_error

    def distribution(
        self, estimate: Estimate, again: Again, n_replicates: int, progressbar: bool
    ) -> np.ndarray:
        """Return evenly spaced quantiles of the normal distribution."""
        from scipy.special import ndtri  # slow to import

        if estimate.error == 0:
            raise ValueError(
                "The terms of the statistic are all equal, so its error cannot be estimated: are "
                "the points repeated?"
            )
        quantiles: np.ndarray = ndtri((np.arange(n_replicates) + 0.5) / n_replicates)
        return quantiles * estimate.error

    def p_value(self, estimate: Estimate, distribution: np.ndarray) -> float:
        """Return the probability of a larger value."""
        from scipy.special import ndtr  # slow to import

        _check_finite(estimate.value, distribution)
        return float(ndtr(-estimate.value / estimate.error))

    def critical_value(self, estimate: Estimate, distribution: np.ndarray, alpha: float) -> float:
        """Return a quantile of the normal distribution."""
        from scipy.special import ndtri  # slow to import

        return float(-ndtri(alpha) * estimate.error)


NULLS: dict[str, type[Null]] = {
    null.name: null for null in (Multinomial, Rademacher, Wild, Normal, Parametric)
}


def register_null(null: type[Null]) -> type[Null]:
    """Make a null known under its name, for the argument `null`.

    Parameters
    ----------
    null : type of Null
        Its class, which can be called without arguments.

    Returns
    -------
    type of Null
        The same class, so that this can decorate it.
    """
    NULLS[null.name] = null
    return null


def get_null(null: str | Null | None, statistic: Statistic) -> Null:
    """Turn the argument `null` of a public function into a :class:`Null` for a statistic."""
    if null is None:
        null = statistic.default_null
    known = {name: kind() for name, kind in NULLS.items()}
    found = null if isinstance(null, Null) else known.get(null) if isinstance(null, str) else None
    if found is None or not found.serves(statistic):
        allowed = [repr(name) for name, other in known.items() if other.serves(statistic)]
        raise ValueError(
            f"`null` must be one of {', '.join(allowed)} for `statistic` {statistic.name!r}, got "
            f"{null!r}."
        )
    return found
