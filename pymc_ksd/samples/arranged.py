"""Draws of one variable in the model's order: chain and draw first, then its own dims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.models.target import Variable
from pymc_ksd.samples.belonging import MismatchError
from pymc_ksd.samples.data import as_numbers


def check_has(posterior: xr.Dataset, names: Sequence[str], argument: str = "data") -> None:
    """Refuse draws that lack variables."""
    missing = [name for name in names if name not in posterior]
    if missing:
        raise MismatchError(
            f"`{argument}` lacks the variable(s) {', '.join(missing)} in its posterior; it has "
            f"{', '.join(map(str, posterior.data_vars)) or 'none'}."
        )


def check_shape(
    array: xr.DataArray, name: str, shape: tuple[int, ...], argument: str = "data"
) -> None:
    """Refuse draws, with chain and draw first, of another shape than the variable has."""
    if array.shape[2:] != shape:
        raise MismatchError(
            f"`{argument}` for {name!r} must have shape {shape} in every draw, got "
            f"{array.shape[2:]}."
        )


def arranged(array: xr.DataArray, variable: Variable) -> xr.DataArray:
    """Bring draws to the dims chain, draw and the variable's own, elements in the model's order.

    Labels decide which element is which, where both the model and the draws have them.
    """
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(
            f"`data` for {variable.name!r} must have the dims 'chain' and 'draw', got {array.dims}."
        )
    rest = [dim for dim in array.dims if dim not in ("chain", "draw")]
    numbered = [f"{array.name}_dim_{axis}" for axis in range(len(rest))]
    if variable.dims and set(variable.dims) == set(rest):
        rest = list(variable.dims)
    elif set(rest) == set(numbered):
        rest = list(numbered)
    for dim in rest:
        if dim not in array.indexes or dim not in variable.coords:
            continue
        # As an array, which is what ArviZ makes of a model's labels.
        given, wanted = array.indexes[dim], pd.Index(np.asarray(list(variable.coords[dim])))
        if given.equals(wanted) or len(given) != len(wanted):
            continue  # in order, or of another shape, which is told elsewhere
        if given.is_unique and set(given) == set(wanted):
            array = array.isel({dim: given.get_indexer(wanted)})
        elif not given.equals(pd.RangeIndex(len(given))):
            raise MismatchError(
                f"`data` for {variable.name!r} must have the model's labels along {dim!r} "
                f"({_few(wanted)}), got {_few(given)}."
            )
    return array.transpose("chain", "draw", *rest)


def _few(labels: pd.Index) -> str:
    shown = ", ".join(map(repr, labels[:4].tolist()))
    return f"{shown}, …" if len(labels) > 4 else shown


def finite_values(array: xr.DataArray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of shape (draw, chain, *shape), all finite."""
    check_shape(array, variable.name, shape)
    values = as_numbers(array.values, variable.name).swapaxes(0, 1)
    bad = ~np.isfinite(values)
    if bad.any():
        draw, chain, *index = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data` must be finite, but {np.count_nonzero(bad)} value(s) of {variable.name!r} are "
            f"not, first in {place(array, chain, draw)} ({variable.element(tuple(index))})."
        )
    return values


def place(posterior: xr.Dataset | xr.DataArray, chain: int, draw: int) -> str:
    """Name a draw by its labels."""
    return f"chain {posterior['chain'].values[chain]}, draw {posterior['draw'].values[draw]}"
