"""What machine code takes and fills for a block of pairs: arrays by name, empty if not wanted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["BlockInputs", "BlockOutputs", "Norms"]

_EMPTY_VECTOR, _EMPTY_MATRIX = np.empty(0), np.empty((0, 0))


class Norms(NamedTuple):
    """Squared lengths and products that belong to single points: x·x, y·y, x·s and y·t."""

    xx: np.ndarray = _EMPTY_VECTOR
    yy: np.ndarray = _EMPTY_VECTOR
    xs: np.ndarray = _EMPTY_VECTOR
    yt: np.ndarray = _EMPTY_VECTOR


class BlockInputs(NamedTuple):
    """What the loops read.

    Attributes
    ----------
    x, s : ndarray of shape (n, d)
        Points and scores of the rows.
    y, t : ndarray of shape (d, m)
        Those of the columns.
    parameters : tuple of float
        The kernel's parameters.
    products : ndarray of shape (3, n, m) or (3, 0, 0)
        Products x·y, s·t and x·t + s·y, where they are known.
    norms : Norms
        With the products, what belongs to single points.
    standard_x, standard_s : ndarray of shape (n, d)
        Points and scores of the rows in standardised coordinates, for `sums`.
    standard_y, standard_t : ndarray of shape (d, m)
        Those of the columns.
    metric : ndarray of shape (d,)
        Squared lengths of the standardised coordinates' unit vectors.
    row_groups, column_groups : ndarray
        Numbers of the points' groups, for `before`.
    position : int
        Which of the columns is the first row, where they are the same points, else -1.
    scale : float
        A factor for `small`.
    """

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    t: np.ndarray
    parameters: tuple[float, ...]
    products: np.ndarray
    norms: Norms
    standard_x: np.ndarray
    standard_s: np.ndarray
    standard_y: np.ndarray
    standard_t: np.ndarray
    metric: np.ndarray
    row_groups: np.ndarray
    column_groups: np.ndarray
    position: int
    scale: float


class BlockOutputs(NamedTuple):
    """What the loops fill.

    Attributes
    ----------
    u : ndarray of shape (n, m) or (0, 0)
        The Stein kernel.
    small : ndarray of shape (n, m) or (0, 0)
        The Stein kernel times a factor, in single precision and without a point's pair with itself.
    values : ndarray of shape (3, n, m) or (3, 0, 0)
        The kernel, twice its first and four times its second derivative.
    sums : ndarray of shape (d,) or (0,)
        To which each standardised coordinate's term is added.
    before : ndarray of shape (2, m) or (2, 0)
        To which u of the rows before each column is added, of all and of its own group.
    """

    u: np.ndarray
    small: np.ndarray
    values: np.ndarray
    sums: np.ndarray
    before: np.ndarray
