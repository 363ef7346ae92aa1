"""Very few or very many parameters and observations, priors of odd shapes, vectors of counts."""

import numpy as np
import pymc as pm

from tests.zoo.registry import FUNCTIONS, MAY_NOT_TELL, Error, add


def _exact_coin(rng, chains, draws):
    return {"p": rng.beta(1 + 13, 1 + 7, size=(chains, draws))}


@add(quick=True, exact=_exact_coin)
def one_parameter():
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=np.repeat([1, 0], [13, 7]))
    return model


def _exact_one_observation(rng, chains, draws):
    return {"mu": rng.normal(1.2 / 2, np.sqrt(0.5), size=(chains, draws))}


@add(
    quick=True,
    exact=_exact_one_observation,
    ppc=Error(r"(?is)^(?!.*(time series|path)).*(single|one) (observation|number)"),
)
def one_observation():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=1.2)
    return model


@add(
    quick=True,
    # Of its first draws the spread is off by chance, as that of one sample in 700 is.
    exact=lambda rng, *size: _exact_one_observation(rng.spawn(1)[0], *size),
    ppc=Error(r"(?i)(one|1|single) (observation|number)|at least (2|two)"),
)
def one_observation_in_a_vector():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=[1.2])
    return model


def _many_outcomes():
    return np.random.default_rng(40).normal(0, np.sqrt(2), size=2000)


def _exact_thousands(rng, chains, draws):
    y = _many_outcomes()
    return {"theta": y / 2 + np.sqrt(0.5) * rng.normal(size=(chains, draws, len(y)))}


@add(
    exact=_exact_thousands,
    test=MAY_NOT_TELL,
)
def thousands_of_parameters():
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=2000)
        pm.Normal("y", theta, 1, observed=_many_outcomes())
    return model


COUNTS = np.array([12, 7, 20, 3])


def _exact_counts(rng, chains, draws):
    return {"p": rng.dirichlet(1.0 + COUNTS, size=(chains, draws))}


@add(
    quick=True,
    exact=_exact_counts,
)
def one_multinomial_vector():
    with pm.Model(coords={"kind": list("abcd")}) as model:
        p = pm.Dirichlet("p", np.ones(4), dims="kind")
        pm.Multinomial("y", n=COUNTS.sum(), p=p, observed=COUNTS, dims="kind")
    return model


ROWS = np.random.default_rng(41).multinomial(10, [0.2, 0.3, 0.5], size=25)


def _exact_rows(rng, chains, draws):
    return {"p": rng.dirichlet(1.0 + ROWS.sum(axis=0), size=(chains, draws))}


@add(quick=True, exact=_exact_rows)
def multinomial_rows():
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(3))
        pm.Multinomial("y", n=10, p=p, observed=ROWS)
    return model


@add()
def dirichlet_multinomial_rows():
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(3))
        concentration = pm.Exponential("concentration", 0.05)
        pm.DirichletMultinomial("y", n=10, a=share * concentration, observed=ROWS)
    return model


@add()
def dirichlet_outcomes():
    with pm.Model() as model:
        a = pm.Gamma("a", 2, 1, shape=3)
        y = np.random.default_rng(42).dirichlet([2.0, 3.0, 4.0], size=25)
        pm.Dirichlet("y", a=a, observed=y)
    return model


@add(quick=True)
def uniform_priors():
    y = np.random.default_rng(43).normal(3, 2, size=25)
    with pm.Model() as model:
        mu, sigma = pm.Uniform("mu", -10, 10), pm.Uniform("sigma", 0, 10)
        pm.Normal("y", mu, sigma, observed=y)
    return model


@add(quick=True)
def interpolated_prior():
    grid = np.linspace(-4, 4, 60)
    y = np.random.default_rng(44).normal(1, 1, size=15)
    with pm.Model() as model:
        mu = pm.Interpolated("mu", grid, np.exp(-np.abs(grid)))
        pm.Normal("y", mu, 1, observed=y)
    return model


@add()
def bounds_that_are_variables():
    with pm.Model() as model:
        upper = pm.Exponential("upper", 0.5)
        x = pm.Uniform("x", 0, upper)
        y = np.random.default_rng(45).normal(1, 1, size=12)
        pm.Normal("y", x, 1, observed=y)
    return model


@add(
    quick=FUNCTIONS,
    checked=("y",),
)
def two_outcomes():
    """One outcome can be checked, the other is a single number: the first is checked."""
    rng = np.random.default_rng(46)
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(4))
        mu = pm.Normal("mu", 0, 2)
        pm.Categorical("kind", p=p, observed=2)
        pm.Normal("y", mu, 1, observed=rng.normal(1, 1, size=25))
    return model


@add(quick=True, ppc=Error("no observed variables"))
def prior_only():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Gamma("scale", 2, 1)
        pm.Normal("theta", mu, 1, shape=3)
    return model
