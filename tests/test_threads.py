"""Several threads get what one gets: no compiled function runs twice at a time."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

from pymc_ksd import Score, ksd, ksd_ppc, ksd_test


@pytest.fixture
def in_threads():
    """Return a function that calls functions in four threads which switch all the time."""
    before = sys.getswitchinterval()

    def run(calls):
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda call: call(), calls))
        finally:
            sys.setswitchinterval(before)

    return run


def assert_same(calls, in_threads):
    alone = [call() for call in calls]
    for expected, found in zip(alone, in_threads(calls), strict=True):
        xr.testing.assert_identical(expected.drop_attrs(deep=False), found.drop_attrs(deep=False))


def test_tests_in_threads(in_threads, rng):
    """Statistic, null distribution and contributions, of scores and bandwidths of all kinds."""
    score = Score.from_callable(lambda x: -x, 4)
    samples = rng.normal(size=(100, 40, 4))
    kernels = ["rbf", "imq", "matern52"]
    calls = [
        lambda x=x, i=i: ksd_test(score, x, kernel=kernels[i % 3], n_bootstrap=9, random_seed=i)
        for i, x in enumerate(samples)
    ]
    assert_same(calls, in_threads)


def regression(rng, n=30):
    x = rng.normal(size=n)
    with pm.Model() as model:
        slope, sd = pm.Normal("slope"), pm.HalfNormal("sd")
        pm.Normal("y", slope * pm.Data("x", x), sd, observed=x + rng.normal(size=n))
        pm.Poisson("counts", pm.math.exp(slope * x), observed=rng.poisson(np.exp(x)))
    values = {"slope": 1 + 0.1 * rng.normal(size=(2, 60)), "sd": rng.gamma(100, 0.01, size=(2, 60))}
    draws = xr.Dataset({name: (("chain", "draw"), array) for name, array in values.items()})
    return model, draws


def test_predictive_checks_in_threads(in_threads, rng):
    model, draws = regression(rng)
    new = rng.normal(size=30)
    calls = [
        lambda i=i: ksd_ppc(model, draws.isel(draw=slice(i, i + 20)), num_draws=20, random_seed=i)
        for i in range(16)
    ]
    calls += [
        lambda i=i: ksd_test(
            model, new + i, posterior=draws, var_names="y", n_bootstrap=5, random_seed=i
        )
        for i in range(8)
    ]
    calls += [lambda i=i: ksd(model, draws.isel(draw=slice(i, i + 20))) for i in range(16)]
    assert_same(calls, in_threads)


def test_models_are_compiled_in_threads(in_threads, rng):
    """Building functions changes PyTensor's configuration for a while."""
    before = pytensor.config.cxx
    seeds = rng.integers(1_000, size=8)

    def calls():
        # New models, written here: PyMC, too, changes the configuration while it writes one.
        cases = [regression(np.random.default_rng(seed), 20) for seed in seeds]
        return [lambda case=case: ksd_ppc(*case, num_draws=20, random_seed=0) for case in cases]

    alone = [call() for call in calls()]
    for expected, found in zip(alone, in_threads(calls()), strict=True):
        np.testing.assert_array_equal(expected["observed"], found["observed"])
    assert pytensor.config.cxx == before
