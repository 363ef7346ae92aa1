"""Processes in time: paths that are latent, paths that are observed, recursions and an ODE."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import collect_default_updates

from tests.zoo.registry import Error, add

STEPS = 30


def _walk(seed, scale=0.4):
    return np.cumsum(np.random.default_rng(seed).normal(0, scale, size=STEPS))


@add(quick=True)
def latent_random_walk():
    y = np.random.default_rng(60).poisson(np.exp(_walk(61, 0.2)))
    with pm.Model(coords={"time": range(STEPS)}) as model:
        sigma = pm.HalfNormal("sigma", 0.5)
        start = pm.Normal.dist(0, 1)
        rate = pm.GaussianRandomWalk("log_rate", sigma=sigma, init_dist=start, dims="time")
        pm.Poisson("y", pm.math.exp(rate), observed=y, dims="time")
    return model


@add(quick=True)
def observed_random_walk():
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
        start = pm.Normal.dist(0, 1)
        pm.GaussianRandomWalk("y", mu=mu, sigma=sigma, init_dist=start, observed=_walk(62))
    return model


@add(quick=("ksd_ppc",))
def observed_autoregression():
    rng = np.random.default_rng(63)
    y = np.zeros(STEPS)
    for t in range(1, STEPS):
        y[t] = 0.6 * y[t - 1] + rng.normal()
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.5, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        start = pm.Normal.dist(0, 2)
        pm.AR("y", rho=rho, sigma=sigma, constant=True, init_dist=start, observed=y)
    return model


@add()
def latent_autoregression():
    y = np.random.default_rng(64).normal(_walk(65), 0.5)
    with pm.Model() as model:
        rho, sigma = pm.Uniform("rho", -1, 1), pm.HalfNormal("sigma", 1)
        state = pm.AR("state", rho=rho, sigma=sigma, init_dist=pm.Normal.dist(0, 1), shape=STEPS)
        pm.Normal("y", state, 0.5, observed=y)
    return model


@add(quick=True)
def one_step_autoregression():
    """The same process written by its one-step distributions, which can be checked."""
    y = _walk(66)
    with pm.Model() as model:
        rho, sigma = pm.Normal("rho", 0, 1), pm.HalfNormal("sigma", 1)
        pm.Normal("y", rho * y[:-1], sigma, observed=y[1:])
    return model


@add()
def multivariate_random_walk():
    rng = np.random.default_rng(67)
    y = np.cumsum(rng.normal(0, 0.3, size=(12, 2)), axis=0) + rng.normal(0, 0.5, size=(12, 2))
    with pm.Model() as model:
        start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
        level = pm.MvGaussianRandomWalk(
            "level", mu=np.zeros(2), chol=0.3 * np.eye(2), init_dist=start, shape=(12, 2)
        )
        pm.Normal("y", level, 0.5, observed=y)
    return model


@add()
def local_level():
    """A random walk by cumulative sums of innovations."""
    y = np.random.default_rng(68).normal(_walk(69), 0.5)
    with pm.Model() as model:
        innovations = pm.Normal("innovations", shape=STEPS)
        drift, noise = pm.HalfNormal("drift", 0.5), pm.HalfNormal("noise", 0.5)
        level = pm.Deterministic("level", pt.cumsum(innovations) * drift)
        pm.Normal("y", level, noise, observed=y)
    return model


@add(ppc=Error(r"(?is)'y'.*(path|time series|vector|independent)", may_work=True))
def scan_inside_a_custom_distribution():
    """A recursion as ``pm.CustomDist``, whose log-probability PyMC derives through the loop."""
    y = _walk(70)

    def recursion(rho, sigma, size):
        def step(before, rho, sigma):
            value = pm.Normal.dist(rho * before, sigma)
            return value, collect_default_updates([value])

        values, _ = pytensor.scan(
            step,
            outputs_info=[pt.as_tensor(0.0, dtype="float64")],
            non_sequences=[rho, sigma],
            n_steps=STEPS,
            strict=True,
        )
        return values

    with pm.Model() as model:
        rho, sigma = pm.Normal("rho", 0, 1), pm.HalfNormal("sigma", 1)
        pm.CustomDist("y", rho, sigma, dist=recursion, observed=y)
    return model


@add()
def scan_in_the_mean():
    """Exponential smoothing: each mean follows from the observations before it."""
    y = _walk(71)
    with pm.Model() as model:
        weight, sigma = pm.Beta("weight", 2, 2), pm.HalfNormal("sigma", 1)
        levels = pytensor.scan(
            lambda value, level, weight: weight * value + (1 - weight) * level,
            sequences=[pt.as_tensor(y[:-1])],
            outputs_info=[pt.as_tensor(0.0, dtype="float64")],
            non_sequences=[weight],
            return_updates=False,
        )
        pm.Normal("y", levels, sigma, observed=y[1:])
    return model


@add()
def ordinary_differential_equation():
    """Logistic growth by Euler's method in a scan."""
    rng = np.random.default_rng(72)
    times = np.arange(1, 16)
    y = 10 / (1 + 9 * np.exp(-0.5 * times)) * np.exp(rng.normal(0, 0.1, size=15))
    with pm.Model() as model:
        growth, capacity = pm.LogNormal("growth", -1, 0.5), pm.LogNormal("capacity", 2, 0.5)
        sigma = pm.HalfNormal("sigma", 0.3)
        sizes = pytensor.scan(
            lambda size, growth, capacity: size + growth * size * (1 - size / capacity),
            outputs_info=[pt.as_tensor(1.0, dtype="float64")],
            non_sequences=[growth, capacity],
            n_steps=15,
            return_updates=False,
        )
        pm.LogNormal("y", pm.math.log(sizes), sigma, observed=y)
    return model
