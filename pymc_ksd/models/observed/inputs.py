"""The numbers in a model's graph that come with every observation: its inputs, and its data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.log_density import held_value
from pymc_ksd.models.observed.fitted import FittedDensity, parameter_graphs


def inputs_of(density: FittedDensity) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Walk the numbers in a variable's graph that come with every observation.

    Parameters
    ----------
    density : FittedDensity
        The observed variable.

    Yields
    ------
    name : str
        What it is called, or its number where it has no name.
    table : ndarray of shape (n, columns)
        A row for every observation.
    labels : bool
        Whether others are indexed by it, so that it tells groups apart.
    """
    nodes = list(_numbers_behind(parameter_graphs(density.rv)))
    indices = _indices(nodes)
    columns = 0
    for node in nodes:
        value = held_value(node)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" or not value.ndim:
            continue
        table = density.places.rows(value)
        if table is not None:
            yield str(node.name or f"input {columns}"), table, node in indices
            columns += int(np.prod(table.shape[1:]))


def indexing_names(density: FittedDensity) -> set[str]:
    """Return the names of data by which others are indexed."""
    return {str(node.name) for node in _indices(_numbers_behind(parameter_graphs(density.rv)))}


def model_data(model: pm.Model, key: str) -> np.ndarray:
    """Return the data of a model that have a name, or say which there are."""
    value = held_value(model.named_vars.get(key))
    if value is not None:
        return np.asarray(value)
    known = [v.name for v in model.data_vars]
    raise ValueError(
        f"`covariates` must name data of the model ({', '.join(known) or 'it has none'}), got "
        f"{key!r}."
    )


def _numbers_behind(graphs: Iterable[TensorVariable]) -> Iterator[TensorVariable]:
    """Walk what graphs are computed from, leaving out what gives them a shape only.

    Sizes are often taken from the observations, which must not be compared by themselves.
    """

    def behind(node: TensorVariable) -> list[TensorVariable] | None:
        if node.owner is None or isinstance(node.owner.op, Shape | Shape_i):
            return None
        return node.owner.inputs[::-1]

    return walk(graphs, behind, bfs=False)


def _indices(nodes: Iterable[Any]) -> set[Any]:
    """Return what other arrays are indexed by."""
    found: set[Any] = set()
    for node in nodes:
        # One class in PyTensor 3, two in PyTensor 2.
        if node.owner is not None and type(node.owner.op).__name__.startswith("AdvancedSubtensor"):
            found |= set(ancestors(node.owner.inputs[1:]))
    return found
