r"""Discrete variables: coordinates that move by whole steps, and the rates of these steps.

For a probability :math:`p` on a lattice the birth–death operator takes the place of the score. In
every coordinate,

.. math::

    (\mathcal{A} f)(y) = b(y)\, f(y + 1) - d(y)\, f(y), \qquad
    b(y) = 1\{p(y + 1) > 0\}, \quad d(y) = \frac{p(y - 1)}{p(y)},

has mean zero under :math:`p` for every bounded :math:`f`. Only ratios of probabilities are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.logprob.transforms import Transform
from pytensor.tensor.random.basic import MultinomialRV
from pytensor.tensor.variable import TensorVariable

__all__ = ["check_whole", "is_discrete", "lattice_transform", "step_rates"]


class LastCountTransform(Transform):
    """Leave the last of several counts with a known total out: the others move freely."""

    name = "last_count"
    ndim_supp = 1

    def forward(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Drop the last count."""
        return value[..., :-1]

    def backward(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Put the last count back."""
        total = pt.as_tensor_variable(inputs[-2])
        last = (total - value.sum(axis=-1))[..., None]
        return pt.concatenate([value, last.astype(value.dtype)], axis=-1)

    def log_jac_det(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Return zeros: probabilities, not densities, are carried over."""
        return pt.zeros(value.shape[:-1])


def is_discrete(rv: TensorVariable) -> bool:
    """Whether a variable takes whole numbers."""
    return np.dtype(rv.dtype).kind in "iub"


def lattice_transform(rv: TensorVariable) -> Transform | None:
    """Return the way to coordinates that can move one at a time, where there is need of one."""
    if isinstance(rv.owner.op, MultinomialRV | DirichletMultinomialRV):
        return LastCountTransform()
    return None


def check_whole(name: str, values: np.ndarray) -> None:
    """Refuse values of a discrete variable that are not whole numbers."""
    broken = values != np.round(values)
    if broken.any():
        rows = np.flatnonzero(broken.reshape(len(values), -1).any(axis=1))
        raise ValueError(
            f"`data` for {name!r} must be whole numbers, but {len(rows)} of {len(values)} points "
            f"are not, first in row {rows[0]}."
        )


def step_rates(
    log_probability: Callable[[np.ndarray], np.ndarray], points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates b and d of every coordinate, NaN where a point has no probability.

    Parameters
    ----------
    log_probability : callable
        Maps points of shape (n, d) to n logarithms of probabilities.
    points : ndarray of shape (n, d)
        Points on the lattice.

    Returns
    -------
    births, deaths : ndarray of shape (n, d)
    """
    births, deaths = np.empty(points.shape), np.empty(points.shape)
    here = log_probability(points)
    here = np.where(np.isfinite(here), here, np.nan)
    for coordinate in range(points.shape[1]):
        step = np.zeros(points.shape[1])
        step[coordinate] = 1.0
        above, below = log_probability(points + step), log_probability(points - step)
        births[:, coordinate] = np.where(np.isnan(here), np.nan, above > -np.inf)
        deaths[:, coordinate] = np.exp(below - here)
    return births, deaths
