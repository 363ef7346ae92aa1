"""Autocorrelation times, and the multipliers of the wild bootstrap that follow them."""

import numpy as np
import pytest
from scipy.signal import lfilter

from pymc_ksd import Wild
from pymc_ksd.samples.chains import autocorrelation_time_of as time_of
from pymc_ksd.samples.sample import Sample


def wild_weights(n_chains, n_draws, n_replicates, time, rng):
    sample = Sample(np.zeros((n_chains * n_draws, 1)), n_chains)
    return Wild(time).weights(sample, n_replicates, rng)


def test_chains_that_interact_share_their_multipliers(rng):
    sample = Sample(np.zeros((3 * 50, 1)), 3, are_draws=True, interacting=True)
    weights = Wild(2.0).weights(sample, 20, rng).reshape(20, 50, 3)
    np.testing.assert_array_equal(weights, np.repeat(weights[:, :, :1], 3, axis=2))
    assert (weights[:, 1:] != weights[:, :-1]).all()
    np.testing.assert_allclose((weights**2).mean(axis=(1, 2)), 1, rtol=1e-5)


def autoregressive(rng, phi, shape):
    noise = rng.normal(size=shape)
    noise[:, 1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_autocorrelation_time_of_known_chains(phi):
    chains = autoregressive(np.random.default_rng(3), phi, (4, 5000, 1))
    # Chains around different means: that is no correlation.
    chains += np.arange(4)[:, None, None]
    assert time_of(chains) == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_autocorrelation_time_takes_the_worst_coordinate(rng):
    slow = autoregressive(rng, 0.9, (1, 4000, 1))
    both = np.concatenate([rng.normal(size=(1, 4000, 1)), slow], axis=2)
    assert time_of(both) == pytest.approx(time_of(slow), rel=1e-12)
    assert time_of(slow) > 15


def test_autocorrelation_time_sees_chains_that_alternate(rng):
    """Every coordinate changes sign at each step, but the distance from the centre hardly moves."""
    chains = autoregressive(rng, -0.9, (4, 4000, 10))
    assert time_of(chains) == pytest.approx((1 + 0.9**2) / (1 - 0.9**2), rel=0.2)


def test_autocorrelation_time_is_bounded_by_the_chains_length(rng):
    walk = np.cumsum(rng.normal(size=(2, 240, 1)), axis=1)
    assert 20 < time_of(walk) <= 240


def test_wild_weights_of_very_slow_chains_still_change():
    """However slow the draws, multipliers are correlated over 0.4 chains at most."""
    slow, slowest, slower = (
        wild_weights(2, 200, 50, time, np.random.default_rng(0)) for time in (9.0, 10.0, 1000.0)
    )
    np.testing.assert_array_equal(slower, slowest)
    assert not np.array_equal(slow, slowest)


def test_wild_weights_follow_the_process(rng):
    weights = wild_weights(3, 4000, 600, 1.25, rng).T.reshape(4000, 3, 600).astype(float)
    error = 4 / np.sqrt(600 * 3 * 4000 / (2 * 8 * 1.25))
    for lag in (1, 5, 20):
        correlation = (weights[lag:] * weights[:-lag]).mean()
        assert abs(correlation - np.exp(-lag / 10)) < 2 * error
    assert abs((weights[:, 0] * weights[:, 1]).mean()) < 2 * error
    # Stationary from the first draw on.
    assert abs(weights[0].var() - 1) < 4 * np.sqrt(2 / 1800)


def test_wild_weights_have_mean_square_one(rng):
    weights = wild_weights(2, 50, 300, 4.0, rng).astype(float)
    np.testing.assert_allclose((weights**2).mean(axis=1), 1.0, rtol=1e-5)
