"""Cross-fitted regressions, held against NumPy's least squares fold by fold."""

import numpy as np
import pytest

from pymc_ksd.stats.control_variates import (
    FoldSums,
    fit_control_variates,
    with_squares,
)
from pymc_ksd.stein.features import Frame, OwnFeatures, Polynomials


def example(n=400, dim=3, seed=0):
    """Points of a skewed density with their scores, and quantities."""
    rng = np.random.default_rng(seed)
    gammas = rng.gamma(3.0, size=(n, dim))
    points, scores = np.log(gammas), 3.0 - gammas
    folds = np.arange(n) % 4
    frame = Frame(points.mean(axis=0), points.std(axis=0))
    quantities = np.column_stack([points[:, 0], np.exp(points[:, 1]), rng.normal(size=n)])
    quantities = (quantities - quantities.mean(axis=0)) / quantities.std(axis=0)
    return frame.stretch(points, scores, None, folds), quantities


def slowly_explained(features, values, folds):
    """What least squares with an intercept, fitted to the other folds, make of features."""
    found = np.empty_like(values)
    for fold in np.unique(folds):
        own = folds == fold
        design = np.column_stack([np.ones(np.count_nonzero(~own)), features[~own]])
        coefficients = np.linalg.lstsq(design, values[~own], rcond=None)[0][1:]
        found[own] = features[own] @ coefficients
    return found


@pytest.mark.parametrize("order", [1, 2])
def test_coefficients_are_those_of_least_squares(order):
    stretch, quantities = example()
    basis = Polynomials(order)
    features = basis.features(stretch)
    sums = FoldSums.of(features, with_squares(quantities, basis), stretch.folds, 4)
    coefficients = sums.coefficients(0.0)
    values = np.stack([quantities, quantities**2], axis=2).reshape(len(quantities), -1)
    expected = slowly_explained(features[:, 0], values, stretch.folds)
    found = np.empty_like(expected)
    for fold in range(4):
        rows = stretch.folds == fold
        found[rows] = features[rows, 0] @ coefficients[fold, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    residuals = values - expected
    np.testing.assert_allclose(
        sums.residual_variance(coefficients)[0],
        residuals.var(axis=0),
        rtol=1e-9,
        atol=1e-14,
    )
    np.testing.assert_allclose(sums.variance()[0], values.var(axis=0), rtol=1e-12)


def test_sums_of_parts_add_up_to_those_of_the_whole():
    stretch, quantities = example()
    basis = Polynomials(2)
    features, values = basis.features(stretch), with_squares(quantities, basis)
    whole = FoldSums.of(features, values, stretch.folds, 4)
    parts = [
        FoldSums.of(features[rows], values[rows], stretch.folds[rows], 4)
        for rows in (slice(0, 150), slice(150, 400))
    ]
    total = parts[0] + parts[1]
    for name in FoldSums.__dataclass_fields__:
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12)


def test_features_of_all_or_of_own_coordinates_are_chosen_by_what_they_leave():
    stretch, quantities = example(n=4_000)

    def add_up(products):
        return products(stretch, quantities)

    coordinates = np.array([[0], [1], [2]])
    many = fit_control_variates(add_up, coordinates, 3, 4, 3_000, (1, 2))
    few = fit_control_variates(add_up, coordinates, 3, 4, 10, (1, 2))
    assert isinstance(few.basis, OwnFeatures)
    # With few independent points a coordinate is made of its own score.
    assert few.basis.directions.shape == (4, 3)
    # A parameter and its exponential are explained, noise is not.
    assert (many.unexplained[:2, 0] < 0.1).all()
    assert many.unexplained[2, 0] > 0.9
    first = fit_control_variates(add_up, coordinates, 3, 4, 3_000, (1,))
    assert first.basis == Polynomials(1)


def test_noise_is_not_tested_by_coefficients_that_are_noise():
    stretch, quantities = example(n=400)

    def add_up(products):
        return products(stretch, quantities)

    variates = fit_control_variates(add_up, np.array([[0], [1], [2]]), 3, 4, 10, (2,))
    explained, tested = variates.explained(stretch)
    noise = variates.unexplained[2, 0] > 0.75
    assert noise
    own = variates.basis.features(stretch)[:, 2, 0]
    # With the sign of what it explains.
    sign = np.sign(variates.coefficients.mean(axis=0)[2, 0, 0])
    np.testing.assert_array_equal(tested[0, :, 2], sign * own)
    np.testing.assert_array_equal(tested[0, :, 0], explained[0, :, 0])
