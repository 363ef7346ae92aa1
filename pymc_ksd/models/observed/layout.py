"""Where the observations of an observed variable are: in its arrays, and under which labels.

The first axis counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.replace import graph_replace
from pytensor.graph.utils import MissingInputError
from pytensor.tensor.random.basic import MultinomialRV
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function, replaced_in
from pymc_ksd.models.lattice import is_discrete, lattice_transform
from pymc_ksd.models.log_density import (
    NotWholeError,
    check_unconstrained,
    describe,
    evaluate_shapes,
    labels_along,
)
from pymc_ksd.models.observed.marginalised import inner_transform, support_dims
from pymc_ksd.models.target import Variable

#: Distributions whose observation is a path in time, by the names of their operations.
_PATHS = ("AutoRegressiveRV", "RandomWalkRV", "GARCH11RV", "EulerMaruyamaRV")


@dataclass(frozen=True)
class Layout:
    """Where the observations of a variable are: the axes that count them and their lengths.

    Attributes
    ----------
    name : str
        The variable's name.
    rv : TensorVariable
        The variable with a symbolic number of observations.
    transform : Transform, optional
        Its distribution's default transform, or the way to a lattice.
    axes : tuple of int
        Axes that count observations; the first may have any length.
    lengths : tuple of int
        Their lengths in the model.
    single : TensorVariable, optional
        The model's own variable when it is one observation only, without such an axis.
    complete : ndarray of bool, optional
        Which observations have no missing elements, if any have; the others are left out.
    """

    name: str
    rv: TensorVariable
    transform: Any
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    single: TensorVariable | None
    complete: np.ndarray | None = None

    @property
    def n_points(self) -> int:
        """How many observations the model has."""
        return int(np.prod(self.lengths) if self.complete is None else self.complete.sum())

    def free_length(self, variable: TensorVariable) -> TensorVariable:
        """Return a variable like the given one for any number of observations."""
        shape = [
            None if axis in self.axes else size for axis, size in enumerate(variable.type.shape)
        ]
        return TensorType(self.rv.dtype, shape=tuple(shape))(name=f"{self.name}_value")

    def to_points(self, values: np.ndarray) -> np.ndarray:
        """Bring observations to the first axis, all that are complete."""
        moved = np.transpose(values, _first(self.axes, values.ndim))
        points = moved.reshape(-1, *moved.shape[len(self.axes) :])
        return points if self.complete is None else points[self.complete]

    def from_points(self, points: np.ndarray) -> np.ndarray:
        """Undo :meth:`to_points`, for any number of observations along the first such axis.

        Observations that are not complete have the value of another one.
        """
        if self.complete is not None:
            known, points = points, np.repeat(points[:1], len(self.complete), axis=0)
            points[self.complete] = known
        full = points.reshape(-1, *self.lengths[1:], *points.shape[1:])
        return np.transpose(full, np.argsort(_first(self.axes, full.ndim)))

    def describe(
        self, model: pm.Model, shape: tuple[int, ...], unconstrained_shape: tuple[int, ...]
    ) -> Variable:
        """Describe one observation."""
        dims = model.named_vars_to_dims.get(self.name)
        if dims is not None and self.single is None:
            dims = [dim for axis, dim in enumerate(dims) if axis not in self.axes]
        return describe(model, self.name, self.transform, shape, unconstrained_shape, dims)


def _first(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Return the order of axes with some of them first."""
    return (*axes, *(axis for axis in range(ndim) if axis not in axes))


def find_layout(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: Sequence[str] | None,
    length: TensorVariable,
    *,
    name: str,
    resized: Mapping[TensorVariable, TensorVariable] | None = None,
    several: bool = False,
    observed: np.ndarray | None = None,
    axes: tuple[int, ...] | None = None,
) -> Layout:
    """Find the axes that count observations, and let their number be any.

    Variables that this one may depend on were `resized` before. A single observation is refused if
    there must be `several`. With `observed` counts of several kinds, coordinates are the same
    whatever the parameters. Which axes count observations may be known as `axes`.
    """
    (shape,) = evaluate_shapes([rv])
    n_batch = rv.ndim - support_dims(rv)
    is_single = n_batch == 0 and axes is None
    if axes is None:
        axes = (0,)
    if sample_dims is not None:
        axes, is_single = _sample_axes(model, name, n_batch, sample_dims), False
    lengths = (1,) if is_single else tuple(shape[axis] for axis in axes)
    if several and np.prod(lengths) <= 1:
        kind = ValueError if np.prod(shape) == 1 else NotWholeError
        raise kind(f"The observed variable {name!r} is {one_observation(rv, shape)}")

    # The variables this one depends on get the symbolic number of observations too.
    (free,) = replaced_in([rv], resized) if resized else (rv,)
    size = [rv.shape[axis] for axis in range(n_batch)]
    if not is_single:
        size[axes[0]] = length
    try:
        free = change_dist_size(free, (length,) if is_single else size, expand=is_single)
    except (NotImplementedError, MissingInputError):
        # Some distributions cannot have a symbolic size: they are tested at the size they have.
        if is_single:
            free = change_dist_size(free, (1,), expand=True)
    if free.name != name:
        # A copy: the variable may still be the model's own.
        free = free.owner.clone().outputs[free.owner.outputs.index(free)]
        free.name = name
    if is_discrete(rv):
        transform = lattice_transform(free, observed)
    else:
        transform = inner_transform(free)
        check_unconstrained(free, transform, "observed")
    return Layout(name, free, transform, axes, lengths, rv if is_single else None)


def one_observation(rv: TensorVariable, shape: tuple[int, ...]) -> str:
    """Say what a single observation is, why it cannot be checked, and what can be done."""
    op = rv.owner.op
    if int(np.prod(shape)) == 1:
        return (
            "a single number: a distribution cannot be told from one observation. Check a model "
            "with several observations, or compare the number with posterior predictive draws."
        )
    if support_dims(rv) == 0:
        return (
            f"a single observation, of shape {shape}, because its first axis counts observations. "
            "Name the dims that count them with `sample_dims`, or give the variable one axis."
        )
    if isinstance(op, MultinomialRV | DirichletMultinomialRV):
        return (
            f"a single vector of counts, of shape {shape}. It is compared by the items that were "
            "counted: there must be at least 2 of them, none missing, and `sample_dims` left out."
        )
    if type(op).__name__ in _PATHS:
        return (
            f"a single path, of shape {shape}. It is compared by its steps, each given the values "
            "before it, if none is missing and `sample_dims` is left out. Fill the gaps, or write "
            "it by its one-step distributions."
        )
    return (
        f"a single vector, of shape {shape}: its elements depend on each other, so that all of "
        "them are one observation, which is not a sample. MvNormal (a marginal GP), MvStudentT, "
        "KroneckerNormal and CAR vectors are compared element by element, each given those before "
        "it, if none is missing and `sample_dims` is left out; others are not. Write the "
        "dependence as a variable of its own, with an independent error for each element, or give "
        "several vectors a dim of their own."
    )


def _sample_axes(
    model: pm.Model, name: str, n_batch: int, sample_dims: Sequence[str]
) -> tuple[int, ...]:
    """Return the axes of an observed variable that the given dims are."""
    dims = list(model.named_vars_to_dims.get(name, ()))
    missing = [dim for dim in sample_dims if dim not in dims]
    if missing:
        raise ValueError(
            f"`sample_dims` must be dims of the observed variable {name!r} "
            f"({', '.join(map(str, dims)) or 'it has none'}), got {', '.join(missing)}."
        )
    axes = tuple(dims.index(dim) for dim in sample_dims)
    if max(axes) >= n_batch:
        raise ValueError(
            f"`sample_dims` must count independent observations of {name!r}, but "
            f"{dims[max(axes)]!r} is an axis of a single one."
        )
    return axes


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
            moved = np.transpose(full, _first(self.axes, full.ndim))
            table = moved.reshape(self.numbers.size, -1)
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
        shape = shape[: layout.rv.ndim - support_dims(layout.rv)]
    all_dims = model.named_vars_to_dims.get(name) or ()
    dims = tuple(
        str(all_dims[axis]) if axis < len(all_dims) and all_dims[axis] else f"{name}_dim_{axis}"
        for axis in axes
    )
    places = Places(name, numbers, dims, labels_along(model, dims, numbers.shape), shape, axes)
    return places if layout.complete is None else places.only(layout.complete)


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
    for _ in range(support_dims(rv)):
        places = places[..., 0]
    return places
