"""Where observations are in a model: under which dims and labels results are written for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.observation_layout import Layout

__all__ = ["Places", "find_places"]


@dataclass(frozen=True)
class Places:
    """The places of observations, with their labels.

    Attributes
    ----------
    name : str
        The variable's name, without a suffix where it has missing values.
    numbers : ndarray of int
        For every place the number of its observation, or -1 where it is missing.
    dims : tuple of str
        Names of the axes of `numbers`.
    coords : mapping
        Labels along them, where there are any.
    """

    name: str
    numbers: np.ndarray
    dims: tuple[str, ...]
    coords: Mapping[str, Sequence[Any]]

    def only(self, kept: np.ndarray) -> Places:
        """Return the places of some observations, numbered anew."""
        renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
        numbers = np.where(self.numbers >= 0, renumbered[self.numbers], -1)
        return replace(self, numbers=numbers)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of observations at their places, NaN where one is missing."""
        return np.where(self.numbers >= 0, np.asarray(values)[self.numbers], np.nan)


def find_places(model: pm.Model, rv: TensorVariable, layout: Layout) -> Places:
    """Find where the observations of a variable are.

    Single numbers of which some are missing are one flat vector in PyMC; their places are those in
    the variable that PyMC joins from observed and imputed ones.
    """
    name, axes = layout.name, layout.axes
    whole = name.removesuffix("_observed")
    if whole != name and f"{whole}_unobserved" in model.named_vars:
        name, numbers = whole, _numbers_in(model, rv, whole)
        axes = tuple(range(numbers.ndim))
    else:
        numbers = np.arange(int(np.prod(layout.lengths))).reshape(layout.lengths)
    all_dims = model.named_vars_to_dims.get(name) or ()
    dims = tuple(
        str(all_dims[axis]) if axis < len(all_dims) and all_dims[axis] else f"{name}_dim_{axis}"
        for axis in axes
    )
    coords = {
        dim: list(model.coords[dim])
        for dim, size in zip(dims, numbers.shape, strict=True)
        if model.coords.get(dim) is not None and len(model.coords[dim]) == size
    }
    return Places(name, numbers, dims, coords)


def _numbers_in(model: pm.Model, rv: TensorVariable, whole: str) -> np.ndarray:
    """Return the observations' numbers where the joined variable has them, -1 elsewhere."""
    missing = model[f"{whole}_unobserved"]
    n = int(np.prod(compile_function([], rv.shape)()))
    known = {
        rv: np.arange(1, n + 1, dtype=rv.dtype),
        missing: np.zeros(tuple(compile_function([], missing.shape)()), dtype=missing.dtype),
    }
    (filled,) = graph_replace([model[whole]], known, strict=False)
    return np.asarray(compile_function([], filled)()).astype(int) - 1
