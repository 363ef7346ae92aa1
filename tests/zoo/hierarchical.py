"""Varying effects: one parameter per observation, crossed, nested, correlated, constrained."""

import numpy as np
import pymc as pm

from tests.zoo.registry import FUNCTIONS, Error, add

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@add()
def eight_schools_centred():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("y", theta, ERROR, observed=EFFECT, dims="school")
    return model


@add(quick=True)
def eight_schools_noncentred():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        offset = pm.Normal("offset", dims="school")
        theta = pm.Deterministic("theta", mu + tau * offset, dims="school")
        pm.Normal("y", theta, ERROR, observed=EFFECT, dims="school")
    return model


NORMAL_EACH = np.random.default_rng(11).normal(0, np.sqrt(2), size=30)


def _exact_normal_each(rng, chains, draws):
    # Prior N(0, 1) and one observation N(theta, 1) each.
    noise = rng.normal(size=(chains, draws, len(NORMAL_EACH)))
    return {"theta": NORMAL_EACH / 2 + noise * np.sqrt(0.5)}


@add(quick=FUNCTIONS, exact=_exact_normal_each)
def one_parameter_per_observation():
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=len(NORMAL_EACH))
        pm.Normal("y", theta, 1, observed=NORMAL_EACH)
    return model


def _beta_binomial_counts():
    rng = np.random.default_rng(12)
    return rng.binomial(12, rng.beta(2, 3, size=30))


def _exact_beta_binomial(rng, chains, draws):
    counts = _beta_binomial_counts()
    return {"p": rng.beta(2 + counts, 3 + 12 - counts, size=(chains, draws, len(counts)))}


@add(quick=True, exact=_exact_beta_binomial)
def beta_binomial_per_observation():
    counts = _beta_binomial_counts()
    with pm.Model() as model:
        p = pm.Beta("p", 2, 3, shape=len(counts))
        pm.Binomial("y", n=12, p=p, observed=counts)
    return model


def _gamma_poisson_counts():
    rng = np.random.default_rng(13)
    return rng.poisson(rng.gamma(3, 1, size=30))


def _exact_gamma_poisson(rng, chains, draws):
    counts = _gamma_poisson_counts()
    return {"rate": rng.gamma(3 + counts, 1 / 2, size=(chains, draws, len(counts)))}


@add(quick=True, exact=_exact_gamma_poisson)
def gamma_poisson_per_observation():
    counts = _gamma_poisson_counts()
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3, 1, shape=len(counts))
        pm.Poisson("y", rate, observed=counts)
    return model


@add(quick=True)
def crossed_effects():
    rng = np.random.default_rng(14)
    subject, item = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    y = rng.normal(size=6)[subject] + rng.normal(size=5)[item] + rng.normal(size=30)
    with pm.Model(coords={"subject": range(6), "item": list("abcde")}) as model:
        sd = pm.HalfNormal("sd", 1, shape=2)
        by_subject = pm.Normal("by_subject", 0, sd[0], dims="subject")
        by_item = pm.Normal("by_item", 0, sd[1], dims="item")
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", by_subject[subject] + by_item[item], sigma, observed=y)
    return model


@add()
def nested_effects():
    rng = np.random.default_rng(15)
    school_of_class = np.repeat(np.arange(3), 3)
    pupil_class = np.repeat(np.arange(9), 4)
    y = rng.normal(size=9)[pupil_class] + rng.normal(size=36)
    with pm.Model(coords={"school": range(3), "class": range(9)}) as model:
        mu = pm.Normal("mu", 0, 2)
        school = pm.Normal("school_effect", mu, 1, dims="school")
        sd = pm.HalfNormal("sd", 1)
        room = pm.Normal("class_effect", school[school_of_class], sd, dims="class")
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", room[pupil_class], sigma, observed=y)
    return model


@add(quick=True)
def zero_sum_effects():
    rng = np.random.default_rng(16)
    group = np.repeat(np.arange(5), 6)
    y = 1 + np.linspace(-1, 1, 5)[group] + rng.normal(size=30)
    with pm.Model(coords={"group": list("abcde")}) as model:
        mean = pm.Normal("mean", 0, 2)
        effect = pm.ZeroSumNormal("effect", 1, dims="group")
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", mean + effect[group], sigma, observed=y)
    return model


@add()
def correlated_slopes():
    rng = np.random.default_rng(17)
    group, x = np.repeat(np.arange(6), 6), rng.normal(size=36)
    y = rng.normal(size=6)[group] + rng.normal(size=6)[group] * x + rng.normal(size=36)
    with pm.Model(coords={"effect": ["intercept", "slope"], "group": range(6)}) as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1, size=2))
        z = pm.Normal("z", dims=("effect", "group"))
        effects = pm.Deterministic("effects", (chol @ z).T, dims=("group", "effect"))
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", effects[group, 0] + effects[group, 1] * x, sigma, observed=y)
    return model


@add()
def lkj_covariance_of_outcomes():
    rng = np.random.default_rng(18)
    y = rng.multivariate_normal([0, 1, 2], [[1, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 1]], size=30)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=3)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=1, sd_dist=pm.HalfNormal.dist(1, size=3))
        pm.MvNormal("y", mu, chol=chol, observed=y)
    return model


@add()
def horseshoe():
    rng = np.random.default_rng(19)
    x = rng.normal(size=(40, 6))
    y = x[:, 0] * 2 + rng.normal(size=40)
    with pm.Model() as model:
        overall = pm.HalfCauchy("overall", 0.1)
        local = pm.HalfCauchy("local", 1, shape=6)
        z = pm.Normal("z", shape=6)
        slopes = pm.Deterministic("slopes", z * local * overall)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", x @ slopes, sigma, observed=y)
    return model


def _exact_funnel(rng, chains, draws):
    v = rng.normal(0, 3, size=(chains, draws))
    return {"v": v, "x": rng.normal(size=(chains, draws, 4)) * np.exp(v / 2)[..., None]}


@add(quick=True, exact=_exact_funnel, ppc=Error("no observed variables"))
def funnel():
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=4)
    return model
