"""Densities with several modes of several shapes, exact draws of them, and chains that switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import t as student_t

from pymc_ksd import Score

__all__ = ["SINGLE", "TARGETS", "Family", "Mixture", "missed"]


@dataclass(frozen=True)
class Family:
    """A density of one coordinate: its logarithm, the derivative of it, and quantiles.

    Attributes
    ----------
    log_density, score : callable
        Of an array of places.
    quantile : callable
        Of standard normal numbers, so that correlated ones give correlated draws.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    quantile: Callable[[np.ndarray], np.ndarray]


NORMAL = Family(lambda z: -0.5 * z**2, lambda z: -z, lambda u: u)
_T3 = student_t(3)
_T3_AT_ZERO = float(_T3.logpdf(0)) + 0.5 * np.log(2 * np.pi)
#: Student's t with three degrees of freedom.
HEAVY = Family(
    lambda z: -2 * np.log1p(z**2 / 3) + _T3_AT_ZERO,
    lambda z: -4 * z / (3 + z**2),
    lambda u: _T3.ppf(ndtr(u)),
)
#: Gumbel's distribution, with a skewness of 1.14.
SKEWED = Family(
    lambda z: -z - np.exp(-z) + 0.5 * np.log(2 * np.pi),
    lambda z: -1 + np.exp(-z),
    lambda u: -np.log(-log_ndtr(u)),
)
#: Laplace's distribution: an edge at the mode.
EDGED = Family(
    lambda z: -np.abs(z) - np.log(2) + 0.5 * np.log(2 * np.pi),
    lambda z: -np.sign(z),
    lambda u: -np.sign(u) * np.log1p(-np.abs(2 * ndtr(u) - 1)),
)


@dataclass(frozen=True)
class Mixture:
    """A mixture of components, each with a place and a scale for every coordinate.

    Attributes
    ----------
    weights : tuple of float
        Of the components.
    centres : ndarray of shape (k, d)
        Their places.
    scales : ndarray of shape (k, d)
        Their scales.
    family : Family
        Their shape.
    """

    weights: tuple[float, ...]
    centres: np.ndarray
    scales: np.ndarray
    family: Family = NORMAL

    def score(self) -> Score:
        """Return the score, with a log density."""
        dim = self.centres.shape[1]

        constants = np.log(self.weights) - np.log(self.scales).sum(axis=1)
        heights: list[np.ndarray] = []

        def gradient(x: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                places = (x - self.centres[:, None]) / self.scales[:, None]
                logs = self.family.log_density(places).sum(axis=2) + constants[:, None]
                top = logs.max(axis=0)
                shares = np.exp(logs - top)
                total = shares.sum(axis=0)
                heights[:] = [top + np.log(total)]
                each = self.family.score(places) / self.scales[:, None]
                return (shares[..., None] * each).sum(axis=0) / total[:, None]

        def log_density(x: np.ndarray) -> np.ndarray:
            # It is asked for right after the gradient at the same points, one thread at a time.
            return heights[0]

        return Score.from_callable(gradient, dim, log_density=log_density)

    def draw(
        self,
        rng: np.random.Generator,
        n_chains: int,
        n_draws: int,
        stay: float = 0.0,
        correlation: float = 0.0,
    ) -> np.ndarray:
        """Return exact draws of shape (chain, draw, d).

        With probability `stay` a draw is of the same component as the one before it, else of any;
        coordinates within a component have the correlation `correlation` with the draw before.
        """
        k, dim = self.centres.shape
        normal = rng.normal(size=(n_chains, n_draws, dim))
        fresh = rng.choice(k, p=self.weights, size=(n_chains, n_draws))
        stays = rng.random((n_chains, n_draws)) < stay
        for i in range(1, n_draws):
            fresh[:, i] = np.where(stays[:, i], fresh[:, i - 1], fresh[:, i])
            noise = np.sqrt(1 - correlation**2) * normal[:, i]
            normal[:, i] = correlation * normal[:, i - 1] + noise
        return self.centres[fresh] + self.scales[fresh] * self.family.quantile(normal)

    def with_weights(self, *weights: float) -> Mixture:
        """Return the same with other weights."""
        return replace(self, weights=weights)


def missed(target: Mixture) -> Mixture:
    """Return a mixture without its last component."""
    kept = np.array(target.weights[:-1])
    return Mixture(tuple(kept / kept.sum()), target.centres[:-1], target.scales[:-1], target.family)


def _two(
    dim: int, family: Family = NORMAL, weight: float = 0.5, wide: float = 1.0, apart: float = 6.0
) -> Mixture:
    centres, scales = np.zeros((2, dim)), np.ones((2, dim))
    centres[1] = apart / np.sqrt(dim)
    scales[1] = wide
    return Mixture((weight, 1 - weight), centres, scales, family)


#: Densities by name; components are 6 standard deviations apart, or more where tails need it.
TARGETS: dict[str, Mixture] = {
    "two normal": _two(1),
    "two normal, d = 2": _two(2),
    "two normal, d = 10": _two(10),
    "weights .8 and .2": _two(1, weight=0.8),
    "weights .97 and .03": _two(2, weight=0.97),
    "scales 1 and 1/3": _two(2, weight=0.5, wide=1 / 3),
    "scales 1 and 3, d = 10": _two(10, wide=3.0, apart=15.0),
    "three normal": Mixture(
        (0.5, 0.3, 0.2), np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]), np.ones((3, 2))
    ),
    "two skewed": _two(2, SKEWED, apart=12.0),
    "two with heavy tails": _two(2, HEAVY, apart=12.0),
    "two with edges": _two(2, EDGED, apart=12.0),
    "two overlapping, 3 sd apart": _two(1, apart=3.0),
}
#: Densities with one mode.
SINGLE: dict[str, Mixture] = {
    name: Mixture((1.0,), np.zeros((1, dim)), np.ones((1, dim)), family)
    for name, dim, family in (
        ("normal", 1, NORMAL),
        ("normal, d = 10", 10, NORMAL),
        ("skewed", 2, SKEWED),
        ("heavy tails", 2, HEAVY),
        ("edges", 2, EDGED),
    )
} | {"two normal, 1.5 sd apart": _two(1, apart=1.5)}
