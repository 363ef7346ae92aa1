"""Tests of means that should be zero: their level with skewed and with correlated series."""

import numpy as np
import pytest
from scipy import stats

from pymc_ksd.stats.zero_means import cautious_times, family_wise, zero_means


def found(series, times=None):
    p = series.shape[2]
    mean = series.mean(axis=(0, 1))
    return zero_means(series, mean, np.ones(p) if times is None else times)


def test_independent_normal_series_have_the_p_values_of_a_t_test():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(4, 500, 3)) + np.array([0, 0.05, 0.2])
    ours = found(series)
    usual = stats.ttest_1samp(series.reshape(-1, 3), 0)
    np.testing.assert_allclose(ours.error, series.reshape(-1, 3).std(axis=0) / np.sqrt(2_000))
    np.testing.assert_allclose(ours.z, usual.statistic, rtol=0.05, atol=0.05)
    np.testing.assert_allclose(ours.p_value, usual.pvalue, rtol=0.1, atol=0.02)


def test_skewed_series_are_rejected_as_often_on_both_sides():
    rng = np.random.default_rng(1)
    series = rng.chisquare(1, size=(1, 200, 20_000)) - 1
    ours = found(series)
    small = ours.p_value < 0.002
    plain = np.abs(series.mean(axis=(0, 1)) / ours.error) > stats.norm.isf(0.001)
    # Without the transformation the lower tail holds nearly all, and far too many.
    assert plain.mean() > 0.006
    assert small.mean() == pytest.approx(0.002, abs=0.0015)


def test_series_that_do_not_vary_say_nothing():
    ours = found(np.zeros((2, 50, 2)))
    np.testing.assert_array_equal(ours.p_value, 1)
    np.testing.assert_array_equal(ours.z, 0)


def test_errors_grow_with_the_autocorrelation_time():
    rng = np.random.default_rng(2)
    series = rng.normal(size=(4, 100, 2))
    quick, slow = found(series), found(series, np.full(2, 9.0))
    np.testing.assert_allclose(slow.error, 3 * quick.error)


def test_no_series_gets_a_shorter_time_than_is_typical():
    times = np.array([3.0, 4.0, 4.0, 4.0, 40.0])
    careful = cautious_times(times)
    assert (careful[:4] >= 4).all()
    assert careful[4] == 40
    np.testing.assert_array_equal(cautious_times(np.ones(3)), 1)


def test_family_wise_p_values_are_those_of_the_smallest_of_so_many():
    rng = np.random.default_rng(3)
    smallest = rng.uniform(size=(20_000, 10)).min(axis=1)
    adjusted = [family_wise(np.append(one, np.ones(9)))[0] for one in smallest]
    assert stats.kstest(adjusted, "uniform").pvalue > 0.001
    assert family_wise(np.array([1e-300, 0.5]))[0] == pytest.approx(2e-300)
