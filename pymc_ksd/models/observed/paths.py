r"""Paths in time as a product of one-step distributions, each given the values before it.

.. math::

    p(y_{1:T} \mid \theta) = p(y_{1:p} \mid \theta) \prod_{t > p} p(y_t \mid y_{1:t-1}, \theta).

The first values, whose distribution (``init_dist``) has nothing to do with that of the steps, are
what the others are given. Where a path is a function of independent innovations, comparing the
steps with those replicated given the same past is comparing the innovations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.timeseries import (
    GARCH11RV,
    AutoRegressiveRV,
    EulerMaruyamaRV,
    RandomWalkRV,
)
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.log_density import evaluate_shapes
from pymc_ksd.models.observed.part import Part, evaluated, path_places, positions_along

#: How many steps back the past is compared by.
LAGS = (1, 2)


@dataclass(frozen=True)
class _Steps:
    """Steps of a path that are normal given the past: mean, scale and value, along the last axis.

    Attributes
    ----------
    mean, scale, value : TensorVariable
        Of every step.
    first : int
        How many values at the beginning are no steps.
    """

    mean: TensorVariable
    scale: TensorVariable
    value: TensorVariable
    first: int


def path_part(model: pm.Model, rv: TensorVariable) -> Part | None:
    """Return a path's steps, None for a variable that is no path."""
    op, value = rv.owner.op, model.rvs_to_values[rv]
    if isinstance(op, RandomWalkRV):
        return _walk(model, rv, value)
    for kind, steps in _STEPS.items():
        if isinstance(op, kind):
            return _normal_steps(model, rv, steps(rv, value))
    return None


def _walk(model: pm.Model, rv: TensorVariable, value: TensorVariable) -> Part:
    """Return the innovations of a random walk, which may have any distribution."""
    innovation = rv.owner.inputs[1]
    core = innovation.owner.op.ndim_supp
    steps = pt.moveaxis(pt.diff(value, axis=-1 - core), -1 - core, 0)
    (shape,) = evaluate_shapes([innovation])
    lengths = shape[: len(shape) - core]
    numbers = np.moveaxis(np.arange(int(np.prod(lengths))).reshape(lengths), 0, -1)
    places = path_places(model, str(rv.name), _after(numbers, 1))
    return Part(
        name=str(rv.name),
        rv=innovation,
        data=evaluated(steps),
        key="path",
        axes=tuple(range(len(lengths))),
        past=[_rows_before(steps, count) for count in LAGS],
        searched=(rv,),
        along=positions_along(places, "time"),
        places=places,
        quantity=f"change of {rv.name}",
    )


def _normal_steps(model: pm.Model, rv: TensorVariable, steps: _Steps) -> Part:
    """Return steps that are normal given the past."""
    (shape,) = evaluate_shapes([rv])
    length = (*shape[:-1], shape[-1] - steps.first)
    numbers = np.arange(int(np.prod(length))).reshape(length)
    places = path_places(model, str(rv.name), _after(numbers, steps.first))
    own = TensorType("float64", shape=length)
    inputs = [own("mu"), own("sigma")]
    graphs = [pt.broadcast_to(graph, length) for graph in (steps.mean, steps.scale)]
    return Part(
        name=str(rv.name),
        rv=pm.Normal.dist(*inputs),
        data=evaluated(steps.value),
        key="path",
        axes=tuple(range(len(length))),
        inputs=inputs,
        graphs=[graph.astype("float64") for graph in graphs],
        past=[before((steps.value - steps.mean) / steps.scale, count) for count in LAGS],
        searched=(rv,),
        along=positions_along(places, "time"),
        places=places,
    )


def _after(numbers: np.ndarray, first: int) -> np.ndarray:
    """Return the numbers of values along the last axis, of which the first ones have none."""
    return np.pad(numbers, [*[(0, 0)] * (numbers.ndim - 1), (first, 0)], constant_values=-1)


def _rows_before(values: TensorVariable, steps: int) -> TensorVariable:
    """Return the row some steps before each one, zeros before the first."""
    return pt.concatenate([pt.zeros_like(values[:steps]), values[:-steps]], axis=0)


def before(values: TensorVariable, steps: int = 1) -> TensorVariable:
    """Return the value some steps before each one along the last axis, zero before the first."""
    first = pt.zeros_like(values[..., :steps])
    return pt.concatenate([first, values[..., :-steps]], axis=-1)


def _autoregression(rv: TensorVariable, value: TensorVariable) -> _Steps:
    op = rv.owner.op
    rho, sigma = rv.owner.inputs[:2]
    order, constant = op.ar_order, int(op.constant_term)
    terms = [
        rho[..., lag - 1 + constant, None] * value[..., order - lag : -lag]
        for lag in range(1, order + 1)
    ]
    mean = sum(terms, rho[..., 0, None] if constant else pt.zeros(()))
    return _Steps(mean, pt.as_tensor(sigma)[..., None], value[..., order:], order)


def _garch(rv: TensorVariable, value: TensorVariable) -> _Steps:
    omega, alpha, beta, initial = rv.owner.inputs[:4]
    by_time = pt.moveaxis(value, -1, 0)
    start = (initial * pt.ones_like(by_time[0])).astype("float64")

    def variance(
        step: TensorVariable,
        before: TensorVariable,
        omega: TensorVariable,
        alpha: TensorVariable,
        beta: TensorVariable,
    ) -> TensorVariable:
        return (omega + alpha * step**2 + beta * before).astype("float64")

    later = pytensor.scan(
        variance,
        sequences=[by_time[:-1]],
        outputs_info=[start**2],
        non_sequences=[omega, alpha, beta],
        strict=True,
        return_updates=False,
    )
    scale = pt.moveaxis(pt.sqrt(pt.concatenate([start[None] ** 2, later])), 0, -1)
    return _Steps(pt.zeros_like(value), scale, value, 0)


def _diffusion(rv: TensorVariable, value: TensorVariable) -> _Steps:
    op = rv.owner.op
    previous = value[..., :-1]
    parameters = [parameter[..., None] for parameter in rv.owner.inputs[2:-1]]
    drift, scale = op.sde_fn(previous, *parameters)
    return _Steps(previous + op.dt * drift, pt.sqrt(op.dt) * scale, value[..., 1:], 1)


#: How each path is made of steps, by the type of its operation.
_STEPS: dict[type, Callable[[TensorVariable, TensorVariable], _Steps]] = {
    AutoRegressiveRV: _autoregression,
    GARCH11RV: _garch,
    EulerMaruyamaRV: _diffusion,
}
