"""Censored and truncated outcomes, and survival written as counts."""

import numpy as np
import pymc as pm

from tests.zoo.registry import Error, add


def _times():
    return np.random.default_rng(90).weibull(1.5, size=30) * 2


@add(quick=True)
def censored_weibull():
    with pm.Model() as model:
        alpha, beta = pm.Gamma("alpha", 2, 1), pm.Gamma("beta", 2, 1)
        latent = pm.Weibull.dist(alpha=alpha, beta=beta)
        pm.Censored("y", latent, lower=None, upper=2.5, observed=np.minimum(_times(), 2.5))
    return model


@add(quick=("ksd_ppc",))
def censored_regression_with_own_bounds():
    rng = np.random.default_rng(91)
    x, bound = rng.normal(size=30), rng.uniform(0, 2, size=30)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        y = np.minimum(x + rng.normal(size=30), bound)
        latent = pm.Normal.dist(b[0] + b[1] * x, sigma)
        pm.Censored("y", latent, lower=-np.inf, upper=bound, observed=y)
    return model


@add(
    quick=True,
    ppc=Error(r"(?i)potential"),
)
def censored_by_potential():
    """Observed times as a variable, censored ones as a potential."""
    times = _times()
    died = times < 2.5
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Exponential("y", rate, observed=times[died])
        pm.Potential("alive", -rate * 2.5 * (~died).sum())
    return model


@add(quick=True, reason="the inputs hold the outcome's exposure: documented, not refused")
def survival_as_poisson():
    """Cox's model with a piecewise constant hazard: deaths per interval as Poisson counts."""
    times = np.minimum(_times(), 2.5)
    died = _times() < 2.5
    edges = np.array([0.0, 0.8, 1.6, 2.6])
    exposure = np.clip(times[:, None] - edges[:-1], 0, np.diff(edges))
    death = (died[:, None] & (times[:, None] > edges[:-1]) & (times[:, None] <= edges[1:])) * 1
    with pm.Model(coords={"interval": range(3), "person": range(30)}) as model:
        hazard = pm.Gamma("hazard", 1, 1, dims="interval")
        mean = exposure * hazard + 1e-9
        pm.Poisson("deaths", mean, observed=death, dims=("person", "interval"))
    return model


@add()
def truncated_regression():
    rng = np.random.default_rng(92)
    x = rng.normal(size=60)
    y = x + rng.normal(size=60)
    kept = y > -0.5
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        latent = pm.Normal.dist(b[0] + b[1] * x[kept], sigma)
        pm.Truncated("y", latent, lower=-0.5, upper=None, observed=y[kept])
    return model


@add()
def truncated_counts():
    y = np.random.default_rng(93).poisson(2, size=40)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Truncated("y", pm.Poisson.dist(rate), lower=1, observed=y[y > 0])
    return model
