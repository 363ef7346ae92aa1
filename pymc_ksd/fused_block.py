"""A block of the Stein kernel of a radial kernel in one pass of machine code.

A :class:`FusedBlock` has the inputs and outputs of the functions that :mod:`pymc_ksd.stein`
compiles from graphs, which work for all kernels and give the same numbers more slowly. The pass
holds no lock, so that threads run side by side. Products with the weights of replicates are left to
the linear algebra library, in single precision.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["FusedBlock"]

#: Up to this dimension distances and products are formed in the pass itself.
_DIRECT_DIM = 20
#: Rows of a block whose matrix products stay in the processor's cache.
_PRODUCT_ROWS = 128
#: What stands for inputs and outputs that are not wanted.
_NO_MATRIX, _NO_STACK = np.empty((0, 0)), np.empty((3, 0, 0))
_NO_VECTOR, _NO_PAIRS = np.empty(0), np.empty((2, 0))
_NO_SMALL = np.empty((0, 0), dtype=np.float32)


class FusedBlock:
    """A function that reduces one block of pairs, see :meth:`pymc_ksd.stein.SteinKernel.block`.

    Parameters
    ----------
    loops : module
        The kernel's machine code, see :func:`pymc_ksd.kernel_code.block_loops`.
    weights, coordinates, groups : bool
        What is wanted besides the sum of the block.
    matrix : bool, default False
        Return the block itself and nothing else.
    """

    def __init__(
        self,
        loops: ModuleType,
        *,
        weights: bool = False,
        coordinates: bool = False,
        groups: bool = False,
        matrix: bool = False,
    ) -> None:
        self._loops = loops
        self._weights = weights
        self._coordinates = coordinates
        self._groups = groups
        self._matrix = matrix

    def __call__(
        self, x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray, *more: np.ndarray
    ) -> Any:
        """Reduce the block of rows x and columns y."""
        rest = list(more)
        (n, dim), m = x.shape, len(y)
        direct = dim <= _DIRECT_DIM
        v, w = (rest.pop(0), rest.pop(0)) if self._weights else (_NO_MATRIX, _NO_MATRIX)
        standard: tuple[np.ndarray, ...] = (*[_NO_MATRIX] * 4, _NO_VECTOR)
        if self._coordinates:
            rows, columns, mixing = rest.pop(0), rest.pop(0), rest.pop(0)
            standard = (x @ mixing, rows, *_turned(y @ mixing, columns), (mixing**2).sum(axis=0))
        groups = (rest.pop(0), rest.pop(0)) if self._groups else (_NO_VECTOR, _NO_VECTOR)
        same = False
        if self._weights or self._groups:
            same = rest.pop(0)[0] == rest.pop(0)[0]
        parameters = tuple(float(number) for number in rest)
        turned = _turned(y, t)
        u = np.empty((n, m)) if self._matrix else _NO_MATRIX
        small, bound = _NO_SMALL, 1.0
        if self._weights:
            small, bound = np.empty((n, m), np.float32), self._bound(s, t, parameters)
        before = np.zeros((2, m)) if self._groups else _NO_PAIRS
        sums = np.zeros(dim) if self._coordinates else _NO_VECTOR

        total, step = 0.0, n if direct else _PRODUCT_ROWS
        for start in range(0, n, step):
            part = slice(start, start + step)
            products, values = _NO_STACK, _NO_STACK
            norms: tuple[np.ndarray, ...] = (_NO_VECTOR,) * 4
            if not direct:
                products, norms = _products(x[part], s[part], *turned)
                if self._coordinates:
                    values = np.empty(products.shape)
            total += self._loops.reduce_block(
                (x[part], s[part]), turned, products, norms, parameters,
                u[part], small[part], 1 / bound, values,
                (standard[0][part], standard[1][part], *standard[2:]),
                sums if direct else _NO_VECTOR,
                (groups[0][part], groups[1]), start if same else -1, before,
            )  # fmt: skip
            if self._coordinates and not direct:
                sums += _coordinate_sums(values, standard[0][part], standard[1][part], standard)
        if self._matrix:
            return u
        outputs: list[Any] = [total]
        if self._weights:
            quadratic: np.ndarray = np.dot(w, small.T)
            quadratic *= v
            outputs.append(quadratic.sum(axis=1, dtype=np.float64) * bound)
        if self._coordinates:
            outputs.append(sums)
        if self._groups:
            outputs.append(before)
        return outputs

    def _bound(self, s: np.ndarray, t: np.ndarray, parameters: tuple[float, ...]) -> float:
        """Return a number that no value in the block exceeds, by the Cauchy–Schwarz inequality."""
        value, slope, _ = self._loops.profile(0.0, parameters)
        squares = [np.einsum("ij,ij->i", scores, scores).max() for scores in (s, t)]
        roots = [np.sqrt(value * square - 2 * slope * s.shape[1]) for square in squares]
        bound = float(roots[0] * roots[1])
        return bound if 0 < bound < np.inf else 1.0


def _turned(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays with one row for each coordinate."""
    return tuple(np.ascontiguousarray(array.T) for array in arrays)


def _products(
    x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return the matrix products of which a block is made."""
    products = np.empty((3, len(x), y.shape[1]))
    np.dot(x, y, out=products[0])
    np.dot(s, t, out=products[1])
    np.dot(np.concatenate([x, s], axis=1), np.concatenate([t, y]), out=products[2])
    norms = (
        np.einsum("ij,ij->i", x, x),
        np.einsum("ij,ij->j", y, y),
        np.einsum("ij,ij->i", x, s),
        np.einsum("ij,ij->j", y, t),
    )
    return products, norms


def _coordinate_sums(
    values: np.ndarray, x: np.ndarray, s: np.ndarray, standard: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Return the sum of each coordinate's term by matrix products."""
    value, first, second = values
    y, t, metric = (array.T for array in standard[2:])
    slopes, curves = first.sum(axis=1), second.sum(axis=1)
    cross = (
        np.einsum("ij,ij->j", x, first @ t)
        + np.einsum("ij,ij->j", s, first @ y)
        - slopes @ (x * s)
        - first.sum(axis=0) @ (y * t)
        - slopes.sum() * metric
    )
    squares = curves @ x**2 + second.sum(axis=0) @ y**2 - 2 * np.einsum("ij,ij->j", x, second @ y)
    sums: np.ndarray = np.einsum("ij,ij->j", s, value @ t) + cross - squares
    return sums
