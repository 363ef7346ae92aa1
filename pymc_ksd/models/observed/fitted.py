"""The density of an observed variable given the free ones, evaluated draw by draw.

Free variables are inputs of all functions, so nothing is compiled for another draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function, compile_key, kept, one_at_a_time
from pymc_ksd.models.lattice import is_discrete, operator_values
from pymc_ksd.models.log_density import (
    as_tuple,
    check_observed_logp,
    compile_repeated_sampler,
    evaluate_shapes,
    is_circular,
    model_key,
    named_variables,
)
from pymc_ksd.models.observed.functions import Observations, compile_quantiles, draws_in_a_loop
from pymc_ksd.models.observed.layout import Layout, Places, find_layout, find_places, is_split
from pymc_ksd.models.target import Variable

#: Values of free variables at one draw.
Given = tuple[np.ndarray, ...]


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
        of all functions but `data`.
    operator : str
        The Stein operator that goes with it.
    circular : tuple of str
        The variable's name if it lives on a circle.
    places : Places
        Where observations are in the model.
    complete : ndarray of bool, optional
        Which observations have no missing elements, if any have; the others are left out.
    data : callable
        Returns the model's own observations, shape (n, *shape).
    simulate : callable
        Takes n and a generator; draws n observations.
    simulate_many : callable
        Takes a number and a generator; draws all of the model's own observations so many times,
        shape (times, n, *shape).
    quantiles : callable
        Maps shares to quantiles of the model's own observations, shape (shares, n, *shape), or to
        None where PyMC does not know them.
    unconstrain : callable
        Maps observations to points of shape (n, d).
    log_density : callable
        Maps points to log densities, shape (n,), and, unless they are counts, scores, shape (n, d).
    parameters : callable
        Returns the distribution's own parameters by name, shape (n, columns) each, as far as they
        differ between observations.
    """

    variable: Variable
    rv: TensorVariable
    given: tuple[str, ...]
    operator: str
    circular: tuple[str, ...]
    places: Places
    complete: np.ndarray | None
    data: Callable[[], np.ndarray]
    simulate: Callable[..., np.ndarray]
    simulate_many: Callable[..., np.ndarray]
    quantiles: Callable[..., np.ndarray | None]
    unconstrain: Callable[..., np.ndarray]
    log_density: Callable[..., tuple[np.ndarray, np.ndarray | None]]
    parameters: Callable[..., dict[str, np.ndarray]]

    def values(self, points: np.ndarray, *given: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what the Stein operator takes: scores, or the rates of steps up and down."""
        return operator_values(self.operator, lambda moved: self.log_density(moved, *given), points)


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
    names = as_tuple(var_names)
    if names is None:
        return list(known.values())
    if not names:
        raise ValueError("`var_names` must name at least one variable, got none.")
    parts = {name.removesuffix("_observed"): name for name in known if is_split(model, name)}
    names = tuple(name if name in known else parts.get(name, name) for name in names)
    return named_variables(model.observed_RVs, names, "observed")


def fitted_density(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    *,
    common_coordinates: bool = False,
) -> FittedDensity:
    """Return the density of one observed variable given the free variables.

    It is kept as long as the model, see :func:`pymc_ksd.compilation.kept`. With
    `common_coordinates`, which kind of counts with a known total is left out is decided by the
    model's data; without, by each draw of the parameters.
    """
    dims = as_tuple(sample_dims)
    key = (
        "fitted",
        model_key(model),
        rv.name,
        evaluate_shapes([rv])[0],
        dims,
        compile_key(compile_kwargs),
        common_coordinates,
    )
    density: FittedDensity = kept(
        model, key, lambda: _build(model, rv, dims, compile_kwargs, common_coordinates)
    )
    return density


def _build(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    common_coordinates: bool,
) -> FittedDensity:
    name, whole, observed, is_missing = _whole(model, rv)
    check_observed_logp(whole)
    sample_dims = _own_sample_dims(model, name, sample_dims)
    (shape,) = evaluate_shapes([whole])
    if not common_coordinates:
        _check_lengths(name, observed.shape, shape)
    length = pt.lscalar("length")
    counts = observed if common_coordinates else None
    layout = find_layout(
        model, whole, sample_dims, length, name=name, several=True, observed=counts
    )
    free, own, fixed = _given_free(model, rv, whole, layout.rv)
    complete = None if is_missing is None else _complete(name, layout.to_points(is_missing))
    layout = replace(layout, rv=fixed, complete=complete)
    observations = Observations([layout], length, list(free.values()))
    unconstrain = observations.compile_unconstrain()
    # Any values will do, it is shapes that are asked for.
    some = [np.ones(s, v.dtype) for s, v in zip(evaluate_shapes([*free]), free, strict=True)]
    example = layout.to_points(observed if observed.shape == shape else np.ones(shape))
    unconstrained_shape = unconstrain({name: example}, *some)[0].shape[1:]
    sampler = observations.compile_sampler()
    many = compile_repeated_sampler([own], observations.given, at_once=not draws_in_a_loop(own))
    density = FittedDensity(
        variable=layout.describe(model, example.shape[1:], unconstrained_shape),
        rv=own,
        given=tuple(str(variable.name) for variable in free),
        operator="birth_death" if is_discrete(rv) else "langevin",
        circular=(name,) if is_circular(layout.transform) else (),
        places=find_places(model, rv, layout, shape),
        complete=complete,
        data=_compile_data(model, rv, layout, shape, None if is_missing is None else observed),
        simulate=lambda n, rng, *given: sampler(n, rng, *given)[name],
        simulate_many=lambda times, rng, *given: np.stack(
            [layout.to_points(np.asarray(part)) for part in many(times, rng, *given)[0]]
        ),
        quantiles=compile_quantiles(layout, own, shape, observations.given),
        unconstrain=lambda values, *given: unconstrain({name: values}, *given)[0].reshape(
            len(values), -1
        ),
        log_density=observations.compile_log_density([unconstrained_shape], compile_kwargs),
        parameters=_compile_parameters(layout, own, observations.given),
    )
    return one_at_a_time(density)


def _complete(name: str, is_missing: np.ndarray) -> np.ndarray:
    """Tell which observations have no missing elements."""
    complete = np.logical_not(is_missing.reshape(len(is_missing), -1)).all(axis=1)
    if complete.sum() < 2:
        raise ValueError(
            f"The observed variable {name!r} has {complete.sum()} observations "
            "without missing elements: at least 2 are needed."
        )
    return complete


def _given_free(
    model: pm.Model, rv: TensorVariable, whole: TensorVariable, resized: TensorVariable
) -> tuple[dict[TensorVariable, TensorVariable], TensorVariable, TensorVariable]:
    """Return inputs in the place of free variables, and both variables as graphs of them."""
    # What it depends on directly: the parents of free variables do not matter once these are known.
    others = [other for other in model.basic_RVs if other is not rv]
    above = set(ancestors([whole, resized], blockers=others))
    free = {v: v.type(name=str(v.name)) for v in model.free_RVs if v in above}
    known = {o: model.rvs_to_values[o] for o in model.observed_RVs if o in above and o is not rv}
    fixed, own = graph_replace([resized, whole], {**free, **known}, strict=False)
    return free, own, fixed


def _compile_data(
    model: pm.Model,
    rv: TensorVariable,
    layout: Layout,
    shape: tuple[int, ...],
    filled: np.ndarray | None,
) -> Callable[[], np.ndarray]:
    """Return a function for the observations as they are then; where some are missing, filled."""
    if filled is not None:
        return lambda: layout.to_points(filled)
    values = compile_function([], model.rvs_to_values[rv])

    def data() -> np.ndarray:
        array = np.asarray(values())
        _check_lengths(layout.name, array.shape, shape)
        return layout.to_points(array)

    return data


def _check_lengths(name: str, given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Refuse observations of another shape than their parameters."""
    if given != shape:
        raise ValueError(
            f"The model has observations of {name!r} of shape {given}, but its parameters are for "
            f"{shape}: set observations and inputs to the same length with pm.set_data, to those "
            "that the model was fitted to if inputs were set for predictions since."
        )


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


def _compile_parameters(
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
            if tuple(array.shape[a] for a in layout.axes if a < array.ndim) == layout.lengths:
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
