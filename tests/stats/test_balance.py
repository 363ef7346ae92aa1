"""Probabilities of orbits, tails of numbers of draws, and shares in balance, in closed form."""

import numpy as np
import pytest
from scipy.stats import binom

from pymc_ksd.stats.balance import (
    Orbits,
    balanced_shares,
    effective_times,
    moves_of,
    orbits_of,
    tail_probabilities,
)
from pymc_ksd.stats.local_modes import Modes

WEIGHTS, CENTRES, SCALES = np.array([0.7, 0.3]), np.array([0.0, 10.0]), np.array([1.0, 0.5])


def log_density(x):
    parts = -0.5 * ((x - CENTRES) / SCALES) ** 2 + np.log(WEIGHTS / SCALES)
    return np.logaddexp(*parts.T)


def two_modes():
    heights = np.log(WEIGHTS / SCALES)
    roots = SCALES[:, None, None]
    return Modes(CENTRES[:, None], heights, CENTRES[:, None], roots, np.ones(1), heights)


def orbits_at(points):
    def function(x):
        return np.zeros_like(x), log_density(x)

    return orbits_of(function, two_modes(), points, log_density(points))


def orbits_with(probabilities, nearest):
    n = len(nearest)
    columns = np.stack([probabilities, 1 - np.asarray(probabilities)], axis=1)
    return Orbits(np.asarray(nearest), np.zeros((n, 1)), np.ones(n, dtype=bool), columns)


def test_probabilities_of_an_orbit_are_the_weights_of_equal_shapes(rng):
    points = np.concatenate([rng.normal(0, 1, (50, 1)), rng.normal(10, 0.5, (20, 1))])
    orbits = orbits_at(points)
    assert orbits.used.all()
    np.testing.assert_allclose(orbits.probabilities, np.tile(WEIGHTS, (70, 1)), rtol=1e-6)
    np.testing.assert_allclose(orbits.shares_of_draws(), [50 / 70, 20 / 70])
    # The same place from either mode is the same orbit.
    np.testing.assert_allclose(orbits_at(np.array([[0.6], [10.3]])).places, 0.6)


def test_draws_that_a_move_carries_to_another_mode_are_left_out():
    orbits = orbits_at(np.array([[0.0], [-30.0]]))  # from 10 by -30 units of 0.5 is -5
    assert orbits.used.tolist() == [True, False]
    assert orbits.probabilities[1].tolist() == [0, 0]


@pytest.mark.parametrize("count", [0, 3, 12, 20])
def test_tails_are_binomial_where_all_probabilities_are_the_same(count):
    n, chance = 40, 0.3
    nearest = np.where(np.arange(n) < count, 0, 1)
    p_values = tail_probabilities(orbits_with(np.full(n, chance), nearest), np.ones(2))
    at_least, at_most = binom.sf(count - 1, n, chance), binom.cdf(count, n, chance)
    np.testing.assert_allclose(p_values, min(1, 2 * min(at_least, at_most)), rtol=1e-9)


def test_tails_of_several_probabilities_are_those_of_their_sum(rng):
    chances = rng.beta(1, 3, size=60)
    sums = (rng.random((200_000, 60)) < chances).sum(axis=1)
    for count in (7, 22):
        nearest = np.where(np.arange(60) < count, 0, 1)
        expected = 2 * min((sums >= count).mean(), (sums <= count).mean())
        found = tail_probabilities(orbits_with(chances, nearest), np.ones(2))[0]
        assert found == pytest.approx(min(1, expected), rel=0.1, abs=0.003)


def test_correlated_draws_count_less():
    orbits = orbits_with(np.full(100, 0.5), np.zeros(100, int))
    one, four = (tail_probabilities(orbits, np.full(2, time)) for time in (1.0, 4.0))
    np.testing.assert_allclose(one, 2 * 0.5**100)
    np.testing.assert_allclose(four, 2 * 0.5**25)


def test_chains_that_never_move_are_one_draw_each():
    labels = np.repeat([[0], [0], [0], [1]], 50, axis=1)
    orbits = orbits_with(np.full(200, 0.5), labels.T.ravel())
    assert moves_of(labels, 2).tolist() == [0, 0]
    assert effective_times(orbits, labels, np.full(2, 3.0), 2.0).tolist() == [50, 50]
    missed = orbits_with(np.full(200, 0.5), np.zeros(200, int))
    times = effective_times(missed, np.zeros((4, 50), int), np.ones(2), 2.0)
    assert times.tolist() == [2, 2]


def test_moves_are_counted_by_mode():
    labels = np.array([[0, 1, 1, 2], [0, 0, 0, 0]])
    assert moves_of(labels, 3).tolist() == [1, 2, 1]


def test_balanced_shares_do_not_depend_on_how_many_draws_are_at_each_mode(rng):
    for first, second in ((900, 100), (100, 900), (500, 0)):
        points = [rng.normal(0, 1, (first, 1)), rng.normal(10, 0.5, (second, 1))]
        shares, errors = balanced_shares(orbits_at(rng.permutation(np.concatenate(points))))
        np.testing.assert_allclose(shares, WEIGHTS, atol=1e-4)
        assert (errors < 1e-4).all()
