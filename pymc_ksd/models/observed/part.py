"""What is checked of an observed variable: observations that are independent given a draw.

Most variables are such observations by themselves. A path or a single vector is a product of
conditional distributions, each given the values before it; a mixture of atoms and continuous values
has a part for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import FUNCTIONS_LOCK, built_once, compile_function, kept
from pymc_ksd.models.log_density import held_value, labels_along
from pymc_ksd.models.observed.layout import Places

#: Numbers that come with observations: a name, a row for each, and whether they are labels.
Input = tuple[str, np.ndarray, bool]


@dataclass(frozen=True)
class Part:
    """Observations that are independent given the free variables.

    Attributes
    ----------
    name : str
        What results call them.
    rv : TensorVariable
        Their distribution, a graph of the free variables or of `inputs`.
    data : callable
        Returns them as they are then, arranged as `rv`.
    key : hashable
        What tells the part from others of the same model: the values that it was made from, where
        others would make another one.
    axes : tuple of int, optional
        The axes of `rv` that count observations, by default the first, or what users say.
    inputs : sequence of TensorVariable
        What `rv` is a graph of in the place of free variables, so that what takes long is computed
        once for each draw.
    graphs : sequence of TensorVariable
        These inputs as graphs of the free variables.
    past : sequence of TensorVariable
        Residuals one, two and more steps before each observation, arranged as `rv`.
    along : sequence of Input
        Where in a path observations are.
    places : Places, optional
        Where they are in the model, by default where those of the model's own variable are.
    left_out : ndarray of bool, optional
        Which observations are missing or belong to another part, arranged as `rv`.
    bounds : tuple of TensorVariable, optional
        Beyond which values are hidden, and observed as the bounds themselves.
    searched : tuple of TensorVariable, optional
        Variables in whose parameters numbers that come with observations are looked for, by default
        `rv`.
    quantity : str
        What observations are, where they are not the variable's own values.
    dims : tuple of str, optional
        Dims of a single observation, where they are not those of the variable that count none.
    """

    name: str
    rv: TensorVariable
    data: Callable[[], np.ndarray]
    key: Any = None
    axes: tuple[int, ...] | None = None
    inputs: Sequence[TensorVariable] = ()
    graphs: Sequence[TensorVariable] = ()
    past: Sequence[TensorVariable] = ()
    along: Sequence[Input] = ()
    places: Places | None = None
    left_out: np.ndarray | None = None
    bounds: tuple[TensorVariable, TensorVariable] | None = None
    searched: tuple[TensorVariable, ...] | None = None
    quantity: str = ""
    dims: tuple[str, ...] | None = None


def observed_values(model: pm.Model, rv: TensorVariable) -> np.ndarray:
    """Return an observed variable's values as they are now."""
    graph = model.rvs_to_values[rv]
    held = held_value(graph)
    if held is not None:
        return np.asarray(held)
    with FUNCTIONS_LOCK:
        function = kept(model, ("observed values", id(rv)), lambda: compile_function([], graph))
        return np.asarray(function())


def evaluated(graph: TensorVariable) -> Callable[[], np.ndarray]:
    """Return a function for the values of a graph as they are then, compiled when it is called."""
    if held_value(graph) is not None:
        return lambda: np.asarray(held_value(graph))
    compiled = built_once(lambda: compile_function([], graph))
    return lambda: np.asarray(compiled()())


def path_places(
    model: pm.Model, name: str, numbers: np.ndarray, shape: tuple[int, ...] | None = None
) -> Places:
    """Return the places of a path's values: the number of each, or -1 for the first ones.

    Parameters
    ----------
    model : pm.Model
        The model.
    name : str
        The variable's name.
    numbers : ndarray of int
        Numbers along all axes that count observations.
    shape : tuple of int, optional
        The variable's shape along these axes, by default that of `numbers`.
    """
    all_dims = model.named_vars_to_dims.get(name) or ()
    dims = tuple(
        str(all_dims[axis]) if axis < len(all_dims) and all_dims[axis] else f"{name}_dim_{axis}"
        for axis in range(numbers.ndim)
    )
    axes = tuple(range(numbers.ndim))
    labels = labels_along(model, dims, numbers.shape)
    return Places(name, numbers, dims, labels, shape or numbers.shape, axes)


def positions_along(places: Places, order: str = "order") -> list[Input]:
    """Return where along a path observations are, and, of several paths, on which.

    Parameters
    ----------
    places : Places
        The values of all paths, which run along the last axis.
    order : str, default "order"
        What the position is called where its dim has no name.
    """
    found: list[Input] = []
    for axis, dim in enumerate(places.dims):
        is_time = axis == len(places.dims) - 1
        codes = np.arange(places.numbers.shape[axis], dtype=np.float64)
        values = _numeric(places.coords.get(dim), codes) if is_time else codes
        shape = [-1 if other == axis else 1 for other in range(places.numbers.ndim)]
        table = places.rows(np.broadcast_to(values.reshape(shape), places.numbers.shape))
        if table is not None and np.ptp(table) > 0:
            unnamed = is_time and dim == f"{places.name}_dim_{axis}"
            found.append((order if unnamed else dim, table, not is_time))
    return found


def _numeric(labels: Sequence[Any] | None, codes: np.ndarray) -> np.ndarray:
    """Return labels that are finite numbers or times as numbers, and otherwise the codes."""
    array = np.asarray(labels if labels is not None else codes)
    if array.dtype.kind in "mM":
        array = (array - array.min()) / np.timedelta64(1, "s")
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        return codes
    return array.astype(np.float64)
