"""Where the observations of an observed variable are, and how arrays are arranged by them.

The first axis counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.transforms import _default_transform
from pytensor.graph.replace import graph_replace
from pytensor.graph.utils import MissingInputError
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.lattice import is_discrete, lattice_transform
from pymc_ksd.model_variables import check_unconstrained, evaluate_shapes

__all__ = ["Layout", "explain_lengths", "find_layout", "in_layout", "point_dims", "sample_axes"]


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
    """

    name: str
    rv: TensorVariable
    transform: Any
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    single: TensorVariable | None

    def free_length(self, variable: TensorVariable) -> TensorVariable:
        """Return a variable like the given one for any number of observations."""
        shape = [
            None if axis in self.axes else size for axis, size in enumerate(variable.type.shape)
        ]
        return TensorType(self.rv.dtype, shape=tuple(shape))(name=f"{self.name}_value")

    def _order(self, ndim: int) -> tuple[int, ...]:
        return (*self.axes, *(axis for axis in range(ndim) if axis not in self.axes))

    def to_points(self, values: np.ndarray) -> np.ndarray:
        """Bring observations to the first axis, all of them."""
        moved = np.transpose(values, self._order(values.ndim))
        return moved.reshape(-1, *moved.shape[len(self.axes) :])

    def from_points(self, points: np.ndarray) -> np.ndarray:
        """Undo :meth:`to_points`, for any number of observations along the first such axis."""
        full = points.reshape(-1, *self.lengths[1:], *points.shape[1:])
        return np.transpose(full, np.argsort(self._order(full.ndim)))


def find_layout(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: Sequence[str] | None,
    length: TensorVariable,
    earlier: Sequence[TensorVariable],
    earlier_layouts: Sequence[Layout],
    *,
    name: str | None = None,
    observed: np.ndarray | None = None,
) -> Layout:
    """Find the axes that count observations, and let their number be any.

    `earlier` are the variables that this one may depend on, with their layouts. A variable without
    a name of its own gets one by `name`. Where parameters have no values yet, the most frequent of
    several kinds is taken from `observed` counts.
    """
    name = str(name or rv.name)
    (shape,) = evaluate_shapes([rv])
    n_batch = rv.ndim - rv.owner.op.ndim_supp
    axes: tuple[int, ...] = (0,)
    is_single = n_batch == 0
    if sample_dims is not None:
        axes, is_single = sample_axes(model, name, n_batch, sample_dims), False
    lengths = (1,) if is_single else tuple(shape[axis] for axis in axes)

    # The variables this one depends on get the symbolic number of observations too.
    resized = dict(zip(earlier, [layout.rv for layout in earlier_layouts], strict=True))
    (free,) = graph_replace([rv], resized, strict=False) if resized else (rv,)
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
        transform = _default_transform(free.owner.op, free)
        check_unconstrained(free, transform, "observed")
    return Layout(name, free, transform, axes, lengths, rv if is_single else None)


def sample_axes(
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


def point_dims(model: pm.Model, layout: Layout) -> list[str | None] | None:
    """Return the dims of one observation, None when the variable has no dims."""
    dims = model.named_vars_to_dims.get(layout.name)
    if dims is None:
        return None
    if layout.single is not None:
        return list(dims)
    return [dim for axis, dim in enumerate(dims) if axis not in layout.axes]


def in_layout(layouts: Sequence[Layout], parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrange arrays with observations first as the model has them."""
    return [
        np.ascontiguousarray(layout.from_points(part), dtype=layout.rv.dtype)
        for layout, part in zip(layouts, parts, strict=True)
    ]


@contextmanager
def explain_lengths(layouts: Sequence[Layout], n: int) -> Iterator[None]:
    """Say it when a model with parameters for each observation gets another number of them."""
    own = int(np.prod(layouts[0].lengths))
    try:
        yield
    except (AssertionError, ValueError) as error:
        if n == own:
            raise
        raise ValueError(
            f"`data` has {n} observations, but the model is written for {own} of "
            f"{', '.join(layout.name for layout in layouts)}: its parameters have one value for "
            "each observation. Give as many, or change the model's data with pm.set_data."
        ) from error
