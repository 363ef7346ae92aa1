"""Autocorrelation times and R-hats of many series at once are those of ArviZ."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from pymc_ksd.samples.chains import autocorrelation_times, largest_rhat_of, rhats


@pytest.mark.parametrize("shape", [(4, 250), (1, 1000), (3, 101), (2, 50), (3, 7), (2, 4)], ids=str)
@pytest.mark.parametrize("correlation", [0.0, 0.9, -0.5, 0.99])
def test_times_are_draws_over_the_effective_sample_size_of_arviz(shape, correlation):
    rng = np.random.default_rng(0)
    chains = rng.normal(size=(*shape, 20))
    for draw in range(1, shape[1]):
        chains[:, draw] += correlation * chains[:, draw - 1]
    sizes = [array_stats.ess(chains[:, :, j], method="mean") for j in range(20)]
    np.testing.assert_allclose(
        autocorrelation_times(chains), shape[0] * shape[1] / np.array(sizes), rtol=1e-9
    )


@pytest.mark.parametrize("shape", [(4, 250), (2, 101), (3, 7)], ids=str)
def test_rhats_are_those_of_arviz(shape):
    rng = np.random.default_rng(2)
    chains = rng.normal(size=(*shape, 9)) + rng.normal(size=(shape[0], 1, 9)) * np.arange(9)
    chains[..., 3] = chains[..., 3].round()  # with ties
    chains[0, :, 4] *= 5
    expected = [array_stats.rhat(chains[:, :, j]) for j in range(9)]
    np.testing.assert_allclose(rhats(chains), expected, rtol=1e-9)


@pytest.mark.parametrize("fault", ["place", "spread", "heavy tails"])
@pytest.mark.parametrize("p", [60, 600])
def test_the_largest_rhat_of_many_series_is_that_of_all(fault, p):
    rng = np.random.default_rng(5)
    chains = rng.standard_t(2, size=(4, 200, p))
    if fault == "place":
        chains[0, :, p // 2] += 1.5
    elif fault == "spread":
        chains[0, :, p // 2] *= 4
    else:
        chains[..., p // 2] = rng.standard_cauchy(size=(4, 200)) * 1e6
        chains[0, :, p // 2] += 1.5e6
    expected = rhats(chains)
    assert expected.argmax() == p // 2
    assert largest_rhat_of(chains) == expected.max()


def test_series_that_do_not_vary_and_chains_that_are_too_short_have_a_time_of_one():
    np.testing.assert_array_equal(autocorrelation_times(np.ones((2, 50, 3))), 1)
    np.testing.assert_array_equal(autocorrelation_times(np.arange(18.0).reshape(2, 3, 3)), 1)


def test_many_series_are_taken_a_few_at_a_time(monkeypatch):
    chains = np.random.default_rng(1).normal(size=(2, 100, 7))
    whole = autocorrelation_times(chains)
    monkeypatch.setattr("pymc_ksd.samples.chains._NUMBERS_TOGETHER", 450)
    np.testing.assert_allclose(autocorrelation_times(chains), whole, rtol=1e-12)


def test_quarters_of_a_single_chain_are_compared():
    """Its halves may agree with each other where their own halves do not."""
    rng = np.random.default_rng(3)
    chain = rng.normal(size=(1, 400, 1)) + np.repeat([0.0, 3.0, 0.0, 3.0], 100)[:, None]
    assert rhats(chain).item() < 1.01
    assert largest_rhat_of(chain) > 1.5
    expected = rhats(chain.reshape(2, 200, 1)).item()
    assert largest_rhat_of(chain) == expected
    assert np.isnan(largest_rhat_of(chain[:, :7]))
    assert np.isfinite(largest_rhat_of(chain[:, :8]))
