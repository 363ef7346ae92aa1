"""Eight schools: an exact sampler, one with divergences, and an approximation."""

import numpy as np
import pymc as pm
import pytest

from pymc_ksd import ksd_evolution, ksd_test

pytestmark = [
    pytest.mark.slow,
    pytest.mark.default_stack,  # test_samplers.py runs the samplers on both
    # The centred model diverges, and says so.
    pytest.mark.filterwarnings("ignore::UserWarning:pymc"),
    # PyMC, nutpie and pymc-extras call what PyTensor and NumPy are about to change:
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # names that moved
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # call signatures
]

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(*, centred):
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, dims="school")
        else:
            theta = mu + tau * pm.Normal("standard", 0, 1, dims="school")
        pm.Normal("y", theta, ERRORS, observed=EFFECTS, dims="school")
    return model


def nuts(model):
    options = {"cores": 1, "random_seed": 3, "progressbar": False, "nuts_sampler": "nutpie"}
    return pm.sample(draws=1000, tune=1000, chains=4, model=model, **options)


def advi(model):
    fitted = pm.fit(30_000, method="advi", model=model, random_seed=1, progressbar=False)
    draws = fitted.sample(4000, random_seed=2)["posterior"]
    draws = draws.to_dataset() if hasattr(draws, "to_dataset") else draws
    # Independent draws, dealt out to four chains.
    chains = draws.isel(chain=0, drop=True).assign_coords(draw=np.arange(4000))
    return chains.coarsen(draw=1000).construct(draw=("chain", "draw"))


@pytest.fixture(scope="module")
def runs():
    centred, non_centred = eight_schools(centred=True), eight_schools(centred=False)
    return {
        "non-centred NUTS": (non_centred, nuts(non_centred)),
        "centred NUTS": (centred, nuts(centred)),
        "ADVI": (centred, advi(centred)),
    }


def test_ess_ksd_orders_the_samplers_and_advi_is_rejected(runs):
    results = {
        name: ksd_test(model, draws, random_seed=0, progressbar=False)
        for name, (model, draws) in runs.items()
    }
    sizes = {name: float(result["ess_ksd"]) for name, result in results.items()}
    assert sizes["non-centred NUTS"] > sizes["centred NUTS"] > sizes["ADVI"], sizes
    assert 2000 < sizes["non-centred NUTS"] < 8000
    assert results["ADVI"]["p_value"] <= 0.01
    assert results["non-centred NUTS"]["p_value"] > 0.01


@pytest.mark.parametrize(("name", "grows"), [("non-centred NUTS", True), ("ADVI", False)])
def test_ess_ksd_grows_with_the_draws_of_an_exact_sampler_only(runs, name, grows):
    """On logarithmic axes the effective size has slope 1 against the draws, or levels off."""
    model, draws = runs[name]
    curve = ksd_evolution(model, draws, progressbar=False)["ess_ksd"].sel(n_draws=slice(50, None))
    slope = np.polyfit(np.log(curve["n_draws"].values), np.log(curve.values), 1)[0]
    assert 0.6 < slope < 1.4 if grows else slope < 0.3
