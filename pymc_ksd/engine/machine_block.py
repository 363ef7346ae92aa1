"""A block of the Stein kernels of radial kernels in one pass of machine code.

A :class:`MachineBlock` has the named inputs and outputs of the functions that
:class:`pymc_ksd.stein.stein_kernel.SteinKernel` compiles from graphs, which work for all kernels
and give the same numbers more slowly. All members share distances and products of scores. The pass
holds no lock, so that threads run side by side. Products with the weights of replicates are left to
the linear algebra library, in single precision; signs of several members are looked up in tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_ksd.engine.machine_code import MachineLoops, machine_signs
from pymc_ksd.stein.stein_kernel import Member, Wanted

#: Up to this dimension distances and products are formed in the pass itself.
_DIRECT_DIM = 20
#: Rows of a block whose matrix products stay in the processor's cache.
_PRODUCT_ROWS = 128
#: Rows of all members together that are multiplied with weights at a time.
_WEIGHTED_ROWS = 1024
#: From this many members on signs are looked up in tables.
_LOOKED_UP = 4
#: What stands for inputs and outputs that are not wanted.
_NO_VECTOR, _NO_MATRIX, _NO_STACK = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
_SIDES = ("row", "column")
_NO_SMALL = np.empty((0, 0, 0), dtype=np.float32)


class BlockInputs(NamedTuple):
    """What the loops read; empty if it is not wanted.

    Attributes
    ----------
    x, s : ndarray of shape (n, d)
        Points and scores of the rows.
    y, t : ndarray of shape (d, m)
        Those of the columns.
    kinds : ndarray of shape (members,)
        The number of every member's kernel in the loops.
    parameters : ndarray of shape (members, parameters)
        The kernels' parameters.
    tilted : ndarray of shape (members,)
        Which members are tilted.
    products : ndarray of shape (3 or 4, n, m) or (0, 0, 0)
        Products x·y, s·t and x·t + s·y, where they are known, and s·y for tilted members.
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
    scales : ndarray of shape (members,)
        Factors for `small`.
    row_factors, column_factors : ndarray of shape (n,) or (m,)
        What the scores of points are multiplied by, for tilted members.
    row_tilts, column_tilts : ndarray of shape (n,) or (m,)
        Weights of points that multiply u of tilted members.
    """

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    t: np.ndarray
    kinds: np.ndarray
    parameters: np.ndarray
    tilted: np.ndarray
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
    scales: np.ndarray = _NO_VECTOR
    row_factors: np.ndarray = _NO_VECTOR
    column_factors: np.ndarray = _NO_VECTOR
    row_tilts: np.ndarray = _NO_VECTOR
    column_tilts: np.ndarray = _NO_VECTOR


class BlockOutputs(NamedTuple):
    """What the loops fill; empty if it is not wanted.

    Attributes
    ----------
    totals : ndarray of shape (members,)
        To which the sum of u is added.
    u : ndarray of shape (members, n, m) or (0, 0, 0)
        The Stein kernels.
    small : ndarray of shape (members, n, m) or (0, 0, 0)
        The Stein kernels times a factor, in machine code in single precision; where rows and
        columns are the same points, twice those of columns after a row and no others.
    values : ndarray of shape (members, 3, n, m) or (0, 0, 0, 0)
        The kernels, twice their first and four times their second derivative.
    sums : ndarray of shape (members, d) or (0, 0)
        To which each standardised coordinate's term is added.
    before : ndarray of shape (members, 2, m) or (0, 0, 0)
        To which u of the rows before each column is added, of all and of its own group.
    """

    totals: np.ndarray
    u: np.ndarray = _NO_STACK
    small: np.ndarray = _NO_SMALL
    values: np.ndarray = np.empty((0, 0, 0, 0))
    sums: np.ndarray = _NO_MATRIX
    before: np.ndarray = _NO_STACK


@dataclass(frozen=True)
class MachineBlock:
    """A function that reduces one block of pairs for several members.

    Parameters
    ----------
    loops : MachineLoops
        The kernels' machine code, see :func:`pymc_ksd.engine.machine_code.machine_loops`.
    wanted : Wanted, optional
        What is wanted besides the sum of the block; None for the block itself and nothing else.
    members : sequence of Member
        The Stein kernels.
    """

    loops: MachineLoops
    wanted: Wanted | None
    members: Sequence[Member]

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Reduce the block of rows and columns, see ``SteinKernel.block``, for each member."""
        wanted, inputs = self.wanted or Wanted(), self._inputs(arrays)
        (n, dim), m, count = inputs.x.shape, inputs.y.shape[1], len(self.members)
        direct = self.loops.compiled and dim <= _DIRECT_DIM
        step = self._rows_at_a_time(n, direct)
        sums = np.zeros((count, dim))
        outputs = BlockOutputs(
            totals=np.zeros(count),
            u=np.empty((count, n, m)) if self.wanted is None else _NO_STACK,
            sums=sums if wanted.coordinates and direct else _NO_MATRIX,
            before=np.zeros((count, 2, m)) if wanted.groups else _NO_STACK,
        )
        forms = self._forms(arrays) if wanted.weights else None
        room = np.empty(count * step * m if forms else 0, dtype=self._precision)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            part = _rows_of(inputs, rows, direct)
            shape = (count, rows.stop - start, m)
            filled = outputs._replace(u=outputs.u[:, rows])
            if forms:
                filled = filled._replace(small=room[: np.prod(shape)].reshape(shape))
            if wanted.coordinates and not direct:
                filled = filled._replace(values=np.empty((count, 3, *shape[1:])))
            self.loops.module.reduce_block(part, filled)
            if wanted.coordinates and not direct:
                sums += [_coordinate_sums(values, part) for values in filled.values]
            if forms:
                forms.add(filled.small, rows, part.position)
        if self.wanted is None:
            return {"u": outputs.u}
        results: dict[str, Any] = {"u": outputs.totals}
        if forms:
            results["quadratic"] = forms.total / inputs.scales[:, None]
        if wanted.coordinates:
            results["coordinates"] = sums
        if wanted.groups:
            results["earlier"] = outputs.before
        return results

    @property
    def _precision(self) -> type[np.floating[Any]]:
        """What replicates are computed in: of many points single precision will do."""
        return np.float32 if self.loops.compiled else np.float64

    def _rows_at_a_time(self, n: int, direct: bool) -> int:
        """Return into how many rows a block is divided: temporaries of all members stay small."""
        rows, wanted = n if direct else _PRODUCT_ROWS, self.wanted or Wanted()
        if wanted.coordinates and not direct:
            rows = max(4, rows // len(self.members))
        if wanted.weights:
            # Four rows have one table.
            rows = min(rows, max(4, _WEIGHTED_ROWS // len(self.members) // 4 * 4))
        return rows

    def _inputs(self, arrays: Mapping[str, Any]) -> BlockInputs:
        """Arrange what the loops read."""
        wanted, numbers = self.wanted or Wanted(), self.loops.numbers(self.members)
        x, s, t = arrays["row.positions"], *(arrays[f"{side}.scores"] for side in _SIDES)
        more: dict[str, Any] = {}
        if numbers[-1].any():
            more |= {f"{side}_tilts": arrays[f"{side}.tilts"][:, 0] for side in _SIDES}
            more |= {f"{side}_factors": arrays[f"{side}.tilt_factors"][:, 0] for side in _SIDES}
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
            more["scales"] = self._scales(arrays)
        return BlockInputs(x, s, *_turned(arrays["column.positions"], t), *numbers, **more)

    def _scales(self, arrays: Mapping[str, Any]) -> np.ndarray:
        """Return factors with which no member's value in the block is larger than one.

        They follow from the Cauchy–Schwarz inequality.
        """
        bounds = np.ones(len(self.members))
        for side in _SIDES:
            scores = arrays[f"{side}.scores"]
            squares, dim = np.einsum("ij,ij->i", scores, scores), scores.shape[1]
            for number, member in enumerate(self.members):
                value, slope = self.loops.profile_at_zero(member)
                if member.stein.operator.tilted:
                    tilts, factors = arrays[f"{side}.tilts"], arrays[f"{side}.tilt_factors"]
                    tilted = value * factors[:, 0] ** 2 * squares - 2 * slope * dim
                    bounds[number] *= np.sqrt((tilts[:, 0] ** 2 * tilted).max())
                else:
                    bounds[number] *= np.sqrt(value * squares.max() - 2 * slope * dim)
        return 1 / np.where((bounds > 0) & (bounds < np.inf), bounds, 1.0)

    def _forms(self, arrays: Mapping[str, Any]) -> QuadraticForms:
        """Begin to add up quadratic forms in the weights of a block."""
        rows, columns = (arrays[f"{side}.weights"] for side in _SIDES)
        total = np.zeros((len(self.members), len(rows)))
        several = self.loops.compiled and len(self.members) >= _LOOKED_UP
        if several and all(map(_are_signs, (rows, columns))):
            rows, columns = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
            return QuadraticForms(rows, columns, total, machine_signs().column_codes(columns))
        rows, columns = rows.astype(self._precision), columns.astype(self._precision)
        return QuadraticForms(rows, columns, total)


@dataclass(frozen=True)
class QuadraticForms:
    """Quadratic forms in the weights of replicates, which rows of a block are added to.

    Attributes
    ----------
    rows, columns : ndarray of shape (replicates, n) or (replicates, m)
        Weights, in the precision of the kernels or of one byte.
    total : ndarray of shape (members, replicates)
        The sums.
    codes : ndarray, optional
        The columns' weights as codes, where all are signs that are looked up in tables.
    """

    rows: np.ndarray
    columns: np.ndarray
    total: np.ndarray
    codes: np.ndarray | None = None

    def add(self, u: np.ndarray, rows: slice, position: int) -> None:
        """Add the values of some rows, shape (members, rows, columns).

        From their position on, where that is not negative: they are zero before it.
        """
        if self.codes is not None:
            signs, forms = machine_signs(), np.zeros(self.total.T.shape)
            own = signs.row_codes(np.ascontiguousarray(self.rows[:, rows]))
            signs.add_forms(u, own, self.codes, position, forms)
            self.total[:] += forms.T
            return
        count, n, m = u.shape
        begin = max(position, 0)
        values = u.reshape(-1, m)[:, begin:]
        products = np.dot(self.columns[:, begin:], values.T).reshape(-1, count, n)
        products *= self.rows[:, None, rows]
        self.total[:] += products.sum(axis=2, dtype=np.float64).T


def _are_signs(weights: np.ndarray) -> bool:
    """Whether all weights are 1 or -1, in one byte each."""
    return weights.dtype == np.int8 and bool((np.abs(weights) == 1).all())


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
        row_factors=inputs.row_factors[rows],
        row_tilts=inputs.row_tilts[rows],
        position=rows.start if inputs.position >= 0 else -1,
    )
    if direct:
        return part
    x, s, y, t = part.x, part.s, part.y, part.t
    any_tilted = bool(part.tilted.any())
    products = np.empty((3 + any_tilted, len(x), y.shape[1]))
    np.dot(x, y, out=products[0])
    np.dot(s, t, out=products[1])
    np.dot(np.concatenate([x, s], axis=1), np.concatenate([t, y]), out=products[2])
    if any_tilted:
        np.dot(s, y, out=products[3])
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
