"""The density of an observed variable given the free ones, evaluated draw by draw.

Free variables are inputs of all functions, so nothing is compiled for another draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import (
    compile_function,
    compile_key,
    kept,
    one_at_a_time,
    replaced_in,
)
from pymc_ksd.models.lattice import is_discrete, is_nominal, operator_values
from pymc_ksd.models.log_density import (
    as_tuple,
    check_observed_logp,
    compile_repeated_sampler,
    evaluate_shapes,
    is_circular,
    labels_along,
    model_key,
    named_variables,
)
from pymc_ksd.models.observed.censoring import Completion
from pymc_ksd.models.observed.count_moments import compile_count_moments
from pymc_ksd.models.observed.functions import Observations, compile_quantiles, draws_in_a_loop
from pymc_ksd.models.observed.given import PartInputs
from pymc_ksd.models.observed.layout import Layout, Places, find_layout, find_places, is_split
from pymc_ksd.models.observed.names import different
from pymc_ksd.models.observed.numbers import parameter_graphs
from pymc_ksd.models.observed.part import Input, Part
from pymc_ksd.models.observed.parts import find_parts, part_name, whole_part
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
        The variable as a graph of the free ones, or of what is computed from them once a draw.
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
    source : str
        The model's variable that they are a part of.
    numbers : tuple of TensorVariable
        Graphs of the variable's parameters, in which its inputs are looked for.
    along : tuple of Input
        Where observations are along a path.
    past : callable, optional
        Returns what came before each observation, by name, shape (n, columns) each.
    completed : callable, optional
        Takes observations and a generator and draws those that are hidden beyond a bound.
    moments : callable, optional
        Returns means and standard deviations of counts, shape (n, *shape) each, where they are
        known.
    quantity : str
        What observations are, where they are not the variable's own values.
    is_nominal : bool
        Whether they are categories that have no order.
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
    source: str
    numbers: tuple[TensorVariable, ...]
    along: tuple[Input, ...] = ()
    past: Callable[..., dict[str, np.ndarray]] | None = None
    completed: Callable[..., np.ndarray] | None = None
    moments: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None
    quantity: str = ""
    is_nominal: bool = False

    @property
    def same_data(self) -> bool:
        """Whether residuals of the observations are the same at all draws.

        There are no free variables, and nothing is drawn in the place of hidden values.
        """
        return not self.given and self.completed is None

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

    With `common_coordinates`, which kind of counts with a known total is left out is decided by the
    model's data; without, by each draw of the parameters. Then a variable that is not a sample by
    itself is taken apart, see :func:`fitted_densities`, and this is the last of its parts.
    """
    if not common_coordinates:
        return fitted_densities(model, rv, sample_dims, compile_kwargs)[-1]
    whole = whole_part(model, rv)
    dims = _own_sample_dims(model, whole.name, as_tuple(sample_dims))
    return _kept_density(model, rv, whole, dims, compile_kwargs, common_coordinates=True)


def fitted_densities(
    model: pm.Model,
    rv: TensorVariable,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> list[FittedDensity]:
    """Return the densities of all parts of an observed variable given the free variables."""
    dims = _own_sample_dims(model, whole_part(model, rv).name, as_tuple(sample_dims))
    parts = find_parts(model, rv, dims)
    return [_kept_density(model, rv, part, dims, compile_kwargs) for part in parts]


def _kept_density(
    model: pm.Model,
    rv: TensorVariable,
    part: Part,
    dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    *,
    common_coordinates: bool = False,
) -> FittedDensity:
    """Return the density of a part, which is kept as long as the model."""
    key = (
        "fitted",
        model_key(model),
        rv.name,
        part.key,
        evaluate_shapes([part.rv])[0],
        dims,
        compile_key(compile_kwargs),
        common_coordinates,
    )
    density: FittedDensity = kept(
        model, key, lambda: _build(model, rv, part, dims, compile_kwargs, common_coordinates)
    )
    return density


def _build(
    model: pm.Model,
    rv: TensorVariable,
    part: Part,
    sample_dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    common_coordinates: bool,
) -> FittedDensity:
    check_observed_logp(part.rv)
    observed = part.data()
    (shape,) = evaluate_shapes([part.rv])
    if not common_coordinates:
        _check_lengths(part.name, observed.shape, shape)
    length = pt.lscalar("length")
    layout = find_layout(
        model,
        part.rv,
        None if part.axes else sample_dims,
        length,
        name=part.name,
        several=True,
        observed=observed if common_coordinates else None,
        axes=part.axes,
    )
    given = PartInputs.of(model, rv, part, layout.rv)
    shared = given.once.sharing()
    complete = None if part.left_out is None else _complete(part.name, layout, part.left_out)
    layout = replace(layout, rv=given.resized, complete=complete)
    observations = Observations([layout], length, given.inputs)
    plain = observations.compile_unconstrain()
    unconstrain = shared(plain)
    example = layout.to_points(observed if observed.shape == shape else np.ones(shape))
    # With any values a covariance might have no Cholesky factor: then a part's inputs are given.
    unconstrained = (plain if part.inputs else unconstrain)({part.name: example}, *given.some)[0]
    unconstrained_shape = unconstrained.shape[1:]
    sampler = shared(observations.compile_sampler())
    cut = given.rv
    many = shared(compile_repeated_sampler([cut], given.inputs, at_once=not draws_in_a_loop(cut)))
    moments = compile_count_moments(layout, cut, shape, given.inputs)
    density = FittedDensity(
        variable=_described(model, part, layout, example.shape[1:], unconstrained_shape),
        rv=cut,
        given=given.names,
        operator="birth_death" if is_discrete(cut) else "langevin",
        circular=(part.name,) if is_circular(layout.transform) else (),
        places=part.places or _own_places(model, rv, part, layout, shape),
        complete=complete,
        data=lambda: _checked(part, layout, shape),
        simulate=lambda n, rng, *known: sampler(n, rng, *known)[part.name],
        simulate_many=lambda times, rng, *known: np.stack(
            [layout.to_points(np.asarray(values)) for values in many(times, rng, *known)[0]]
        ),
        quantiles=shared(compile_quantiles(layout, cut, shape, given.inputs)),
        unconstrain=lambda values, *known: unconstrain({part.name: values}, *known)[0].reshape(
            len(values), -1
        ),
        log_density=shared(observations.compile_log_density([unconstrained_shape], compile_kwargs)),
        parameters=shared(_compile_parameters(layout, given, _parameter_names(model, part, given))),
        source=part_name(model, whole_part(model, rv).name),
        numbers=given.numbers,
        along=tuple(part.along),
        past=_compile_past(part, layout, given),
        moments=None if moments is None else shared(moments),
        quantity=part.quantity,
        is_nominal=is_nominal(part.rv),
    )
    return one_at_a_time(_with_completion(density, layout, given, shared))


def _described(
    model: pm.Model,
    part: Part,
    layout: Layout,
    shape: tuple[int, ...],
    unconstrained_shape: tuple[int, ...],
) -> Variable:
    """Describe one observation, with dims of its own if it has any."""
    variable = layout.describe(model, shape, unconstrained_shape)
    if part.dims is None:
        return variable
    return replace(variable, dims=part.dims, coords=labels_along(model, part.dims, shape))


def _with_completion(
    density: FittedDensity,
    layout: Layout,
    given: PartInputs,
    shared: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> FittedDensity:
    """Let values beyond the bounds be hidden where they are drawn, and completed."""
    if not given.bounds:
        return density
    completion = Completion(layout, given.rv, given.bounds, given.inputs)
    draw, hidden = density.simulate, shared(completion.hidden)
    return replace(
        density,
        simulate=lambda n, rng, *known: hidden(draw(n, rng, *known), *known),
        completed=shared(completion.completed),
    )


def _compile_past(
    part: Part, layout: Layout, given: PartInputs
) -> Callable[..., dict[str, np.ndarray]] | None:
    """Return what came before each observation."""
    if not part.past:
        return None
    graphs = replaced_in(part.past, given.replaced)
    function = compile_function(list(given.once.inputs), graphs)

    def past(*known: np.ndarray) -> dict[str, np.ndarray]:
        found = {}
        for count, values in enumerate(function(*known), start=1):
            points = layout.to_points(np.asarray(values, dtype=np.float64))
            found[f"{count} before"] = points.reshape(len(points), -1)
        return found

    return past


def _checked(part: Part, layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """Return the observations as they are now."""
    values = part.data()
    _check_lengths(part.name, values.shape, shape)
    return layout.to_points(values)


def _own_places(
    model: pm.Model, rv: TensorVariable, part: Part, layout: Layout, shape: tuple[int, ...]
) -> Places:
    """Return where observations are in the model's own variable."""
    own = whole_part(model, rv).name
    places = find_places(model, rv, replace(layout, name=own), shape)
    return places if part.name == own else replace(places, name=part.name)


def _complete(name: str, layout: Layout, left_out: np.ndarray) -> np.ndarray:
    """Tell which observations have no elements that are left out."""
    points = layout.to_points(left_out)
    complete = np.logical_not(points.reshape(len(points), -1)).all(axis=1)
    if complete.sum() < 2:
        raise ValueError(
            f"The observed variable {name!r} has {complete.sum()} observations without elements "
            "that are missing, or values with a probability of their own: at least 2 are needed."
        )
    return complete


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


def _parameter_names(model: pm.Model, part: Part, given: PartInputs) -> list[str]:
    """Return what parameters are called: not like a single number that is a variable of its own."""
    own = {name for name, one in model.named_vars.items() if not getattr(one, "ndim", 1)}
    return [f"{name} of {part.name}" if name in own else name for name in given.parameter_names]


def _compile_parameters(
    layout: Layout, given: PartInputs, names: Sequence[str]
) -> Callable[..., dict[str, np.ndarray]]:
    """Return the distribution's parameters that differ between observations, by their names."""
    function = compile_function(given.inputs, list(parameter_graphs(given.rv)))

    def parameters(*known: np.ndarray) -> dict[str, np.ndarray]:
        found = []
        for key, values in zip(names, function(*known), strict=True):
            array = np.asarray(values)
            if tuple(array.shape[a] for a in layout.axes if a < array.ndim) == layout.lengths:
                points = layout.to_points(array.astype(np.float64))
                found.append((key, points.reshape(len(points), -1)))
        own = different(key for key, _ in found)
        return {key: table for key, (_, table) in zip(own, found, strict=True)}

    return parameters
