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
from typing import Any, NamedTuple

import numpy as np

from pymc_ksd.stein.stein_kernel import Wanted

#: Up to this dimension distances and products are formed in the pass itself.
_DIRECT_DIM = 20
#: Rows of a block whose matrix products stay in the processor's cache.
_PRODUCT_ROWS = 128
#: What stands for inputs and outputs that are not wanted.
_NO_MATRIX, _NO_STACK = np.empty((0, 0)), np.empty((3, 0, 0))
_NO_VECTOR, _NO_PAIRS = np.empty(0), np.empty((2, 0))
_SIDES = ("row", "column")
_NO_SMALL = np.empty((0, 0), dtype=np.float32)


class BlockInputs(NamedTuple):
    """What the loops read; empty if it is not wanted.

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
    xx, yy, xs, yt : ndarray of shape (n,) or (m,)
        With the products, those that belong to single points: x·x, y·y, x·s and y·t.
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
    row_tilts, column_tilts : ndarray of shape (n,) or (m,)
        Weights of points that multiply u.
    """

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    t: np.ndarray
    parameters: tuple[float, ...]
    products: np.ndarray = _NO_STACK
    xx: np.ndarray = _NO_VECTOR
    yy: np.ndarray = _NO_VECTOR
    xs: np.ndarray = _NO_VECTOR
    yt: np.ndarray = _NO_VECTOR
    standard_x: np.ndarray = _NO_MATRIX
    standard_s: np.ndarray = _NO_MATRIX
    standard_y: np.ndarray = _NO_MATRIX
    standard_t: np.ndarray = _NO_MATRIX
    metric: np.ndarray = _NO_VECTOR
    row_groups: np.ndarray = _NO_VECTOR
    column_groups: np.ndarray = _NO_VECTOR
    position: int = -1
    scale: float = 1.0
    row_tilts: np.ndarray = _NO_VECTOR
    column_tilts: np.ndarray = _NO_VECTOR


class BlockOutputs(NamedTuple):
    """What the loops fill; empty if it is not wanted.

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

    u: np.ndarray = _NO_MATRIX
    small: np.ndarray = _NO_SMALL
    values: np.ndarray = _NO_STACK
    sums: np.ndarray = _NO_VECTOR
    before: np.ndarray = _NO_PAIRS


@dataclass(frozen=True)
class MachineBlock:
    """A function that reduces one block of pairs, see ``SteinKernel.block``.

    Parameters
    ----------
    loops : module
        The kernel's machine code, see :func:`pymc_ksd.engine.machine_code.machine_loops`.
    wanted : Wanted, optional
        What is wanted besides the sum of the block; None for the block itself and nothing else.
    scores : {"scores", "tilted_scores"}
        What the scores of points are called. Tilted ones come with weights.
    """

    loops: ModuleType
    wanted: Wanted | None
    scores: str = "scores"

    def __call__(self, arrays: Mapping[str, Any], parameters: Sequence[float]) -> dict[str, Any]:
        """Reduce the block of rows and columns."""
        wanted = self.wanted or Wanted()
        inputs = self._inputs(arrays, wanted, tuple(map(float, parameters)))
        (n, dim), m = inputs.x.shape, inputs.y.shape[1]
        direct = dim <= _DIRECT_DIM
        outputs = BlockOutputs(
            u=np.empty((n, m)) if self.wanted is None else _NO_MATRIX,
            small=np.empty((n, m), np.float32) if wanted.weights else _NO_SMALL,
            sums=np.zeros(dim) if wanted.coordinates and direct else _NO_VECTOR,
            before=np.zeros((2, m)) if wanted.groups else _NO_PAIRS,
        )
        total, sums = 0.0, outputs.sums if direct else np.zeros(dim)
        for start in range(0, n, n if direct else _PRODUCT_ROWS):
            rows = slice(start, start + (n if direct else _PRODUCT_ROWS))
            part = _rows_of(inputs, rows, direct)
            filled = outputs._replace(u=outputs.u[rows], small=outputs.small[rows])
            if wanted.coordinates and not direct:
                filled = filled._replace(values=np.empty(part.products.shape))
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
        self, arrays: Mapping[str, Any], wanted: Wanted, parameters: tuple[float, ...]
    ) -> BlockInputs:
        """Arrange what the loops read."""
        x, s, t = arrays["row.positions"], *(arrays[f"{a}.{self.scores}"] for a in _SIDES)
        more: dict[str, Any] = {}
        if self.scores == "tilted_scores":
            more |= {f"{side}_tilts": arrays[f"{side}.tilts"][:, 0] for side in _SIDES}
        if wanted.coordinates:
            mixing = arrays["mixing"]
            turned = _turned(arrays["column.positions"] @ mixing, arrays["column.standard_scores"])
            more |= {"standard_x": x @ mixing, "standard_s": arrays["row.standard_scores"]}
            more |= dict(zip(("standard_y", "standard_t"), turned, strict=True))
            more["metric"] = (mixing**2).sum(axis=0)
        if wanted.groups:
            more |= {"row_groups": arrays["row.groups"], "column_groups": arrays["column.groups"]}
        if wanted.weights or wanted.groups:
            same = arrays["row.numbers"][0] == arrays["column.numbers"][0]
            more["position"] = 0 if same else -1
        if wanted.weights:
            more["scale"] = 1 / self._bound(s, t, parameters)
        columns = _turned(arrays["column.positions"], t)
        return BlockInputs(x, s, *columns, parameters, **more)

    def _bound(self, s: np.ndarray, t: np.ndarray, parameters: tuple[float, ...]) -> float:
        """Return a number that no value in the block exceeds, by the Cauchy–Schwarz inequality."""
        value, slope, _ = self.loops.profile(0.0, parameters)
        squares = [np.einsum("ij,ij->i", scores, scores).max() for scores in (s, t)]
        roots = [np.sqrt(value * square - 2 * slope * s.shape[1]) for square in squares]
        bound = float(roots[0] * roots[1])
        return bound if 0 < bound < np.inf else 1.0


def _turned(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return arrays with one row for each coordinate."""
    return np.ascontiguousarray(first.T), np.ascontiguousarray(second.T)


def _rows_of(inputs: BlockInputs, rows: slice, direct: bool) -> BlockInputs:
    """Return the inputs of some of the rows, with products unless the loops form them."""
    part = inputs._replace(
        x=inputs.x[rows],
        s=inputs.s[rows],
        standard_x=inputs.standard_x[rows],
        standard_s=inputs.standard_s[rows],
        row_groups=inputs.row_groups[rows],
        row_tilts=inputs.row_tilts[rows],
        position=rows.start if inputs.position >= 0 else -1,
    )
    if direct:
        return part
    x, s, y, t = part.x, part.s, part.y, part.t
    products = np.empty((3, len(x), y.shape[1]))
    np.dot(x, y, out=products[0])
    np.dot(s, t, out=products[1])
    np.dot(np.concatenate([x, s], axis=1), np.concatenate([t, y]), out=products[2])
    return part._replace(
        products=products,
        xx=np.einsum("ij,ij->i", x, x),
        yy=np.einsum("ij,ij->j", y, y),
        xs=np.einsum("ij,ij->i", x, s),
        yt=np.einsum("ij,ij->j", y, t),
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
