r"""Discrete variables: coordinates that move by whole steps, and the rates of these steps.

For a probability :math:`p` on a lattice the birth–death operator takes the place of the score. In
every coordinate,

.. math::

    (\mathcal{A} f)(y) = b(y)\, f(y + 1) - d(y)\, f(y), \qquad
    b(y) = \frac{p(y + 1)}{p(y) + p(y + 1)}, \quad d(y) = \frac{p(y - 1)}{p(y) + p(y - 1)},

has mean zero under :math:`p` for every bounded :math:`f`, because
:math:`p(y)\, b(y) = p(y + 1)\, d(y + 1)`. Only ratios of probabilities are needed, and the rates
stay between 0 and 1 however unlikely a value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.logprob.transforms import Transform
from pytensor.compile.ops import ViewOp
from pytensor.scalar import Exp, Sub
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV, MultinomialRV
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable


class OtherCountsTransform(Transform):
    """Leave one of several counts with a known total out: the others move freely.

    Every step of another kind takes one item from the kind that is left out. It is the one that is
    most likely on average, because a rare one could not give items to the others.

    Parameters
    ----------
    shares : array_like, optional
        How likely or frequent kinds are, along the last axis; by default the distribution's own
        parameters, whatever they are when it is evaluated.
    """

    name = "other_counts"
    ndim_supp = 1

    def __init__(self, shares: Any = None) -> None:
        self._shares = shares

    def _order(self, inputs: Any) -> TensorVariable:
        """Return the kinds with the one last that is left out."""
        shares = pt.as_tensor_variable(inputs[-1] if self._shares is None else self._shares)
        shares = shares / shares.sum(axis=-1, keepdims=True)
        kinds = shares.shape[-1]
        reference = pt.argmax(shares.reshape((-1, kinds)).mean(axis=0))
        numbers = pt.arange(kinds)
        return pt.argsort(numbers + kinds * pt.eq(numbers, reference))

    def forward(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Drop the reference kind's count."""
        return value[..., self._order(inputs)[:-1]]

    def backward(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Put it back."""
        total = pt.as_tensor_variable(inputs[-2])
        rest = (total - value.sum(axis=-1))[..., None]
        whole = pt.concatenate([value, rest.astype(value.dtype)], axis=-1)
        return whole[..., pt.argsort(self._order(inputs))]

    def log_jac_det(self, value: TensorVariable, *inputs: Any) -> TensorVariable:
        """Return zeros: probabilities, not densities, are carried over."""
        return pt.zeros(value.shape[:-1])


def is_discrete(rv: TensorVariable) -> bool:
    """Whether a variable takes whole numbers."""
    return np.dtype(rv.dtype).kind in "iub"


def kind_of_outcome(rv: TensorVariable) -> str:
    """Return whether a variable is "continuous", a "count", "binary" or a "category"."""
    op = rv.owner.op
    if isinstance(op, CategoricalRV | MultinomialRV | DirichletMultinomialRV):
        return "category"
    if isinstance(op, BernoulliRV) or np.dtype(rv.dtype).kind == "b":
        return "binary"
    return "count" if is_discrete(rv) else "continuous"


def is_nominal(rv: TensorVariable) -> bool:
    """Whether a variable is one of several categories that have no order.

    Those of PyMC's ordered models have: their probabilities are differences of cumulative ones, of
    OrderedLogistic directly and of OrderedProbit on a logarithmic scale.
    """
    if not isinstance(rv.owner.op, CategoricalRV):
        return False
    node = rv.owner.inputs[-1].owner
    while node is not None and isinstance(node.op, ViewOp | DimShuffle):
        node = node.inputs[0].owner
    if node is None or not isinstance(node.op, Elemwise):
        return True
    behind = [own.owner for own in node.inputs]
    ops = [None if own is None else own.op for own in behind]
    if isinstance(node.op.scalar_op, Exp):
        return not isinstance(ops[0], Join)
    is_difference = isinstance(node.op.scalar_op, Sub)
    is_difference = is_difference and all(isinstance(op, Subtensor) for op in ops)
    return not (is_difference and behind[0].inputs[0] is behind[1].inputs[0])


def lattice_transform(rv: TensorVariable, observed: np.ndarray | None = None) -> Transform | None:
    """Return the way to coordinates that can move one at a time, where there is need of one.

    Counts with a known total have one coordinate less than kinds: without the one that is most
    likely, or most frequent in `observed` values, which are the same whatever the parameters.
    """
    if not isinstance(rv.owner.op, MultinomialRV | DirichletMultinomialRV):
        return None
    return OtherCountsTransform(None if observed is None else np.asarray(observed, np.float64))


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
    """Return the rates b and d of every coordinate, NaN where the point itself is impossible.

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
    from scipy.special import expit  # slow to import

    births, deaths = np.empty(points.shape), np.empty(points.shape)
    here = log_probability(points)
    here = np.where(np.isfinite(here), here, np.nan)
    for coordinate in range(points.shape[1]):
        step = np.zeros(points.shape[1])
        step[coordinate] = 1.0
        births[:, coordinate] = expit(log_probability(points + step) - here)
        deaths[:, coordinate] = expit(log_probability(points - step) - here)
    return births, deaths


def operator_values(
    operator: str,
    log_density: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]],
    points: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return what a Stein operator takes: scores, or the rates of steps up and down."""
    if operator == "birth_death":
        return step_rates(lambda moved: log_density(moved)[0], points)
    return (np.asarray(log_density(points)[1]),)


def dtype_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest value that a number type can hold: 0 and 1 for booleans."""
    kind = np.dtype(dtype)
    return (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
