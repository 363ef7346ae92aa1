"""Ascents and what counts as a mode, on densities whose modes are known."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_ksd.stats.ascent import climb
from pymc_ksd.stats.local_modes import distinct_modes


def mixture(weights, centres, covariances):
    """Score and log density of a normal mixture."""
    precisions = [np.linalg.inv(one) for one in covariances]
    constants = np.log(weights) - [0.5 * np.linalg.slogdet(one)[1] for one in covariances]

    def function(x):
        shifted = [x - centre for centre in centres]
        logs = np.stack(
            [
                c - 0.5 * np.einsum("ni,ij,nj->n", s, p, s)
                for c, s, p in zip(constants, shifted, precisions, strict=True)
            ]
        )
        total = logsumexp(logs, axis=0)
        each = np.stack([-s @ p for s, p in zip(shifted, precisions, strict=True)])
        return np.einsum("kn,knd->nd", np.exp(logs - total), each), total

    return function


def modes_of(function, starts, most=20):
    scales = np.ones(starts.shape[1])
    return distinct_modes(function, climb(function, starts, scales, 300), scales, most)


def test_climb_begins_where_squares_of_scores_overflow():
    def function(x):
        # Normal near zero, and steeper than any power far out.
        return -np.sinh(x), -np.cosh(x).sum(axis=1)

    summits = climb(function, np.array([[400.0, -2.0], [-600.0, 600.0]]), np.ones(2), 3_000)
    np.testing.assert_allclose(summits.points, 0.0, atol=1e-4)


def test_climb_reaches_the_minimum_of_rosenbrock(rng):
    def function(x):
        a, b = x.T
        height = -((1 - a) ** 2) - 100 * (b - a**2) ** 2
        slope = [2 * (1 - a) + 400 * a * (b - a**2), -200 * (b - a**2)]
        return np.stack(slope, axis=1), height

    summits = climb(function, rng.normal(size=(20, 2)), np.ones(2), 300)
    assert summits.ended.all()
    np.testing.assert_allclose(summits.points, 1, atol=1e-3)


def test_modes_of_a_mixture_have_their_places_and_covariances(rng):
    covariances = [np.array([[1.0, 0.8], [0.8, 1.0]]), np.diag([0.01, 4.0])]
    centres = [np.zeros(2), np.array([10.0, -10.0])]
    function = mixture([0.3, 0.7], centres, covariances)
    modes, lost = modes_of(function, rng.normal(0, 10, size=(40, 2)))
    assert (modes.number, lost) == (2, 0)
    order = np.argsort(modes.locations[:, 0])
    for mode, centre, covariance in zip(order, centres, covariances, strict=True):
        np.testing.assert_allclose(modes.locations[mode], centre, atol=1e-4)
        np.testing.assert_allclose(
            modes.roots[mode] @ modes.roots[mode].T, covariance, rtol=0.05, atol=1e-3
        )


def test_two_normal_distributions_that_have_one_mode(rng):
    function = mixture([0.5, 0.5], [np.array([-0.9]), np.array([0.9])], [np.eye(1)] * 2)
    assert modes_of(function, rng.normal(0, 5, size=(30, 1)))[0].number == 1


def test_an_edge_is_a_mode():
    function = lambda x: (-np.sign(x), -np.abs(x).sum(axis=1))  # noqa: E731
    modes, _ = modes_of(function, np.array([[3.0, -2.0], [0.5, 4.0]]))
    np.testing.assert_allclose(modes.locations, [[0, 0]], atol=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (np.ones_like(x), x.sum(axis=1)),  # rises for ever
        lambda x: (np.zeros_like(x), np.zeros(len(x))),  # is flat
        lambda x: (  # rises towards x = -inf, the density of a funnel without a prior
            np.stack(
                [-0.5 + 0.5 * x[:, 1] ** 2 * np.exp(-x[:, 0]), -x[:, 1] * np.exp(-x[:, 0])], 1
            ),
            -0.5 * x[:, 0] - 0.5 * x[:, 1] ** 2 * np.exp(-x[:, 0]),
        ),
        lambda x: (  # has a saddle at zero and no summit
            np.stack([-x[:, 0], x[:, 1]], axis=1),
            0.5 * (x[:, 1] ** 2 - x[:, 0] ** 2),
        ),
    ],
    ids=["slope", "plateau", "funnel", "saddle"],
)
def test_what_is_no_mode(function, rng):
    starts = np.concatenate([rng.normal(size=(10, 2)), [[1.0, 0.0]]])
    modes, lost = modes_of(function, starts)
    assert modes.number == 0
    assert lost == len(starts)
