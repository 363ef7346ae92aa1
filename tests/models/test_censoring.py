"""Censored values are completed by the model's distribution beyond their bounds: SciPy judges."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_ksd
from pymc_ksd.models.observed.censoring import bisected
from pymc_ksd.models.observed.fitted import fitted_density
from pymc_ksd.models.observed.inputs import inputs_of


def censored(dist, y, lower, upper):
    with pm.Model() as model:
        pm.Censored("y", dist(pm.Normal("theta")), lower=lower, upper=upper, observed=y)
    return model, fitted_density(model, model["y"], None, None)


@pytest.mark.parametrize(
    ("dist", "law"),
    [
        # PyMC knows the quantiles of the first, and not of the second.
        (lambda theta: pm.Normal.dist(theta, 2), stats.norm(0.5, 2)),
        (lambda theta: pm.Gamma.dist(2, theta), stats.gamma(2, scale=2)),
    ],
)
def test_hidden_values_have_the_distribution_beyond_the_bound(dist, law, rng):
    n = 4_000
    low, high = law.ppf([0.3, 0.6])
    y = np.clip(law.rvs(size=n, random_state=rng), low, high)
    _, density = censored(dist, y, low, high)
    full = density.completed(y, rng, np.array(0.5))
    seen = (y > low) & (y < high)
    np.testing.assert_array_equal(full[seen], y[seen])
    assert (full[y == low] <= low).all()
    assert (full[y == high] >= high).all()
    # Given the bounds, shares below are uniform on what is beyond.
    p_values = [
        stats.kstest(law.cdf(full[y == low]) / 0.3, "uniform").pvalue,
        stats.kstest((law.cdf(full[y == high]) - 0.6) / 0.4, "uniform").pvalue,
        stats.kstest(full, law.cdf).pvalue,
    ]
    # Six of them in both cases: one is below once in 170 seeds.
    assert min(p_values) > 0.001


def test_bisected_quantiles_are_those_of_scipy():
    law = stats.gamma(2.5, scale=3)
    bounds = np.array([1e-3, 2.0, 40.0, 5.0])
    above = np.array([True, True, True, False])
    shares = np.where(above, law.cdf(bounds) + 0.7 * law.sf(bounds), 0.2 * law.cdf(bounds))
    np.testing.assert_allclose(bisected(law.logcdf, np.log(shares), bounds, above), law.ppf(shares))


@pytest.mark.parametrize(
    ("dist", "bound", "excess"),
    [
        # Mean and standard deviation of what is beyond, by SciPy's integrals of the density.
        (lambda theta: pm.Normal.dist(theta, 1), 9.5, (0.1085, 0.1073)),
        (lambda theta: pm.Exponential.dist(2 * theta), 60.0, (1.0, 1.0)),
    ],
)
def test_values_far_in_the_tail_are_beyond_it(dist, bound, excess, rng):
    """Where the share below the bound is one in double precision."""
    y = np.full(2_000, bound)
    y[0] = 0.3
    _, density = censored(dist, y, None, bound)
    full = density.completed(y, rng, np.array(0.5))
    assert full[0] == 0.3
    beyond = full[1:] - bound
    assert (beyond >= 0).all()
    mean, deviation = excess
    np.testing.assert_allclose(beyond.mean(), mean, atol=4 * deviation / np.sqrt(2_000))


@pytest.mark.parametrize(
    ("dist", "bound", "excess"),
    [
        # The share below is zero in double precision, its logarithm is not.
        (lambda theta: pm.Normal.dist(theta, 1), -60.0, (0.01652, 0.0165)),
        (lambda theta: pm.Logistic.dist(theta, 1), -800.0, (1.0, 1.0)),
        (lambda theta: pm.Normal.dist(theta, 1), -8.5, (0.1085, 0.1073)),
    ],
)
def test_values_far_in_the_lower_tail_are_beyond_it(dist, bound, excess, rng):
    y = np.full(2_000, bound)
    y[0] = 0.3
    _, density = censored(dist, y, bound, None)
    full = density.completed(y, rng, np.array(0.5))
    assert full[0] == 0.3
    beyond = bound - full[1:]
    assert (beyond >= 0).all()
    mean, deviation = excess
    np.testing.assert_allclose(beyond.mean(), mean, atol=4 * deviation / np.sqrt(2_000))


def test_values_below_all_that_can_be_computed_are_told(rng):
    y = np.array([1.0, -800.0, 2.0])
    _, density = censored(lambda theta: pm.Gumbel.dist(theta, 1), y, -800.0, None)
    with pytest.raises(ValueError, match=r"1 value\(s\) of 'y' are censored so far below"):
        density.completed(y, rng, np.array(1.0))


def test_values_beyond_all_that_can_be_computed_are_told(rng):
    y = np.array([1.0, 80.0, 2.0])
    _, density = censored(lambda theta: pm.Gamma.dist(2, theta), y, None, 80.0)
    with pytest.raises(ValueError, match=r"1 value\(s\) of 'y' are censored so far above"):
        density.completed(y, rng, np.array(1.0))


def test_every_observation_has_its_own_bounds(rng):
    upper = np.array([1.0, np.inf, 0.5, 2.0, np.inf])
    y = np.array([1.0, 3.0, 0.2, 2.0, -1.0])
    model, density = censored(lambda theta: pm.Normal.dist(theta, 1), y, None, upper)
    full = density.completed(y, rng, np.array(0.0))
    np.testing.assert_array_equal(full[[1, 2, 4]], y[[1, 2, 4]])
    assert (full[[0, 3]] > y[[0, 3]]).all()
    # Replicated data are hidden in the same way, and bounds are no inputs to compare by.
    drawn = np.stack([density.simulate(5, rng, np.array(1.0)) for _ in range(50)])
    assert (drawn <= upper).all()
    assert (drawn[:, 0] == 1.0).any()
    assert not list(inputs_of(model, density))


def test_times_of_censoring_that_are_not_known_do_not_matter(rng):
    """Bounds of values that were seen may be left open: completed data are the same."""
    times, limits = rng.exponential(2, size=200), rng.exponential(3, size=200)
    y = np.minimum(times, limits)
    open_bounds = np.where(times < limits, np.inf, limits)
    p_values = []
    for bounds in (limits, open_bounds):
        with pm.Model() as model:
            rate = pm.Gamma("rate", 1, 1)
            pm.Censored("y", pm.Exponential.dist(rate), None, bounds, observed=y)
        events = np.sum(times < limits)
        values = rng.gamma(1 + events, 1 / (1 + y.sum()), size=(1, 40))
        draws = xr.Dataset({"rate": (("chain", "draw"), values)})
        check = pymc_ksd.ksd_ppc(model, draws, random_seed=1, progressbar=False)
        p_values.append(float(check["p_value"]))
    assert min(p_values) > 0.05


def test_a_model_without_free_variables_is_completed_anew_for_every_replicate(rng):
    y = np.minimum(rng.normal(size=60), 0.5)
    with pm.Model() as model:
        pm.Censored("y", pm.Normal.dist(0, 1), lower=None, upper=0.5, observed=y)
    check = pymc_ksd.ksd_ppc(model, num_draws=30, random_seed=1, progressbar=False)
    assert np.ptp(check["observed"].values) > 0
    assert float(check["p_value"]) > 0.05


def test_wrong_model_of_censored_values_is_rejected(rng):
    y = np.minimum(rng.weibull(3, size=300), 1.2)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1, 1)
        pm.Censored("y", pm.Exponential.dist(rate), lower=None, upper=1.2, observed=y)
    values = rng.gamma(1 + np.sum(y < 1.2), 1 / (1 + y.sum()), size=(1, 40))
    draws = xr.Dataset({"rate": (("chain", "draw"), values)})
    check = pymc_ksd.ksd_ppc(model, draws, random_seed=1, progressbar=False)
    assert float(check["p_value"]) < 0.05


def test_hidden_values_are_drawn_anew_without_free_variables(rng):
    """The observed residuals of one draw must not be taken for those of another."""
    y = np.minimum(rng.normal(size=40), 0.3)
    with pm.Model() as model:
        pm.Censored("y", pm.Normal.dist(0, 1), lower=None, upper=0.3, observed=y)
    check = pymc_ksd.ksd_ppc(model, num_draws=25, progressbar=False, random_seed=1)
    assert len(np.unique(check["observed_statistic"].values[:, 0])) == 25
