"""Observed variables that cannot be checked: named, with the reason, beside those that can be."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd

Y = np.random.default_rng(1).normal(size=30)


def with_one_number():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("number", mu, 1, observed=0.2)
        pm.Normal("y", mu, 1, observed=Y)
    return model


def without_density():
    """Two variables, neither of which can be checked."""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("number", mu, 1, observed=0.2)
        pm.Dirichlet("y", np.ones(3) + mu**2, observed=np.ones(3) / 3)
    return model


def exact_draws(rng, n_draws):
    values = rng.normal((Y.sum() + 0.2) / 32, np.sqrt(1 / 32), size=(2, n_draws))
    return xr.Dataset({"mu": (("chain", "draw"), values)})


@pytest.fixture
def draws(rng):
    return exact_draws(rng, 50)


def test_others_are_checked(draws, tmp_path):
    with pytest.warns(UserWarning, match=r"Not checked: 'number'\. number: .*single number"):
        check = pymc_ksd.ksd_ppc(with_one_number(), draws, num_draws=25, progressbar=False)
    assert check["variable"].item() == "y"
    assert 0 < check["p_value"] <= 1
    assert check.attrs["left_out"].startswith("number: ")
    assert "Not checked: number: " in check.attrs["conclusion"]
    assert "Not checked: number: " in str(pymc_ksd.explain(check))
    check.to_netcdf(tmp_path / "check.nc")


def test_all_that_can_be_checked_are_the_same_without_the_other(draws):
    """What is left out changes nothing for the rest."""
    with pm.Model() as alone:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1, observed=Y)
    options = {"num_draws": 25, "progressbar": False, "random_seed": 1}
    with pytest.warns(UserWarning, match="Not checked"):
        check = pymc_ksd.ksd_ppc(with_one_number(), draws, **options)
    other = pymc_ksd.ksd_ppc(alone, draws, **options)
    np.testing.assert_allclose(check["observed"], other["observed"])
    assert "left_out" not in other.attrs


def test_what_is_asked_for_is_not_left_out(draws):
    with pytest.raises(ValueError, match="'number' is a single number"):
        pymc_ksd.ksd_ppc(
            with_one_number(), draws, var_names=["number", "y"], num_draws=25, progressbar=False
        )


def test_nothing_is_left(draws):
    with pytest.raises(
        ValueError, match=r"None of the observed.*number: .*single.*y: .*single vector"
    ):
        pymc_ksd.ksd_ppc(without_density(), draws, num_draws=25, progressbar=False)


def test_wrong_options_are_not_reasons(draws):
    with pytest.raises(ValueError, match="`covariates` must have an entry"):
        pymc_ksd.ksd_ppc(
            with_one_number(), draws, covariates={"z": Y}, num_draws=25, progressbar=False
        )
    with pytest.raises(ValueError, match="lacks the variable"):
        pymc_ksd.ksd_ppc(with_one_number(), draws.rename(mu="nu"), progressbar=False)


def test_report_names_what_was_left_out():
    draws = exact_draws(np.random.default_rng(5), 200)
    report = pymc_ksd.ksd_report(with_one_number(), draws, progressbar=False, random_seed=1)
    assert any("not checked against number: " in line for line in report.missing)
    assert "only a part could be checked" in report.verdict.headline
    assert report.verdict.status != "passed"


def test_covariates_of_one_variable_do_not_stop_the_others(draws):
    """Rows for one of two variables of different lengths."""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("short", mu, 1, observed=Y[:12])
        pm.Normal("y", mu, 1, observed=Y)
    options = {"num_draws": 25, "progressbar": False}
    with pytest.warns(UserWarning, match="Not checked: 'short'.*one row for each of the 12"):
        check = pymc_ksd.ksd_ppc(model, draws, covariates=np.arange(30.0), **options)
    assert check["variable"].item() == "y"
    assert "covariates" in check["comparison"].values
    with pytest.raises(ValueError, match="one row for each of the 12 observations of 'short'"):
        pymc_ksd.ksd_ppc(
            model, draws, covariates=np.arange(30.0), var_names=["short", "y"], **options
        )
