"""A block of the Stein kernel of a radial kernel in one pass of machine code.

A :class:`MachineBlock` has the named inputs and outputs of the functions that
:class:`pymc_ksd.stein.stein_kernel.SteinKernel` compiles from graphs, which work for all kernels
and give the same numbers more slowly. The pass holds no lock, so that threads run side by side.
Products with the weights of replicates are left to the linear algebra library, in single precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pymc_ksd.engine.machine_arrays import BlockInputs, BlockOutputs, Norms
from pymc_ksd.stein.stein_kernel import Wanted

__all__ = ["MachineBlock"]

#: Up to this dimension distances and products are formed in the pass itself.
_DIRECT_DIM = 20
#: Rows of a block whose matrix products stay in the processor's cache.
_PRODUCT_ROWS = 128
#: What stands for inputs and outputs that are not wanted.
_NO_MATRIX, _NO_STACK = np.empty((0, 0)), np.empty((3, 0, 0))
_NO_VECTOR, _NO_PAIRS = np.empty(0), np.empty((2, 0))
_NO_SMALL = np.empty((0, 0), dtype=np.float32)

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class MachineBlock:
    """A function that reduces one block of pairs, see ``SteinKernel.block``.

    Parameters
    ----------
    loops : module
        The kernel's machine code, see :func:`pymc_ksd.engine.machine_code.machine_loops`.
    wanted : Wanted, optional
        What is wanted besides the sum of the block; None for the block itself and nothing else.
    """

    loops: ModuleType
    wanted: Wanted | None
    #: Whether it wants the weights of replicates in single precision.
    small_weights = True

    def __call__(self, arrays: Arrays, parameters: Sequence[float]) -> dict[str, Any]:
        """Reduce the block of rows and columns."""
        wanted = self.wanted or Wanted()
        numbers = tuple(float(number) for number in parameters)
        inputs, direct = self._inputs(arrays, wanted, numbers)
        outputs = self._outputs(inputs, wanted, direct)
        n = len(inputs.x)
        total, step = 0.0, n if direct else _PRODUCT_ROWS
        sums = outputs.sums if direct else np.zeros(inputs.x.shape[1])
        for start in range(0, n, step):
            rows = slice(start, start + step)
            part, filled = _rows_of(inputs, outputs, rows, direct, wanted)
            total += self.loops.reduce_block(part, filled)
            if wanted.coordinates and not direct:
                sums += _coordinate_sums(filled.values, part)
        if self.wanted is None:
            return {"u": outputs.u}
        results: dict[str, Any] = {"u": total}
        if wanted.weights:
            quadratic: np.ndarray = np.dot(arrays["column.weights"], outputs.small.T)
            quadratic *= arrays["row.weights"]
            results["quadratic"] = quadratic.sum(axis=1, dtype=np.float64) / inputs.scale
        if wanted.coordinates:
            results["coordinates"] = sums
        if wanted.groups:
            results["earlier"] = outputs.before
        return results

    def _inputs(
        self, arrays: Arrays, wanted: Wanted, parameters: tuple[float, ...]
    ) -> tuple[BlockInputs, bool]:
        """Arrange what the loops read, and tell whether they form products themselves."""
        x, s = arrays["row.positions"], arrays["row.scores"]
        y, t = _turned(arrays["column.positions"], arrays["column.scores"])
        standard: tuple[np.ndarray, ...] = (*[_NO_MATRIX] * 4, _NO_VECTOR)
        if wanted.coordinates:
            mixing = arrays["mixing"]
            columns = arrays["column.positions"] @ mixing, arrays["column.standard_scores"]
            rows = x @ mixing, arrays["row.standard_scores"]
            standard = (*rows, *_turned(*columns), (mixing**2).sum(axis=0))
        groups = (_NO_VECTOR, _NO_VECTOR)
        if wanted.groups:
            groups = arrays["row.groups"], arrays["column.groups"]
        position, scale = -1, 1.0
        if (wanted.weights or wanted.groups) and (
            arrays["row.numbers"][0] == arrays["column.numbers"][0]
        ):
            position = 0
        if wanted.weights:
            scale = 1 / self._bound(s, arrays["column.scores"], parameters)
        inputs = BlockInputs(
            *(x, s, y, t, parameters, _NO_STACK, Norms()),
            *(standard[0], standard[1], standard[2], standard[3], standard[4]),
            *(groups[0], groups[1], position, scale),
        )
        return inputs, x.shape[1] <= _DIRECT_DIM

    def _outputs(self, inputs: BlockInputs, wanted: Wanted, direct: bool) -> BlockOutputs:
        """Make room for what the loops fill."""
        (n, dim), m = inputs.x.shape, inputs.y.shape[1]
        return BlockOutputs(
            np.empty((n, m)) if self.wanted is None else _NO_MATRIX,
            np.empty((n, m), np.float32) if wanted.weights else _NO_SMALL,
            _NO_STACK,
            np.zeros(dim) if wanted.coordinates and direct else _NO_VECTOR,
            np.zeros((2, m)) if wanted.groups else _NO_PAIRS,
        )

    def _bound(self, s: np.ndarray, t: np.ndarray, parameters: tuple[float, ...]) -> float:
        """Return a number that no value in the block exceeds, by the Cauchy–Schwarz inequality."""
        value, slope, _ = self.loops.profile(0.0, parameters)
        squares = [np.einsum("ij,ij->i", scores, scores).max() for scores in (s, t)]
        roots = [np.sqrt(value * square - 2 * slope * s.shape[1]) for square in squares]
        bound = float(roots[0] * roots[1])
        return bound if 0 < bound < np.inf else 1.0


def _turned(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays with one row for each coordinate."""
    return tuple(np.ascontiguousarray(array.T) for array in arrays)


def _rows_of(
    inputs: BlockInputs, outputs: BlockOutputs, rows: slice, direct: bool, wanted: Wanted
) -> tuple[BlockInputs, BlockOutputs]:
    """Return inputs and outputs of some of the rows, with products where the loops want them."""
    part = inputs._replace(
        x=inputs.x[rows],
        s=inputs.s[rows],
        standard_x=inputs.standard_x[rows],
        standard_s=inputs.standard_s[rows],
        row_groups=inputs.row_groups[rows],
        position=rows.start if inputs.position >= 0 else -1,
    )
    filled = outputs._replace(u=outputs.u[rows], small=outputs.small[rows])
    if direct:
        return part, filled
    products, norms = _products(part)
    if wanted.coordinates:
        filled = filled._replace(values=np.empty(products.shape))
    return part._replace(products=products, norms=norms), filled


def _products(part: BlockInputs) -> tuple[np.ndarray, Norms]:
    """Return the matrix products of which a block is made."""
    x, s, y, t = part.x, part.s, part.y, part.t
    products = np.empty((3, len(x), y.shape[1]))
    np.dot(x, y, out=products[0])
    np.dot(s, t, out=products[1])
    np.dot(np.concatenate([x, s], axis=1), np.concatenate([t, y]), out=products[2])
    return products, Norms(
        np.einsum("ij,ij->i", x, x),
        np.einsum("ij,ij->j", y, y),
        np.einsum("ij,ij->i", x, s),
        np.einsum("ij,ij->j", y, t),
    )


def _coordinate_sums(values: np.ndarray, part: BlockInputs) -> np.ndarray:
    """Return the sum of each coordinate's term by matrix products."""
    value, first, second = values
    x, s, y, t = part.standard_x, part.standard_s, part.standard_y.T, part.standard_t.T
    slopes, curves = first.sum(axis=1), second.sum(axis=1)
    cross = (
        np.einsum("ij,ij->j", x, first @ t)
        + np.einsum("ij,ij->j", s, first @ y)
        - slopes @ (x * s)
        - first.sum(axis=0) @ (y * t)
        - slopes.sum() * part.metric
    )
    squares = curves @ x**2 + second.sum(axis=0) @ y**2 - 2 * np.einsum("ij,ij->j", x, second @ y)
    sums: np.ndarray = np.einsum("ij,ij->j", s, value @ t) + cross - squares
    return sums
