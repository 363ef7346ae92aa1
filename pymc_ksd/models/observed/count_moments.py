"""Means and standard deviations of counts, for the distributions that have simple ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BetaBinomialRV,
    BinomialRV,
    CategoricalRV,
    GeometricRV,
    NegBinomialRV,
    PoissonRV,
)
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.observed.layout import Layout

#: A mean and a variance.
Moments = tuple[Any, Any]


def _negative_binomial(n: Any, p: Any) -> Moments:
    mean = n * (1 - p) / p
    return mean, mean / p


def _beta_binomial(n: Any, a: Any, b: Any) -> Moments:
    both = a + b
    return n * a / both, n * a * b * (both + n) / (both**2 * (both + 1))


def _categorical(p: Any) -> Moments:
    kinds = pt.arange(p.shape[-1])
    mean = pt.sum(kinds * p, axis=-1)
    return mean, pt.sum(kinds**2 * p, axis=-1) - mean**2


#: Mean and variance from the parameters of a distribution.
_MOMENTS: dict[type, Callable[..., Moments]] = {
    PoissonRV: lambda mu: (mu, mu),
    BernoulliRV: lambda p: (p, p * (1 - p)),
    BinomialRV: lambda n, p: (n * p, n * p * (1 - p)),
    NegBinomialRV: _negative_binomial,
    GeometricRV: lambda p: (1 / p, (1 - p) / p**2),
    BetaBinomialRV: _beta_binomial,
    CategoricalRV: _categorical,
}


def compile_count_moments(
    layout: Layout, rv: TensorVariable, shape: tuple[int, ...], given: Sequence[TensorVariable]
) -> Callable[..., tuple[np.ndarray, np.ndarray]] | None:
    """Return ``(*given)`` for means and standard deviations of every observation, shape (n, ...).

    None where they are not known.
    """
    node = rv.owner
    write = _MOMENTS.get(type(node.op))
    if write is None:
        return None
    function = compile_function(list(given), list(write(*node.op.dist_params(node))))

    def moments(*known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(part, dtype=np.float64) for part in function(*known)]
            mean, variance = (layout.to_points(np.broadcast_to(a, shape)) for a in arrays)
            return mean, np.sqrt(np.maximum(variance, 0.0))

    return moments
