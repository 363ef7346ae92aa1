r"""The birth–death Stein operator of discrete variables, and its Stein kernel as graphs.

With rates b and d of steps up and down (see :mod:`pymc_ksd.models.lattice`) and :math:`e_\ell` one
step in coordinate :math:`\ell`, the Stein kernel is a sum over coordinates,

.. math::

    u(y, y') = \sum_\ell b b' k(y + e_\ell, y' + e'_\ell) - b d' k(y + e_\ell, y')
               - d b' k(y, y' + e'_\ell) + d d' k(y, y') .

Steps have the same direction for all points, but where every point has a scale of its own, not the
same length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.stein.kernels import Expressions, Kernel
from pymc_ksd.stein.operator import BlockGraph, Graphs, SteinOperator
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.scaling import Scaling

__all__ = ["BirthDeath"]

#: What is taken of every point, in the order in which graphs take it.
_OF_POINT = ("positions", "births", "deaths", "lengths")


class BirthDeath(SteinOperator):
    """The operator of counts: takes the rates of steps up and down from every point."""

    name = "birth_death"
    terms = ("births", "deaths", "lengths")
    constants = ("steps",)
    takes_constant_points = True
    problem = "have no probability, so they lie outside the support of"

    def check_values(self, values: Sequence[np.ndarray], names: Sequence[str]) -> None:
        """Refuse counts that can make no step."""
        births, deaths = values
        if not (births.any() or deaths.any()):
            raise ValueError(
                f"The variable(s) {', '.join(names)} can make no single step up or down from any "
                "of the points: the test compares neighbouring values and has nothing to compare. "
                "Counts with a fixed total, other than a plain Multinomial or "
                "DirichletMultinomial, have to be written without one of them."
            )

    def scaled(self, points: np.ndarray, values: Sequence[np.ndarray], scale: str | None) -> Points:
        """Centre and scale points; their steps are scaled with them."""
        births, deaths = values
        constant = (points == points[0]).all(axis=0)
        deviations = np.ones(points.shape[1])
        if scale is not None:
            deviations = np.where(constant, 1.0, points.std(axis=0, ddof=1))
        # Counts that are all the same have a scale too: the step to the next value.
        moving = np.flatnonzero(~constant)
        positions, mixing = np.zeros(points.shape), np.eye(points.shape[1])
        if moving.size:
            scaling = Scaling.of_points(points[:, moving], scale)
            positions[:, moving] = scaling.positions(points[:, moving])
            mixing[np.ix_(moving, moving)] = scaling.mixing
        terms = {"births": births, "deaths": deaths, "lengths": np.ones(points.shape)}
        return Points(positions, terms, {"steps": np.ascontiguousarray((mixing / deviations).T)})

    def standardised(
        self,
        points: np.ndarray,
        values: Sequence[np.ndarray],
        centre: np.ndarray,
        spread: np.ndarray,
    ) -> Points:
        """Return points of which each has a centre and a spread of its own."""
        births, deaths = values
        terms = {"births": births, "deaths": deaths, "lengths": 1 / spread}
        return Points((points - centre) / spread, terms, {"steps": np.eye(points.shape[1])})

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, because half of all counts may be the same."""
        # One simulated value that is a step away makes the least spread that can be seen.
        return sample.mean(axis=0), np.maximum(sample.std(axis=0), 1 / np.sqrt(len(sample)))

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return dim if kernel.radial else dim**2

    def pairs(
        self, kernel: Kernel, first: Graphs, second: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return u of n pairs of points, shape (n,)."""
        sides = (_arrays(first), _arrays(second))
        return _terms(kernel, *sides, once["steps"], parameters).sum(axis=0)

    def block(
        self,
        kernel: Kernel,
        rows: Graphs,
        columns: Graphs,
        once: Graphs,
        parameters: Expressions,
        *,
        coordinates: bool,
    ) -> BlockGraph:
        """Return u of all pairs of rows and columns."""
        first = [array[:, None, :] for array in _arrays(rows)]
        second = [array[None, :, :] for array in _arrays(columns)]
        terms = _terms(kernel, first, second, once["steps"], parameters)
        return BlockGraph(terms.sum(axis=0), terms.sum(axis=(1, 2)) if coordinates else None)

    def own_coordinates(
        self, kernel: Kernel, points: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return the sum over points of each coordinate's term in u(x, x), shape (d,)."""
        own = _arrays(points)
        return _terms(kernel, own, own, once["steps"], parameters).sum(axis=1)

    def witness(
        self,
        kernel: Kernel,
        points: Graphs,
        places: TensorVariable,
        weights: TensorVariable,
        once: Graphs,
        parameters: Expressions,
    ) -> TensorVariable:
        """Return the operator applied to k(·, place), summed over weighted points."""
        x, births, deaths, lengths = (array[:, None, :] for array in _arrays(points))
        here = _evaluate(kernel, x, places[None, :, :], parameters)[:, :, None]
        moved = x[..., None, :] + lengths[..., None] * once["steps"]
        ahead = _evaluate(kernel, moved, places[None, :, None, :], parameters)
        return pt.sum(weights[:, :, None] * (births * ahead - deaths * here), axis=0)


def _arrays(points: Graphs) -> list[TensorVariable]:
    return [points[name] for name in _OF_POINT]


def _terms(
    kernel: Kernel,
    first: Sequence[TensorVariable],
    second: Sequence[TensorVariable],
    steps: TensorVariable,
    parameters: Expressions,
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
    kernel: Kernel, x: TensorVariable, y: TensorVariable, parameters: Expressions
) -> TensorVariable:
    """Return a general kernel at all pairs of vectors that x and y broadcast to."""
    a, b = pt.dvector("a"), pt.dvector("b")
    value = kernel.expression(a, b, parameters)
    shape = pt.broadcast_shape(x, y)
    full = {a: pt.broadcast_to(x, shape), b: pt.broadcast_to(y, shape)}
    return vectorize_graph(value, full)
