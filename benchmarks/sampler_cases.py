"""Samplers whose draws are known to be right or wrong, for the calibration of ``"wild"``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy.signal import lfilter

from pymc_ksd import Score, compile_score

__all__ = [
    "CORRELATIONS",
    "DIMENSIONS",
    "FEW_CORRELATIONS",
    "HIGH_DIMENSIONS",
    "POWER_CASES",
    "SMC_CASES",
    "SamplerCase",
    "autoregressive",
    "nuts_case",
]

CORRELATIONS = (-0.8, 0.0, 0.5, 0.8, 0.9, 0.95)
DIMENSIONS = (1, 2, 10)
#: Many dimensions for few draws, and correlations there.
HIGH_DIMENSIONS, FEW_CORRELATIONS = (50, 100, 300, 1_000), (0.0, 0.5, 0.8)
N_CHAINS = 4


@dataclass(frozen=True)
class SamplerCase:
    """A target and a sampler of it.

    Attributes
    ----------
    name : str
        What is shown.
    score : callable
        Returns the target's score.
    draw : callable
        ``(rng, n_draws) -> draws`` of four chains.
    """

    name: str
    score: Callable[[], Score]
    draw: Callable[[np.random.Generator, int], Any]


def dataset(values: np.ndarray) -> xr.Dataset:
    """Return draws of shape (chain, draw, d) as a posterior."""
    if values.shape[2] == 1:
        return xr.Dataset({"x": (("chain", "draw"), values[..., 0])})
    return xr.Dataset({"x": (("chain", "draw", "coordinate"), values)})


@cache
def normal_score(dim: int) -> Score:
    """Return the score of independent standard normal variables."""
    return Score.from_callable(lambda x: -x, dim, log_density=lambda x: -0.5 * (x**2).sum(axis=1))


def autoregressive(phi: float, dim: int, n_chains: int = N_CHAINS) -> SamplerCase:
    """Return chains with the standard normal law and correlation `phi` between neighbours."""

    def draw(rng: np.random.Generator, n_draws: int) -> xr.Dataset:
        noise = rng.normal(size=(n_chains, n_draws, dim))
        noise[:, 1:] *= np.sqrt(1 - phi**2)
        return dataset(lfilter([1.0], [1.0, -phi], noise, axis=1))

    return SamplerCase(f"AR(1), φ = {phi:g}, d = {dim}", lambda: normal_score(dim), draw)


def _one_wrong_coordinate(name: str, dim: int, mean: float, scale: float) -> SamplerCase:
    def draw(rng: np.random.Generator, n_draws: int) -> xr.Dataset:
        values = rng.normal(size=(N_CHAINS, n_draws, dim))
        values[..., 0] = mean + scale * values[..., 0]
        return dataset(values)

    return SamplerCase(f"{name}, d = {dim}", lambda: normal_score(dim), draw)


#: Two modes at a distance of 3 standard deviations.
_MODE = 1.5


@cache
def _two_modes() -> Score:
    # The score of 0.5 N(-m, 1) + 0.5 N(m, 1).
    return Score.from_callable(
        lambda x: -x + _MODE * np.tanh(_MODE * x),
        1,
        log_density=lambda x: (np.log(np.cosh(_MODE * x)) - 0.5 * x**2)[:, 0],
    )


def _stuck(n_stuck: int, name: str) -> SamplerCase:
    def draw(rng: np.random.Generator, n_draws: int) -> xr.Dataset:
        side = rng.choice([-1.0, 1.0], size=(N_CHAINS, n_draws, 1))
        side[:n_stuck] = 1.0
        return dataset(rng.normal(_MODE * side, 1.0))

    return SamplerCase(name, _two_modes, draw)


_STRONG = np.array([[1.0, 0.9], [0.9, 1.0]])


@cache
def _correlated_score(correlation: float) -> Score:
    precision = np.linalg.inv([[1.0, correlation], [correlation, 1.0]])
    return Score.from_callable(
        lambda x: -x @ precision,
        2,
        log_density=lambda x: -0.5 * np.einsum("ij,jk,ik->i", x, precision, x),
    )


def _langevin(step: float, *, adjusted: bool) -> SamplerCase:
    """Return Langevin chains on a normal target with correlation 0.9, begun from the target."""
    precision = np.linalg.inv(_STRONG)

    def propose_density(to: np.ndarray, start: np.ndarray) -> np.ndarray:
        drift = start - step / 2 * start @ precision
        return -((to - drift) ** 2).sum(axis=1) / (2 * step)

    def energy(x: np.ndarray) -> np.ndarray:
        return -0.5 * np.einsum("ci,ij,cj->c", x, precision, x)

    def draw(rng: np.random.Generator, n_draws: int) -> xr.Dataset:
        warm_up = 200
        values = np.empty((N_CHAINS, n_draws, 2))
        state = rng.multivariate_normal(np.zeros(2), _STRONG, size=N_CHAINS)
        for index in range(-warm_up, n_draws):
            drift = state - step / 2 * state @ precision
            proposal = drift + np.sqrt(step) * rng.normal(size=state.shape)
            if adjusted:
                ratio = energy(proposal) + propose_density(state, proposal)
                ratio -= energy(state) + propose_density(proposal, state)
                accepted = np.log(rng.uniform(size=N_CHAINS)) < ratio
                state = np.where(accepted[:, None], proposal, state)
            else:
                state = proposal
            if index >= 0:
                values[:, index] = state
        return dataset(values)

    kind = "MALA (exact)" if adjusted else "unadjusted Langevin"
    return SamplerCase(f"{kind}, step {step:g}", lambda: _correlated_score(0.9), draw)


def _mean_field(correlation: float) -> SamplerCase:
    """Return draws of the best normal distribution with independent coordinates."""

    def draw(rng: np.random.Generator, n_draws: int) -> xr.Dataset:
        deviation = np.sqrt(1 - correlation**2)
        return dataset(deviation * rng.normal(size=(N_CHAINS, n_draws, 2)))

    return SamplerCase(
        f"mean-field optimum, target's correlation {correlation:g}",
        lambda: _correlated_score(correlation),
        draw,
    )


POWER_CASES: tuple[SamplerCase, ...] = (
    _stuck(N_CHAINS, "all chains in one of two overlapping modes"),
    _stuck(1, "one chain of four in one of two overlapping modes"),
    *(_one_wrong_coordinate("mean wrong by 0.1 sd", dim, 0.1, 1.0) for dim in DIMENSIONS),
    *(_one_wrong_coordinate("scale wrong by 10 %", dim, 0.0, 1.1) for dim in DIMENSIONS),
    _langevin(0.2, adjusted=False),
    _langevin(0.1, adjusted=False),
    _langevin(0.2, adjusted=True),
    _mean_field(0.5),
    _mean_field(0.9),
)


@cache
def _smc_model() -> pm.Model:
    """Return a posterior of 20 correlated parameters, 20 times narrower than its prior."""
    dim = 20
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 20.0, shape=dim)
        covariance = 0.5 * (np.eye(dim) + np.ones((dim, dim)))
        pm.MvNormal("y", mu=x, cov=covariance, observed=np.linspace(-3, 3, dim))
    return model


@cache
def _smc_score() -> Score:
    return compile_score(_smc_model())


def _smc(particles: int) -> SamplerCase:
    def draw(rng: np.random.Generator, n_draws: int) -> Any:
        return pm.sample_smc(
            draws=particles,
            chains=N_CHAINS,
            cores=1,
            model=_smc_model(),
            random_seed=int(rng.integers(2**31)),
            progressbar=False,
            compute_convergence_checks=False,
        )

    return SamplerCase(f"SMC, {N_CHAINS} × {particles:,} particles", _smc_score, draw)


SMC_CASES = (_smc(100), _smc(1000))


def nuts_case(name: str) -> SamplerCase:
    """Return NUTS, by nutpie, on one of `NUTS_MODELS`."""
    import nutpie

    model = NUTS_MODELS[name]()
    compiled = nutpie.compile_pymc_model(model)

    def draw(rng: np.random.Generator, n_draws: int) -> Any:
        return nutpie.sample(
            compiled,
            draws=n_draws,
            tune=400,
            chains=N_CHAINS,
            cores=1,
            seed=int(rng.integers(2**31)),
            progress_bar=False,
            target_accept=0.9,
        )

    score = compile_score(model)
    return SamplerCase(f"NUTS, {name}", lambda: score, draw)


def _eight_schools() -> pm.Model:
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        standard = pm.Normal("standard", 0, 1, shape=8)
        pm.Normal("y", mu + tau * standard, errors, observed=effects)
    return model


def _varying_intercepts() -> pm.Model:
    """Return a Poisson regression with an intercept for each of six groups."""
    rng = np.random.default_rng(12)
    group, x = np.repeat(np.arange(6), 10), rng.normal(size=60)
    counts = rng.poisson(np.exp(1.0 + 0.4 * rng.normal(size=6)[group] + 0.3 * x))
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2)
        spread = pm.HalfNormal("spread", 1)
        intercepts = pm.Normal("intercepts", level, spread, shape=6)
        slope = pm.Normal("slope", 0, 1)
        pm.Poisson("y", pm.math.exp(intercepts[group] + slope * x), observed=counts)
    return model


def linear_regression() -> pm.Model:
    """Return a regression with correlated inputs."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(60, 3)) @ np.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.0]])
    y = 1.0 + x @ [0.5, -1.0, 0.2] + rng.normal(0, 1.5, 60)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 10)
        slopes = pm.Normal("slopes", 0, 10, shape=3)
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", intercept + x @ slopes, sigma, observed=y)
    return model


NUTS_MODELS = {
    "eight schools": _eight_schools,
    "linear regression": linear_regression,
    "Poisson regression, varying intercepts": _varying_intercepts,
}
