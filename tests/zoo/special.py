"""Potentials, custom distributions, and models that other packages make."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from tests.zoo.registry import CANNOT_TELL, FUNCTIONS, NOT_PASSED, Error, add

POTENTIAL = Error(r"(?i)potential")


def _outcomes(n=25, seed=110):
    return np.random.default_rng(seed).normal(1, 1, size=n)


@add(
    quick=FUNCTIONS,
    ppc=POTENTIAL,
)
def potential_as_constraint():
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 1, 1)
        pm.Potential("nearly_ordered", -pt.softplus(20 * (a - b)))
        pm.Normal("y", a + b, 1, observed=_outcomes())
    return model


@add(quick=True, ppc=Error("no observed variables"))
def potential_as_likelihood():
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 1)
        pm.Potential("likelihood", pm.logp(pm.Normal.dist(mu, sigma), _outcomes()).sum())
    return model


@add()
def custom_distribution_by_graph():
    """A distribution written by how it is simulated: a log-probability is derived."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.CustomDist(
            "y",
            mu,
            dist=lambda mu, size: pm.math.exp(pm.Normal.dist(mu, 1, size=size)),
            observed=np.exp(_outcomes()),
        )
    return model


def _logp(value, mu):
    return -pt.abs(value - mu) - np.log(2)


def _random(mu, rng=None, size=None):
    return rng.laplace(mu, 1, size=size)


@add(quick=True)
def custom_distribution_by_density():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.CustomDist("y", mu, logp=_logp, random=_random, observed=_outcomes())
    return model


@add(ppc=Error(r"(?i)'y'.*(random|simulat)"))
def custom_density_without_simulation():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.CustomDist("y", mu, logp=_logp, observed=_outcomes())
    return model


@add(
    quick=True,
    score=Error(r"(?i)simulator"),
    ppc=Error(r"(?i)simulator"),
    report=Error(r"(?i)simulator"),
)
def simulator():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Simulator(
            "y", lambda rng, mu, size: rng.normal(mu, 1, size=25), mu, observed=_outcomes()
        )
    return model


def _mean_and_scale():
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 1)
        pm.Normal("y", mu, sigma, observed=_outcomes())
    return model


def _frozen(model, posterior, rng):
    return posterior.isel(draw=[0] * posterior.sizes["draw"]).assign_coords(draw=posterior["draw"])


@add(
    quick=FUNCTIONS,
    test=CANNOT_TELL,
    draws=_frozen,
    report=NOT_PASSED,
)
def frozen_chains():
    """Each chain stays where it started."""
    return _mean_and_scale()


def _apart(model, posterior, rng):
    shift = posterior["mu"].std() * 6 * (posterior["chain"] - 0.5)
    return posterior.assign(mu=posterior["mu"] + shift)


@add(
    quick=True,
    test=NOT_PASSED,
    draws=_apart,
    report=NOT_PASSED,
)
def chains_that_disagree():
    """Two chains, each three standard deviations off, on either side."""
    return _mean_and_scale()


def _prior(model, posterior, rng):
    size = (posterior.sizes["chain"], posterior.sizes["draw"])
    return posterior.assign(
        mu=(("chain", "draw"), rng.normal(0, 2, size=size)),
        sigma=(("chain", "draw"), np.abs(rng.normal(size=size))),
    )


@add(quick=FUNCTIONS, test=NOT_PASSED, draws=_prior, report=NOT_PASSED)
def draws_of_the_prior():
    return _mean_and_scale()


@add(
    score=Error(r"(?i)BART"),
    ppc=Error(r"(?i)BART"),
    report=Error(r"(?i)BART"),
    needs=("pymc_bart",),
)
def regression_trees():
    import pymc_bart

    x = np.linspace(0, 1, 25)
    with pm.Model() as model:
        mu = pymc_bart.BART("mu", x[:, None], np.sin(6 * x), m=5)
        pm.Normal("y", mu, 0.3, observed=np.sin(6 * x))
    return model
