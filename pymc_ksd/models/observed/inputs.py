"""The numbers in a model's graph that come with every observation: its inputs, and its data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_ksd.models.log_density import held_value
from pymc_ksd.models.observed.fitted import FittedDensity, observed_variables
from pymc_ksd.models.observed.names import InputNames
from pymc_ksd.models.observed.numbers import data_of, is_data, named_parameters, numbers_behind


def inputs_of(
    model: pm.Model, density: FittedDensity
) -> Iterator[tuple[list[str], np.ndarray, bool]]:
    """Walk the numbers in a variable's graph that come with every observation.

    The observations themselves are none, where they stand in the graph of what comes after them:
    residuals depend on their own observation under every model.

    Parameters
    ----------
    model : pm.Model
        The model.
    density : FittedDensity
        The observed variable.

    Yields
    ------
    names : list of str
        What its columns are called.
    table : ndarray of shape (n, columns)
        A row for every observation.
    labels : bool
        Whether it holds whole numbers that others are indexed by, so that it tells groups apart.
    """
    nodes = list(numbers_behind(density.numbers))
    (rv,) = observed_variables(model, density.source)
    indices, names = _indices(nodes), InputNames(model, nodes, named_parameters(rv))
    own = data_of(model, rv)
    for node in nodes:
        value = held_value(node)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" or not value.ndim:
            continue
        table = density.places.rows(value)
        if table is not None and not is_data(node, own):
            table = table.reshape(len(table), -1)
            if (table == table[:, :1]).all():
                table = table[:, :1]  # one number beside all elements of an outcome
            labels = node in indices and _is_whole(value)
            yield names.of(node, value, table.shape[1]), table, labels


def indexing_names(density: FittedDensity) -> set[str]:
    """Return the names of data with whole numbers by which others are indexed."""
    indices = _indices(numbers_behind(density.numbers))
    return {str(node.name) for node in indices if _is_whole(held_value(node))}


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


def _indices(nodes: Iterable[Any]) -> set[Any]:
    """Return what other arrays are indexed by."""
    found: set[Any] = set()
    for node in nodes:
        # One class in PyTensor 3, two in PyTensor 2.
        if node.owner is not None and type(node.owner.op).__name__.startswith("AdvancedSubtensor"):
            found |= set(ancestors(node.owner.inputs[1:]))
    return found


def _is_whole(value: Any) -> bool:
    """Whether an array holds whole numbers, or is true and false, by its type."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iub"
