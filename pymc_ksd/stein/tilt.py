r"""Tilted Stein kernels: no few points outweigh all others.

A base kernel multiplied on both sides by a weight, :math:`w(x)\, k(x, x')\, w(x')`, has the Stein
kernel :math:`w(x)\, w(x')\, u(x, x')` with the score :math:`s + \nabla \log w` in place of
:math:`s`, so its mean is zero under the same density. With a weight that falls with the log
density,

.. math::

    w = \frac{1}{1 + e^{-(\log q - c) / t}}, \qquad
    s + \nabla \log w = s \left(1 + \frac{1 - w}{t}\right),

points where the score is huge, such as those of a scale close to zero, count for little, and
nothing is needed but log density and score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt

from pymc_ksd.stein.kernels import Tensor
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.operator import Graph
from pymc_ksd.stein.points import Points

#: The centre lies below the tenth percentile of log densities, by so many times the way from there
#: to their median, which is the width, unless that is less than the second number.
_BELOW, _LEAST_WIDTH = 2.0, 0.5


class TiltedLangevin(Langevin):
    """The Langevin operator with a weight for every point."""

    name = "tilted langevin"
    scores = "tilted_scores"
    has_conditional_code = False
    tilted = True

    def pairs(self, graph: Graph) -> Tensor:
        """Return u of n pairs, a row and a column each, shape (n,)."""
        (v,), (w,) = graph.rows("tilts"), graph.columns("tilts")
        return v[:, 0] * w[:, 0] * super().pairs(graph)

    def block(self, graph: Graph) -> Tensor:
        """Return u of all pairs of rows and columns, shape (rows, columns)."""
        (v,), (w,) = graph.rows("tilts"), graph.columns("tilts")
        return pt.dot(v, w.T) * super().block(graph)


@dataclass(frozen=True)
class Tilt:
    """Where the weight of points falls with their log density, and how fast.

    Attributes
    ----------
    centre : float
        The log density at which the weight is one half.
    width : float
        How far below it the weight is small.
    """

    centre: float
    width: float

    @classmethod
    def of(cls, log_densities: np.ndarray) -> Tilt:
        """Return the tilt that almost all of these points are hardly touched by."""
        low, middle = np.quantile(log_densities, (0.1, 0.5))
        width = max(float(middle - low), _LEAST_WIDTH)
        return cls(float(low) - _BELOW * width, width)

    def weights(self, log_densities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights of points, and what their scores are multiplied by, shape (n,) each."""
        distance = np.clip((log_densities - self.centre) / self.width, -700, 700)
        weights = 1 / (1 + np.exp(-distance))
        return weights, 1 + (1 - weights) / self.width


def with_tilts(points: Points, log_densities: np.ndarray) -> Points:
    """Return points with the terms of :class:`TiltedLangevin`, from their log densities."""
    tilts, factors = Tilt.of(log_densities).weights(log_densities)
    factors = factors[:, None]
    terms = {
        "tilted_scores": points.terms["scores"] * factors,
        "tilt_factors": factors,
        "tilts": tilts[:, None],
    }
    return replace(points, terms={**points.terms, **terms})
