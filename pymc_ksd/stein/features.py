r"""Stein features: functions of points whose mean is zero under the density.

For a vector field :math:`\phi` and a weight :math:`w`, the function
:math:`w\,(\phi \cdot (s + \nabla \log w) + \nabla \cdot \phi)` has mean zero. Constant fields give
the scores themselves (order 1), linear fields :math:`z_j s_k + z_k s_j + 2 \delta_{jk}` (order 2).
Of many coordinates the products are too many: then every coordinate gets two features of its own,

.. math::

    l_j = \beta_j \cdot s, \qquad q_j = z_j\, l_j + \beta_{jj},

with the :math:`\beta_j` for which :math:`l_j` is closest to :math:`z_j`. For a normal density they
are exactly the coordinate and its square, up to constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ksd.stein.tilt import Tilt


@dataclass(frozen=True)
class Stretch:
    """Some points in standard units, with what features are made of.

    Attributes
    ----------
    positions : ndarray of shape (n, d)
        Coordinates z, centred and scaled.
    scores : ndarray of shape (n, d)
        The score of these coordinates, that of the tilted density where there is a tilt.
    weights : ndarray of shape (n,), optional
        Weights of a tilt.
    folds : ndarray of int of shape (n,)
        The part of the sample that each point belongs to, for cross-fitting.
    """

    positions: np.ndarray
    scores: np.ndarray
    weights: np.ndarray | None
    folds: np.ndarray

    def weighted(self, features: np.ndarray) -> np.ndarray:
        """Multiply features of shape (n, k) by the weights."""
        return features if self.weights is None else features * self.weights[:, None]


@dataclass(frozen=True)
class Frame:
    """The units in which features are formed. Any will do: they change no mean.

    Attributes
    ----------
    centre, spread : ndarray of shape (d,)
        What coordinates are centred and scaled by.
    tilt : Tilt, optional
        By which points with huge scores count for less.
    """

    centre: np.ndarray
    spread: np.ndarray
    tilt: Tilt | None = None

    def stretch(
        self,
        points: np.ndarray,
        scores: np.ndarray,
        log_densities: np.ndarray | None,
        folds: np.ndarray,
    ) -> Stretch:
        """Bring points and scores to these units."""
        positions, scores = (points - self.centre) / self.spread, scores * self.spread
        if self.tilt is None or log_densities is None:
            return Stretch(positions, scores, None, folds)
        weights, factors = self.tilt.weights(log_densities)
        return Stretch(positions, scores * factors[:, None], weights, folds)


@dataclass(frozen=True)
class Polynomials:
    """Features of all coordinates, for all quantities the same.

    Attributes
    ----------
    order : int
        1 for the scores, 2 with products of coordinates and scores.
    """

    order: int

    def size(self, dim: int) -> int:
        """Return the number of features."""
        return dim + (dim * (dim + 1) // 2 if self.order == 2 else 0)

    def features(self, stretch: Stretch) -> np.ndarray:
        """Return the features of points, shape (n, 1, features)."""
        scores, positions = stretch.scores, stretch.positions
        if self.order == 1:
            return stretch.weighted(scores)[:, None]
        j, k = np.triu_indices(scores.shape[1])
        products = positions[:, j] * scores[:, k] + positions[:, k] * scores[:, j] + 2.0 * (j == k)
        return stretch.weighted(np.concatenate([scores, products], axis=1))[:, None]


@dataclass(frozen=True)
class OwnFeatures:
    """Two features for every coordinate, of which each quantity takes those of some coordinates.

    Attributes
    ----------
    directions : ndarray of shape (folds, d, d) or (folds, d)
        In column j the coefficients of :math:`l_j`, for the points of each fold; or, where every
        coordinate is made of its own score alone, that coefficient.
    coordinates : ndarray of int of shape (quantities, c)
        The coordinates that each quantity takes.
    """

    directions: np.ndarray
    coordinates: np.ndarray
    order = 2

    def features(self, stretch: Stretch) -> np.ndarray:
        """Return the features of points, shape (n, quantities, 2 c)."""
        linear, own = np.empty_like(stretch.scores), np.empty_like(stretch.scores)
        for fold in np.unique(stretch.folds):
            rows, directions = stretch.folds == fold, self.directions[fold]
            if directions.ndim == 1:
                linear[rows], own[rows] = stretch.scores[rows] * directions, directions
            else:
                linear[rows] = stretch.scores[rows] @ directions
                own[rows] = np.diagonal(directions)
        squares = stretch.weighted(stretch.positions * linear + own)
        linear = stretch.weighted(linear)
        places = self.coordinates
        if np.array_equal(places, np.arange(linear.shape[1])[:, None]):
            return np.stack([linear, squares], axis=2)  # every quantity is a coordinate
        return np.concatenate([a[:, places] for a in (linear, squares)], axis=2)
