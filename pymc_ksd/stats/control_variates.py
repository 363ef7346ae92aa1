r"""Regressions of quantities on Stein features, fitted on other parts of the sample.

Where a quantity is :math:`f \approx \alpha + \beta \cdot g` with features g of mean zero, the mean
of :math:`f - \beta \cdot g` estimates the mean of f under the density with a smaller error, and the
mean of :math:`\beta \cdot g` is what the sample's own mean is off by. Every part of the sample, a
fold, gets coefficients that were fitted to the others, so that :math:`\beta \cdot g` has mean zero
exactly, however many features there are. All of it comes from sums of products over points, which
may be added up in any order and on several machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_ksd.stein.features import OwnFeatures, Polynomials, Stretch

_TINY = float(np.finfo(float).tiny)
#: Variance, of quantities in units of their spread, below which they do not vary.
_CONSTANT = 1e-20
#: Ridges that are tried, in units of the features' variance; of many features only the first.
_RIDGES, _MANY_FEATURES = (1e-6, 1e-2), 300
#: Where a coordinate has its own score alone.
_LEAST_RIDGE = 1e-9
#: The part of a quantity's variance above which what features leave of it says that they are noise.
_NOISE = 0.75
#: Effective points for every feature from which on features are used.
_POINTS_PER_FEATURE = 8
#: The most features that are used together: their products are this number squared.
_MOST_FEATURES = 1_000
#: Effective points for every coordinate from which on its direction is made of all scores.
_POINTS_PER_SCORE = 2
#: Coordinates by which it is judged whether that pays.
_SOME_COORDINATES = 100
#: Coordinates that are so many that their own scores are tried first, and the part of a coordinate
#: that its own score may leave for the others not to be asked.
_MANY_COORDINATES, _LITTLE_LEFT = 100, 0.02


@dataclass(frozen=True)
class FoldSums:
    """Sums of products of features and quantities over the points of each fold.

    Features may differ between groups of quantities, along an axis g.

    Attributes
    ----------
    count : ndarray of shape (folds,)
        Points.
    features : ndarray of shape (folds, g, k)
        Sums of features.
    gram : ndarray of shape (folds, g, k, k)
        Of products of features.
    quantities : ndarray of shape (folds, g, p)
        Of quantities.
    cross : ndarray of shape (folds, g, k, p)
        Of products of features and quantities.
    squares : ndarray of shape (folds, g, p)
        Of squared quantities.
    """

    count: np.ndarray
    features: np.ndarray
    gram: np.ndarray
    quantities: np.ndarray
    cross: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(
        cls, features: np.ndarray, quantities: np.ndarray, folds: np.ndarray, n_folds: int
    ) -> FoldSums:
        """Sum over points: features of shape (n, g, k), quantities of shape (n, g, p)."""
        parts = []
        for fold in range(n_folds):
            rows = folds == fold
            own, values = features[rows], quantities[rows]
            squares = np.einsum("ngp,ngp->gp", values, values)
            products = own.sum(axis=0), _summed(own, own), values.sum(axis=0), _summed(own, values)
            parts.append((np.count_nonzero(rows), *products, squares))
        return cls(*(np.array(part) for part in zip(*parts, strict=True)))

    def __add__(self, other: FoldSums) -> FoldSums:
        """Return the sums over the points of both."""
        names = self.__dataclass_fields__
        return FoldSums(*(getattr(self, name) + getattr(other, name) for name in names))

    def coefficients(self, ridge: float) -> np.ndarray:
        """Return what fits each fold's complement best, shape (folds, g, k, p)."""
        n = (self.count.sum() - self.count)[:, None, None]
        mean, level = (
            (array.sum(axis=0) - array) / n for array in (self.features, self.quantities)
        )
        n = n[..., None]
        gram = (self.gram.sum(axis=0) - self.gram) / n - mean[..., None] * mean[..., None, :]
        cross = (self.cross.sum(axis=0) - self.cross) / n - mean[..., None] * level[..., None, :]
        spread = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), _TINY))
        gram = gram / (spread[..., None] * spread[..., None, :])
        gram = gram + ridge * np.eye(gram.shape[-1])
        return np.asarray(np.linalg.solve(gram, cross / spread[..., None]) / spread[..., None])

    def residual_variance(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the variance that coefficients of each fold leave in it, shape (g, p)."""
        n = self.count.sum()
        explained = np.einsum(
            "fgkp,fgkp->gp", coefficients, 2 * self.cross - self.gram @ coefficients
        )
        mean = (self.quantities - np.einsum("fgkp,fgk->fgp", coefficients, self.features)).sum(
            0
        ) / n
        variance = (self.squares.sum(axis=0) - explained) / n - mean**2
        return np.asarray(np.maximum(variance, _TINY))

    def of_some(self, columns: slice) -> FoldSums:
        """Return the same of some quantities of every group."""
        return replace(
            self,
            quantities=self.quantities[..., columns],
            cross=self.cross[..., columns],
            squares=self.squares[..., columns],
        )

    def variance(self) -> np.ndarray:
        """Return the variance of the quantities, shape (g, p)."""
        n = self.count.sum()
        mean = self.quantities.sum(axis=0) / n
        return np.asarray(np.maximum(self.squares.sum(axis=0) / n - mean**2, _TINY))


def _summed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sum products over points, of shapes (n, g, k) and (n, g, p)."""
    if first.shape[1] == 1:
        return np.asarray((first[:, 0].T @ second[:, 0])[None])
    return np.asarray(first.transpose(1, 2, 0) @ second.transpose(1, 0, 2))


def _applied(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return what coefficients of shape (g, k, p) make of features, shape (n, g p)."""
    if len(coefficients) == 1:
        return np.asarray(features[:, 0] @ coefficients[0])
    # One quantity of a group, and so few features that a loop is faster than products of matrices.
    return np.asarray(
        sum(features[..., k] * coefficients[:, k, 0] for k in range(features.shape[2]))
    )


#: Sums what a function makes of all stretches and the quantities that belong to them.
AddUp = Callable[[Callable[[Stretch, np.ndarray], FoldSums]], FoldSums]


@dataclass(frozen=True)
class ControlVariates:
    """Features and their coefficients.

    Attributes
    ----------
    basis : Polynomials or OwnFeatures
        The features.
    coefficients : ndarray of shape (folds, g, k, p)
        Theirs, for the points of each fold.
    unexplained : ndarray of shape (quantities, 2)
        The part of the variance of quantities and of their squares that is left; NaN where they do
        not vary.
    """

    basis: Polynomials | OwnFeatures
    coefficients: np.ndarray
    unexplained: np.ndarray

    def explained(self, stretch: Stretch) -> tuple[np.ndarray, ...]:
        """Return what features explain, and the functions of mean zero to test with if others.

        Both have the shape (2, n, quantities), for quantities and their squares. What is explained
        is tested, but for coefficients that explain next to nothing: these are noise, and the noise
        of one fold depends on what another is tested with. Then the first coordinate's own features
        are tested.
        """
        features = self.basis.features(stretch)
        found = np.zeros((2, len(features), len(self.unexplained)))
        for fold in np.unique(stretch.folds):
            rows = stretch.folds == fold
            for values, coefficients in zip(found, self._of_both(fold), strict=True):
                values[rows] = _applied(features[rows], coefficients)
        if not isinstance(self.basis, OwnFeatures) or not self.is_noise.any():
            return (found,)
        places = [0, self.basis.coordinates.shape[1]]
        # With the sign of what it explains, so that errors and their z-scores agree in it.
        signs = np.sign(self.coefficients.mean(axis=0)[:, places, [0, 1]])
        own = np.moveaxis(features[:, :, places] * signs, 2, 0)
        return found, np.where(self.is_noise.T[:, None], own, found)

    def _of_both(self, fold: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients of quantities and of their squares, shape (g, k, p)."""
        coefficients = self.coefficients[fold]
        return coefficients[..., ::2], coefficients[..., 1::2]

    @property
    def is_noise(self) -> np.ndarray:
        """Where features explain next to nothing of a quantity or its square."""
        return np.asarray(self.unexplained > _NOISE)


def with_squares(quantities: np.ndarray, basis: Polynomials | OwnFeatures) -> np.ndarray:
    """Return quantities and their squares by group, shape (n, g, p), of shape (n, quantities)."""
    both = np.stack([quantities, quantities**2], axis=-1)
    return both if isinstance(basis, OwnFeatures) else both.reshape(len(both), 1, -1)


def fit_control_variates(
    add_up: AddUp,
    coordinates: np.ndarray,
    dim: int,
    n_folds: int,
    n_effective: float,
    orders: Sequence[int],
) -> ControlVariates:
    """Choose features, ridge and coefficients by what is left of quantities that were not fitted.

    Parameters
    ----------
    add_up : callable
        Sums over all points.
    coordinates : ndarray of int of shape (quantities, c)
        The coordinates that each quantity has most to do with.
    dim : int
        The number of coordinates.
    n_folds : int
        The number of folds.
    n_effective : float
        The number of independent points that those outside a fold are worth.
    orders : sequence of int
        Orders that are tried: 1, 2, or both.

    Returns
    -------
    ControlVariates
    """
    bases: list[Polynomials | OwnFeatures] = []
    for order in orders:
        size = Polynomials(order).size(dim)
        if size <= min(n_effective / _POINTS_PER_FEATURE, _MOST_FEATURES):
            bases.append(Polynomials(order))
    if 2 in orders or not bases:
        directions = _directions(add_up, dim, n_folds, n_effective)
        bases.append(OwnFeatures(directions, coordinates))
    fitted = [_fitted(add_up, basis, n_folds, len(coordinates)) for basis in bases]
    return min(fitted, key=lambda one: _typical(one.unexplained))


def _typical(unexplained: np.ndarray) -> float:
    known = unexplained[np.isfinite(unexplained)]
    return float(np.median(np.log(known))) if known.size else 0.0


def _fitted(
    add_up: AddUp, basis: Polynomials | OwnFeatures, n_folds: int, n_quantities: int
) -> ControlVariates:
    """Fit coefficients, with the ridge that leaves least."""

    def products(stretch: Stretch, quantities: np.ndarray) -> FoldSums:
        values = with_squares(quantities, basis)
        return FoldSums.of(basis.features(stretch), values, stretch.folds, n_folds)

    sums = add_up(products)
    found = []
    for ridge in _RIDGES[: 1 if sums.gram.shape[-1] > _MANY_FEATURES else None]:
        coefficients = sums.coefficients(ridge)
        left = sums.residual_variance(coefficients) / sums.variance()
        # Of what does not vary there is nothing to explain.
        left = np.where(sums.variance() > _CONSTANT, left, np.nan)
        found.append(ControlVariates(basis, coefficients, left.reshape(n_quantities, 2)))
    return min(found, key=lambda one: _typical(one.unexplained))


def _directions(add_up: AddUp, dim: int, n_folds: int, n_effective: float) -> np.ndarray:
    """Return what makes coordinates of scores: of all scores, or of each coordinate's own."""

    def diagonal(stretch: Stretch, quantities: np.ndarray) -> FoldSums:
        scores = stretch.weighted(stretch.scores)[..., None]
        return FoldSums.of(scores, stretch.positions[..., None], stretch.folds, n_folds)

    enough = dim > 1 and n_effective >= _POINTS_PER_SCORE * dim
    if not enough or dim > _MANY_COORDINATES:
        alone = add_up(diagonal)
        matrix = alone.coefficients(_LEAST_RIDGE)
        left_alone = alone.residual_variance(matrix) / alone.variance()
        if not enough or np.median(left_alone) < _LITTLE_LEFT:
            return matrix.reshape(n_folds, dim)

    def products(stretch: Stretch, quantities: np.ndarray) -> FoldSums:
        scores = stretch.weighted(stretch.scores)[:, None]
        return FoldSums.of(scores, stretch.positions[:, None], stretch.folds, n_folds)

    sums = add_up(products)
    all_scores = sums.coefficients(_RIDGES[0])
    alone = _alone(sums)
    matrix = alone.coefficients(_LEAST_RIDGE)
    some = slice(None, None, -(-dim // _SOME_COORDINATES))
    left = [
        np.median(sums.of_some(some).residual_variance(all_scores[..., some])),
        np.median(alone.residual_variance(matrix)),
    ]
    return all_scores[:, 0] if left[0] < left[1] else matrix.reshape(n_folds, dim)


def _alone(sums: FoldSums) -> FoldSums:
    """Return the sums of every coordinate and its own score, as a group each."""
    by_group = [array[:, 0, :, None] for array in (sums.features, sums.quantities, sums.squares)]
    products = [
        np.diagonal(array[:, 0], axis1=1, axis2=2)[..., None, None]
        for array in (sums.gram, sums.cross)
    ]
    return FoldSums(sums.count, by_group[0], products[0], by_group[1], products[1], by_group[2])
