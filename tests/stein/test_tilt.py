"""Tilted Stein kernels: against numeric derivatives of the weighted kernel, and by machine code."""

import numpy as np
import pytest
from numeric import all_pairs, unscaled

from pymc_ksd import IMQ, RBF, General
from pymc_ksd.stein.stein_kernel import OPERATORS
from pymc_ksd.stein.tilt import with_tilts

TILTED = OPERATORS["tilted langevin"]


def log_density(x):
    return -0.5 * (x**2).sum(axis=-1) - 0.1 * (x**4).sum(axis=-1)


def score(x):
    return -x - 0.4 * x**3


def weight(sample):
    """The weight of a point, written from the formula alone."""
    low, middle = np.quantile(log_density(sample), (0.1, 0.5))
    width = max(middle - low, 0.5)
    centre = low - 2 * width
    return lambda x: 1 / (1 + np.exp(-(log_density(x) - centre) / width))


def stein_by_differences(kernel, x, y, step=1e-4):
    """The Stein kernel of a base kernel, all derivatives by differences."""
    steps = step * np.eye(len(x))
    value = score(x) @ score(y) * kernel(x, y)
    for axis, move in enumerate(steps):
        value += score(x)[axis] * (kernel(x, y + move) - kernel(x, y - move)) / (2 * step)
        value += score(y)[axis] * (kernel(x + move, y) - kernel(x - move, y)) / (2 * step)
        corners = [a * b * kernel(x + a * move, y + b * move) for a in (1, -1) for b in (1, -1)]
        value += sum(corners) / (4 * step**2)
    return value


def test_tilted_stein_kernel_is_that_of_the_weighted_base_kernel(rng):
    x = rng.normal(size=(6, 2)) * [1, 2]
    w = weight(x)

    def weighted(a, b):
        return w(a) * w(b) / np.sqrt(1 + ((a - b) ** 2).sum() / 1.3**2)

    expected = sum(stein_by_differences(weighted, a, b) for a in x for b in x)
    points = with_tilts(unscaled(x, score(x)), log_density(x))
    sums = all_pairs(IMQ(), points, 1.3, operator=TILTED)
    np.testing.assert_allclose(sums.off_diagonal + sums.diagonal.sum(), expected, rtol=1e-5)
    assert abs(w(x).min() - 1) > 0.05  # or the weights would not have been seen


def test_weights_multiply_replicates(rng):
    x, v = rng.normal(size=(40, 3)), rng.normal(size=(5, 40))
    points = with_tilts(unscaled(x, score(x)), log_density(x))
    sums = all_pairs(RBF(), points, 0.8, operator=TILTED, weights=v)
    plain = unscaled(x, points.terms["tilted_scores"])
    by_hand = all_pairs(RBF(), plain, 0.8, weights=v * points.terms["tilts"][:, 0])
    np.testing.assert_allclose(sums.quadratic, by_hand.quadratic, rtol=1e-9)
    np.testing.assert_allclose(sums.quadratic_diagonal, by_hand.quadratic_diagonal, rtol=1e-9)


@pytest.mark.parametrize("dim", [1, 3, 30])
def test_machine_code_weighs_as_graphs_do(rng, monkeypatch, dim):
    x, v = rng.normal(size=(300, dim)), rng.choice([-1, 1], size=(4, 300))
    points = with_tilts(unscaled(x, score(x)), log_density(x))
    graph = all_pairs(IMQ(), points, 2.0, operator=TILTED, weights=v)
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    code = all_pairs(IMQ(), points, 2.0, operator=TILTED, weights=v)
    np.testing.assert_allclose(code.off_diagonal, graph.off_diagonal, rtol=1e-9)
    # Replicates are computed in single precision.
    np.testing.assert_allclose(
        code.quadratic, graph.quadratic, atol=1e-5 * np.abs(graph.quadratic_diagonal).max()
    )


def test_general_kernels_are_tilted_too(rng):
    x = rng.normal(size=(20, 2))
    points = with_tilts(unscaled(x, score(x)), log_density(x))
    general = General(lambda a, b: (-((a - b) ** 2).sum() / 2).exp())
    found = all_pairs(general, points, 1.0, operator=TILTED)
    expected = all_pairs(RBF(), points, 1.0, operator=TILTED)
    np.testing.assert_allclose(found.off_diagonal, expected.off_diagonal, rtol=1e-9)


def test_weights_of_good_points_are_close_to_one_and_of_far_ones_close_to_zero(rng):
    x = rng.normal(size=(1_000, 5))
    x[0] = 40.0
    points = with_tilts(unscaled(x, -x), -0.5 * (x**2).sum(axis=1))
    tilts = points.terms["tilts"][:, 0]
    assert tilts[0] < 1e-20
    assert tilts[1:].mean() > 0.85
    # Log densities that are all the same have no spread to divide by.
    flat = with_tilts(unscaled(x, 0 * x), np.zeros(1_000))
    assert np.isfinite(flat.terms["tilted_scores"]).all()
