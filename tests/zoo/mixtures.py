"""Mixtures, zero inflation, hurdles, and discrete variables, summed out or not."""

import numpy as np
import pymc as pm

from tests.zoo.registry import Error, add

#: A clear refusal; where observations stay independent, a check would be better still.
MARGINALISED = Error(r"(?is)'y'.*marginal")
MARGINALISED_EACH = Error(MARGINALISED.message, may_work=True)
DISCRETE = Error(r"'tau'.*is discrete")


def _two_groups():
    rng = np.random.default_rng(50)
    return np.concatenate([rng.normal(-2, 1, size=20), rng.normal(2, 1, size=20)])


@add()
def normal_mixture():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        mu = pm.Normal(
            "mu",
            0,
            3,
            shape=2,
            transform=pm.distributions.transforms.ordered,
            initval=[-1.0, 1.0],
        )
        pm.NormalMixture("y", w=w, mu=mu, sigma=1, observed=_two_groups())
    return model


@add(quick=True)
def mixture_of_distributions():
    with pm.Model() as model:
        w = pm.Beta("w", 2, 2)
        mu = pm.Normal("mu", 0, 2)
        parts = [pm.Normal.dist(mu, 1), pm.StudentT.dist(nu=4, mu=2, sigma=1)]
        pm.Mixture("y", w=pm.math.stack([w, 1 - w]), comp_dists=parts, observed=_two_groups())
    return model


@add()
def mixture_of_counts():
    rng = np.random.default_rng(51)
    y = np.concatenate([rng.poisson(2, size=20), rng.poisson(9, size=15)])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        rates = pm.Gamma("rates", [2.0, 9.0], 1.0, shape=2)
        pm.Mixture("y", w=w, comp_dists=pm.Poisson.dist(rates), observed=y)
    return model


def _inflated_counts():
    rng = np.random.default_rng(52)
    return rng.poisson(3, size=35) * rng.binomial(1, 0.7, size=35)


@add(quick=True)
def zero_inflated_poisson():
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1)
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=_inflated_counts())
    return model


@add()
def zero_inflated_negative_binomial():
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1)
        alpha = pm.Exponential("alpha", 0.5)
        pm.ZeroInflatedNegativeBinomial(
            "y", psi=psi, mu=mu, alpha=alpha, observed=_inflated_counts()
        )
    return model


@add()
def hurdle_poisson():
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 2, 2), pm.Gamma("mu", 2, 1)
        pm.HurdlePoisson("y", psi=psi, mu=mu, observed=_inflated_counts())
    return model


@add(quick=True, parts=("y_zero", "y"))
def hurdle_gamma():
    rng = np.random.default_rng(53)
    y = rng.gamma(2, 1, size=35) * rng.binomial(1, 0.7, size=35)
    with pm.Model() as model:
        psi = pm.Beta("psi", 2, 2)
        alpha, beta = pm.Exponential("alpha", 0.5), pm.Exponential("beta", 0.5)
        pm.HurdleGamma("y", psi=psi, alpha=alpha, beta=beta, observed=y)
    return model


def _disasters():
    rng = np.random.default_rng(54)
    return np.concatenate([rng.poisson(3, size=20), rng.poisson(1, size=20)])


def _switchpoint_model():
    with pm.Model() as model:
        tau = pm.DiscreteUniform("tau", 1, 39)
        early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
        rate = pm.math.switch(np.arange(40) < tau, early, late)
        pm.Poisson("y", rate, observed=_disasters())
    return model


@add(
    quick=True, score=DISCRETE, reason="ksd_ppc and the report need no score of the free variables"
)
def switchpoint_with_discrete_variable():
    return _switchpoint_model()


@add(quick=True, needs=("pymc_extras",), ppc=MARGINALISED)
def marginalised_switchpoint():
    import pymc_extras

    return pymc_extras.marginalize(_switchpoint_model(), ["tau"])


@add(needs=("pymc_extras",), ppc=MARGINALISED_EACH)
def marginalised_mixture():
    import pymc_extras

    with pm.Model() as model:
        p = pm.Beta("p", 2, 2)
        mu = pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        group = pm.Bernoulli("group", p, shape=40)
        pm.Normal("y", mu[group], 1, observed=_two_groups())
    return pymc_extras.marginalize(model, ["group"])
