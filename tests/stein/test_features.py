"""Stein features have mean zero under the density: integrals on a grid, for a density that is not
normal."""

import numpy as np
import pytest

from pymc_ksd.stein.features import Frame, OwnFeatures, Polynomials
from pymc_ksd.stein.tilt import Tilt


def density():
    """A grid of points with scores, log densities and weights that sum to one."""
    axis = np.linspace(-9, 9, 601)
    x, y = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
    log_density = -(x**4) / 4 - y**2 / 2 + 0.7 * x * y
    scores = np.column_stack([-(x**3) + 0.7 * y, -y + 0.7 * x])
    weights = np.exp(log_density - log_density.max())
    return np.column_stack([x, y]), scores, log_density, weights / weights.sum()


BASES = {
    "order 1": Polynomials(1),
    "order 2": Polynomials(2),
    "own scores": OwnFeatures(np.array([[-0.4, -1.3]]), np.array([[0], [1]])),
    "all scores": OwnFeatures(np.array([[[-0.4, 0.2], [0.1, -1.3]]]), np.array([[0, 1], [1, 0]])),
}


@pytest.mark.parametrize("tilt", [None, Tilt(-1.0, 0.5)], ids=["plain", "tilted"])
@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_features_have_mean_zero(basis, tilt):
    points, scores, log_densities, weights = density()
    frame = Frame(np.array([0.3, -0.2]), np.array([0.8, 1.7]), tilt)
    folds = np.zeros(len(points), dtype=int)
    features = basis.features(frame.stretch(points, scores, log_densities, folds))
    means = np.einsum("n,ngk->gk", weights, features)
    spread = np.sqrt(np.einsum("n,ngk->gk", weights, features**2))
    np.testing.assert_allclose(means / spread, 0, atol=1e-9)
    assert features.shape[2] == (
        basis.size(2) if isinstance(basis, Polynomials) else means.shape[1]
    )


def test_own_features_of_a_normal_density_are_the_coordinate_and_its_square():
    rng = np.random.default_rng(0)
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    points = rng.multivariate_normal([0, 0], covariance, size=50)
    scores = -points @ np.linalg.inv(covariance)
    stretch = Frame(np.zeros(2), np.ones(2)).stretch(points, scores, None, np.zeros(50, dtype=int))
    features = OwnFeatures(-covariance[None], np.array([[0], [1]])).features(stretch)
    for j in range(2):
        np.testing.assert_allclose(features[:, j, 0], points[:, j], atol=1e-12)
        np.testing.assert_allclose(
            features[:, j, 1], points[:, j] ** 2 - covariance[j, j], atol=1e-12
        )
