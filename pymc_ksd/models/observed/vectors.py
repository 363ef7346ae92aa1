r"""A single normal or Student-t vector as a product of conditional distributions of its elements.

With :math:`L` the Cholesky factor of the covariance and :math:`w = L^{-1}(y - \mu)`, a normal
element given those before it has mean :math:`y_t - L_{tt} w_t` and standard deviation
:math:`L_{tt}`. In a Student-t vector it has :math:`\nu + t - 1` degrees of freedom and the scale
:math:`L_{tt} \sqrt{(\nu + \sum_{s<t} w_s^2) / (\nu + t - 1)}`. This is how a marginal Gaussian
process sees its data. Where its inputs are one column, elements are taken in that order, so that
those before are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.multivariate import (
    CARRV,
    KroneckerNormalRV,
    MvStudentTRV,
    PrecisionMvNormalRV,
)
from pytensor.sparse import SparseTensorType, dense_from_sparse
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.log_density import evaluate_shapes, held_value
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.observed.numbers import data_of, is_data, numbers_behind, parameter_graphs
from pymc_ksd.models.observed.part import Part, evaluated, path_places, positions_along
from pymc_ksd.models.observed.paths import LAGS, before


def vector_part(model: pm.Model, rv: TensorVariable) -> Part | None:
    """Return the elements of a vector given those before them.

    None for a distribution that is not known to factorise, and where there are as many vectors as
    elements: those are compared as they are.
    """
    (shape,) = evaluate_shapes([rv])
    found = _location_and_covariance(rv)
    if found is None or shape[-1] < 2 or np.prod(shape[:-1]) >= shape[-1]:
        return None
    mean, covariance, degrees = found
    places = path_places(model, str(rv.name), np.arange(int(np.prod(shape))).reshape(shape))
    others = [other for other in model.basic_RVs if other is not rv]
    tables = _tables(rv, places, others, data_of(model, rv))
    column = _column(tables, places)
    order = pt.arange(shape[-1]) if column is None else pt.argsort(column.ravel(), stable=True)
    back = pt.argsort(order)
    own = TensorType("float64", shape=shape)
    law, names = (pm.Normal, []) if degrees is None else (pm.StudentT, ["nu"])
    names = [*names, "mu", "sigma"]
    inputs = [own(name) for name in names]
    value = model.rvs_to_values[rv]
    graphs = _given_those_before(
        value[..., order],
        pt.broadcast_to(mean, shape)[..., order],
        covariance[..., order, :][..., :, order],
        degrees,
    )
    residual = (value[..., order] - graphs[-2]) / graphs[-1]
    return Part(
        name=str(rv.name),
        rv=law.dist(**dict(zip(names, inputs, strict=True))),
        data=evaluated(value),
        key="vector",
        axes=tuple(range(len(shape))),
        inputs=inputs,
        graphs=[pt.broadcast_to(graph, shape)[..., back].astype("float64") for graph in graphs],
        past=[before(residual, count)[..., back] for count in LAGS],
        searched=(rv,),
        along=[] if tables else positions_along(places),
        places=places,
    )


def _location_and_covariance(
    rv: TensorVariable,
) -> tuple[TensorVariable, TensorVariable, TensorVariable | None] | None:
    """Return mean, covariance (or scale) and degrees of freedom, None for other distributions."""
    node = rv.owner
    op = node.op
    if isinstance(op, MvStudentTRV):
        degrees, mean, scale = op.dist_params(node)
        return mean, scale, degrees
    if isinstance(op, MvNormalRV):
        mean, covariance = op.dist_params(node)
    elif isinstance(op, PrecisionMvNormalRV):
        mean, precision = op.dist_params(node)
        covariance = pt.linalg.inv(precision)
    elif isinstance(op, KroneckerNormalRV):
        mean, sigma, *parts = op.dist_params(node)
        covariance = reduce(pt.linalg.kron, parts)
        covariance = covariance + sigma**2 * pt.eye(covariance.shape[-1])
    elif isinstance(op, CARRV):
        mean, weights, alpha, tau = op.dist_params(node)[:4]
        if isinstance(weights.type, SparseTensorType):
            weights = dense_from_sparse(weights)
        precision = tau * (pt.diag(weights.sum(axis=-1)) - alpha * weights)
        covariance = pt.linalg.inv(precision)
    else:
        return None
    return mean, covariance, None


def _given_those_before(
    value: TensorVariable,
    mean: TensorVariable,
    covariance: TensorVariable,
    degrees: TensorVariable | None,
) -> list[TensorVariable]:
    """Return mean and scale of every element given those before it; first, degrees of freedom."""
    factor = pt.linalg.cholesky(covariance, lower=True)
    diagonal = pt.diagonal(factor, axis1=-2, axis2=-1)
    difference = (value - mean)[..., None]
    white = pt.linalg.solve_triangular(factor, difference, lower=True, b_ndim=2)[..., 0]
    conditional = value - diagonal * white
    if degrees is None:
        return [conditional, diagonal]
    known = degrees[..., None] + pt.arange(value.shape[-1])
    squares = before(pt.cumsum(white**2, axis=-1))
    scale = diagonal * pt.sqrt((degrees[..., None] + squares) / known)
    return [known, conditional, scale]


def _tables(
    rv: TensorVariable, places: Places, others: Sequence[TensorVariable], data: Sequence[Any]
) -> list[TensorVariable]:
    """Return the numbers in a vector's graph, but its `data`, that have a row for each element."""
    found = []
    for node in numbers_behind(parameter_graphs(rv, others), others):
        array = held_value(node)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or not array.ndim:
            continue
        # A matrix of distances or neighbours is no input.
        square = array.ndim > 1 and array.shape[-1] == array.shape[-2] == places.shape[-1]
        table = None if square else places.rows(array)
        if table is not None and not is_data(node, data) and (np.ptp(table, axis=0) > 0).any():
            found.append(node)
    return found


def _column(tables: Sequence[TensorVariable], places: Places) -> TensorVariable | None:
    """Return the only input, if it is a single column for the elements of a vector."""
    columns = [table for table in tables if held_value(table).size == places.shape[-1]]
    different = {held_value(column).astype(float).tobytes() for column in columns}
    # The same numbers may stand in a graph as a row, and as a column.
    return columns[0] if len(different) == 1 and len(columns) == len(tables) else None
