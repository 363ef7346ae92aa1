"""Quantities whose means are wanted: elements of variables in the draws, or functions of draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import moments_name
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.samples.arranged import arranged

#: Coordinates that a quantity is explained by where it has no single one of its own.
_COORDINATES = 5


@dataclass(frozen=True)
class Quantities:
    """Elements of variables, side by side in one array.

    Attributes
    ----------
    arrays : mapping of str to DataArray
        Draws of every variable, with the dims chain, draw and its own.
    own : ndarray of int of shape (p,)
        The unconstrained coordinate that each element is a function of, -1 where it is one of
        several.
    function : callable, optional
        What makes the variables of those in the posterior, where they are not in it themselves.
    not_stored : tuple of str
        Variables that would be shown, but are not among the draws.
    """

    arrays: dict[str, xr.DataArray]
    own: np.ndarray
    function: Callable[[xr.Dataset], dict[str, xr.DataArray]] | None = None
    not_stored: tuple[str, ...] = ()

    @classmethod
    def of_variables(
        cls, target: Target, posterior: xr.Dataset, names: Sequence[str]
    ) -> Quantities:
        """Return the elements of variables in the draws."""
        columns, start = {}, 0
        # Bambi's intercepts are not those of its PyMC model, but functions of several variables.
        changed = {} if target.bambi is None else target.bambi.means
        for variable in target.variables:
            stop = start + variable.unconstrained_size
            if variable.elementwise and variable.name not in changed:
                columns[variable.name] = variable, np.arange(start, stop)
            start = stop
        arrays, own = {}, []
        for name in names:
            arrays[name] = posterior[name].transpose("chain", "draw", ...)
            size = _size([arrays[name]])
            found = np.full(size, -1)
            if name in columns and columns[name][1].size == size:
                variable, coordinates = columns[name]
                found[_places(arrays[name], variable)] = coordinates
            own.append(found)
        return cls(arrays, np.concatenate(own) if own else np.empty(0, int))

    @classmethod
    def of_function(
        cls, function: Callable[[xr.Dataset], dict[str, xr.DataArray]], posterior: xr.Dataset
    ) -> Quantities:
        """Return the elements of what a function makes of draws."""
        arrays = function(posterior)
        return cls(arrays, np.full(_size(arrays.values()), -1), function)

    def values(self, posterior: xr.Dataset | None = None) -> np.ndarray:
        """Return all of them, shape (n, p): first draw of every chain, second draw, and so on.

        Of all draws, or of those in a part of the posterior. What is not finite is NaN.
        """
        source: Any = posterior
        if posterior is None:
            source = self.arrays
        elif self.function is not None:
            source = self.function(posterior)
        parts = []
        for name, template in self.arrays.items():
            array = source[name].transpose("chain", "draw", *template.dims[2:])
            values = np.asarray(array.values, dtype=np.float64).swapaxes(0, 1)
            parts.append(values.reshape(values.shape[0] * values.shape[1], -1))
        values = np.concatenate(parts, axis=1)
        values[~np.isfinite(values)] = np.nan
        return values

    def coordinates(self, values: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the coordinates that explain each quantity, shape (p, c): its own one first.

        Where a quantity has no single one, those that it is most correlated with in some points.
        """
        if (self.own >= 0).all():
            return self.own[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = (
                (array - array.mean(axis=0)) / array.std(axis=0) for array in (values, positions)
            )
        strength = np.abs(np.nan_to_num(first.T @ second))
        known = np.flatnonzero(self.own >= 0)
        strength[known, self.own[known]] = np.inf
        count = min(_COORDINATES, positions.shape[1])
        return np.argsort(-strength, axis=1, kind="stable")[:, :count]

    def arranged(self, columns: dict[str, np.ndarray]) -> xr.Dataset:
        """Give numbers of every quantity their variables' names, dims and labels.

        Parameters
        ----------
        columns : dict of str to ndarray of shape (p,)
            Numbers by diagnostic.

        Returns
        -------
        xarray.Dataset
            With the dim ``diagnostic`` last.
        """
        stacked = np.stack([np.asarray(one, dtype=float) for one in columns.values()], axis=1)
        found, start = {}, 0
        for name, array in self.arrays.items():
            template = array.isel(chain=0, draw=0, drop=True)
            part = stacked[start : start + template.size]
            start += template.size
            dims = [f"{dim}_" if dim == "diagnostic" else dim for dim in template.dims]
            coords = {d: template.coords[d].values for d in template.dims if d in template.coords}
            labels = {f"{d}_" if d == "diagnostic" else d: v for d, v in coords.items()}
            found[moments_name(str(name))] = xr.DataArray(
                part.reshape(*template.shape, -1),
                dims=[*dims, "diagnostic"],
                coords={**labels, "diagnostic": list(columns)},
            )
        return xr.Dataset(found)


def _places(array: xr.DataArray, variable: Variable) -> np.ndarray:
    """Return where the elements of a variable, in the order of the model, are in draws of it.

    Draws may have dims, and labels along them, in another order.
    """
    one = array.isel(chain=[0], draw=[0])
    numbers = one.copy(data=np.arange(one.size).reshape(one.shape))
    return np.asarray(arranged(numbers, variable).values.ravel())


def _size(arrays: Iterable[xr.DataArray]) -> int:
    """Return the number of elements of draws of variables."""
    return sum(int(np.prod(array.shape[2:], dtype=int)) for array in arrays)
