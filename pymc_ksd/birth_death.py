r"""The Stein kernel of discrete variables, by the birth–death operator in every coordinate.

With rates b and d of steps up and down (see :mod:`pymc_ksd.lattice`) and :math:`e_\ell` one step in
coordinate :math:`\ell`, the Stein kernel is a sum over coordinates,

.. math::

    u(y, y') = \sum_\ell b b' k(y + e_\ell, y' + e'_\ell) - b d' k(y + e_\ell, y')
               - d b' k(y, y' + e'_\ell) + d d' k(y, y') .

Steps have the same direction for all points, but where every point has a scale of its own, not the
same length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.kernels import Kernel
from pymc_ksd.stein import SteinKernel, reductions

__all__ = ["BirthDeathKernel"]


@dataclass(frozen=True)
class BirthDeathKernel(SteinKernel):
    """The Stein kernel of a base kernel on a lattice.

    Its functions are those of :class:`pymc_ksd.stein.SteinKernel`, except that each point has its
    position, the rates ``b, d`` and the lengths of its steps, that the directions of all
    coordinates' steps, one row each, come before the kernel's parameters, and that single
    coordinates' terms need nothing else.
    """

    def numbers_per_pair(self, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return dim if self.kernel.radial else dim**2

    def _loops(self) -> None:
        """Return nothing: the loops are those of gradients."""

    def _build_pairs(self) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _terms(self.kernel, inputs[:4], inputs[4:], steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=0))

    def _build_own_coordinates(self) -> Any:
        inputs, steps, parameters = self._inputs(1)
        terms = _terms(self.kernel, inputs, inputs, steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=1))

    def _build_matrix(self) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _block(self.kernel, inputs, steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=0))

    def _build_block(self, weights: bool, coordinates: bool, groups: bool) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _block(self.kernel, inputs, steps, parameters)
        sums = terms.sum(axis=(1, 2)) if coordinates else None
        extra, outputs = reductions(terms.sum(axis=0), weights, sums, [], groups)
        return self._compile([*inputs, *extra, steps, *parameters], outputs)

    def _build_witness(self) -> Any:
        inputs, steps, parameters = self._inputs(1)
        x, births, deaths, lengths = (array[:, None, :] for array in inputs)
        y, w = pt.dmatrix("y"), pt.dmatrix("w")
        here = _evaluate(self.kernel, x, y[None, :, :], parameters)[:, :, None]
        moved = x[..., None, :] + lengths[..., None] * steps
        ahead = _evaluate(self.kernel, moved, y[None, :, None, :], parameters)
        f = pt.sum(w[:, :, None] * (births * ahead - deaths * here), axis=0)
        return self._compile([*inputs, y, w, steps, *parameters], f)

    def _inputs(
        self, sides: int
    ) -> tuple[list[TensorVariable], TensorVariable, list[TensorVariable]]:
        arrays = ("x", "births", "deaths", "lengths")
        names = [f"{name}_{side}" for side in range(sides) for name in arrays]
        return [pt.dmatrix(name) for name in names], pt.dmatrix("steps"), self._parameters()


def _block(
    kernel: Kernel,
    inputs: Sequence[TensorVariable],
    steps: TensorVariable,
    parameters: Sequence[TensorVariable],
) -> TensorVariable:
    rows = [array[:, None, :] for array in inputs[:4]]
    columns = [array[None, :, :] for array in inputs[4:]]
    return _terms(kernel, rows, columns, steps, parameters)


def _terms(
    kernel: Kernel,
    first: Sequence[TensorVariable],
    second: Sequence[TensorVariable],
    steps: TensorVariable,
    parameters: Sequence[TensorVariable],
) -> TensorVariable:
    """Return every coordinate's term, along the first axis, for all pairs the points broadcast to.

    Coordinates come first so that long axes are the ones that NumPy walks along.
    """
    x, y = first[0], second[0]
    births, deaths, length = (_coordinates_first(array) for array in first[1:])
    births_y, deaths_y, length_y = (_coordinates_first(array) for array in second[1:])
    if kernel.radial:
        along, along_y = (_coordinates_first(pt.dot(array, steps.T)) for array in (x, y))
        square = pt.sum(steps**2, axis=1).reshape((-1, *[1] * (x.ndim - 1)))
        squared = pt.sum((_coordinates_first(x) - _coordinates_first(y)) ** 2, axis=0)[None]

        def apart(extra: TensorVariable) -> TensorVariable:
            return kernel.profile(pt.maximum(squared + extra, 0), parameters)

        taken = length - length_y
        here = kernel.profile(squared, parameters)
        both = apart(taken * (2 * (along - along_y) + taken * square))
        ahead = apart(length * (2 * along + length * square) - (2 * length) * along_y)
        behind = apart(length_y * (2 * along_y + length_y * square) - (2 * length_y) * along)
    else:
        here = _evaluate(kernel, x, y, parameters)[None]
        x, y = (array[None] for array in (x, y))
        rows = steps.reshape((steps.shape[0], *[1] * (x.ndim - 2), steps.shape[1]))
        x_up, y_up = x + length[..., None] * rows, y + length_y[..., None] * rows
        both = _evaluate(kernel, x_up, y_up, parameters)
        ahead = _evaluate(kernel, x_up, y, parameters)
        behind = _evaluate(kernel, x, y_up, parameters)
    rising = births_y * both - deaths_y * ahead
    falling = births_y * behind - deaths_y * here
    return births * rising - deaths * falling


def _coordinates_first(array: TensorVariable) -> TensorVariable:
    return pt.moveaxis(array, -1, 0)


def _evaluate(
    kernel: Kernel, x: TensorVariable, y: TensorVariable, parameters: Sequence[TensorVariable]
) -> TensorVariable:
    """Return a general kernel at all pairs of vectors that x and y broadcast to."""
    a, b = pt.dvector("a"), pt.dvector("b")
    value = kernel.expression(a, b, list(parameters))
    shape = pt.broadcast_shape(x, y)
    full = {a: pt.broadcast_to(x, shape), b: pt.broadcast_to(y, shape)}
    return vectorize_graph(value, full)
