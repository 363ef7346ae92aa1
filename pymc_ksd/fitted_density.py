"""The density of an observed variable given the free ones, evaluated draw by draw.

Free variables are inputs of all functions, so nothing is compiled for another draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import (
    FUNCTIONS_LOCK,
    compile_function,
    compile_key,
    one_at_a_time,
)
from pymc_ksd.lattice import is_discrete, step_rates
from pymc_ksd.model_variables import (
    check_observed_logp,
    describe,
    evaluate_shapes,
    is_circular,
    model_key,
)
from pymc_ksd.observation_functions import (
    compile_log_probability,
    compile_quantiles,
    compile_repeated_sampler,
    compile_sampler,
    compile_score_function,
    compile_unconstrain,
)
from pymc_ksd.observation_layout import Layout, find_layout, point_dims, sample_axes
from pymc_ksd.observation_places import Places, find_places, is_split
from pymc_ksd.sample_data import Variable

__all__ = ["FittedDensity", "fitted_density", "observed_variables", "parameter_graphs"]

#: Densities kept for a model; the oldest is dropped beyond this number.
_MAX_KEPT = 32
_densities: WeakKeyDictionary[pm.Model, dict[Any, FittedDensity]] = WeakKeyDictionary()


@dataclass(frozen=True)
class FittedDensity:
    """Observations of one variable and their density for any values of the free variables.

    Attributes
    ----------
    variable : Variable
        One observation.
    rv : TensorVariable
        The variable as a graph of the free ones.
    given : tuple of str
        The free variables that it depends on. Their values, in this order, are the last arguments
        of all functions.
    discrete : bool
        Whether observations are counts.
    circular : tuple of str
        The variable's name if it lives on a circle.
    places : Places
        Where observations are in the model.
    data : callable
        Returns the model's own observations, shape (n, *shape).
    simulate : callable
        ``(n, rng, *given)`` draws observations.
    simulate_many : callable
        ``(times, rng, *given)`` draws all of the model's own observations several times, shape
        (times, n, *shape).
    quantiles : callable, optional
        ``(shares, *given)`` gives quantiles of the model's own observations, shape
        (shares, n, *shape), where PyMC knows them.
    unconstrain : callable
        ``(observations, *given)`` maps them to points of shape (n, d).
    log_density : callable
        ``(points, *given)`` gives their log densities, shape (n,), and, unless they are counts,
        scores, shape (n, d), else None.
    parameters : callable
        ``(*given)`` gives the distribution's own parameters by name, shape (n, columns) each, as
        far as they differ between observations.
    """

    variable: Variable
    rv: TensorVariable
    given: tuple[str, ...]
    discrete: bool
    circular: tuple[str, ...]
    places: Places
    data: Callable[[], np.ndarray]
    simulate: Callable[..., np.ndarray]
    simulate_many: Callable[..., np.ndarray]
    quantiles: Callable[..., np.ndarray] | None
    unconstrain: Callable[..., np.ndarray]
    log_density: Callable[..., tuple[np.ndarray, np.ndarray | None]]
    parameters: Callable[..., dict[str, np.ndarray]]

    def operator(self, points: np.ndarray, *given: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what the Stein operator takes: scores, or the rates of steps up and down."""
        if self.discrete:
            return step_rates(lambda moved: self.log_density(moved, *given)[0], points)
        _, scores = self.log_density(points, *given)
        return (np.asarray(scores),)


def observed_variables(
    model: pm.Model, var_names: str | Sequence[str] | None
) -> list[TensorVariable]:
    """Return the observed variables with these names, all by default.

    A variable with missing values has a part that is observed, ``y_observed``; it can be called by
    its own name too.
    """
    known = {str(rv.name): rv for rv in model.observed_RVs}
    if not known:
        raise ValueError("`model` has no observed variables, so there is nothing to check.")
    if var_names is None:
        return list(known.values())
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    if not names:
        raise ValueError("`var_names` must name at least one variable, got none.")
    parts = {name.removesuffix("_observed"): name for name in known if is_split(model, name)}
    names = [name if name in known else parts.get(name, name) for name in names]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name observed variables ({', '.join(known)}), got "
            f"{', '.join(unknown)}."
        )
    return [rv for name, rv in known.items() if name in names]


def fitted_density(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> FittedDensity:
    """Return the density of one observed variable given the free variables.

    It is kept as long as the model, see :func:`pymc_ksd.compile_score`.
    """
    dims = [sample_dims] if isinstance(sample_dims, str) else sample_dims
    key = (
        model_key(model),
        rv.name,
        evaluate_shapes([rv])[0],
        None if dims is None else tuple(dims),
        compile_key(compile_kwargs),
    )
    with FUNCTIONS_LOCK:
        kept = _densities.setdefault(model, {})
        if key not in kept:
            while len(kept) >= _MAX_KEPT:
                kept.pop(next(iter(kept)))
            kept[key] = _locked(_build(model, rv, dims, compile_kwargs))
        return kept[key]


def _locked(density: FittedDensity) -> FittedDensity:
    """Return a density whose functions run in one thread at a time."""
    lock = RLock()
    members: dict[str, Any] = {
        field.name: getattr(density, field.name) for field in fields(density)
    }
    for name, member in members.items():
        if callable(member):
            members[name] = one_at_a_time(member, lock)
    return FittedDensity(**members)


def _build(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> FittedDensity:
    name, whole, observed, is_missing = _whole(model, rv)
    check_observed_logp(whole)
    sample_dims = _own_sample_dims(model, name, sample_dims)
    (shape,) = evaluate_shapes([whole])
    _check_sample(model, whole, name, shape, sample_dims)

    length = pt.lscalar("length")
    resized = find_layout(model, whole, sample_dims, length, [], [], name=name, observed=observed)
    # What it depends on directly: the parents of free variables do not matter once these are known.
    others = [other for other in model.basic_RVs if other is not rv]
    above = set(ancestors([whole, resized.rv], blockers=others))
    free = [variable for variable in model.free_RVs if variable in above]
    inputs = [variable.type(name=str(variable.name)) for variable in free]
    known = dict(zip(free, inputs, strict=True))
    known |= {o: model.rvs_to_values[o] for o in model.observed_RVs if o in above and o is not rv}
    fixed, own = graph_replace([resized.rv, whole], known, strict=False)
    layout = replace(resized, rv=fixed)
    layouts = [layout]

    unconstrain_parts = compile_unconstrain(layouts, length, inputs)
    # Any values will do, it is shapes that are asked for.
    some = [np.ones(s, v.dtype) for s, v in zip(evaluate_shapes(free), free, strict=True)]
    example = layout.to_points(observed if observed.shape == shape else np.ones(shape))
    unconstrained = unconstrain_parts({name: example}, *some)[0]
    variable = describe(
        model,
        fixed,
        layout.transform,
        example.shape[1:],
        unconstrained.shape[1:],
        point_dims(model, layout),
    )
    variable = replace(variable, name=name)
    arguments = (layouts, [variable.unconstrained_shape], length, compile_kwargs, inputs)
    if is_discrete(rv):
        log_probability = compile_log_probability(*arguments)

        def log_density(
            points: np.ndarray, *given: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray | None]:
            return log_probability(points, *given), None
    else:
        log_density = compile_score_function(*arguments)
    sampler = compile_sampler(layouts, length, inputs)
    values = compile_function([], model.rvs_to_values[rv])

    def data() -> np.ndarray:
        array = np.asarray(values())
        if array.shape != shape:
            raise ValueError(
                f"The model has {array.shape[0]} observations of {name!r}, but its parameters are "
                f"for {shape[0]}: set observations and inputs to the same length."
            )
        return layout.to_points(array)

    def simulate(n: int, rng: np.random.Generator, *given: np.ndarray) -> np.ndarray:
        return sampler(n, rng, *given)[name]

    def unconstrain(values: np.ndarray, *given: np.ndarray) -> np.ndarray:
        return unconstrain_parts({name: values}, *given)[0].reshape(len(values), -1)

    density = FittedDensity(
        variable=variable,
        rv=own,
        given=tuple(str(variable.name) for variable in free),
        discrete=is_discrete(rv),
        circular=(name,) if is_circular(layout.transform) else (),
        places=find_places(model, rv, layout, shape),
        data=data,
        simulate=simulate,
        simulate_many=compile_repeated_sampler(layout, own, inputs),
        quantiles=None if is_discrete(rv) else compile_quantiles(layout, own, shape, inputs),
        unconstrain=unconstrain,
        log_density=log_density,
        parameters=_parameters(layout, own, inputs),
    )
    if is_missing is None:
        return density
    return _complete_part(density, layout.to_points(observed), layout.to_points(is_missing))


def _own_sample_dims(
    model: pm.Model, name: str, sample_dims: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the dims that count a variable's observations, None for its first axis."""
    if sample_dims is None:
        return None
    if is_split(model, name):
        raise ValueError(
            f"`sample_dims` was given, but {name.removesuffix('_observed')!r} has missing values: "
            "its elements that are observed are checked one by one."
        )
    dims = {str(rv.name): model.named_vars_to_dims.get(rv.name, ()) for rv in model.observed_RVs}
    somewhere = any(set(sample_dims) <= set(own) for own in dims.values())
    has_them = set(sample_dims) <= set(dims.get(name, ()))
    # With several observed variables they belong to those that have them.
    return None if somewhere and not has_them else sample_dims


def _check_sample(
    model: pm.Model,
    rv: TensorVariable,
    name: str,
    shape: tuple[int, ...],
    sample_dims: Sequence[str] | None,
) -> None:
    """Refuse one observation, such as a path or a vector, in the place of a sample."""
    n_batch = rv.ndim - rv.owner.op.ndim_supp
    axes = (0,) if sample_dims is None else sample_axes(model, name, n_batch, sample_dims)
    if n_batch and int(np.prod([shape[axis] for axis in axes])) > 1:
        return
    kind = "path or vector" if rv.ndim else "number"
    raise ValueError(
        f"The observed variable {name!r} is a single observation, of shape {shape}: one {kind} is "
        "not a sample, and a distribution cannot be told from it. Write a time series by its "
        "one-step distributions, each given the values before it, give several series a dim of "
        "their own, or check summaries of the path by other means."
    )


def _whole(
    model: pm.Model, rv: TensorVariable
) -> tuple[str, TensorVariable, np.ndarray, np.ndarray | None]:
    """Return the variable that an observed part belongs to, its values, and which are missing.

    Missing ones have some other value of the variable in their place.
    """
    observed = np.asarray(compile_function([], model.rvs_to_values[rv])())
    if not isinstance(rv.owner.op, PartialObservedRV):
        return str(rv.name), rv, observed, None
    whole, mask = rv.owner.inputs[:2]
    is_missing = np.asarray(compile_function([], mask)(), dtype=bool)
    full = np.full(is_missing.shape, observed[0], dtype=observed.dtype)
    full[~is_missing] = observed
    return str(rv.name).removesuffix("_observed"), whole, full, is_missing


def _complete_part(
    density: FittedDensity, data: np.ndarray, is_missing: np.ndarray
) -> FittedDensity:
    """Return the density of the observations that have no missing elements."""
    complete = np.logical_not(is_missing.reshape(len(data), -1)).all(axis=1)
    if complete.sum() < 2:
        raise ValueError(
            f"The observed variable {density.variable.name!r} has {complete.sum()} observations "
            "without missing elements: at least 2 are needed."
        )
    n = len(data)

    def filled(values: np.ndarray) -> np.ndarray:
        full = np.repeat(values[:1], n, axis=0)
        full[complete] = values
        return full

    def log_density(points: np.ndarray, *given: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        values, scores = density.log_density(filled(points), *given)
        return values[complete], None if scores is None else scores[complete]

    def parameters(*given: np.ndarray) -> dict[str, np.ndarray]:
        return {key: part[complete] for key, part in density.parameters(*given).items()}

    of_all = density.quantiles
    return replace(
        density,
        places=density.places.only(complete),
        data=lambda: data[complete],
        simulate=lambda _, rng, *given: density.simulate(n, rng, *given)[complete],
        simulate_many=lambda times, rng, *given: density.simulate_many(times, rng, *given)[
            :, complete
        ],
        quantiles=of_all and (lambda shares, *given: of_all(shares, *given)[:, complete]),
        unconstrain=lambda values, *given: density.unconstrain(filled(values), *given)[complete],
        log_density=log_density,
        parameters=parameters,
    )


def _parameters(
    layout: Layout, rv: TensorVariable, inputs: Sequence[TensorVariable]
) -> Callable[..., dict[str, np.ndarray]]:
    """Return the distribution's parameters that differ between observations."""
    graphs = list(parameter_graphs(rv))
    function = compile_function(list(inputs), graphs)
    names = [str(graph.name or f"parameter {index}") for index, graph in enumerate(graphs)]

    def parameters(*given: np.ndarray) -> dict[str, np.ndarray]:
        found = {}
        for key, values in zip(names, function(*given), strict=True):
            array = np.asarray(values)
            if array.ndim > max(layout.axes) and all(
                array.shape[axis] == length
                for axis, length in zip(layout.axes, layout.lengths, strict=True)
            ):
                points = layout.to_points(array.astype(np.float64))
                found[key] = points.reshape(len(points), -1)
        return found

    return parameters


def parameter_graphs(rv: TensorVariable) -> Iterator[TensorVariable]:
    """Walk the parameters of a distribution, and of those it is made of."""
    node = rv.owner
    try:
        candidates = node.op.dist_params(node)
    except (AttributeError, ValueError):
        candidates = node.inputs
    for graph in candidates:
        if graph.owner is not None and isinstance(
            graph.owner.op, RandomVariable | SymbolicRandomVariable
        ):
            yield from parameter_graphs(graph)
        elif isinstance(graph.type, TensorType) and graph.ndim and graph.dtype != "bool":
            yield graph
