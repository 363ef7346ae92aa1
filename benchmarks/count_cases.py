"""Discrete models whose probabilities SciPy knows and whose data are drawn without PyMC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit

from benchmarks.calibration_cases import Case

__all__ = ["COUNT_CASES", "COUNT_POWER_CASES", "CountCase"]


def exact(number: Any) -> np.ndarray:
    """Return a number as an array: PyTensor keeps plain Python numbers in single precision."""
    return np.asarray(number, dtype=np.float64)


@dataclass(frozen=True)
class CountCase(Case):
    """A discrete model with its probabilities.

    Attributes
    ----------
    probability : callable
        Maps values of shape (n, *shape) to n probabilities, without PyMC.
    """

    probability: Callable[[np.ndarray], np.ndarray] = lambda values: values


def _scipy(name: str, build: Callable[..., Any], law: Any) -> CountCase:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return law.rvs(size=n, random_state=rng)

    return CountCase(name, build, draw, probability=law.pmf)


def _table(name: str, build: Callable[..., Any], probabilities: Any, first: int = 0) -> CountCase:
    """Return a case on a few neighbouring values with the given probabilities."""
    values = np.arange(first, first + len(probabilities))
    law = stats.rv_discrete(values=(values, np.asarray(probabilities) / np.sum(probabilities)))
    return _scipy(name, build, law)


def _zero_inflated(name: str, build: Callable[..., Any], share: float, law: Any) -> CountCase:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.binomial(1, share, n) * law.rvs(size=n, random_state=rng)

    def probability(values: np.ndarray) -> np.ndarray:
        return share * law.pmf(values) + (1 - share) * (values == 0)

    return CountCase(name, build, draw, probability=probability)


def _joint(name: str, build: Callable[..., Any], laws: list[Any]) -> CountCase:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([law.rvs(size=n, random_state=rng) for law in laws], axis=1)

    def probability(values: np.ndarray) -> np.ndarray:
        return np.prod([law.pmf(values[:, j]) for j, law in enumerate(laws)], axis=0)

    return CountCase(name, build, draw, probability=probability)


def _multinomial() -> CountCase:
    law = stats.multinomial(8, [0.2, 0.3, 0.5])
    return CountCase(
        "Multinomial(8, [0.2, 0.3, 0.5])",
        lambda **data: pm.Multinomial("y", 8, exact([0.2, 0.3, 0.5]), **data),
        lambda rng, n: rng.multinomial(8, [0.2, 0.3, 0.5], n),
        probability=law.pmf,
    )


def _dirichlet_multinomial() -> CountCase:
    alpha = np.array([1.0, 2.0, 3.0])
    law = stats.dirichlet_multinomial(alpha, 8)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.multinomial(8, rng.dirichlet(alpha, n))

    def probability(values: np.ndarray) -> np.ndarray:
        possible = (values >= 0).all(axis=1)
        return np.where(possible, law.pmf(np.maximum(values, 0)), 0.0)

    return CountCase(
        "DirichletMultinomial(8, [1, 2, 3])",
        lambda **data: pm.DirichletMultinomial("y", 8, alpha, **data),
        draw,
        probability=probability,
    )


def _custom(**data: Any) -> Any:
    def logp(value: Any, mean: Any) -> Any:
        return pm.logp(pm.Poisson.dist(mean), value)

    return pm.CustomDist("y", exact(2.5), logp=logp, dtype="int64", **data)


_CUTS = np.array([-1.0, 0.5, 2.0])
_ORDERED = np.diff([0.0, *expit(_CUTS - 0.3), 1.0])
_PROBIT = np.diff([0.0, *stats.norm.cdf(_CUTS - 0.3), 1.0])
_NEGATIVE = stats.nbinom(5, 5 / 8)  # mean 3

COUNT_CASES: tuple[CountCase, ...] = (
    _scipy(
        "Bernoulli(0.3)", lambda **data: pm.Bernoulli("y", exact(0.3), **data), stats.bernoulli(0.3)
    ),
    _scipy(
        "Binomial(10, 0.3)",
        lambda **data: pm.Binomial("y", 10, exact(0.3), **data),
        stats.binom(10, 0.3),
    ),
    _scipy("Poisson(3)", lambda **data: pm.Poisson("y", exact(3.0), **data), stats.poisson(3)),
    _scipy("Poisson(30)", lambda **data: pm.Poisson("y", exact(30.0), **data), stats.poisson(30)),
    _scipy(
        "NegativeBinomial(3, 5)",
        lambda **data: pm.NegativeBinomial("y", mu=exact(3.0), alpha=exact(5.0), **data),
        _NEGATIVE,
    ),
    _table(
        "Categorical(4 values)",
        lambda **data: pm.Categorical("y", exact([0.1, 0.4, 0.2, 0.3]), **data),
        [0.1, 0.4, 0.2, 0.3],
    ),
    _table(
        "OrderedLogistic(4 values)",
        lambda **data: pm.OrderedLogistic("y", eta=exact(0.3), cutpoints=_CUTS, **data),
        _ORDERED,
    ),
    _table(
        "OrderedProbit(4 values)",
        lambda **data: pm.OrderedProbit("y", eta=exact(0.3), cutpoints=_CUTS, **data),
        _PROBIT,
    ),
    _scipy(
        "BetaBinomial(10, 2, 3)",
        lambda **data: pm.BetaBinomial("y", alpha=exact(2.0), beta=exact(3.0), n=10, **data),
        stats.betabinom(10, 2, 3),
    ),
    _scipy("Geometric(0.3)", lambda **data: pm.Geometric("y", exact(0.3), **data), stats.geom(0.3)),
    _scipy(
        "HyperGeometric(50, 20, 10)",
        lambda **data: pm.HyperGeometric("y", N=50, k=20, n=10, **data),
        stats.hypergeom(50, 20, 10),
    ),
    _table(
        "DiscreteWeibull(0.8, 1.2)",
        lambda **data: pm.DiscreteWeibull("y", q=exact(0.8), beta=exact(1.2), **data),
        0.8 ** (np.arange(60) ** 1.2) - 0.8 ** (np.arange(1, 61) ** 1.2),
    ),
    _scipy(
        "DiscreteUniform(2, 7)",
        lambda **data: pm.DiscreteUniform("y", 2, 7, **data),
        stats.randint(2, 8),
    ),
    _zero_inflated(
        "ZeroInflatedPoisson(0.7, 3)",
        lambda **data: pm.ZeroInflatedPoisson("y", psi=exact(0.7), mu=exact(3.0), **data),
        0.7,
        stats.poisson(3),
    ),
    _zero_inflated(
        "ZeroInflatedPoisson(0.7, 8)",
        lambda **data: pm.ZeroInflatedPoisson("y", psi=exact(0.7), mu=exact(8.0), **data),
        0.7,
        stats.poisson(8),
    ),
    _table(
        "HurdlePoisson(0.6, 4)",
        lambda **data: pm.HurdlePoisson("y", psi=exact(0.6), mu=exact(4.0), **data),
        np.where(
            np.arange(40) == 0, 0.4, 0.6 * stats.poisson(4).pmf(np.arange(40)) / -np.expm1(-4)
        ),
    ),
    _zero_inflated(
        "ZeroInflatedBinomial(0.7, 10, 0.3)",
        lambda **data: pm.ZeroInflatedBinomial("y", psi=exact(0.7), n=10, p=exact(0.3), **data),
        0.7,
        stats.binom(10, 0.3),
    ),
    _zero_inflated(
        "ZeroInflatedNegativeBinomial(0.7, 3, 5)",
        lambda **data: pm.ZeroInflatedNegativeBinomial(
            "y", psi=exact(0.7), mu=exact(3.0), alpha=exact(5.0), **data
        ),
        0.7,
        _NEGATIVE,
    ),
    _multinomial(),
    _dirichlet_multinomial(),
    _scipy("CustomDist with integers", _custom, stats.poisson(2.5)),
    _joint(
        "Poisson([1, 3, 6]), three counts",
        lambda **data: pm.Poisson("y", np.array([1.0, 3.0, 6.0]), **data),
        [stats.poisson(1), stats.poisson(3), stats.poisson(6)],
    ),
)


def _wrong(name: str, draw: Callable[[np.random.Generator, int], np.ndarray]) -> Case:
    return Case(name, lambda **data: pm.Poisson("y", exact(3.0), **data), draw)


#: Data that are not Poisson(3), tested against it.
COUNT_POWER_CASES: tuple[Case, ...] = (
    _wrong("Poisson(3.5)", lambda rng, n: rng.poisson(3.5, n)),
    _wrong("NegativeBinomial(3, 5)", lambda rng, n: _NEGATIVE.rvs(size=n, random_state=rng)),
    _wrong(
        "NegativeBinomial(3, 20)",
        lambda rng, n: stats.nbinom(20, 20 / 23).rvs(size=n, random_state=rng),
    ),
    _wrong(
        "Poisson(3) with 10 % more zeros",
        lambda rng, n: rng.poisson(3, n) * rng.binomial(1, 0.9, n),
    ),
    _wrong("Binomial(10, 0.3)", lambda rng, n: rng.binomial(10, 0.3, n)),
)
