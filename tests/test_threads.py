"""Several threads get what one gets: no compiled function runs twice at a time."""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

from pymc_ksd import Score, ksd, ksd_ppc, ksd_report, ksd_test
from pymc_ksd.diagnostics.measured import diagnose_draws


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


@pytest.mark.slow
@pytest.mark.default_stack
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


@pytest.mark.slow
@pytest.mark.newer_stack
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


def test_reports_in_threads_note_their_own_warnings(monkeypatch, rng):
    """Where one begins while the other is at work, and ends later."""
    with pm.Model() as model:
        pm.Normal("mu")
    few, enough = (
        xr.Dataset({"mu": (("chain", "draw"), rng.normal(size=(4, n)))}) for n in (15, 500)
    )
    begun, ended = Event(), Event()

    def headlines(data):
        return [one.headline for one in ksd_report(model, data, progressbar=False).findings]

    def diagnose(model, data, **options):
        if data.sizes["draw"] == 15:
            others.append(pool.submit(headlines, enough))
            assert begun.wait(60)
        else:
            begun.set()
            assert ended.wait(60)
        return diagnose_draws(model, data, **options)

    headlines(enough)  # what is imported may add filters
    others, filters = [], list(warnings.filters)
    monkeypatch.setattr("pymc_ksd.report.run_checks.diagnose_draws", diagnose)
    with ThreadPoolExecutor(1) as pool:
        try:
            found = headlines(few)
        finally:
            ended.set()
        other = others[0].result()
    assert sum("Only 15 draws in each chain" in text for text in found) == 1
    assert not any("draws in each chain" in text for text in other)
    assert warnings.filters == filters
