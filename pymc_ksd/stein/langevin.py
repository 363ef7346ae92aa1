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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.stein.kernels import Expressions, Kernel, SumKernel
from pymc_ksd.stein.operator import BlockGraph, Graphs, SteinOperator
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.scaling import Scaling

__all__ = ["CENTRAL", "Langevin"]

#: Shares below the central 68 %, below the median, and below the upper end of the 68 %.
CENTRAL = (0.16, 0.5, 0.84)


class Langevin(SteinOperator):
    """The operator of densities with a gradient: takes the score of every point."""

    name = "langevin"
    terms = ("scores",)
    coordinate_terms = ("standard_scores",)
    coordinate_constants = ("mixing",)
    has_machine_code = True
    problem = "have no finite score, so they may lie outside the support of"

    def scaled(self, points: np.ndarray, values: Sequence[np.ndarray], scale: str | None) -> Points:
        """Centre points and scale them and their scores."""
        return self.apply(Scaling.of_points(points, scale), points, values)

    def apply(self, scaling: Scaling, points: np.ndarray, values: Sequence[np.ndarray]) -> Points:
        """Scale points and their scores in a way that is known already."""
        scores, standard = scaling.scores(values[0])
        return Points(
            scaling.positions(points),
            {"scores": scores},
            coordinate_terms={"standard_scores": standard},
            coordinate_constants={"mixing": scaling.mixing},
        )

    def standardised(
        self,
        points: np.ndarray,
        values: Sequence[np.ndarray],
        centre: np.ndarray,
        spread: np.ndarray,
    ) -> Points:
        """Return points of which each has a centre and a spread of its own."""
        scores = values[0] * spread
        return Points(
            (points - centre) / spread,
            {"scores": scores},
            coordinate_terms={"standard_scores": scores},
            coordinate_constants={"mixing": np.eye(points.shape[1])},
        )

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the median, and half the width of the central 68 %, which tails do not move."""
        ranks = [round(share * (len(sample) - 1)) for share in CENTRAL]
        low, middle, high = np.partition(sample, ranks, axis=0)[ranks]
        with np.errstate(invalid="ignore"):
            return middle, np.abs(high - low) / 2

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return 1 if kernel.radial else dim**2

    def pairs(
        self, kernel: Kernel, first: Graphs, second: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return u of n pairs of points, shape (n,)."""
        x, s, y, t = first["positions"], first["scores"], second["positions"], second["scores"]
        if not kernel.radial:
            return _general_stein(kernel, x, s, y, t, parameters).total
        difference = x - y
        squared = pt.sum(difference**2, axis=-1)
        cross = pt.sum(difference * (t - s), axis=-1)
        derivatives = kernel.profile_derivatives(squared, parameters)
        return _radial_stein(derivatives, squared, pt.sum(s * t, axis=-1), cross, x.shape[1])

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
        x, s, y, t = rows["positions"], rows["scores"], columns["positions"], columns["scores"]
        terms = _block_stein(kernel, x, s, y, t, parameters)
        if not coordinates:
            return BlockGraph(terms.total)
        own = rows["standard_scores"], columns["standard_scores"], once["mixing"]
        return BlockGraph(terms.total, terms.coordinate_sums(*own))

    def own_coordinates(
        self, kernel: Kernel, points: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return the sum over points of each coordinate's term in u(x, x), shape (d,)."""
        x, s, mixing = points["positions"], points["standard_scores"], once["mixing"]
        if not kernel.radial:
            terms = _general_stein(kernel, x, s, x, s, parameters)
            return terms.coordinate_terms(s, s, mixing).sum(axis=0)
        value, first, _ = kernel.profile_derivatives(pt.zeros((1,)), parameters)
        metric = pt.sum(mixing**2, axis=0)
        return value * pt.sum(s**2, axis=0) - 2 * first * x.shape[0] * metric

    def witness(
        self,
        kernel: Kernel,
        points: Graphs,
        places: TensorVariable,
        weights: TensorVariable,
        once: Graphs,
        parameters: Expressions,
    ) -> TensorVariable:
        r"""Return the sum over points of :math:`w (s\, k(x, y) + \nabla_x k(x, y))` at places y."""
        x, s = points["positions"], points["scores"]
        value, gradient, _, _ = _full_derivatives(
            kernel, x[:, None, :], places[None, :, :], parameters
        )
        terms = s[:, None, :] * value[:, :, None] + gradient
        return pt.sum(weights[:, :, None] * terms, axis=0)


def _radial_stein(
    derivatives: tuple[TensorVariable, TensorVariable, TensorVariable],
    squared: TensorVariable,
    scores_product: TensorVariable,
    cross: TensorVariable,
    dim: TensorVariable,
) -> TensorVariable:
    value, first, second = derivatives
    return value * scores_product + (2 * first) * (cross - dim) - (4 * second) * squared


@dataclass(frozen=True)
class _RadialTerms:
    """A block of the Stein kernel of a radial kernel, and what its coordinates are made of."""

    total: TensorVariable
    derivatives: tuple[TensorVariable, TensorVariable, TensorVariable]
    x: TensorVariable
    y: TensorVariable

    def coordinate_sums(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        value, first, second = self.derivatives
        x, y = pt.dot(self.x, mixing), pt.dot(self.y, mixing)
        metric = pt.sum(mixing**2, axis=0)
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


def _block_stein(
    kernel: Kernel,
    x: TensorVariable,
    s: TensorVariable,
    y: TensorVariable,
    t: TensorVariable,
    parameters: Expressions,
) -> _RadialTerms | _GeneralTerms:
    """Return the Stein kernel of all pairs of rows and columns."""
    if not kernel.radial:
        return _general_stein(
            kernel, x[:, None, :], s[:, None, :], y[None, :, :], t[None, :, :], parameters
        )
    squared = pt.sum(x**2, axis=1)[:, None] + pt.sum(y**2, axis=1)[None, :] - 2 * pt.dot(x, y.T)
    squared = pt.maximum(squared, 0)
    cross = (
        pt.dot(pt.concatenate([x, s], axis=1), pt.concatenate([t, y], axis=1).T)
        - pt.sum(x * s, axis=1)[:, None]
        - pt.sum(y * t, axis=1)[None, :]
    )
    derivatives = kernel.profile_derivatives(squared, parameters)
    total = _radial_stein(derivatives, squared, pt.dot(s, t.T), cross, x.shape[1])
    return _RadialTerms(total, derivatives, x, y)


@dataclass(frozen=True)
class _GeneralTerms:
    """The Stein kernel of a general kernel, from the kernel and its derivatives at every pair."""

    total: TensorVariable
    value: TensorVariable
    gradient_x: TensorVariable
    gradient_y: TensorVariable
    mixed: TensorVariable

    def coordinate_terms(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        mixed = pt.sum(mixing * pt.dot(self.mixed, mixing), axis=-2)
        return (
            s * t * self.value[..., None]
            + s * pt.dot(self.gradient_y, mixing)
            + t * pt.dot(self.gradient_x, mixing)
            + mixed
        )

    def coordinate_sums(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        return self.coordinate_terms(s[:, None, :], t[None, :, :], mixing).sum(axis=(0, 1))


def _general_stein(
    kernel: Kernel,
    x: TensorVariable,
    s: TensorVariable,
    y: TensorVariable,
    t: TensorVariable,
    parameters: Expressions,
) -> _GeneralTerms:
    """Differentiate the kernel of two vectors in full, for all pairs that x and y broadcast to."""
    value, gradient_x, gradient_y, mixed = _full_derivatives(kernel, x, y, parameters)
    total = (
        value * pt.sum(s * t, axis=-1)
        + pt.sum(s * gradient_y + t * gradient_x, axis=-1)
        + pt.diagonal(mixed, axis1=-2, axis2=-1).sum(axis=-1)
    )
    return _GeneralTerms(total, value, gradient_x, gradient_y, mixed)


def _full_derivatives(
    kernel: Kernel, x: TensorVariable, y: TensorVariable, parameters: Expressions
) -> list[TensorVariable]:
    """Return the kernel, its two gradients and its mixed second derivatives at every pair."""
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
        mixed = -2 * first[..., None, None] * pt.eye(x.shape[-1]) - 4 * (
            second[..., None, None] * outer
        )
        return [value, pull, -pull, mixed]
    a, b, direction = pt.dvector("a"), pt.dvector("b"), pt.dvector("direction")
    value = kernel.expression(a, b, parameters)
    gradient_a, gradient_b = pt.grad(value, [a, b], disconnected_inputs="ignore")
    row = pt.grad(pt.dot(gradient_a, direction), b, disconnected_inputs="ignore")
    mixed = vectorize_graph(row, {direction: pt.eye(x.shape[-1])})
    shape = pt.broadcast_shape(x, y)
    full_x, full_y = pt.broadcast_to(x, shape), pt.broadcast_to(y, shape)
    return vectorize_graph([value, gradient_a, gradient_b, mixed], {a: full_x, b: full_y})
