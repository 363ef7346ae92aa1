r"""The Langevin Stein operator of a density with a gradient, and its Stein kernel as graphs.

For the score :math:`s = \nabla \log q` the Stein kernel is a sum over coordinates,

.. math::

    u(x, x') = \sum_\ell s_\ell s'_\ell k + s_\ell \partial_{x'_\ell} k
               + s'_\ell \partial_{x_\ell} k + \partial_{x_\ell} \partial_{x'_\ell} k .

With a radial kernel :math:`k = \varphi(r^2)` it becomes

.. math::

    u = \varphi\, s \cdot s' + 2 \varphi' \left[(x - x') \cdot (s' - s) - d\right]
        - 4 \varphi'' r^2 ,

which needs three matrix products and one elementwise pass for a block of pairs. Any other kernel is
differentiated in full.

Contributions of single coordinates are measured in units of standard deviations, :math:`y`, while
the kernel may compare points in other coordinates :math:`z = M y`, M being called ``mixing``.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from pymc_ksd.stein.kernels import Derivatives, Kernel, SumKernel, Tensor, Tensors
from pymc_ksd.stein.operator import Graph, SteinOperator, Values
from pymc_ksd.stein.points import Points, Scaling

#: Shares below the central 68 %, below the median, and below the upper end of the 68 %.
CENTRAL = (0.16, 0.5, 0.84)
#: Scores of this size are as good as infinite: sums of their products are too large for numbers.
_LARGEST_SCORE = 1e140
#: What is taken of every point for the terms of single coordinates.
_OF_COORDINATE = ("positions", "standard_scores")


class Langevin(SteinOperator):
    """The operator of densities with a gradient: takes the score of every point."""

    name = "langevin"
    has_machine_code = True
    has_conditional_code = True
    #: What the scores of points are called.
    scores = "scores"
    problem = (
        "have no finite score, or one whose square overflows, so they may lie outside the support "
        "of"
    )

    def unusable(self, values: Values) -> np.ndarray:
        """Tell at which points and coordinates the score is not finite, or overflows."""
        return ~(np.abs(values[0]) < _LARGEST_SCORE)

    def scaled(self, points: np.ndarray, values: Values, scale: str | None) -> Points:
        """Centre points and scale them and their scores."""
        if scale == "stein":
            return self.apply(Scaling.of_scores(points, values[0]), points, values)
        return self.apply(Scaling.of_points(points, scale), points, values)

    def apply(self, scaling: Scaling, points: np.ndarray, values: Values) -> Points:
        """Scale points and their scores in a way that is known already."""
        scores, standard = scaling.scores(values[0])
        terms = {"scores": scores, "standard_scores": standard}
        return Points(scaling.positions(points), terms, {"mixing": scaling.mixing})

    def standardised(
        self, points: np.ndarray, values: Values, centre: np.ndarray, spread: np.ndarray
    ) -> Points:
        """Return points of which each has a centre and a spread of its own."""
        scores, mixing = values[0] * spread, np.eye(points.shape[1])
        terms = {"scores": scores, "standard_scores": scores}
        return Points((points - centre) / spread, terms, {"mixing": mixing})

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the median, and half the width of the central 68 %, which tails do not move."""
        ranks = [round(share * (len(sample) - 1)) for share in CENTRAL]
        low, middle, high = np.partition(sample, ranks, axis=0)[ranks]
        with np.errstate(invalid="ignore"):
            return middle, np.abs(high - low) / 2

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return 1 if kernel.radial else dim**2

    def pairs(self, graph: Graph) -> Tensor:
        """Return u of n pairs, a row and a column each, shape (n,)."""
        (x, s), (y, t) = self._sides(graph)
        if not graph.kernel.radial:
            return _general_stein(_general_derivatives(graph, x, y), s, t)
        difference = x - y
        squared = pt.sum(difference**2, axis=-1)
        cross = pt.sum(difference * (t - s), axis=-1) - x.shape[1]
        derivatives = graph.profile_derivatives(squared)
        return _radial_stein(derivatives, squared, pt.sum(s * t, axis=-1), cross)

    def block(self, graph: Graph) -> Tensor:
        """Return u of all pairs of rows and columns, shape (rows, columns)."""
        (x, s), (y, t) = self._sides(graph)
        if not graph.kernel.radial:
            general = _general_derivatives(graph, x[:, None, :], y[None, :, :])
            return _general_stein(general, s[:, None, :], t[None, :, :])
        squared = _squared_distances(x, y)
        cross = (
            pt.dot(pt.concatenate([x, s], axis=1), pt.concatenate([t, y], axis=1).T)
            - pt.sum(x * s, axis=1)[:, None]
            - pt.sum(y * t, axis=1)[None, :]
        ) - x.shape[1]
        derivatives = graph.profile_derivatives(squared)
        return _radial_stein(derivatives, squared, pt.dot(s, t.T), cross)

    def coordinates(self, graph: Graph) -> Tensor:
        """Return the sum of each coordinate's term in u over all these pairs, shape (d,).

        What it has in common with the block itself is evaluated once, as PyTensor merges graphs.
        """
        (x, s), (y, t) = graph.rows(*_OF_COORDINATE), graph.columns(*_OF_COORDINATE)
        mixing = graph.matrix("mixing")
        if not graph.kernel.radial:
            general = _general_derivatives(graph, x[:, None, :], y[None, :, :])
            return _general_terms(general, s[:, None, :], t[None, :, :], mixing).sum(axis=(0, 1))
        value, first, second = graph.profile_derivatives(_squared_distances(x, y))
        x, y, metric = pt.dot(x, mixing), pt.dot(y, mixing), pt.sum(mixing**2, axis=0)
        rows, columns = first.sum(axis=1), first.sum(axis=0)
        cross = (
            pt.sum(x * pt.dot(first, t) + s * pt.dot(first, y), axis=0)
            - pt.dot(rows, x * s)
            - pt.dot(columns, y * t)
            - rows.sum() * metric
        )
        squares = (
            pt.dot(second.sum(axis=1), x**2)
            + pt.dot(second.sum(axis=0), y**2)
            - 2 * pt.sum(x * pt.dot(second, y), axis=0)
        )
        return pt.sum(s * pt.dot(value, t), axis=0) + 2 * cross - 4 * squares

    def own_coordinates(self, graph: Graph) -> Tensor:
        """Return the sum over rows of each coordinate's term in u(x, x), shape (d,)."""
        (x, s), mixing = graph.rows(*_OF_COORDINATE), graph.matrix("mixing")
        if not graph.kernel.radial:
            return _general_terms(_general_derivatives(graph, x, x), s, s, mixing).sum(axis=0)
        value, first, _ = graph.profile_derivatives(pt.zeros((1,)))
        metric = pt.sum(mixing**2, axis=0)
        return value * pt.sum(s**2, axis=0) - 2 * first * x.shape[0] * metric

    def witness(self, graph: Graph) -> Tensor:
        r"""Return the sum over rows of :math:`w (s\, k(x, y) + \nabla_x k(x, y))` at places y."""
        (x, s), places = graph.rows("positions", self.scores), graph.matrix("places")
        value, gradient, *_ = _general_derivatives(graph, x[:, None, :], places[None, :, :])
        terms = s[:, None, :] * value[:, :, None] + gradient
        return pt.sum(graph.matrix("weights")[:, :, None] * terms, axis=0)

    def _sides(self, graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
        names = ("positions", self.scores)
        return graph.rows(*names), graph.columns(*names)


def _squared_distances(x: Tensor, y: Tensor) -> Tensor:
    norms = pt.sum(x**2, axis=1)[:, None] + pt.sum(y**2, axis=1)[None, :]
    return pt.maximum(norms - 2 * pt.dot(x, y.T), 0)


def _radial_stein(
    derivatives: Derivatives, squared: Tensor, scores_product: Tensor, cross: Tensor
) -> Tensor:
    value, first, second = derivatives
    return value * scores_product + (2 * first) * cross - (4 * second) * squared


def _general_stein(derivatives: Tensors, s: Tensor, t: Tensor) -> Tensor:
    value, gradient_x, gradient_y, mixed = derivatives
    return (
        value * pt.sum(s * t, axis=-1)
        + pt.sum(s * gradient_y + t * gradient_x, axis=-1)
        + pt.diagonal(mixed, axis1=-2, axis2=-1).sum(axis=-1)
    )


def _general_terms(derivatives: Tensors, s: Tensor, t: Tensor, mixing: Tensor) -> Tensor:
    """Return each coordinate's term at every pair."""
    value, gradient_x, gradient_y, mixed = derivatives
    return (
        s * t * value[..., None]
        + s * pt.dot(gradient_y, mixing)
        + t * pt.dot(gradient_x, mixing)
        + pt.sum(mixing * pt.dot(mixed, mixing), axis=-2)
    )


def _general_derivatives(graph: Graph, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the kernel, its two gradients and its mixed second derivatives at every pair."""
    return _full_derivatives(graph.kernel, x, y, graph.parameters)


def _full_derivatives(kernel: Kernel, x: Tensor, y: Tensor, parameters: Tensors) -> list[Tensor]:
    if isinstance(kernel, SumKernel):
        terms = [
            [weight * part for part in _full_derivatives(term, x, y, inner)]
            for weight, term, inner in kernel.split(parameters)
        ]
        return [sum(parts) for parts in zip(*terms, strict=True)]
    if kernel.radial:
        difference = x - y
        squared = pt.sum(difference**2, axis=-1)
        value, first, second = kernel.profile_derivatives(squared, parameters)
        pull = 2 * first[..., None] * difference
        outer = difference[..., :, None] * difference[..., None, :]
        first, second = first[..., None, None], second[..., None, None]
        return [value, pull, -pull, -2 * first * pt.eye(x.shape[-1]) - 4 * (second * outer)]
    a, b, direction = pt.dvector("a"), pt.dvector("b"), pt.dvector("direction")
    value = kernel.expression(a, b, parameters)
    gradient_a, gradient_b = kernel.gradient(value, [a, b])
    row = kernel.gradient(pt.dot(gradient_a, direction), b)
    mixed = vectorize_graph(row, {direction: pt.eye(x.shape[-1])})
    shape = pt.broadcast_shape(x, y)
    full = {a: pt.broadcast_to(x, shape), b: pt.broadcast_to(y, shape)}
    return vectorize_graph([value, gradient_a, gradient_b, mixed], full)
