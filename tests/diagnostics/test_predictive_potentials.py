"""Potentials beside observed variables: never ignored without a word."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd

Y = np.random.default_rng(1).exponential(size=30)


@pytest.fixture
def draws(rng):
    size = (2, 50)
    values = {"rate": rng.gamma(30, 1 / Y.sum(), size), "scale": rng.gamma(5, 0.2, size)}
    return xr.Dataset({name: (("chain", "draw"), array) for name, array in values.items()})


def model_with(potential):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        rate = pm.Gamma("rate", 2, scale)
        y = pm.Exponential("y", rate, observed=Y)
        pm.Potential("term", potential(rate, scale, y))
    return model


def test_a_potential_of_the_same_parameters_has_to_be_vouched_for(draws):
    model = model_with(lambda rate, scale, y: -rate * 2.5 * 4)
    options = {"num_draws": 25, "progressbar": False}
    with pytest.raises(ValueError, match=r"Potential 'term' depends on rate.*'y'.*`var_names` 'y'"):
        pymc_ksd.ksd_ppc(model, draws, **options)
    with pytest.raises(ValueError, match="Potential 'term' depends on rate"):
        pymc_ksd.ksd_test(model, Y, posterior=draws, progressbar=False)
    assert pymc_ksd.ksd_ppc(model, draws, var_names="y", **options)["p_value"] > 0.05
    report = pymc_ksd.ksd_report(model, draws, **options)
    assert any("Potential 'term'" in line for line in report.missing)


@pytest.mark.parametrize(
    "potential",
    [
        lambda rate, scale, y: -0.1 * (y * rate).sum(),
        lambda rate, scale, y: -0.1 * (rate * Y).sum(),
        lambda rate, scale, y: -0.1 * pm.math.log(Y + scale).sum(),
    ],
    ids=["variable", "its numbers", "its numbers alone"],
)
@pytest.mark.parametrize("var_names", [None, "y"])
def test_a_potential_of_the_observations_is_refused(draws, potential, var_names):
    with pytest.raises(ValueError, match=r"Potential 'term' changes the distribution of .* 'y'"):
        pymc_ksd.ksd_ppc(model_with(potential), draws, var_names=var_names, progressbar=False)


def test_a_potential_of_other_parameters_is_a_prior(draws):
    """It has nothing to do with the observations once their own parameters are known."""
    model = model_with(lambda rate, scale, y: -(scale**2))
    check = pymc_ksd.ksd_ppc(model, draws, num_draws=25, progressbar=False)
    assert check["p_value"] > 0.05
    assert "left_out" not in check.attrs
