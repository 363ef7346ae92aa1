"""Models whose data can be drawn without PyMC, for measuring the level and power of tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit

from pymc_ksd import Score, compile_score

__all__ = ["LEVEL_CASES", "MISSED_CASES", "POWER_CASES", "Case"]

Draw = Callable[[np.random.Generator, int], Any]


@dataclass(frozen=True)
class Case:
    """A model and a source of data, which follow the model's law unless the case is about power.

    Attributes
    ----------
    name : str
        The distribution and its parameters.
    build : callable
        Adds the model's variable to the model on the context stack; takes ``observed``.
    draw : callable
        ``draw(rng, n)`` returns n independent points, made without PyMC.
    free : bool
        Whether the variable is a free one. Otherwise it is observed and the model has no free
        variables.
    """

    name: str
    build: Callable[..., Any]
    draw: Draw
    free: bool = False

    def score(self) -> Score:
        """Compile the score of the case's model."""
        options = {} if self.free else {"observed": self.draw(np.random.default_rng(0), 5)}
        with pm.Model() as model:
            self.build(**options)
        return compile_score(model)


MU = np.array([1.0, -2.0, 0.0, 0.5, 3.0])
#: Standard deviations from 0.5 to 2 and correlations that fall off with distance.
COVARIANCE = np.outer(
    deviations := np.array([1.0, 0.5, 2.0, 1.0, 1.5]), deviations
) * 0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
CHOLESKY = np.linalg.cholesky(COVARIANCE)
MIXTURE = {"w": np.array([0.3, 0.7]), "mu": np.array([-2.0, 2.0]), "sigma": np.array([0.5, 1.0])}


def _matrix_normal(rng: np.random.Generator, n: int) -> np.ndarray:
    rows, columns = CHOLESKY[:2, :2], CHOLESKY[:3, :3]
    return rows @ rng.normal(size=(n, 2, 3)) @ columns.T


def _stick_breaking(rng: np.random.Generator, n: int) -> np.ndarray:
    pieces = rng.beta(1, 2, size=(n, 3))
    left = np.cumprod(1 - pieces, axis=1)
    return np.column_stack([pieces[:, 0], pieces[:, 1:] * left[:, :-1], left[:, -1]])


def _normal_mixture(rng: np.random.Generator, n: int) -> np.ndarray:
    component = rng.choice(len(MIXTURE["w"]), p=MIXTURE["w"], size=n)
    return rng.normal(MIXTURE["mu"][component], MIXTURE["sigma"][component])


def _zero_sum(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.normal(scale=1.5, size=(n, 4))
    return values - values.mean(axis=1, keepdims=True)


def _build_hierarchy() -> None:
    mean = pm.Normal("mean", 0, 1)
    spread = pm.Gamma("spread", 4, 4)
    pm.Normal("x", mean, spread, shape=2)


def _hierarchy(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    mean, spread = rng.normal(size=n), rng.gamma(4, 1 / 4, size=n)
    return {
        "mean": mean,
        "spread": spread,
        "x": mean[:, None] + spread[:, None] * rng.normal(size=(n, 2)),
    }


LEVEL_CASES = (
    # On all of the line.
    Case(
        "Normal(1, 2)",
        lambda **kw: pm.Normal("x", 1, 2, **kw),
        lambda rng, n: rng.normal(1, 2, n),
    ),
    Case(
        "Laplace(0, 1)",
        lambda **kw: pm.Laplace("x", 0, 1, **kw),
        lambda rng, n: rng.laplace(0, 1, n),
        free=True,
    ),
    Case(
        "Logistic(0, 1)",
        lambda **kw: pm.Logistic("x", 0, 1, **kw),
        lambda rng, n: rng.logistic(0, 1, n),
    ),
    Case(
        "Gumbel(0, 1)",
        lambda **kw: pm.Gumbel("x", 0, 1, **kw),
        lambda rng, n: rng.gumbel(0, 1, n),
        free=True,
    ),
    Case(
        "StudentT(3)",
        lambda **kw: pm.StudentT("x", 3, mu=0, sigma=1, **kw),
        lambda rng, n: rng.standard_t(3, n),
    ),
    Case(
        "Cauchy(0, 1)",
        lambda **kw: pm.Cauchy("x", 0, 1, **kw),
        lambda rng, n: rng.standard_cauchy(n),
        free=True,
    ),
    Case(
        "SkewNormal(α=4)",
        lambda **kw: pm.SkewNormal("x", alpha=4, mu=0, sigma=1, **kw),
        lambda rng, n: stats.skewnorm.rvs(4, size=n, random_state=rng),
    ),
    Case(
        "SkewStudentT(2, 4)",
        lambda **kw: pm.SkewStudentT("x", a=2, b=4, **kw),
        lambda rng, n: stats.jf_skew_t.rvs(2, 4, size=n, random_state=rng),
        free=True,
    ),
    Case(
        "AsymmetricLaplace(κ=2, b=1)",
        lambda **kw: pm.AsymmetricLaplace("x", kappa=2, b=1, mu=0, **kw),
        lambda rng, n: stats.laplace_asymmetric.rvs(2, size=n, random_state=rng),
    ),
    Case(
        "ExGaussian(0, 1, 2)",
        lambda **kw: pm.ExGaussian("x", mu=0, sigma=1, nu=2, **kw),
        lambda rng, n: rng.normal(0, 1, n) + rng.exponential(2, n),
        free=True,
    ),
    Case(
        "Moyal(0, 1)",
        lambda **kw: pm.Moyal("x", 0, 1, **kw),
        lambda rng, n: stats.moyal.rvs(size=n, random_state=rng),
    ),
    Case(
        "NormalMixture (2 components)",
        lambda **kw: pm.NormalMixture("x", **MIXTURE, **kw),
        _normal_mixture,
        free=True,
    ),
    # Bounded on one side.
    Case(
        "Exponential(2)",
        lambda **kw: pm.Exponential("x", 2, **kw),
        lambda rng, n: rng.exponential(1 / 2, n),
    ),
    Case(
        "Gamma(2, 1.5)",
        lambda **kw: pm.Gamma("x", 2, 1.5, **kw),
        lambda rng, n: rng.gamma(2, 1 / 1.5, n),
        free=True,
    ),
    Case(
        "Gamma(0.5, 1)",
        lambda **kw: pm.Gamma("x", 0.5, 1, **kw),
        lambda rng, n: rng.gamma(0.5, 1, n),
    ),
    Case(
        "InverseGamma(2, 1)",
        lambda **kw: pm.InverseGamma("x", 2, 1, **kw),
        lambda rng, n: 1 / rng.gamma(2, 1, n),
        free=True,
    ),
    Case(
        "Weibull(1.5, 2)",
        lambda **kw: pm.Weibull("x", 1.5, 2, **kw),
        lambda rng, n: 2 * rng.weibull(1.5, n),
    ),
    Case(
        "LogNormal(0, 1)",
        lambda **kw: pm.LogNormal("x", 0, 1, **kw),
        lambda rng, n: rng.lognormal(0, 1, n),
        free=True,
    ),
    Case(
        "HalfNormal(2)",
        lambda **kw: pm.HalfNormal("x", 2, **kw),
        lambda rng, n: np.abs(rng.normal(0, 2, n)),
    ),
    Case(
        "HalfStudentT(3, 1)",
        lambda **kw: pm.HalfStudentT("x", 3, 1, **kw),
        lambda rng, n: np.abs(rng.standard_t(3, n)),
        free=True,
    ),
    Case(
        "HalfCauchy(1)",
        lambda **kw: pm.HalfCauchy("x", 1, **kw),
        lambda rng, n: np.abs(rng.standard_cauchy(n)),
    ),
    Case(
        "ChiSquared(5)",
        lambda **kw: pm.ChiSquared("x", 5, **kw),
        lambda rng, n: rng.chisquare(5, n),
        free=True,
    ),
    Case(
        "Wald(1, 3)",
        lambda **kw: pm.Wald("x", mu=1, lam=3, **kw),
        lambda rng, n: rng.wald(1, 3, n),
    ),
    Case(
        "Pareto(1.5, 2)",
        lambda **kw: pm.Pareto("x", 1.5, 2, **kw),
        lambda rng, n: 2 * (1 + rng.pareto(1.5, n)),
        free=True,
    ),
    Case(
        "Rice(2, 1)",
        lambda **kw: pm.Rice("x", nu=2, sigma=1, **kw),
        lambda rng, n: np.hypot(2 + rng.normal(size=n), rng.normal(size=n)),
    ),
    # Bounded on both sides.
    Case(
        "Uniform(-1, 3)",
        lambda **kw: pm.Uniform("x", -1, 3, **kw),
        lambda rng, n: rng.uniform(-1, 3, n),
    ),
    Case(
        "Beta(2, 3)",
        lambda **kw: pm.Beta("x", 2, 3, **kw),
        lambda rng, n: rng.beta(2, 3, n),
        free=True,
    ),
    Case(
        "Beta(0.5, 0.5)",
        lambda **kw: pm.Beta("x", 0.5, 0.5, **kw),
        lambda rng, n: rng.beta(0.5, 0.5, n),
    ),
    Case(
        "Kumaraswamy(2, 3)",
        lambda **kw: pm.Kumaraswamy("x", 2, 3, **kw),
        lambda rng, n: (1 - rng.uniform(size=n) ** (1 / 3)) ** (1 / 2),
        free=True,
    ),
    Case(
        "Triangular(0, 1, 4)",
        lambda **kw: pm.Triangular("x", lower=0, c=1, upper=4, **kw),
        lambda rng, n: rng.triangular(0, 1, 4, n),
    ),
    Case(
        "TruncatedNormal(0, 1, -1, 2)",
        lambda **kw: pm.TruncatedNormal("x", 0, 1, lower=-1, upper=2, **kw),
        lambda rng, n: stats.truncnorm.rvs(-1, 2, size=n, random_state=rng),
        free=True,
    ),
    Case(
        "LogitNormal(0.5, 1)",
        lambda **kw: pm.LogitNormal("x", 0.5, 1, **kw),
        lambda rng, n: expit(rng.normal(0.5, 1, n)),
    ),
    Case(
        "Truncated(Gamma(2, 1), 0, 3)",
        lambda **kw: pm.Truncated("x", pm.Gamma.dist(2, 1), lower=0, upper=3, **kw),
        lambda rng, n: stats.gamma.ppf(rng.uniform(0, stats.gamma.cdf(3, 2), n), 2),
        free=True,
    ),
    # Several coordinates.
    Case(
        "MvNormal (5-d)",
        lambda **kw: pm.MvNormal("x", MU, COVARIANCE, **kw),
        lambda rng, n: MU + rng.normal(size=(n, 5)) @ CHOLESKY.T,
    ),
    Case(
        "MvStudentT(4) (3-d)",
        lambda **kw: pm.MvStudentT("x", nu=4, mu=MU[:3], scale=COVARIANCE[:3, :3], **kw),
        lambda rng, n: (
            MU[:3]
            + (rng.normal(size=(n, 3)) @ CHOLESKY[:3, :3].T) / np.sqrt(rng.chisquare(4, (n, 1)) / 4)
        ),
        free=True,
    ),
    Case(
        "Dirichlet(1, 2, 3, 4)",
        lambda **kw: pm.Dirichlet("x", np.arange(1.0, 5.0), **kw),
        lambda rng, n: rng.dirichlet(np.arange(1.0, 5.0), n),
    ),
    Case(
        "StickBreakingWeights(2, 3)",
        lambda **kw: pm.StickBreakingWeights("x", alpha=2, K=3, **kw),
        _stick_breaking,
        free=True,
    ),
    Case(
        "ZeroSumNormal(1.5) (4 values)",
        lambda **kw: pm.ZeroSumNormal("x", sigma=1.5, **({"shape": 4} | kw)),
        _zero_sum,
        free=True,
    ),
    Case(
        "MatrixNormal (2 × 3)",
        lambda **kw: pm.MatrixNormal(
            "x",
            mu=np.zeros((2, 3)),
            rowcov=COVARIANCE[:2, :2],
            colcov=COVARIANCE[:3, :3],
            **kw,
        ),
        _matrix_normal,
        free=True,
    ),
    Case(
        "GaussianRandomWalk (6 values)",
        lambda **kw: pm.GaussianRandomWalk(
            "x", mu=0, sigma=1, init_dist=pm.Normal.dist(0, 1), steps=5, **kw
        ),
        lambda rng, n: rng.normal(size=(n, 6)).cumsum(axis=1),
        free=True,
    ),
    Case("Normal, Gamma, 2 Normals (hierarchy)", _build_hierarchy, _hierarchy, free=True),
)

#: PyMC leaves these on a scale where the score is too heavy-tailed, or the density does not vanish
#: at the boundary of its support.
MISSED_CASES = (
    Case(
        "LogitNormal(0, 2)",
        lambda **kw: pm.LogitNormal("x", 0, 2, **kw),
        lambda rng, n: expit(rng.normal(0, 2, n)),
    ),
    Case(
        "Truncated(Gamma(2, 1), upper=3)",
        lambda **kw: pm.Truncated("x", pm.Gamma.dist(2, 1), upper=3, **kw),
        lambda rng, n: stats.gamma.ppf(rng.uniform(0, stats.gamma.cdf(3, 2), n), 2),
    ),
    Case(
        "Truncated(Exponential(1), upper=3)",
        lambda **kw: pm.Truncated("x", pm.Exponential.dist(1), upper=3, **kw),
        lambda rng, n: -np.log1p(-rng.uniform(0, -np.expm1(-3), n)),
    ),
)


def _standard_normal(**options: Any) -> None:
    pm.Normal("x", 0, 1, **options)


#: The model is Normal(0, 1); names tell where the data come from.
POWER_CASES = (
    Case("Normal(0.2, 1)", _standard_normal, lambda rng, n: rng.normal(0.2, 1, n)),
    Case("Normal(0.5, 1)", _standard_normal, lambda rng, n: rng.normal(0.5, 1, n)),
    Case("Normal(0, 1.25)", _standard_normal, lambda rng, n: rng.normal(0, 1.25, n)),
    Case("Normal(0, 1.5)", _standard_normal, lambda rng, n: rng.normal(0, 1.5, n)),
    Case("StudentT(5)", _standard_normal, lambda rng, n: rng.standard_t(5, n)),
    Case("StudentT(3)", _standard_normal, lambda rng, n: rng.standard_t(3, n)),
    Case("Laplace(0, 1)", _standard_normal, lambda rng, n: rng.laplace(0, 1, n)),
    Case(
        "Laplace(0, 1/√2), variance 1",
        _standard_normal,
        lambda rng, n: rng.laplace(0, np.sqrt(1 / 2), n),
    ),
)
