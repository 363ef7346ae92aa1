"""Reading samples that users hold in arrays, dicts, data frames and xarray objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

__all__ = ["Variable", "read_samples"]


@dataclass(frozen=True)
class Variable:
    """One random variable of a density, as seen from a single point.

    Attributes
    ----------
    name : str
        Its name in the model.
    shape : tuple of int
        Shape of one point, on the scale users see.
    unconstrained_shape : tuple of int
        Shape of one point in unconstrained coordinates.
    dims : tuple of str, optional
        Names of the axes of `shape`.
    coords : dict
        Coordinate values of those dims, where there are any.
    transform : str, optional
        Name of the transform between the two scales.
    unconstrained_name : str
        Name of the unconstrained value in PyMC, such as ``tau_log__``.
    elementwise : bool
        Whether each unconstrained coordinate belongs to one element of the variable.
    """

    name: str
    shape: tuple[int, ...] = ()
    unconstrained_shape: tuple[int, ...] = ()
    dims: tuple[str, ...] | None = None
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    transform: str | None = None
    unconstrained_name: str = ""
    elementwise: bool = True

    @property
    def size(self) -> int:
        """How many numbers one point has on the scale users see."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def unconstrained_size(self) -> int:
        """How many unconstrained coordinates one point has."""
        return int(np.prod(self.unconstrained_shape, dtype=int))

    def element(self, index: tuple[int, ...]) -> str:
        """Name one element, as in ``theta[3]``."""
        return f"{self.name}[{','.join(map(str, index))}]" if index else self.name


def read_samples(data: Any, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    """Turn a user's sample into one array of shape (n, *shape) for each variable.

    Parameters
    ----------
    data : array_like, mapping, DataFrame, Dataset or DataArray
        The sample.
    variables : sequence of Variable
        What a point is made of.

    Returns
    -------
    dict of str to ndarray
    """
    if isinstance(data, xr.DataArray):
        data = _from_dataarray(data, variables)
    if isinstance(data, xr.Dataset):
        samples = _from_dataset(data, variables)
    elif isinstance(data, pd.DataFrame):
        samples = _from_dataframe(data, variables)
    elif isinstance(data, Mapping):
        samples = {str(name): _as_numbers(value, str(name)) for name, value in data.items()}
    elif isinstance(data, str | bytes) or data is None:
        raise TypeError(f"`data` must hold numbers, got {type(data).__name__}.")
    else:
        samples = _from_array(_as_numbers(data, "data"), variables)
    _check_names(samples, variables)
    samples = {variable.name: samples[variable.name] for variable in variables}
    for variable in variables:
        _check_shape(samples[variable.name], variable)
    lengths = {name: len(values) for name, values in samples.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"`data` must have as many points for every variable, got {given}.")
    for variable in variables:
        _check_finite(samples[variable.name], variable)
    n = next(iter(lengths.values()))
    if n < 2:
        raise ValueError(f"`data` must have at least 2 points, got {n}.")
    return samples


def _as_numbers(value: Any, name: str) -> np.ndarray:
    try:
        if np.ma.is_masked(value):
            value = np.ma.filled(np.ma.asarray(value, dtype=np.float64), np.nan)
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`data` must hold numbers, but {name!r} cannot be read as an array of numbers "
            f"({type(value).__name__})."
        ) from error


def _from_array(values: np.ndarray, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    width = sum(variable.size for variable in variables)
    if len(variables) == 1 and values.ndim == 1 + len(variables[0].shape):
        return {variables[0].name: values}
    if values.ndim == 1 and width == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != width:
        parts = ", ".join(f"{variable.name} {variable.shape}" for variable in variables)
        raise ValueError(
            f"`data` must have shape (n, {width}), one row for each point with the variables "
            f"{parts} side by side, got shape {values.shape}."
        )
    samples, start = {}, 0
    for variable in variables:
        part = values[:, start : start + variable.size]
        samples[variable.name] = part.reshape(len(values), *variable.shape)
        start += variable.size
    return samples


def _from_dataframe(frame: pd.DataFrame, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    """Find each element of each variable among the columns, by index or by coordinate label."""
    columns = {str(name): position for position, name in enumerate(frame.columns)}
    used, samples, missing = set(), {}, []
    for variable in variables:
        positions = []
        for index in np.ndindex(variable.shape):
            names = [variable.element(index), variable.element(index).replace(",", ", ")]
            if index and variable.dims and all(dim in variable.coords for dim in variable.dims):
                labels = [
                    str(variable.coords[dim][i])
                    for dim, i in zip(variable.dims, index, strict=True)
                ]
                names += [f"{variable.name}[{glue.join(labels)}]" for glue in (",", ", ")]
            if variable.size == 1:
                names.append(variable.name)
            found = next((name for name in names if name in columns), None)
            if found is None:
                missing.append(names[0])
            else:
                used.add(found)
                positions.append(columns[found])
        if len(positions) == variable.size:
            values = _as_numbers(frame.iloc[:, positions], variable.name)
            samples[variable.name] = values.reshape(len(frame), *variable.shape)
    if missing and not used and len(variables) == 1 and frame.shape[1] == variables[0].size:
        return _from_array(_as_numbers(frame, variables[0].name), variables)
    if missing:
        raise ValueError(
            f"`data` has no column for {', '.join(missing[:5])}{_more(len(missing) - 5)}; "
            f"its columns are {', '.join(list(columns)[:10])}{_more(len(columns) - 10)}."
        )
    unknown = [name for name in columns if name not in used]
    if unknown:
        raise ValueError(
            f"`data` has columns the density does not know: {', '.join(unknown[:5])}"
            f"{_more(len(unknown) - 5)}. Drop them, or choose variables with `var_names`."
        )
    return samples


def _from_dataarray(array: xr.DataArray, variables: Sequence[Variable]) -> xr.Dataset | np.ndarray:
    if array.name is not None:
        return array.to_dataset()
    if len(variables) == 1:
        return array.to_dataset(name=variables[0].name)
    return array.values


def _from_dataset(dataset: xr.Dataset, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    samples = {}
    known = {variable.name: variable for variable in variables}
    for key, array in dataset.data_vars.items():
        name = str(key)
        own: tuple[str, ...] = (known[name].dims if name in known else None) or ()
        leading = [dim for dim in array.dims if dim not in own]
        if {"chain", "draw"} <= set(array.dims):
            leading = ["chain", "draw"]
        elif name in known and len(leading) != 1:
            leading = list(array.dims[:1])
        rest = [dim for dim in array.dims if dim not in leading]
        if own and set(own) == set(rest):
            rest = list(own)
        values = _as_numbers(array.transpose(*leading, *rest).values, name)
        samples[name] = values.reshape(-1, *values.shape[len(leading) :])
    return samples


def _check_names(samples: Mapping[str, np.ndarray], variables: Sequence[Variable]) -> None:
    expected = [variable.name for variable in variables]
    missing = [name for name in expected if name not in samples]
    if missing:
        raise ValueError(
            f"`data` lacks the variable(s) {', '.join(missing)}; it has "
            f"{', '.join(samples) or 'none'}."
        )
    unknown = [name for name in samples if name not in expected]
    if unknown:
        raise ValueError(
            f"`data` has variable(s) the density does not know: {', '.join(unknown)}; it knows "
            f"{', '.join(expected)}."
        )


def _check_shape(values: np.ndarray, variable: Variable) -> None:
    if values.shape[1:] != variable.shape or values.ndim == 0:
        sizes = "".join(f", {size}" for size in variable.shape)
        raise ValueError(
            f"`data` for {variable.name!r} must have shape (n{sizes}), one entry for each point "
            f"along the first axis, got {values.shape}."
        )


def _check_finite(values: np.ndarray, variable: Variable) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        n_nan, n_inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        counts = [f"{n_nan} NaN" * bool(n_nan), f"{n_inf} infinite" * bool(n_inf)]
        raise ValueError(
            f"`data` must be finite, but {variable.name!r} has {' and '.join(filter(None, counts))}"
            f" value(s), first in row {first[0]} ({variable.element(first[1:])})."
        )


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
