"""Draws of PyMC's samplers, of nutpie and of pymc-extras, one by one through the same call."""

import logging

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

from pymc_ksd import compile_score, ksd, ksd_test

pytestmark = [
    pytest.mark.slow,
    # Few draws of simple samplers: their own advice is not the point here.
    pytest.mark.filterwarnings("ignore::UserWarning:pymc"),
    # PyMC, nutpie and pymc-extras call what PyTensor and NumPy are about to change:
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # names that moved
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # call signatures
    # Numba's advice to whoever wrote the code that it compiles.
    pytest.mark.filterwarnings("ignore:.*is faster on contiguous arrays"),
]

OPTIONS = {"cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    with pm.Model(coords={"k": ["a", "b"], "i": range(40)}) as model:
        mu = pm.Normal("mu", 0, 5, dims="k")
        sigma = pm.HalfNormal("sigma", 5)
        data = rng.normal([1.0, -2.0], 2.0, size=(40, 2))
        pm.Normal("y", mu, sigma, observed=data, dims=("i", "k"))
    return model


@pytest.fixture(scope="module")
def score(model):
    return compile_score(model)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Samplers report every step they assign, which nobody reads here."""
    caplog.set_level(logging.ERROR, logger="pymc")


def stepper(name, **options):
    def sample(model):
        with model:
            step = getattr(pm, name)()
            return pm.sample(draws=600, tune=600, step=step, **{"chains": 2, **options, **OPTIONS})

    return sample


def compound(model):
    with model:
        steps = [pm.Slice([model["sigma"]]), pm.Metropolis([model["mu"]])]
        return pm.sample(draws=600, tune=600, step=steps, chains=2, **OPTIONS)


def nuts(sampler):
    def sample(model):
        return pm.sample(
            draws=300, tune=300, chains=2, nuts_sampler=sampler, model=model, **OPTIONS
        )

    return sample


def smc(model):
    return pm.sample_smc(draws=300, chains=2, model=model, **OPTIONS)


EXACT = {
    "NUTS": nuts("pymc"),
    "nutpie": nuts("nutpie"),
    "Metropolis": stepper("Metropolis"),
    "Slice": stepper("Slice"),
    "DEMetropolis": stepper("DEMetropolis", chains=6),
    "DEMetropolisZ": stepper("DEMetropolisZ"),
    "compound steps": compound,
    "SMC": smc,
}


@pytest.mark.parametrize("name", EXACT)
def test_draws_of_exact_samplers_are_not_rejected(model, score, name):
    draws = EXACT[name](model)
    result = ksd_test(score, draws, random_seed=0)
    sizes = draws["posterior"].sizes
    assert result.attrs["n"] == sizes["chain"] * sizes["draw"]
    assert result.attrs["n_chains"] == sizes["chain"]
    assert result.attrs["null"] == "wild"
    assert result["p_value"] > 0.01
    assert ksd(score, draws)["mu"].sel(diagnostic="ess_ksd").dims == ("k",)


def variational(method):
    def sample(model):
        fitted = pm.fit(20_000, method=method, model=model, random_seed=1, progressbar=False)
        return fitted.sample(500, random_seed=2)

    return sample


def pathfinder(model):
    import pymc_extras  # here, where its warnings at import are silenced

    # To compile its long graph takes minutes; to run it once does not.
    with model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        return pymc_extras.fit_pathfinder(
            num_paths=2, num_draws=400, random_seed=3, progressbar=False
        )


def laplace(model):
    import pymc_extras  # here, where its warnings at import are silenced

    with model:
        return pymc_extras.fit_laplace(draws=400, random_seed=3, progressbar=False)


APPROXIMATIONS = {
    "ADVI": variational("advi"),
    "full-rank ADVI": variational("fullrank_advi"),
    "Pathfinder": pathfinder,
    "Laplace": laplace,
}


@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_draws_of_approximations_go_through_the_same_call(model, score, name):
    draws = APPROXIMATIONS[name](model)
    result = ksd_test(score, draws, random_seed=0)
    assert result.attrs["n"] in (400, 500)
    assert result.attrs["null"] == "rademacher"  # known to be independent
    # The posterior is nearly normal, and so are the approximations: none is far off.
    assert 20 < result["ess_ksd"] < 2000
    independent = ksd_test(score, draws, random_seed=0, null="rademacher")
    assert independent["statistic"] == result["statistic"]


def test_importance_resampling_repeats_draws_and_is_not_rejected(score):
    """Draws of a wide normal distribution, resampled in proportion to the target's density."""
    rng = np.random.default_rng(2)
    proposal = rng.normal(0, 1.5, size=(20_000, 2))
    log_weight = -0.5 * (proposal**2).sum(1) * (1 - 1 / 1.5**2)
    weight = np.exp(log_weight - log_weight.max())
    chosen = proposal[rng.choice(len(proposal), 500, p=weight / weight.sum())]
    with pm.Model() as target:
        pm.Normal("x", shape=2)
    draws = xr.Dataset({"x": (("chain", "draw", "x_dim_0"), chosen[None])})
    assert ksd_test(target, draws, random_seed=0)["p_value"] > 0.05
    assert ksd_test(target, draws + 0.2, random_seed=0)["p_value"] <= 0.05


def test_warm_up_draws_never_enter(model, score):
    options = {"draws": 100, "tune": 50, "chains": 2, "model": model, **OPTIONS}
    with model:
        kept = pm.sample(step=pm.Slice(), discard_tuned_samples=False, **options)
        dropped = pm.sample(step=pm.Slice(), **options)
    assert "warmup_posterior" in (getattr(kept, "children", None) or kept.groups())
    first, second = (ksd_test(score, draws, random_seed=0) for draws in (kept, dropped))
    assert first.attrs["n"] == 200
    assert first["statistic"] == second["statistic"]
