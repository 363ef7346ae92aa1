"""Reference draws of published posteriors are accepted, and planted errors found."""

import numpy as np
import pytest

from benchmarks import published_posteriors
from benchmarks.published_posteriors import FOLDER, POSTERIORS
from pymc_ksd import compile_score, ksd_moments, ksd_test

pytestmark = [
    pytest.mark.slow,
    pytest.mark.newer_stack,
    pytest.mark.skipif(
        not FOLDER, reason="PYMC_KSD_POSTERIORDB is not set: the reference draws are kept elsewhere"
    ),
]


@pytest.fixture(scope="module", params=POSTERIORS)
def reference(request):
    """The score of a model and its reference draws."""
    model, posterior = published_posteriors.reference(request.param)
    return compile_score(model), posterior


#: How many times smaller the variance of corrected means has to be, at the median of parameters.
GAINS = {3: 500, 7: 500, 6: 500, 10: 15}


def stacked(result, diagnostic):
    """A diagnostic of all parameters in one array."""
    arrays = [array for array in result.values() if "diagnostic" in array.dims]
    return np.concatenate([np.ravel(array.sel(diagnostic=diagnostic)) for array in arrays])


def test_reference_draws_have_the_moments_of_the_posterior(reference):
    score, posterior = reference
    assert float(ksd_moments(score, posterior)["p_value"]) > 0.05 / len(POSTERIORS)
    # Features explain less than half of the scale of the eight schools: it takes more draws.
    n_chains = 10 if "theta_trans" in posterior else 4
    few = ksd_moments(score, posterior.isel(chain=slice(n_chains)), margin=0.1)
    assert few.attrs["status"] == "certified"


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
    assert result["p_value"] > 0.05 / len(POSTERIORS)
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
