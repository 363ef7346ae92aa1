"""Models from which pymc-extras has summed discrete variables out."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import pymc_ksd

pymc_extras = pytest.importorskip("pymc_extras")

RNG = np.random.default_rng(50)
TWO_GROUPS = np.concatenate([RNG.normal(-2, 1, size=60), RNG.normal(2, 1, size=60)])
OPTIONS = {"num_draws": 50, "random_seed": 1, "progressbar": False}


def mixture(observed=TWO_GROUPS, dist=pm.Normal):
    with pm.Model() as model:
        mu = pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        group = pm.Bernoulli("group", 0.5, shape=len(observed))
        values = mu[group]
        if dist is pm.Normal:
            pm.Normal("y", values, 1, observed=observed)
        else:
            dist("y", pt.exp(values), observed=observed)
    return pymc_extras.marginalize(model, ["group"])


def by_hand():
    with pm.Model() as model:
        mu = pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1, observed=TWO_GROUPS)
    return model


@pytest.fixture
def draws(rng):
    values = rng.normal([-2.0, 2.0], 0.13, size=(2, 50, 2))
    return xr.Dataset({"mu": (("chain", "draw", "mu_dim_0"), values)})


@pytest.mark.slow
@pytest.mark.default_stack
def test_a_group_for_each_observation_is_a_mixture(draws):
    check = pymc_ksd.ksd_ppc(mixture(), draws, covariates=None, **OPTIONS)
    other = pymc_ksd.ksd_ppc(by_hand(), draws, covariates=None, **OPTIONS)
    assert check["p_value"] > 0.05
    assert abs(float(check["p_value"] - other["p_value"])) < 0.4
    # Neither group, where the model has none.
    between = pymc_ksd.ksd_ppc(mixture(TWO_GROUPS / 3), draws, covariates=None, **OPTIONS)
    assert between["p_value"] < 0.05


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("dist", [pm.Exponential, pm.Poisson])
def test_other_supports_keep_their_coordinates(dist, rng, draws):
    rates = np.exp(np.where(np.arange(120) < 60, -2.0, 2.0))
    data = rng.exponential(1 / rates) if dist is pm.Exponential else rng.poisson(rates)
    check = pymc_ksd.ksd_ppc(mixture(data, dist), draws, **OPTIONS)
    assert check["p_value"] > 0.05


def test_a_change_point_makes_one_observation(draws):
    with pm.Model() as model:
        mu = pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        tau = pm.DiscreteUniform("tau", 0, 119)
        pm.Normal("y", pt.switch(np.arange(120) < tau, mu[0], mu[1]), 1, observed=TWO_GROUPS)
    model = pymc_extras.marginalize(model, ["tau"])
    with pytest.raises(ValueError, match=r"'y' was marginalised.*not a sample"):
        pymc_ksd.ksd_ppc(model, draws, **OPTIONS)


def test_shared_groups_tie_outcomes_together(draws):
    with pm.Model() as model:
        mu = pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        group = pm.Bernoulli("group", 0.5, shape=120)
        pm.Normal("y", mu[group], 1, observed=TWO_GROUPS)
        pm.Normal("z", mu[1 - group], 1, observed=TWO_GROUPS)
    model = pymc_extras.marginalize(model, ["group"])
    with pytest.raises(ValueError, match=r"'y' shares a variable that was marginalised"):
        pymc_ksd.ksd_ppc(model, draws, **OPTIONS)
