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
from pymc_ksd.model_variables import evaluate_shapes
from pymc_ksd.observation_layout import Layout

__all__ = ["Places", "find_places", "is_split"]


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
    shape : tuple of int
        Shape of the variable in the model, without the axes of single vectors.
    axes : tuple of int
        Which of its axes those of `numbers` are.
    """

    name: str
    numbers: np.ndarray
    dims: tuple[str, ...]
    coords: Mapping[str, Sequence[Any]]
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def n(self) -> int:
        """How many observations there are."""
        return int(np.count_nonzero(self.numbers >= 0))

    def only(self, kept: np.ndarray) -> Places:
        """Return the places of some observations, numbered anew."""
        renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
        numbers = np.where(self.numbers >= 0, renumbered[self.numbers], -1)
        return replace(self, numbers=numbers)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of observations at their places, NaN where one is missing."""
        return np.where(self.numbers >= 0, np.asarray(values)[self.numbers], np.nan)

    def rows(self, values: np.ndarray) -> np.ndarray | None:
        """Return one row for every observation from an array arranged as the model has them.

        The array may have the variable's shape, or one that PyMC would broadcast to it, or one row
        for every observation along its first axes. None if it has no such shape.
        """
        if values.ndim <= len(self.shape) and _broadcasts(values.shape, self.shape):
            full = np.broadcast_to(values, self.shape)
            rest = [axis for axis in range(full.ndim) if axis not in self.axes]
            table = np.transpose(full, (*self.axes, *rest)).reshape(self.numbers.size, -1)
        elif values.shape[: self.numbers.ndim] == self.numbers.shape:
            table = values.reshape(self.numbers.size, -1)
        else:
            return None
        flat = self.numbers.ravel()
        known = np.flatnonzero(flat >= 0)
        ordered: np.ndarray = table[known[np.argsort(flat[known])]]
        return ordered


def _broadcasts(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    own = full[len(full) - len(shape) :]
    return all(size in (1, other) for size, other in zip(shape, own, strict=True))


def is_split(model: pm.Model, name: str) -> bool:
    """Whether a variable is the observed part of one with missing values."""
    whole = name.removesuffix("_observed")
    return whole != name and f"{whole}_unobserved" in model.named_vars


def find_places(
    model: pm.Model, rv: TensorVariable, layout: Layout, shape: tuple[int, ...]
) -> Places:
    """Find where the observations of a variable of the given shape are.

    Of single numbers of which some are missing, PyMC makes a flat vector, and of vectors those that
    are complete; their places are those in the variable joined from observed and imputed ones.
    """
    name, axes = layout.name, layout.axes
    if is_split(model, name):
        name = name.removesuffix("_observed")
        numbers = _numbers_in(model, rv, name)
        axes, shape = tuple(range(numbers.ndim)), numbers.shape
    else:
        numbers = np.arange(int(np.prod(layout.lengths))).reshape(layout.lengths)
        shape = shape[: layout.rv.ndim - layout.rv.owner.op.ndim_supp]
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
    return Places(name, numbers, dims, coords, shape, axes)


def _numbers_in(model: pm.Model, rv: TensorVariable, whole: str) -> np.ndarray:
    """Return the observations' numbers where the joined variable has them, -1 elsewhere."""
    missing = model[f"{whole}_unobserved"]
    (shape,), (other,) = evaluate_shapes([rv]), evaluate_shapes([missing])
    numbers = np.arange(1, shape[0] + 1).reshape(-1, *[1] * (len(shape) - 1))
    known = {
        rv: np.ascontiguousarray(np.broadcast_to(numbers, shape), dtype=rv.dtype),
        missing: np.zeros(other, dtype=missing.dtype),
    }
    (filled,) = graph_replace([model[whole]], known, strict=False)
    places = np.asarray(compile_function([], filled)()).astype(int) - 1
    for _ in range(rv.owner.op.ndim_supp):
        places = places[..., 0]
    return places
