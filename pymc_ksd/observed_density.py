"""The density or probability of a model's observed variables, for models without free variables.

PyMC gives observed variables no transform; the distribution's default transform is applied here, so
that data on a bounded support are compared in unconstrained coordinates too. The first axis of an
observed variable counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.basic import transformed_conditional_logp
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function, inline_inner_graphs
from pymc_ksd.lattice import check_whole, is_discrete, step_rates, within_dtype
from pymc_ksd.model_variables import (
    Density,
    check_observed_logp,
    compile_simulation,
    describe,
    gradient_of,
    is_circular,
    log_density,
    unconstrained_graph,
)
from pymc_ksd.observation_layout import (
    Layout,
    explain_lengths,
    find_layout,
    in_layout,
    point_dims,
)

__all__ = ["observed_density"]


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
        check_observed_logp(rv)
    discrete = [is_discrete(rv) for rv in rvs]
    if any(discrete) and not all(discrete):
        counts = ", ".join(str(rv.name) for rv in rvs if is_discrete(rv))
        raise ValueError(
            f"The observed variables are partly discrete ({counts}) and partly continuous: they "
            "have no common Stein operator. Test them one by one with `var_names`; where one "
            "depends on another, put that in as pm.Data."
        )
    if any(discrete):
        _check_independent(rvs)
    length = pt.lscalar("length")
    layouts: list[Layout] = []
    for rv in rvs:
        layouts.append(find_layout(model, rv, sample_dims, length, rvs[: len(layouts)], layouts))
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
            point_dims(model, layout),
        )
        for layout, part in zip(layouts, unconstrained, strict=True)
    )

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = unconstrain_parts(samples)
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    arguments = (layouts, [v.unconstrained_shape for v in variables], length, compile_kwargs)
    return Density(
        variables=variables,
        gradient=None if any(discrete) else _gradient(*arguments),
        rates=_rates(*arguments) if any(discrete) else None,
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


def _check_independent(rvs: Sequence[TensorVariable]) -> None:
    """Refuse counts that are parameters of other counts, whose range their steps could leave."""
    for rv in rvs:
        above = set(ancestors([rv]))
        parents = [str(other.name) for other in rvs if other is not rv and other in above]
        if parents:
            raise ValueError(
                f"The observed counts {rv.name!r} depend on the observed counts "
                f"{', '.join(parents)}. Put those in as pm.Data to test {rv.name!r} given them, "
                "and test them by themselves with `var_names`."
            )


def _own_data(
    model: pm.Model, rvs: Sequence[TensorVariable], layouts: Sequence[Layout]
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


def _forward_graphs(
    layouts: Sequence[Layout], length: TensorVariable
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
    layouts: Sequence[Layout], length: TensorVariable
) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """Return the map from samples to unconstrained values, both with observations first."""
    function = None
    if any(layout.transform is not None for layout in layouts):
        function = compile_function(*_forward_graphs(layouts, length))

    def unconstrain(samples: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        parts = [np.asarray(samples[layout.name], dtype=np.float64) for layout in layouts]
        for layout, part in zip(layouts, parts, strict=True):
            if is_discrete(layout.rv):
                check_whole(layout.name, part)
        if function is None:
            return parts
        inputs = in_layout(layouts, parts)
        with np.errstate(all="ignore"), explain_lengths(layouts, len(parts[0])):
            outputs = function(*inputs)
        return [
            layout.to_points(np.asarray(output, dtype=np.float64))
            for layout, output in zip(layouts, outputs, strict=True)
        ]

    return unconstrain


def _gradient(
    layouts: Sequence[Layout],
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

    def gradient(points: np.ndarray) -> np.ndarray:
        n = len(points)
        outputs = _call(function, layouts, shapes, points)
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


def _rates(
    layouts: Sequence[Layout],
    shapes: Sequence[tuple[int, ...]],
    length: TensorVariable,
    compile_kwargs: Mapping[str, Any] | None,
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the rates of steps up and down from many observations on a lattice."""
    _, forward = _forward_graphs(layouts, length)
    values = [layout.free_length(graph) for layout, graph in zip(layouts, forward, strict=True)]
    function = compile_function(values, _log_densities(layouts, values, length), compile_kwargs)

    sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
    dtypes = [layout.rv.dtype for layout in layouts for _ in range(sizes[layouts.index(layout)])]

    def log_probability(points: np.ndarray) -> np.ndarray:
        held = np.stack(
            [within_dtype(column, kind) for column, kind in zip(points.T, dtypes, strict=True)], 1
        )
        terms = _call(function, layouts, shapes, np.where(held, points, 0.0))
        total = np.where(held.all(axis=1), 0.0, -np.inf)
        for layout, term in zip(layouts, terms, strict=True):
            total += layout.to_points(np.asarray(term)).reshape(len(points), -1).sum(axis=1)
        return total

    def rates(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return step_rates(log_probability, points)

    return rates


def _call(
    function: Callable[..., list[np.ndarray]],
    layouts: Sequence[Layout],
    shapes: Sequence[tuple[int, ...]],
    points: np.ndarray,
) -> list[np.ndarray]:
    """Give points to a function of one array for each variable, arranged as the model has them."""
    n = len(points)
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes])[:-1]
    parts = [
        part.reshape(n, *shape)
        for part, shape in zip(np.split(points, stops, axis=1), shapes, strict=True)
    ]
    inputs = in_layout(layouts, parts)
    with np.errstate(all="ignore"), explain_lengths(layouts, n):
        return function(*inputs)


def _log_densities(
    layouts: Sequence[Layout], values: Sequence[TensorVariable], length: TensorVariable
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
            rvs_to_transforms={rv: layouts[0].transform},
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


def _simulate(
    layouts: Sequence[Layout], length: TensorVariable
) -> Callable[[int, np.random.Generator], Mapping[str, np.ndarray]]:
    """Return a sampler of any number of observations."""
    compiled: list[Callable[..., list[np.ndarray]]] = []

    def simulate(n: int, rng: np.random.Generator) -> Mapping[str, np.ndarray]:
        if not compiled:
            compiled.append(compile_simulation([length], [layout.rv for layout in layouts]))
        with explain_lengths(layouts, n):
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
