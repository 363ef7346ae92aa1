"""Published posteriors with reference draws, written as PyMC models.

The archives stay outside the repository: `PYMC_KSD_POSTERIORDB` names their folder.
"""

import os
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

from pymc_ksd import compile_score, ksd_moments, ksd_test

FOLDER = os.environ.get("PYMC_KSD_POSTERIORDB")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.newer_stack,
    pytest.mark.skipif(
        not FOLDER, reason="PYMC_KSD_POSTERIORDB is not set: the reference draws are kept elsewhere"
    ),
]


def eight_schools(data):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta_trans = pm.Normal("theta_trans", 0, 1, shape=8)
        pm.Normal("y", mu + tau * theta_trans, data["sigma"], observed=data["y"])
    return model


def kidiq(data):
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=2)
        sigma = pm.HalfCauchy("sigma", 2.5)
        mean = beta[0] + beta[1] * data["mom_iq"]
        pm.Normal("kid_score", mean, sigma, observed=data["kid_score"])
    return model


def autoregression(data):
    series = data["y"].astype(float)
    order = int(data["K"])
    lags = np.stack([series[order - k : -k] for k in range(1, order + 1)], axis=1)
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 10)
        beta = pm.Normal("beta", 0, 10, shape=order)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + pt.dot(lags, beta), sigma, observed=series[order:])
    return model


def linear_regression(data):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=data["X"].shape[1])
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", pt.dot(data["X"], beta), sigma, observed=data["y"])
    return model


MODELS = {
    "eight_schools-eight_schools_noncentered": eight_schools,
    "kidiq-kidscore_momiq": kidiq,
    "arK-arK": autoregression,
    "sblri-blr": linear_regression,
}


@pytest.fixture(scope="module", params=MODELS)
def reference(request):
    """The score of a model and its reference draws."""
    archive = np.load(Path(FOLDER) / f"{request.param}.npz")
    data = {name.removeprefix("data_"): archive[name] for name in archive if "data_" in name}
    draws = {}
    for name in archive:
        if name.startswith("draws_"):
            values = archive[name]
            extra = [f"{name}_{axis}" for axis in range(values.ndim - 2)]
            draws[name.removeprefix("draws_")] = (("chain", "draw", *extra), values)
    posterior = xr.Dataset(draws)
    if "theta" in posterior:
        # The archive has theta; the non-centred model has what theta is made from.
        theta_trans = (posterior["theta"] - posterior["mu"]) / posterior["tau"]
        posterior = posterior.drop_vars("theta").assign(theta_trans=theta_trans)
    return compile_score(MODELS[request.param](data)), posterior


#: How many times smaller the variance of corrected means has to be, at the median of parameters.
GAINS = {3: 500, 7: 500, 6: 500, 10: 15}


def stacked(result, diagnostic):
    """A diagnostic of all parameters in one array."""
    arrays = [array for array in result.values() if "diagnostic" in array.dims]
    return np.concatenate([np.ravel(array.sel(diagnostic=diagnostic)) for array in arrays])


def test_reference_draws_have_the_moments_of_the_posterior(reference):
    score, posterior = reference
    assert float(ksd_moments(score, posterior)["p_value"]) > 0.05 / len(MODELS)
    four = ksd_moments(score, posterior.isel(chain=slice(4)), margin=0.1)
    assert four.attrs["status"] == "certified"


def test_corrected_means_of_single_chains_vary_less(reference):
    score, posterior = reference
    whole = ksd_moments(score, posterior)
    chains = [ksd_moments(score, posterior.isel(chain=[number])) for number in range(10)]
    plain, corrected, errors = (
        np.array([stacked(one, name) for one in chains])
        for name in ("mean", "stein_mean", "stein_mcse")
    )
    gain = plain.var(axis=0) / corrected.var(axis=0)
    assert np.median(gain) >= GAINS[gain.size]
    assert (gain > 1 / 1.1).all()
    # Of 30 to 100 intervals, correlated within a chain.
    allowed = 1.96 * np.hypot(errors, stacked(whole, "stein_mcse"))
    inside = np.abs(corrected - stacked(whole, "stein_mean")) < allowed
    assert inside.mean() > 0.88


def elements(posterior):
    for name, array in posterior.items():
        for index in np.ndindex(array.shape[2:]):
            yield name, index


def test_reference_draws_pass(reference):
    score, posterior = reference
    result = ksd_test(score, posterior, random_seed=0, n_bootstrap=500, progressbar=False)
    assert result.attrs["n"] == 10_000
    # Four posteriors are tested: together at level 5 %, each at a quarter of it.
    assert result["p_value"] > 0.05 / len(MODELS)
    assert 5_000 < result["ess_ksd"] < 20_000


@pytest.mark.parametrize("error", ["shift", "scale"])
def test_an_error_in_any_one_parameter_is_found(reference, error):
    """A shift by 0.15 standard deviations, or a scale wrong by 15 %."""
    score, posterior = reference
    p_values = {}
    for name, index in elements(posterior):
        wrong = posterior.copy(deep=True)
        values = wrong[name].values[(..., *index)]
        if error == "shift":
            # A positive parameter is shifted where it lives, without leaving its support.
            changed = values + 0.15 * values.std()
        else:
            changed = values.mean() + 1.15 * (values - values.mean())
        if posterior[name].min() > 0 and name in ("tau", "sigma"):
            logs = np.log(values)
            changed = np.exp(
                logs + 0.15 * logs.std()
                if error == "shift"
                else logs.mean() + 1.15 * (logs - logs.mean())
            )
        wrong[name].values[(..., *index)] = changed
        result = ksd_test(score, wrong, random_seed=0, n_bootstrap=200, progressbar=False)
        p_values[name, index] = float(result["p_value"])
    assert max(p_values.values()) <= 0.05, p_values
