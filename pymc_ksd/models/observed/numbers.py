"""Graphs of an observed variable: its parameters, the numbers behind them, and its data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.log_density import held_value
from pymc_ksd.models.observed.names import parameter_name


def parameter_graphs(
    rv: TensorVariable, others: Sequence[TensorVariable] = ()
) -> Iterator[TensorVariable]:
    """Walk the parameters of a distribution, and of those it is made of, but not of `others`."""
    return (graph for _, graph in named_parameters(rv, others))


def named_parameters(
    rv: TensorVariable, others: Sequence[TensorVariable] = ()
) -> Iterator[tuple[str, TensorVariable]]:
    """Walk the same parameters with their names."""
    node = rv.owner
    try:
        candidates = node.op.dist_params(node)
    except (AttributeError, ValueError):
        candidates = node.inputs
    for index, graph in enumerate(candidates):
        is_random = graph.owner is not None and isinstance(
            graph.owner.op, RandomVariable | SymbolicRandomVariable
        )
        if is_random and graph not in others:
            yield from named_parameters(graph, others)
        elif isinstance(graph.type, TensorType) and graph.ndim and graph.dtype != "bool":
            yield parameter_name(graph, node.op, index), graph


def numbers_behind(
    graphs: Iterable[TensorVariable], others: Sequence[TensorVariable] = ()
) -> Iterator[TensorVariable]:
    """Walk what graphs are computed from, leaving out what gives them a shape only, and `others`.

    Sizes are often taken from the observations, which must not be compared by themselves.
    """

    def behind(node: TensorVariable) -> list[TensorVariable] | None:
        if node.owner is None or node in others or isinstance(node.owner.op, Shape | Shape_i):
            return None
        return node.owner.inputs[::-1]

    return walk(graphs, behind, bfs=False)


def data_of(model: pm.Model, rv: TensorVariable) -> list[Any]:
    """Return the roots of an observed variable's values: constants, and shared data."""
    roots = [node for node in ancestors([model.rvs_to_values[rv]]) if node.owner is None]
    return [node for node in roots if np.size(held_value(node)) > 1]


def is_data(node: Any, data: Sequence[Any]) -> bool:
    """Whether a node is one of the data, or holds the same numbers in any shape."""
    if node in data:
        return True
    value = held_value(node)
    if not isinstance(value, np.ndarray) or value.size < 2:
        return False
    return any(np.array_equal(value.ravel(), np.ravel(held_value(other))) for other in data)
