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

from pymc_ksd.stein.kernels import Kernel, Tensor
from pymc_ksd.stein.operator import Graph, SteinOperator, Values
from pymc_ksd.stein.points import Points, Scaling

#: What is taken of every point.
_OF_POINT = ("positions", "births", "deaths", "lengths")


class BirthDeath(SteinOperator):
    """The operator of counts: takes the rates of steps up and down from every point."""

    name = "birth_death"
    has_conditional_code = True
    takes_constant_points = True
    problem = "have no probability, so they lie outside the support of"

    def check_values(self, values: Values, names: Sequence[str]) -> None:
        """Refuse counts that can make no step."""
        births, deaths = values
        if not (births.any() or deaths.any()):
            raise ValueError(
                f"The variable(s) {', '.join(names)} can make no single step up or down from any "
                "of the points: the test compares neighbouring values and has nothing to compare. "
                "Counts with a fixed total, other than a plain Multinomial or "
                "DirichletMultinomial, have to be written without one of them."
            )

    def scaled(self, points: np.ndarray, values: Values, scale: str | None) -> Points:
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
        self, points: np.ndarray, values: Values, centre: np.ndarray, spread: np.ndarray
    ) -> Points:
        """Return points of which each has a centre and a spread of its own.

        A step is short where the spread is large, and what the operator makes of a function is as
        small: rates grow with the spread, so that all points count alike, as they do with scores.
        Where the spread is below one they stay as they are, or rare events would count for nothing.
        """
        births, deaths = values
        steps = np.maximum(spread, 1.0)
        terms = {"births": steps * births, "deaths": steps * deaths, "lengths": 1 / spread}
        return Points((points - centre) / spread, terms, {"steps": np.eye(points.shape[1])})

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation, because half of all counts may be the same."""
        # One simulated value that is a step away makes the least spread that can be seen.
        return sample.mean(axis=0), np.maximum(sample.std(axis=0), 1 / np.sqrt(len(sample)))

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return dim if kernel.radial else dim**2

    def pairs(self, graph: Graph) -> Tensor:
        """Return u of n pairs, a row and a column each, shape (n,)."""
        return _terms(graph, graph.rows(*_OF_POINT), graph.columns(*_OF_POINT)).sum(axis=0)

    def block(self, graph: Graph) -> Tensor:
        """Return u of all pairs of rows and columns, shape (rows, columns)."""
        return _block_terms(graph).sum(axis=0)

    def coordinates(self, graph: Graph) -> Tensor:
        """Return the sum of each coordinate's term in u over all these pairs, shape (d,)."""
        return _block_terms(graph).sum(axis=(1, 2))

    def own_coordinates(self, graph: Graph) -> Tensor:
        """Return the sum over rows of each coordinate's term in u(x, x), shape (d,)."""
        own = graph.rows(*_OF_POINT)
        return _terms(graph, own, own).sum(axis=1)

    def witness(self, graph: Graph) -> Tensor:
        """Return the operator applied to k(·, place), summed over rows with weights."""
        places, weights = graph.matrix("places"), graph.matrix("weights")
        x, births, deaths, lengths = (array[:, None, :] for array in graph.rows(*_OF_POINT))
        here = _evaluate(graph, x, places[None, :, :])[:, :, None]
        moved = x[..., None, :] + lengths[..., None] * graph.matrix("steps")
        ahead = _evaluate(graph, moved, places[None, :, None, :])
        return pt.sum(weights[:, :, None] * (births * ahead - deaths * here), axis=0)


def _block_terms(graph: Graph) -> Tensor:
    rows = [array[:, None, :] for array in graph.rows(*_OF_POINT)]
    columns = [array[None, :, :] for array in graph.columns(*_OF_POINT)]
    return _terms(graph, rows, columns)


def _terms(graph: Graph, first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Return every coordinate's term, along the first axis, for all pairs the points broadcast to.

    Coordinates come first so that long axes are the ones that NumPy walks along.
    """
    x, y, steps = first[0], second[0], graph.matrix("steps")
    births, deaths, length = (_coordinates_first(array) for array in first[1:])
    births_y, deaths_y, length_y = (_coordinates_first(array) for array in second[1:])
    if graph.kernel.radial:
        along, along_y = (_coordinates_first(pt.dot(array, steps.T)) for array in (x, y))
        square = pt.sum(steps**2, axis=1).reshape((-1, *[1] * (x.ndim - 1)))
        squared = pt.sum((_coordinates_first(x) - _coordinates_first(y)) ** 2, axis=0)[None]

        def apart(extra: Tensor) -> Tensor:
            return graph.profile(pt.maximum(squared + extra, 0))

        taken = length - length_y
        here = graph.profile(squared)
        both = apart(taken * (2 * (along - along_y) + taken * square))
        ahead = apart(length * (2 * along + length * square) - (2 * length) * along_y)
        behind = apart(length_y * (2 * along_y + length_y * square) - (2 * length_y) * along)
    else:
        here = _evaluate(graph, x, y)[None]
        x, y = x[None], y[None]
        rows = steps.reshape((steps.shape[0], *[1] * (x.ndim - 2), steps.shape[1]))
        x_up, y_up = x + length[..., None] * rows, y + length_y[..., None] * rows
        both, ahead = _evaluate(graph, x_up, y_up), _evaluate(graph, x_up, y)
        behind = _evaluate(graph, x, y_up)
    rising = births_y * both - deaths_y * ahead
    falling = births_y * behind - deaths_y * here
    return births * rising - deaths * falling


def _coordinates_first(array: Tensor) -> Tensor:
    return pt.moveaxis(array, -1, 0)


def _evaluate(graph: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Return the kernel at all pairs of vectors that x and y broadcast to."""
    a, b = pt.dvector("a"), pt.dvector("b")
    value = graph.kernel.expression(a, b, graph.parameters)
    shape = pt.broadcast_shape(x, y)
    return vectorize_graph(value, {a: pt.broadcast_to(x, shape), b: pt.broadcast_to(y, shape)})
