"""What certificates take errors to be that features see in part only."""

import numpy as np
import pytest
import xarray as xr

from benchmarks.moment_cases import two_modes
from pymc_ksd import Score, ksd_moments
from pymc_ksd.diagnostics.corrected_means import correct_means
from pymc_ksd.diagnostics.moments import read_scored, shown_quantities


def draws_of(values):
    """Draws of x, four chains."""
    return xr.Dataset({"x": (("chain", "draw"), values)})


def corrected(score, draws, var_names=None):
    """What is known of the moments of draws."""
    read = read_scored(score, draws, None, False)
    quantities = shown_quantities(read, var_names)
    return correct_means(read.scored(quantities), quantities, (1, 2))


@pytest.fixture(scope="module")
def normal():
    return Score.from_callable(lambda x: -x, dim=1, log_density=lambda x: -0.5 * (x**2).sum(axis=1))


def test_chance_counts_as_much_as_it_does_in_what_is_seen(normal):
    """The cube of a normal variable: features explain 9 / 15 of its variance, that of 3 x."""
    x = np.random.default_rng(0).normal(size=(4, 20_000))
    found = corrected(normal, draws_of(x).assign(cube=draws_of(x**3)["x"]), var_names="cube")
    assert 1 - found.unexplained[0, 0] == pytest.approx(0.6, abs=0.03)
    (error, _), expected = found.whole_biases()[1], 1 / np.sqrt(0.6 * x.size)
    assert error[0] == pytest.approx(expected, rel=0.05)


def test_chance_in_what_is_not_seen_counts_as_it_is(normal):
    """Where only that is correlated, it is most of what draws are off by, and not enlarged."""
    rng = np.random.default_rng(1)
    magnitude = np.abs(rng.normal(size=(4, 5_000)))
    x = np.where(np.arange(5_000) % 2, -1, 1) * np.repeat(magnitude[:, ::2], 2, axis=1)
    slow = np.repeat(rng.normal(size=(4, 50)), 100, axis=1)
    draws = draws_of(x).assign(other=draws_of(x + 0.5 * slow)["x"])
    found = corrected(normal, draws, var_names="other")
    error = found.whole_biases()[1][0, 0]
    # Of the other part's means over 200 stretches, in standard deviations of the sum.
    assert error == pytest.approx(0.5 / np.sqrt(200) / np.sqrt(1.25), rel=0.25)


@pytest.mark.parametrize("centre", [1.0, 1.25, 1.5])
def test_wrong_weights_of_two_modes_count_as_what_they_are(centre):
    score, draw = two_modes(centre, bias=0.1)
    found = corrected(score, draws_of(draw(np.random.default_rng(2), 50_000)))
    seen, whole = found.biases()[0][0, 0], found.whole_biases()[0][0, 0]
    assert seen < 0.09
    assert whole == pytest.approx(0.1, abs=0.012)


def test_errors_beyond_the_margin_that_are_seen_in_part_are_not_certified():
    score, draw = two_modes(1.25, bias=0.115)
    draws = draws_of(draw(np.random.default_rng(3), 20_000))
    found = ksd_moments(score, draws, margin=0.1)
    assert found["x"].sel(diagnostic="bias_mean") < 0.08
    assert found.attrs["status"] == "cannot tell"


def test_exact_draws_of_two_modes_are_certified():
    score, draw = two_modes(1.25, bias=0.0)
    draws = draws_of(draw(np.random.default_rng(4), 5_000))
    assert ksd_moments(score, draws, margin=0.1).attrs["status"] == "certified"


def test_nothing_is_certified_of_what_features_hardly_see():
    """Two modes that hardly overlap: what is not seen may be off by far more."""
    score, draw = two_modes(1.75, bias=0.0)
    draws = draws_of(draw(np.random.default_rng(5), 5_000))
    found = ksd_moments(score, draws, margin=0.1)
    assert found.attrs["status"] == "cannot tell"
    assert found.attrs["reason_code"] == "not_corrected"
    assert corrected(score, draws).unexplained[0, 0] > 0.55
