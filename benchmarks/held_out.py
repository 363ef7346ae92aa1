"""Models fitted to a few data, and the test of new data of theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from benchmarks.rates import ALPHA, Rate, generator
from pymc_ksd import ksd_test

__all__ = ["HELD_OUT", "MANY_DRAWS", "HeldOut", "held_out_rate"]

#: Draws of the posterior that the test is given.
HELD_OUT_DRAWS = 100
#: The same where the bootstrap takes their mixture as the predictive distribution, which it is not.
MANY_DRAWS = 500


@dataclass(frozen=True)
class HeldOut:
    """A model fitted to a few data, and new data from its own predictive distribution.

    Attributes
    ----------
    name : str
        The model.
    write : callable
        Adds its variables, given outcome and input.
    posterior : callable
        ``(y, x, size, rng)`` draws from the posterior, an array with draws first for each variable.
    draw : callable
        ``(rng, x, *values)`` draws outcomes, each with its own value of every variable.
    truth : callable
        ``(rng, x)`` draws the data that are fitted.
    """

    name: str
    write: Callable[[TensorVariable, TensorVariable], None]
    posterior: Callable[..., dict[str, np.ndarray]]
    draw: Callable[..., np.ndarray]
    truth: Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _normal(y: TensorVariable, x: TensorVariable) -> None:
    mu, sd = pm.Normal("mu", 0, 100), pm.HalfNormal("sd", 100)
    pm.Normal("y", mu, sd, observed=y, shape=y.shape)


def _normal_posterior(
    y: np.ndarray, x: np.ndarray, size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    variance = np.sum((y - y.mean()) ** 2) / rng.chisquare(len(y) - 1, size=size)
    return {"mu": rng.normal(y.mean(), np.sqrt(variance / len(y))), "sd": np.sqrt(variance)}


def _line(y: TensorVariable, x: TensorVariable) -> None:
    b, sd = pm.Normal("b", 0, 100, shape=3), pm.HalfNormal("sd", 100)
    pm.Normal("y", b[0] + b[1] * x + b[2] * x**2, sd, observed=y, shape=x.shape)


def _line_posterior(
    y: np.ndarray, x: np.ndarray, size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    design = np.stack([np.ones_like(x), x, x**2], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    best = inverse @ design.T @ y
    variance = np.sum((y - design @ best) ** 2) / rng.chisquare(len(y) - 3, size=size)
    steps = rng.normal(size=(size, 3)) @ np.linalg.cholesky(inverse).T
    return {"b": best + np.sqrt(variance)[:, None] * steps, "sd": np.sqrt(variance)}


def _one_rate(write: Callable[..., None]) -> Callable[[TensorVariable, TensorVariable], None]:
    def model(y: TensorVariable, x: TensorVariable) -> None:
        rate = pm.HalfNormal("rate", 100)
        write(rate, y)

    return model


HELD_OUT = [
    HeldOut(
        "Normal(mu, sd)",
        _normal,
        _normal_posterior,
        lambda rng, x, mu, sd: rng.normal(mu, sd),
        lambda rng, x: rng.normal(1, 2, size=len(x)),
    ),
    HeldOut(
        "Normal(b0 + b1 x + b2 x², sd)",
        _line,
        _line_posterior,
        lambda rng, x, b, sd: rng.normal(b[:, 0] + b[:, 1] * x + b[:, 2] * x**2, sd),
        lambda rng, x: rng.normal(1 + x, 1),
    ),
    HeldOut(
        "Exponential(rate)",
        _one_rate(lambda rate, y: pm.Exponential("y", rate, observed=y, shape=y.shape)),
        lambda y, x, size, rng: {"rate": rng.gamma(len(y), 1 / y.sum(), size=size)},
        lambda rng, x, rate: rng.exponential(1 / rate),
        lambda rng, x: rng.exponential(0.5, size=len(x)),
    ),
    HeldOut(
        "Poisson(rate)",
        _one_rate(lambda rate, y: pm.Poisson("y", rate, observed=y, shape=y.shape)),
        lambda y, x, size, rng: {"rate": rng.gamma(y.sum() + 1, 1 / len(y), size=size)},
        lambda rng, x, rate: rng.poisson(rate),
        lambda rng, x: rng.poisson(3, size=len(x)),
    ),
]


def held_out_rate(
    case: HeldOut,
    replications: int,
    *,
    shared: bool = True,
    n: int = 100,
    fitted: int = 20,
    draws: int = HELD_OUT_DRAWS,
    **options: Any,
) -> Rate:
    """Test new data that share one value of the parameters, or have one each.

    These values are drawn from the posterior and are not among the draws that the test gets.
    """
    rng = generator(case.name, n + shared)
    with pm.Model() as model:
        x = rng.normal(size=n)
        case.write(pm.Data("outcome", case.truth(rng, x)), pm.Data("input", x))
    rejections = 0
    for _ in range(replications):
        x = rng.normal(size=fitted)
        values = case.posterior(case.truth(rng, x), x, draws + n, rng)
        posterior = xr.Dataset(
            {
                key: (
                    ("chain", "draw", f"{key}_dim")[: array.ndim + 1],
                    array[None, :draws],
                )
                for key, array in values.items()
            }
        )
        x = rng.normal(size=n)
        rows = np.arange(draws, draws + n)
        chosen = np.full(n, draws) if shared else rows
        new = case.draw(rng, x, *(array[chosen] for array in values.values()))
        with model:
            pm.set_data({"outcome": new, "input": x})
        result = ksd_test(
            model, new, posterior=posterior, random_seed=rng, progressbar=False, **options
        )
        rejections += float(result["p_value"]) <= ALPHA
    return Rate(rejections, replications)
