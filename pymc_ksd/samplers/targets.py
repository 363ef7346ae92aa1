"""Targets of the battery: densities with known trouble from which exact draws can be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt

#: Draws of every variable, points along the first axis.
Draws = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class BatteryTarget:
    """A density that samplers are tried on.

    Attributes
    ----------
    name : str
        What it is called.
    trouble : str
        What samplers find hard about it.
    build : callable
        Returns a new model.
    exact : callable
        ``exact(n, rng)`` returns n independent draws on the scale of the model.
    several_modes : bool
        Whether the proportions of modes are tested, too.
    """

    name: str
    trouble: str
    build: Callable[[], pm.Model]
    exact: Callable[[int, np.random.Generator], Draws]
    several_modes: bool = False

    @cache  # noqa: B019  targets are few, and live as long as the package
    def model(self) -> pm.Model:
        """Return the battery's own model, whose score is compiled once and for all."""
        return self.build()


def _normal() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x", 1.0, 2.0, shape=5)
    return model


_CORRELATION = np.array([[1.0, 0.98], [0.98, 1.0]])


def _correlated() -> pm.Model:
    with pm.Model() as model:
        pm.MvNormal("x", mu=np.zeros(2), cov=_CORRELATION)
    return model


_SCALES = np.geomspace(1e-3, 1e3, 10)


def _badly_scaled() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x", 0.0, _SCALES, shape=10)
    return model


#: Of the funnel, the standard deviation of the log scale, and how many have that scale.
_NECK, _WIDTH = 0.5, 4


def _funnel() -> pm.Model:
    with pm.Model() as model:
        log_scale = pm.Normal("log_scale", 0.0, _NECK)
        pm.Normal("x", 0.0, pm.math.exp(log_scale), shape=_WIDTH)
    return model


def _draw_funnel(n: int, rng: np.random.Generator) -> Draws:
    log_scale = rng.normal(0.0, _NECK, n)
    return {"log_scale": log_scale, "x": np.exp(log_scale)[:, None] * rng.normal(size=(n, _WIDTH))}


def _banana() -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x**2, 0.3)
    return model


def _draw_banana(n: int, rng: np.random.Generator) -> Draws:
    x = rng.normal(size=n)
    return {"x": x, "y": rng.normal(x**2, 0.3)}


def _heavy_tails() -> pm.Model:
    with pm.Model() as model:
        pm.StudentT("x", nu=3.0, mu=0.0, sigma=1.0, shape=3)
    return model


def _bounded() -> pm.Model:
    with pm.Model() as model:
        pm.Gamma("rate", 3.0, 1.0)
        pm.Beta("share", 0.8, 2.0)
        pm.Uniform("angle", -1.0, 2.0)
        pm.HalfNormal("scale", 2.0)
    return model


def _draw_bounded(n: int, rng: np.random.Generator) -> Draws:
    return {
        "rate": rng.gamma(3.0, size=n),
        "share": rng.beta(0.8, 2.0, n),
        "angle": rng.uniform(-1.0, 2.0, n),
        "scale": np.abs(rng.normal(0.0, 2.0, n)),
    }


_CONCENTRATION = np.array([1.0, 2.0, 5.0, 0.7])


def _simplex() -> pm.Model:
    with pm.Model() as model:
        pm.Dirichlet("shares", _CONCENTRATION)
    return model


def _ordered() -> pm.Model:
    transform = pm.distributions.transforms.ordered
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=4, transform=transform, initval=[-1.0, -0.3, 0.3, 1.0])
    return model


#: Data of the regression, and what is known of its parameters before.
_INPUTS = np.column_stack([np.ones(20), np.linspace(4.0, 6.0, 20)])
_OUTCOMES = _INPUTS @ [1.0, 2.0] + np.sin(7.0 * np.arange(20.0))
_PRIOR_SD, _SHAPE, _RATE = 10.0, 2.0, 1.0


def _regression() -> pm.Model:
    """Return a regression whose prior is conjugate, with inputs that are far from their origin."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", _SHAPE, _RATE)
        sd = pm.math.sqrt(variance)
        coefficients = pm.Normal("coefficients", 0.0, _PRIOR_SD * sd, shape=2)
        pm.Normal("y", pt.dot(_INPUTS, coefficients), sd, observed=_OUTCOMES)
    return model


def _draw_regression(n: int, rng: np.random.Generator) -> Draws:
    precision = _INPUTS.T @ _INPUTS + np.eye(2) / _PRIOR_SD**2
    mean = np.linalg.solve(precision, _INPUTS.T @ _OUTCOMES)
    rate = _RATE + 0.5 * (_OUTCOMES @ _OUTCOMES - mean @ precision @ mean)
    variance = rate / rng.gamma(_SHAPE + 0.5 * len(_OUTCOMES), size=n)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    noise = rng.normal(size=(n, 2)) @ root.T
    return {"variance": variance, "coefficients": mean + np.sqrt(variance)[:, None] * noise}


#: Correlation of neighbours among a hundred.
_NEIGHBOURS, _MANY = 0.8, 100


def _hundred() -> pm.Model:
    distance = np.abs(np.subtract.outer(np.arange(_MANY), np.arange(_MANY)))
    with pm.Model() as model:
        pm.MvNormal("x", mu=np.zeros(_MANY), cov=_NEIGHBOURS**distance)
    return model


def _draw_hundred(n: int, rng: np.random.Generator) -> Draws:
    x = rng.normal(size=(n, _MANY))
    for k in range(1, _MANY):
        x[:, k] = _NEIGHBOURS * x[:, k - 1] + np.sqrt(1.0 - _NEIGHBOURS**2) * x[:, k]
    return {"x": x}


def _two_modes() -> pm.Model:
    with pm.Model() as model:
        components = [
            pm.MvNormal.dist(mu=[-3.0, 0.0], cov=np.eye(2)),
            pm.MvNormal.dist(mu=[3.0, 1.0], cov=0.5 * np.eye(2)),
        ]
        pm.Mixture("x", w=[0.65, 0.35], comp_dists=components)
    return model


def _draw_two_modes(n: int, rng: np.random.Generator) -> Draws:
    first = rng.uniform(size=n) < 0.65
    centre = np.where(first[:, None], [-3.0, 0.0], [3.0, 1.0])
    sd = np.where(first, 1.0, np.sqrt(0.5))
    return {"x": centre + sd[:, None] * rng.normal(size=(n, 2))}


TARGETS: tuple[BatteryTarget, ...] = (
    BatteryTarget(
        "normal",
        "none: whoever fails here fails everywhere",
        _normal,
        lambda n, rng: {"x": rng.normal(1.0, 2.0, size=(n, 5))},
    ),
    BatteryTarget(
        "correlated",
        "two parameters with correlation 0.98",
        _correlated,
        lambda n, rng: {"x": rng.normal(size=(n, 2)) @ np.linalg.cholesky(_CORRELATION).T},
    ),
    BatteryTarget(
        "badly scaled",
        "standard deviations from 0.001 to 1,000",
        _badly_scaled,
        lambda n, rng: {"x": _SCALES * rng.normal(size=(n, 10))},
    ),
    BatteryTarget(
        "funnel", "a scale of others that is itself unknown, centred", _funnel, _draw_funnel
    ),
    BatteryTarget("banana", "a curved ridge", _banana, _draw_banana),
    BatteryTarget(
        "heavy tails",
        "Student's t with three degrees of freedom",
        _heavy_tails,
        lambda n, rng: {"x": rng.standard_t(3.0, size=(n, 3))},
    ),
    BatteryTarget(
        "bounded",
        "bounds on one side and on both, one with infinite density: Jacobians",
        _bounded,
        _draw_bounded,
    ),
    BatteryTarget(
        "simplex",
        "four shares that sum to one",
        _simplex,
        lambda n, rng: {"shares": rng.dirichlet(_CONCENTRATION, size=n)},
    ),
    BatteryTarget(
        "ordered",
        "four numbers in rising order",
        _ordered,
        lambda n, rng: {"x": np.sort(rng.normal(size=(n, 4)), axis=1)},
    ),
    BatteryTarget(
        "regression",
        "data, an unknown variance, and coefficients with correlation −0.99",
        _regression,
        _draw_regression,
    ),
    BatteryTarget("hundred dimensions", "a hundred correlated parameters", _hundred, _draw_hundred),
    BatteryTarget(
        "two modes",
        "two modes of different shape, five standard deviations apart",
        _two_modes,
        _draw_two_modes,
        several_modes=True,
    ),
)
