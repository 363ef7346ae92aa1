import numpy as np
import pytest

from pymc_ksd import RBF
from pymc_ksd.stein.bandwidths import check_bandwidth, median_distance
from pymc_ksd.stein.stein_kernel import OPERATORS


def scale_points(points, scores, scale):
    return OPERATORS["langevin"].scaled(points, [scores], scale)


def test_scale_points_cov_whitens_and_keeps_the_inner_product(rng):
    factor = np.array([[2.0, 0.0, 0.0], [5.0, 0.1, 0.0], [0.0, 1.0, 30.0]])
    x = 100 + rng.normal(size=(400, 3)) @ factor.T
    s = rng.normal(size=x.shape)
    scaled = scale_points(x, s, "cov")
    np.testing.assert_allclose(np.cov(scaled.positions.T), np.eye(3), atol=1e-8)
    # A score is a covector: its product with a displacement does not depend on coordinates.
    np.testing.assert_allclose(
        np.sum((x[:-1] - x[1:]) * s[1:], axis=1),
        np.sum((scaled.positions[:-1] - scaled.positions[1:]) * scaled.terms["scores"][1:], axis=1),
        rtol=1e-8,
    )


def test_scale_points_std_and_none(rng):
    x, s = rng.normal(5, [1.0, 10.0], size=(50, 2)), rng.normal(size=(50, 2))
    plain = scale_points(x, s, None)
    np.testing.assert_allclose(plain.positions, x - np.median(x, axis=0))
    assert plain.terms["scores"] is s
    standard = scale_points(x, s, "std")
    np.testing.assert_allclose(standard.positions.std(0, ddof=1), 1)
    np.testing.assert_allclose(standard.terms["scores"], s * x.std(0, ddof=1))


def test_scale_points_cov_survives_few_points_and_collinear_coordinates(rng):
    few = rng.normal(size=(6, 10))
    assert np.isfinite(scale_points(few, few, "cov").positions).all()
    one = rng.normal(size=(500, 1))
    collinear = np.hstack([one, 2 * one])
    assert np.isfinite(scale_points(collinear, collinear, "cov").positions).all()


def test_scale_points_refuses_a_coordinate_without_spread():
    x = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    with pytest.raises(ValueError, match=r"1 coordinate\(s\) do not vary, first at position 0"):
        scale_points(x, x, "std")


def test_median_distance_by_hand_and_with_repeats(rng):
    assert median_distance(np.array([[0.0], [1.0], [3.0]]), rng) == 2.0
    repeated = np.vstack([np.zeros((9, 1)), [[2.0]]])
    assert median_distance(repeated, rng) == 2.0


def test_median_distance_uses_a_subset_of_many_points(rng):
    x = rng.normal(size=(5000, 1))
    # The median of |x - y| for standard normals is 0.6745 √2.
    assert abs(median_distance(x, rng) - 0.9539) < 0.05


@pytest.mark.parametrize(
    ("bandwidth", "error", "message"),
    [
        (
            "mean",
            ValueError,
            "`bandwidth` must be 'auto', 'median', 'dimension', a positive",
        ),
        (0.0, ValueError, "`bandwidth` must be positive and finite, got 0"),
        (-1, ValueError, "`bandwidth` must be positive and finite, got -1"),
        ([1.0, np.nan], ValueError, "`bandwidth` must be positive and finite, got nan"),
        ([], ValueError, r"shape \(0,\)"),
        ([[1.0]], ValueError, r"shape \(1, 1\)"),
        (None, TypeError, "`bandwidth` must be a number"),
    ],
)
def test_bad_bandwidths_are_explained(bandwidth, error, message):
    with pytest.raises(error, match=message):
        check_bandwidth(RBF(), bandwidth)
