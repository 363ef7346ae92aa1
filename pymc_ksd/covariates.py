r"""What observations of a fitted model may be compared by, beside their residuals.

A kernel :math:`\exp(-\|c - c'\|^2 / 2)` of covariates lets the discrepancy see residuals that
depend on them. Its bandwidth is short, a third of the median distance: residuals have mean zero
over all observations, so only a local comparison shows where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.fitted_density import FittedDensity, parameter_graphs
from pymc_ksd.observation_places import Places
from pymc_ksd.points import median_distance
from pymc_ksd.posterior_given import Given

__all__ = ["Column", "Comparison", "find_comparisons", "in_bandwidths"]

#: Bandwidth of the kernel in median distances between observations.
_SHORT = 1 / 3
#: Distance between different labels in bandwidths: they are not compared at all.
_LABEL_DISTANCE = 6.0
#: Points for the median distance between covariates that change from draw to draw.
_FEW_POINTS = 300
#: Most columns that are compared by together, and at all unless a user asks for them.
_MOST_TOGETHER, _MOST = 3, 12


@dataclass(frozen=True)
class Column:
    """One covariate.

    Attributes
    ----------
    name : str
        What it is called in results.
    values : ndarray of shape (n,)
        A number for every observation.
    labels : bool
        Whether the numbers are labels of groups, without order.
    """

    name: str
    values: np.ndarray
    labels: bool = False

    def scaled(self) -> np.ndarray:
        """Return the column in units in which columns can be compared."""
        if self.labels:
            return _LABEL_DISTANCE * self.values
        return self.values / (self.values.std() or 1.0)


@dataclass(frozen=True)
class Comparison:
    """Covariates by which observations are compared together; none to compare all with all.

    Attributes
    ----------
    name : str
        What it is called in results.
    columns : list of Column
        The covariates, or, where they change with the draw, those of one of them.
    of_draw : callable, optional
        Returns the columns, in the same order, for the values of the free variables at a draw.
    """

    name: str
    columns: list[Column]
    of_draw: Callable[[Given], list[Column]] | None = None

    @property
    def changes(self) -> bool:
        """Whether the covariates are different at every draw."""
        return self.of_draw is not None

    def at(self, given: Given) -> list[Column]:
        """Return the covariates at a draw."""
        return self.columns if self.of_draw is None else self.of_draw(given)

    def in_bandwidths(
        self, rng: np.random.Generator, given: Sequence[Given]
    ) -> np.ndarray | list[np.ndarray] | None:
        """Return the covariates in bandwidths of their kernel, shape (n, columns).

        A list of them, for the given draws, where they change from draw to draw.
        """
        if not self.columns:
            return None
        if not self.changes:
            return in_bandwidths(self.columns, rng)
        return [in_bandwidths(self.at(values), rng, _FEW_POINTS) for values in given]


def in_bandwidths(
    columns: Sequence[Column], rng: np.random.Generator, most_points: int = 1_000
) -> np.ndarray:
    """Return columns in bandwidths of their common kernel, shape (n, columns)."""
    numbers = [column.scaled() for column in columns if not column.labels]
    labels = [column.scaled() for column in columns if column.labels]
    if numbers:
        table = np.stack(numbers, axis=1)
        numbers = list((table / (_SHORT * median_distance(table, rng, most_points))).T)
    return np.stack([*numbers, *labels], axis=1)


def find_comparisons(
    model: pm.Model, density: FittedDensity, given: Sequence[Given], covariates: Any
) -> list[Comparison]:
    """Return what observations are compared by: always nothing first, then covariates.

    Parameters
    ----------
    model : pm.Model
        The model.
    density : FittedDensity
        The observed variable.
    given : sequence of tuple of ndarray
        Draws of the free variables.
    covariates : "auto", None or anything that :func:`user_columns` reads
        With ``"auto"``, the inputs in the variable's graph and its distribution's parameters.

    Returns
    -------
    list of Comparison
    """
    found = [Comparison("residuals", [])]
    places = density.places
    if isinstance(covariates, Mapping) and not isinstance(covariates, xr.Dataset):
        if places.name not in covariates:
            raise ValueError(
                f"`covariates` must have an entry for the observed variable {places.name!r}, got "
                f"{', '.join(map(str, covariates))}."
            )
        covariates = covariates[places.name]
    if covariates is None:
        return found
    if not (isinstance(covariates, str) and covariates == "auto"):
        columns = user_columns(model, covariates, density)
        return found + _grouped("covariates", columns, len(columns))
    inputs = columns_of_inputs(density.rv, places)
    columns = _parameter_columns(density, given)
    if len(columns) == len(inputs) == 1 and not inputs[0].labels:
        # Where the parameter is a straight line in the only input, it is the same comparison.
        correlation = np.corrcoef(columns[0].values, inputs[0].values)[0, 1]
        columns = columns if abs(correlation) < 1 - 1e-9 else []
    parameters = [
        replace(comparison, of_draw=_at_draws(density, [c.name for c in comparison.columns]))
        for comparison in _grouped("parameters", columns)
    ]
    return found + parameters + _grouped("inputs", inputs)


def _parameter_columns(density: FittedDensity, given: Sequence[Given]) -> list[Column]:
    """Return the parameters that vary between observations, at one of the draws each."""
    found: dict[str, Column] = {}
    for draw in (0, len(given) // 2, len(given) - 1):
        for name, table in density.parameters(*given[draw]).items():
            for column in columns_of_table(name, table):
                found.setdefault(column.name, column)
    return list(found.values())


def _at_draws(density: FittedDensity, names: Sequence[str]) -> Callable[[Given], list[Column]]:
    """Return a function for parameters at any draw.

    They are those of the draw and not their posterior mean, which has seen the observations.
    """

    def of_draw(values: Given) -> list[Column]:
        columns = {}
        for name, table in density.parameters(*values).items():
            for column in columns_of_table(name, table, constant=True):
                columns[column.name] = column
        return [columns[name] for name in names]

    return of_draw


def _grouped(name: str, columns: list[Column], most: int = _MOST) -> list[Comparison]:
    """Compare by a few columns together, by many one by one, by very many not at all."""
    if not columns or len(columns) > most:
        return []
    if len(columns) <= _MOST_TOGETHER:
        return [Comparison(name, columns)]
    return [Comparison(f"{name}: {column.name}", [column]) for column in columns]


def columns_of_table(
    name: str, values: Any, labels: bool = False, *, constant: bool = False
) -> list[Column]:
    """Return the columns of an array with one row for each observation.

    Those that do not vary are left out, unless `constant` ones are wanted too.
    """
    table = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    names = [name] if table.shape[1] == 1 else [f"{name}[{i}]" for i in range(table.shape[1])]
    varies = np.ptp(table, axis=0) > 1e-12 * np.abs(table).max(axis=0, initial=0.0)
    return [
        Column(label, column, labels)
        for label, column, moves in zip(names, table.T, varies, strict=True)
        if moves or constant
    ]


def columns_of_inputs(rv: TensorVariable, places: Places) -> list[Column]:
    """Return the numbers in a variable's graph that come with every observation.

    Parameters
    ----------
    rv : TensorVariable
        The observed variable.
    places : Places
        Where its observations are.

    Returns
    -------
    list of Column
        Without repetitions; arrays by which others are indexed are labels.
    """
    nodes = list(_numbers_behind(parameter_graphs(rv)))
    indices = _indices(nodes)
    columns: list[Column] = []
    for node in nodes:
        value = _held_by(node)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" or not value.ndim:
            continue
        table = places.rows(value)
        if table is not None:
            name = node.name or f"input {len(columns)}"
            columns += columns_of_table(str(name), table, node in indices)
    different: dict[bytes, Column] = {}
    for column in columns:
        different.setdefault(column.values.tobytes(), column)
    return list(different.values())


def _numbers_behind(graphs: Iterable[TensorVariable]) -> Iterator[TensorVariable]:
    """Walk what graphs are computed from, leaving out what gives them a shape only.

    Sizes are often taken from the observations, which must not be compared by themselves.
    """
    stack, seen = list(graphs), set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if node.owner is not None and not isinstance(node.owner.op, Shape | Shape_i):
            stack.extend(node.owner.inputs[::-1])


def _indices(nodes: Iterable[Any]) -> set[Any]:
    """Return what other arrays are indexed by."""
    found: set[Any] = set()
    for node in nodes:
        # One class in PyTensor 3, two in PyTensor 2.
        if node.owner is not None and type(node.owner.op).__name__.startswith("AdvancedSubtensor"):
            found |= set(ancestors(node.owner.inputs[1:]))
    return found


def _held_by(node: Any) -> Any:
    """Return the value of a constant or of shared data, None for anything else."""
    if isinstance(node, Constant):
        return node.data
    return node.get_value(borrow=True) if isinstance(node, SharedVariable) else None


def user_columns(model: pm.Model, covariates: Any, density: FittedDensity) -> list[Column]:
    """Return the columns that a user asked for.

    Parameters
    ----------
    model : pm.Model
        The model, whose data can be named.
    covariates : array_like, Series, DataFrame, Dataset, str or sequence of str
        The covariates.
    density : FittedDensity
        The observed variable.

    Returns
    -------
    list of Column
    """
    if isinstance(covariates, str):
        covariates = [covariates]
    if isinstance(covariates, pd.Series):
        covariates = covariates.to_frame(covariates.name or "covariate")
    parts: list[tuple[str, Any, bool]]
    if isinstance(covariates, pd.DataFrame):
        parts = [(str(key), covariates[key], False) for key in covariates.columns]
    elif isinstance(covariates, xr.Dataset):
        parts = [(str(key), array.values, False) for key, array in covariates.data_vars.items()]
    elif _are_names(covariates):
        indices = _indices(_numbers_behind(parameter_graphs(density.rv)))
        parts = [
            (key, _model_data(model, key), model.named_vars[key] in indices) for key in covariates
        ]
    else:
        parts = [("covariate", covariates, False)]
    columns: list[Column] = []
    for key, values, labels in parts:
        columns += _read_column(key, values, labels, density.places)
    if not columns:
        raise ValueError("`covariates` must vary between observations, but none does.")
    return columns


def _are_names(covariates: Any) -> bool:
    return (
        isinstance(covariates, list | tuple)
        and len(covariates) > 0
        and all(isinstance(key, str) for key in covariates)
    )


def _model_data(model: pm.Model, key: str) -> np.ndarray:
    value = _held_by(model.named_vars.get(key))
    if value is not None:
        return np.asarray(value)
    known = [v.name for v in model.data_vars]
    raise ValueError(
        f"`covariates` must name data of the model ({', '.join(known) or 'it has none'}), got "
        f"{key!r}."
    )


def _read_column(key: str, values: Any, labels: bool, places: Places) -> list[Column]:
    if isinstance(values, pd.Series) and not pd.api.types.is_numeric_dtype(values):
        codes, _ = pd.factorize(values, use_na_sentinel=False)
        array, labels = codes.astype(np.float64), True
    else:
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"`covariates` must hold numbers, or labels in a DataFrame, but {key!r} does not."
            ) from error
    if not np.isfinite(array).all():
        raise ValueError(
            f"`covariates` must be finite, but {np.count_nonzero(~np.isfinite(array))} value(s) of "
            f"{key!r} are not."
        )
    table = places.rows(array) if array.ndim else None
    if table is None and array.ndim in (1, 2) and len(array) == places.n:
        table = array.reshape(places.n, -1)
    if table is None:
        raise ValueError(
            f"`covariates` must have one row for each of the {places.n} observations of "
            f"{places.name!r}, but {key!r} has shape {array.shape}."
        )
    return columns_of_table(key, table, labels)
