"""The density of a model's observed variables, for models without free variables.

PyMC gives observed variables no transform; the distribution's default transform is applied here, so
that data on a bounded support are compared in unconstrained coordinates too. The first axis of an
observed variable counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.transforms import _default_transform
from pymc.logprob.basic import transformed_conditional_logp
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MissingInputError
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function, inline_inner_graphs
from pymc_ksd.model_variables import (
    Density,
    check_continuous_logp,
    check_unconstrained,
    compile_simulation,
    describe,
    evaluate_shapes,
    gradient_of,
    is_circular,
    log_density,
    unconstrained_graph,
)

__all__ = ["observed_density"]


@dataclass(frozen=True)
class _Layout:
    """Where the observations of a variable are: the axes that count them and their lengths.

    Attributes
    ----------
    name : str
        The variable's name.
    rv : TensorVariable
        The variable with a symbolic number of observations.
    transform : Transform, optional
        Its distribution's default transform.
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
        return pt.tensor(f"{self.name}_value", shape=tuple(shape), dtype=self.rv.dtype)

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


def observed_density(
    model: pm.Model,
    var_names: Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Density:
    """Return the density of the observed variables, one observation a point."""
    rvs = _select(model, var_names)
    if model.potentials:
        raise ValueError(
            "The observed variables of a model without free variables are tested one observation "
            "at a time, and it is not known how the Potential(s) "
            f"{', '.join(str(potential.name) for potential in model.potentials)} divide among "
            "observations. Write them as a CustomDist, or test free variables."
        )
    for rv in rvs:
        check_continuous_logp(rv, "observed")
    length = pt.lscalar("length")
    layouts: list[_Layout] = []
    for rv in rvs:
        layouts.append(_layout(model, rv, sample_dims, length, rvs[: len(layouts)], layouts))
    own_data = _own_data(model, rvs, layouts)
    data = own_data()
    unconstrain_parts = _unconstrain(layouts, length)
    unconstrained = unconstrain_parts(data)
    variables = tuple(
        describe(
            model,
            layout.rv,
            layout.transform,
            data[layout.name].shape[1:],
            part.shape[1:],
            _point_dims(model, layout),
        )
        for layout, part in zip(layouts, unconstrained, strict=True)
    )

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = unconstrain_parts(samples)
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    return Density(
        variables=variables,
        gradient=_gradient(
            layouts, [v.unconstrained_shape for v in variables], length, compile_kwargs
        ),
        unconstrain=unconstrain,
        simulate=_simulate(layouts, length),
        observed=own_data,
        circular=tuple(layout.name for layout in layouts if is_circular(layout.transform)),
        kind="observed",
    )


def _select(model: pm.Model, var_names: Sequence[str] | None) -> list[TensorVariable]:
    known = {str(rv.name): rv for rv in model.observed_RVs}
    if var_names is None:
        return list(known.values())
    unknown = [name for name in var_names if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name observed variables ({', '.join(known)}), got "
            f"{', '.join(unknown)}."
        )
    chosen = [known[name] for name in known if name in var_names]
    above = set(ancestors(chosen))
    needed = [name for name, rv in known.items() if rv in above and rv not in chosen]
    if needed:
        raise ValueError(
            "`var_names` must include every variable that the chosen ones depend on, otherwise "
            f"their marginal density is unknown; missing: {', '.join(needed)}."
        )
    return chosen


def _layout(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: Sequence[str] | None,
    length: TensorVariable,
    earlier: Sequence[TensorVariable],
    earlier_layouts: Sequence[_Layout],
) -> _Layout:
    (shape,) = evaluate_shapes([rv])
    n_batch = rv.ndim - rv.owner.op.ndim_supp
    axes: tuple[int, ...] = (0,)
    is_single = n_batch == 0
    if sample_dims is not None:
        axes, is_single = _sample_axes(model, rv, n_batch, sample_dims), False
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
    free.name = rv.name
    transform = _default_transform(free.owner.op, free)
    check_unconstrained(free, transform, "observed")
    return _Layout(str(rv.name), free, transform, axes, lengths, rv if is_single else None)


def _sample_axes(
    model: pm.Model, rv: TensorVariable, n_batch: int, sample_dims: Sequence[str]
) -> tuple[int, ...]:
    dims = list(model.named_vars_to_dims.get(rv.name, ()))
    missing = [dim for dim in sample_dims if dim not in dims]
    if missing:
        raise ValueError(
            f"`sample_dims` must be dims of the observed variable {rv.name!r} "
            f"({', '.join(map(str, dims)) or 'it has none'}), got {', '.join(missing)}."
        )
    axes = tuple(dims.index(dim) for dim in sample_dims)
    if max(axes) >= n_batch:
        raise ValueError(
            f"`sample_dims` must count independent observations of {rv.name!r}, but "
            f"{dims[max(axes)]!r} is an axis of a single one."
        )
    return axes


def _own_data(
    model: pm.Model, rvs: Sequence[TensorVariable], layouts: Sequence[_Layout]
) -> Callable[[], dict[str, np.ndarray]]:
    """Return a function for the model's observed values as they are then, observations first."""
    function = compile_function([], [model.rvs_to_values[rv] for rv in rvs])

    def own_data() -> dict[str, np.ndarray]:
        data = {}
        for layout, values in zip(layouts, function(), strict=True):
            array = np.asarray(values)
            data[layout.name] = layout.to_points(array if layout.single is None else array[None])
        return data

    return own_data


def _point_dims(model: pm.Model, layout: _Layout) -> list[str | None] | None:
    dims = model.named_vars_to_dims.get(layout.name)
    if dims is None:
        return None
    if layout.single is not None:
        return list(dims)
    return [dim for axis, dim in enumerate(dims) if axis not in layout.axes]


def _forward_graphs(
    layouts: Sequence[_Layout], length: TensorVariable
) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Return variables for data and the unconstrained values as graphs of them."""
    values = [layout.free_length(layout.rv) for layout in layouts]
    forward = [
        unconstrained_graph(layout.transform, value, layout.rv.owner.inputs, layout.axes)
        for layout, value in zip(layouts, values, strict=True)
    ]
    replacements = {layout.rv: value for layout, value in zip(layouts, values, strict=True)}
    replacements[length] = values[0].shape[layouts[0].axes[0]]
    return values, graph_replace(forward, replacements, strict=False)


def _unconstrain(
    layouts: Sequence[_Layout], length: TensorVariable
) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """Return the map from samples to unconstrained values, both with observations first."""
    function = None
    if any(layout.transform is not None for layout in layouts):
        function = compile_function(*_forward_graphs(layouts, length))

    def unconstrain(samples: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        parts = [np.asarray(samples[layout.name], dtype=np.float64) for layout in layouts]
        if function is None:
            return parts
        inputs = _in_layout(layouts, parts)
        with np.errstate(all="ignore"), _explain_lengths(layouts, len(parts[0])):
            outputs = function(*inputs)
        return [
            layout.to_points(np.asarray(output, dtype=np.float64))
            for layout, output in zip(layouts, outputs, strict=True)
        ]

    return unconstrain


def _gradient(
    layouts: Sequence[_Layout],
    shapes: Sequence[tuple[int, ...]],
    length: TensorVariable,
    compile_kwargs: Mapping[str, Any] | None,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the score of many observations: the gradient of the sum of their log densities."""
    names = [layout.name for layout in layouts]
    _, forward = _forward_graphs(layouts, length)
    values = [layout.free_length(graph) for layout, graph in zip(layouts, forward, strict=True)]
    terms = _log_densities(layouts, values, length)
    gradients = gradient_of(sum(term.sum() for term in terms), values, names)
    function = compile_function(values, [*terms, *gradients], compile_kwargs)
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes])[:-1]

    def gradient(points: np.ndarray) -> np.ndarray:
        n = len(points)
        parts = [
            part.reshape(n, *shape)
            for part, shape in zip(np.split(points, stops, axis=1), shapes, strict=True)
        ]
        inputs = _in_layout(layouts, parts)
        with np.errstate(all="ignore"), _explain_lengths(layouts, n):
            outputs = function(*inputs)
        terms, gradients = outputs[: len(layouts)], outputs[len(layouts) :]
        scores = np.concatenate(
            [
                layout.to_points(np.asarray(array)).reshape(n, -1)
                for layout, array in zip(layouts, gradients, strict=True)
            ],
            axis=1,
        )
        for layout, term in zip(layouts, terms, strict=True):
            finite = np.isfinite(layout.to_points(np.asarray(term)).reshape(n, -1))
            scores[~finite.all(axis=1)] = np.nan
        return scores

    return gradient


def _log_densities(
    layouts: Sequence[_Layout], values: Sequence[TensorVariable], length: TensorVariable
) -> list[TensorVariable]:
    """Return the log density of every observation, for each variable."""
    names = [layout.name for layout in layouts]
    rvs = [layout.rv for layout in layouts]

    def together() -> list[TensorVariable]:
        terms = transformed_conditional_logp(
            rvs,
            rvs_to_values=dict(zip(rvs, values, strict=True)),
            rvs_to_transforms={layout.rv: layout.transform for layout in layouts},
        )
        return graph_replace(terms, {length: values[0].shape[layouts[0].axes[0]]}, strict=False)

    def one_by_one() -> list[TensorVariable]:
        rv: Any = layouts[0].single
        value = pt.tensor("value", shape=values[0].type.shape[1:], dtype=values[0].dtype)
        terms = transformed_conditional_logp(
            [rv],
            rvs_to_values={rv: value},
            rvs_to_transforms={rv: _default_transform(rv.owner.op, rv)},
        )
        return vectorize_graph(inline_inner_graphs(terms), {value: values[0]})

    is_single = len(layouts) == 1 and layouts[0].single is not None
    if is_single and rvs[0].type.shape[0] == 1:
        return log_density(one_by_one, names)
    try:
        return log_density(together, names)
    except ValueError as error:
        # PyMC writes the log-probability of some vectors and matrices for a single one only.
        if is_single:
            return log_density(one_by_one, names)
        if all(rv.owner.op.ndim_supp == 0 for rv in rvs):
            raise
        raise ValueError(
            f"{str(error).rstrip('.')}. If that is because the variable holds several "
            "observations, write the model for one observation and give the sample as `data`."
        ) from error


def _in_layout(layouts: Sequence[_Layout], parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [
        np.ascontiguousarray(layout.from_points(part), dtype=layout.rv.dtype)
        for layout, part in zip(layouts, parts, strict=True)
    ]


@contextmanager
def _explain_lengths(layouts: Sequence[_Layout], n: int) -> Iterator[None]:
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


def _simulate(
    layouts: Sequence[_Layout], length: TensorVariable
) -> Callable[[int, np.random.Generator], Mapping[str, np.ndarray]]:
    """Return a sampler of any number of observations."""
    compiled: list[Callable[..., list[np.ndarray]]] = []

    def simulate(n: int, rng: np.random.Generator) -> Mapping[str, np.ndarray]:
        if not compiled:
            compiled.append(compile_simulation([length], [layout.rv for layout in layouts]))
        with _explain_lengths(layouts, n):
            outputs = compiled[0](rng, n // int(np.prod(layouts[0].lengths[1:])))
        for layout, output in zip(layouts, outputs, strict=True):
            if len(layout.to_points(np.asarray(output))) != n:
                raise ValueError(
                    f"`null` 'parametric' draws {n} observations of {layout.name!r}, but PyMC "
                    "cannot draw them in another number than the model has."
                )
        return {
            layout.name: layout.to_points(np.asarray(output))
            for layout, output in zip(layouts, outputs, strict=True)
        }

    return simulate
