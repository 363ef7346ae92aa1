r"""The Stein kernel of discrete variables, by the birth–death operator in every coordinate.

With rates b and d of steps up and down (see :mod:`pymc_ksd.lattice`) and :math:`e_\ell` one step in
coordinate :math:`\ell`, the Stein kernel is a sum over coordinates,

.. math::

    u(y, y') = \sum_\ell b b' k(y + e_\ell, y' + e_\ell) - b d' k(y + e_\ell, y')
               - d b' k(y, y' + e_\ell) + d d' k(y, y') .
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
    position and the rates ``b, d``, that the steps of all coordinates, one row each, come before
    the kernel's parameters, and that single coordinates' terms need nothing else.
    """

    def numbers_per_pair(self, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return dim if self.kernel.radial else dim**2

    def _build_pairs(self) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _terms(self.kernel, inputs[:3], inputs[3:], steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=-1))

    def _build_own_coordinates(self) -> Any:
        inputs, steps, parameters = self._inputs(1)
        terms = _terms(self.kernel, inputs, inputs, steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=0))

    def _build_matrix(self) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _block(self.kernel, inputs, steps, parameters)
        return self._compile([*inputs, steps, *parameters], terms.sum(axis=-1))

    def _build_block(self, weights: bool, coordinates: bool, groups: bool) -> Any:
        inputs, steps, parameters = self._inputs(2)
        terms = _block(self.kernel, inputs, steps, parameters)
        sums = terms.sum(axis=(0, 1)) if coordinates else None
        extra, outputs = reductions(terms.sum(axis=-1), weights, sums, [], groups)
        return self._compile([*inputs, *extra, steps, *parameters], outputs)

    def _inputs(
        self, sides: int
    ) -> tuple[list[TensorVariable], TensorVariable, list[TensorVariable]]:
        names = [f"{name}_{side}" for side in range(sides) for name in ("x", "births", "deaths")]
        return [pt.dmatrix(name) for name in names], pt.dmatrix("steps"), self._parameters()


def _block(
    kernel: Kernel,
    inputs: Sequence[TensorVariable],
    steps: TensorVariable,
    parameters: Sequence[TensorVariable],
) -> TensorVariable:
    rows = [array[:, None, :] for array in inputs[:3]]
    columns = [array[None, :, :] for array in inputs[3:]]
    return _terms(kernel, rows, columns, steps, parameters)


def _terms(
    kernel: Kernel,
    first: Sequence[TensorVariable],
    second: Sequence[TensorVariable],
    steps: TensorVariable,
    parameters: Sequence[TensorVariable],
) -> TensorVariable:
    """Return every coordinate's term for all pairs that the points broadcast to."""
    x, births, deaths = first
    y, births_y, deaths_y = second
    if kernel.radial:
        difference = x - y
        squared = pt.sum(difference**2, axis=-1, keepdims=True)
        gap = 2 * pt.dot(difference, steps.T)
        far = squared + pt.sum(steps**2, axis=1)
        here = kernel.profile(squared, parameters)
        both = here
        ahead = kernel.profile(pt.maximum(far + gap, 0), parameters)
        behind = kernel.profile(pt.maximum(far - gap, 0), parameters)
    else:
        here = _evaluate(kernel, x, y, parameters)[..., None]
        x, y = x[..., None, :], y[..., None, :]
        both = _evaluate(kernel, x + steps, y + steps, parameters)
        ahead = _evaluate(kernel, x + steps, y, parameters)
        behind = _evaluate(kernel, x, y + steps, parameters)
    return (
        births * births_y * both
        - births * deaths_y * ahead
        - deaths * births_y * behind
        + deaths * deaths_y * here
    )


def _evaluate(
    kernel: Kernel, x: TensorVariable, y: TensorVariable, parameters: Sequence[TensorVariable]
) -> TensorVariable:
    """Return a general kernel at all pairs of vectors that x and y broadcast to."""
    a, b = pt.dvector("a"), pt.dvector("b")
    value = kernel.expression(a, b, list(parameters))
    shape = pt.broadcast_shape(x, y)
    full = {a: pt.broadcast_to(x, shape), b: pt.broadcast_to(y, shape)}
    return vectorize_graph(value, full)
