"""Samples that users hold in arrays, data frames and datasets, as one array for each variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.models.target import Variable
from pymc_ksd.options import warn_user

#: What NumPy would turn into numbers without a word, by the letter of its type.
_NOT_REAL = {"c": "complex numbers", "M": "dates", "m": "times"}


def checked_samples(
    samples: Mapping[str, np.ndarray], variables: Sequence[Variable]
) -> dict[str, np.ndarray]:
    """Return one array of shape (n, *shape) for each variable, after checking that they fit.

    Parameters
    ----------
    samples : mapping of str to ndarray
        What a user's container holds, see :func:`pymc_ksd.samples.containers.values_of`.
    variables : sequence of Variable
        What a point is made of.

    Returns
    -------
    dict of str to ndarray
    """
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


def warn_of_few_points(n: int, variables: Sequence[Variable]) -> None:
    """Show how data were read that have fewer points than coordinates, which is seldom meant."""
    width = sum(variable.size for variable in variables)
    if n < width:
        shapes = ", ".join(f"{variable.name} {(n, *variable.shape)}" for variable in variables[:5])
        warn_user(
            f"`data` are read as {n} points of dimension {width}, fewer points than coordinates: "
            f"{shapes}{_more(len(variables) - 5)}, with points along the first axis. Where single "
            "values are the observations, give the model one-dimensional data; where another axis "
            "counts them, turn the data or, for observed variables, name it in `sample_dims`.",
            UserWarning,
        )


def as_numbers(value: Any, name: str) -> np.ndarray:
    """Return a user's values as an array of floats; masked ones are NaN."""
    kind = type(value).__name__
    try:
        if np.ma.is_masked(value):
            value = np.ma.filled(np.ma.asarray(value, dtype=np.float64), np.nan)
        array = np.asarray(value)
        if array.dtype.kind in _NOT_REAL:
            kind = _NOT_REAL[array.dtype.kind]
            raise TypeError(kind)
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`data` must hold numbers, but {name!r} cannot be read as an array of numbers "
            f"({kind})."
        ) from error


def from_array(values: np.ndarray, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    """Divide the columns of an array among variables."""
    width = sum(variable.size for variable in variables)
    if len(variables) == 1 and values.ndim == 1 + len(variables[0].shape):
        return {variables[0].name: values}
    if values.ndim == 1 and width == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != width:
        parts = ", ".join(f"{variable.name} {variable.shape}" for variable in variables)
        raise ValueError(
            f"`data` must have shape (n, {width}), one row for each point with the variables "
            f"{parts} side by side, got shape {values.shape}. Draws of a sampler, which may be "
            "correlated, are given as a Dataset with the dims 'chain' and 'draw'."
        )
    samples, start = {}, 0
    for variable in variables:
        part = values[:, start : start + variable.size]
        samples[variable.name] = part.reshape(len(values), *variable.shape)
        start += variable.size
    return samples


def from_dataframe(frame: pd.DataFrame, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
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
            values = as_numbers(frame.iloc[:, positions], variable.name)
            samples[variable.name] = values.reshape(len(frame), *variable.shape)
    numbered = all(isinstance(name, int | np.integer) for name in frame.columns)
    if numbered and not used and len(variables) == 1 and frame.shape[1] == variables[0].size:
        return from_array(as_numbers(frame, variables[0].name), variables)
    if missing:
        raise ValueError(
            f"`data` has no column for {', '.join(missing[:5])}{_more(len(missing) - 5)}; "
            f"its columns are {', '.join(list(columns)[:10])}{_more(len(columns) - 10)}. Rename "
            "them, or give an array, whose columns are taken in the order of the variables."
        )
    unknown = [name for name in columns if name not in used]
    if unknown:
        raise ValueError(
            f"`data` has columns the density does not know: {', '.join(unknown[:5])}"
            f"{_more(len(unknown) - 5)}. Drop them, or choose variables with `var_names`."
        )
    return samples


def from_dataset(dataset: xr.Dataset, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    """Bring the points of each variable to the first axis."""
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
        values = as_numbers(array.transpose(*leading, *rest).values, name)
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
