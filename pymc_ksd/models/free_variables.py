"""The density of a model's free variables: joint prior without observations, posterior with them.

Two routes lead from the gradient's graph to a function of many points. Graphs made of array
operations are vectorised over points and interpreted (see :mod:`pymc_ksd.compilation`): ready at
once. Others (decompositions, loops, black boxes, large models with functions NumPy lacks) go
through PyMC's own compiled function of one point, which sampling may already have compiled.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import (
    FUNCTIONS_LOCK,
    built_once,
    compile_function,
    inline_inner_graphs,
    unoptimised_function,
)
from pymc_ksd.models.log_density import (
    check_free_logp,
    check_has_logp,
    check_parents,
    check_unconstrained,
    compile_repeated_sampler,
    describe,
    evaluate_shapes,
    explain_missing_gradient,
    explain_missing_logp,
    gradient_of,
    is_circular,
    named_variables,
    unconstrained_graph,
)
from pymc_ksd.models.operations import numbers_computed
from pymc_ksd.models.target import Target, Variable

#: Maps points to scores and log densities, see :class:`pymc_ksd.models.target.Target`.
Gradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
#: Modules whose operations work on arrays of any number of dimensions with NumPy alone.
_ARRAY_MODULES = (
    "pytensor.tensor.basic",
    "pytensor.tensor.elemwise",
    "pytensor.tensor.math",
    "pytensor.tensor.subtensor",
    "pytensor.tensor.shape",
    "pytensor.tensor.special",
    "pytensor.tensor.extra_ops",
    "pytensor.tensor.reshape",
    "pytensor.raise_op",
    "pymc.logprob.utils",
    "pymc.distributions.dist_math",
    "pytensor.scalar.basic",
)
#: Linear algebra that may be repeated for every point, with matrices that are the same for all.
_SOLVERS = ("SolveTriangular", "Solve", "CholeskySolve")
#: Element-by-element calls per point that the interpreted route may make.
_SLOW_CALLS = 1_000
#: Numbers that one temporary of the interpreted gradient may hold.
_TEMPORARY_NUMBERS = 2_000_000


def free_target(
    model: pm.Model, var_names: Sequence[str] | None, compile_kwargs: Mapping[str, Any] | None
) -> Target:
    """Return the target over the free variables in PyMC's unconstrained coordinates."""
    rvs = _select(model, var_names)
    for rv in rvs:
        check_free_logp(rv)
    for rv in model.observed_RVs:
        check_has_logp(rv, "observed")
    for rv in rvs:
        check_unconstrained(rv, model.rvs_to_transforms[rv], "free")
    constrained = {rv: rv.type(name=f"{rv.name}_constrained") for rv in rvs}
    forward = [
        unconstrained_graph(model.rvs_to_transforms[rv], value, rv.owner.inputs)
        for rv, value in constrained.items()
    ]
    # What one point's unconstrained values are of its constrained ones.
    unconstrained = graph_replace(forward, constrained, strict=False)
    own_values = {value: rv for rv, value in constrained.items()}
    shapes = evaluate_shapes([*rvs, *graph_replace(unconstrained, own_values, strict=False)])
    variables = tuple(
        describe(
            model,
            str(rv.name),
            model.rvs_to_transforms[rv],
            shape,
            free_shape,
            model.named_vars_to_dims.get(rv.name),
            unconstrained_name=str(model.rvs_to_values[rv].name),
        )
        for rv, shape, free_shape in zip(rvs, shapes[: len(rvs)], shapes[len(rvs) :], strict=True)
    )
    is_posterior = bool(model.observed_RVs or model.potentials)
    prior = _simulate(rvs)
    # Not the model itself, which must not be kept by what is kept for it.
    reference = weakref.ref(model)
    gradient = built_once(lambda: _gradient(_alive(reference), rvs, variables, compile_kwargs))
    return Target(
        variables=variables,
        operator="langevin",
        values=lambda points: gradient()(points),
        unconstrain=_unconstrain(model, constrained, unconstrained),
        simulate=None if is_posterior else prior,
        no_simulation="a posterior, or a density with a Potential, cannot be simulated directly",
        circular=tuple(str(rv.name) for rv in rvs if is_circular(model.rvs_to_transforms[rv])),
        kind="posterior" if is_posterior else "prior",
        pointwise=True,
        constrain=_constrain(model, rvs, variables),
        prior=prior,
        build=gradient,
        log_density=_log_density(reference, rvs, variables),
        numbers_computed=lambda: _numbers_computed(_alive(reference), rvs, variables),
    )


def _alive(reference: weakref.ref[pm.Model]) -> pm.Model:
    """Return the model, unless nobody holds it any more."""
    model = reference()
    if model is None:
        raise ValueError("The model of this Score has been deleted: keep a reference to it.")
    return model


def _joint(model: pm.Model, rvs: Sequence[TensorVariable]) -> TensorVariable:
    """Return the graph of the log density of some free variables, or of all of them."""
    return model.logp(vars=list(rvs)) if len(rvs) < len(model.free_RVs) else model.logp()


def _numbers_computed(
    model: pm.Model, rvs: Sequence[TensorVariable], variables: Sequence[Variable]
) -> float:
    shapes = (variable.unconstrained_shape for variable in variables)
    values = [model.rvs_to_values[rv] for rv in rvs]
    # Writing graphs changes PyTensor's configuration.
    with FUNCTIONS_LOCK:
        return numbers_computed(_joint(model, rvs), dict(zip(values, shapes, strict=True)))


def _log_density(
    reference: weakref.ref[pm.Model],
    rvs: Sequence[TensorVariable],
    variables: Sequence[Variable],
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the log density of a few points, from a graph that is evaluated as it stands.

    Nothing is rewritten, which takes most of the time even where nothing is compiled.
    """

    def build() -> Any:
        model = _alive(reference)
        return unoptimised_function([model.rvs_to_values[rv] for rv in rvs], _joint(model, rvs))

    function = built_once(build)
    stops = np.cumsum([variable.unconstrained_size for variable in variables])[:-1]

    def log_density(points: np.ndarray) -> np.ndarray:
        found = []
        with np.errstate(all="ignore"):
            for point in points:
                parts = zip(variables, np.split(point, stops), strict=True)
                shaped = [part.reshape(v.unconstrained_shape) for v, part in parts]
                found.append(float(function()(*shaped)))
        return np.array(found)

    return log_density


def _select(model: pm.Model, var_names: Sequence[str] | None) -> list[TensorVariable]:
    chosen = named_variables(model.free_RVs, var_names, "free")
    if len(chosen) < len(model.free_RVs) and (model.observed_RVs or model.potentials):
        raise ValueError(
            "`var_names` cannot pick some variables of a posterior: its marginal densities, and "
            "with them their scores, are unknown. Test all free variables together; the result "
            "shows how much each contributes."
        )
    check_parents(chosen, model.free_RVs)
    return chosen


def _unconstrain(
    model: pm.Model,
    constrained: Mapping[TensorVariable, TensorVariable],
    unconstrained: Sequence[TensorVariable],
) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    names = [str(rv.name) for rv in constrained]
    function = None
    if any(model.rvs_to_transforms[rv] is not None for rv in constrained):
        batches = {
            value: TensorType("float64", shape=(None, *value.type.shape))(name=f"{name}_batch")
            for name, value in zip(names, constrained.values(), strict=True)
        }
        casts = {value: batch.astype(value.dtype) for value, batch in batches.items()}
        function = compile_function([*batches.values()], vectorize_graph(unconstrained, casts))

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        values = [np.asarray(samples[name], dtype=np.float64) for name in names]
        n = len(values[0])
        if function is not None:
            with np.errstate(all="ignore"):
                values = function(*values)
        return np.concatenate([np.reshape(value, (n, -1)) for value in values], axis=1)

    return unconstrain


def _constrain(
    model: pm.Model, rvs: Sequence[TensorVariable], variables: Sequence[Variable]
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return the way back from points, which is compiled when it is first taken."""
    # Not the model itself, which must not be kept by what is kept for it.
    values = [model.rvs_to_values[rv] for rv in rvs]
    transforms = [model.rvs_to_transforms[rv] for rv in rvs]

    def build() -> Any:
        graphs = [
            value if transform is None else transform.backward(value, *rv.owner.inputs)
            for rv, value, transform in zip(rvs, values, transforms, strict=True)
        ]
        # Bounds may depend on other variables, which are on the users' scale there.
        own = dict(zip(rvs, graphs, strict=True))
        while not set(ancestors(graphs)).isdisjoint(rvs):
            graphs = graph_replace(graphs, own, strict=False)
        batches = {
            value: pt.tensor(f"batch_{i}", dtype="float64", shape=(None, *v.unconstrained_shape))
            for i, (value, v) in enumerate(zip(values, variables, strict=True))
        }
        casts = {value: batch.astype(value.dtype) for value, batch in batches.items()}
        return compile_function([*batches.values()], vectorize_graph(graphs, casts))

    function = built_once(build)
    stops = np.cumsum([variable.unconstrained_size for variable in variables])[:-1]

    def constrain(points: np.ndarray) -> dict[str, np.ndarray]:
        parts = zip(variables, np.split(points, stops, axis=1), strict=True)
        shaped = [part.reshape(len(points), *v.unconstrained_shape) for v, part in parts]
        found = zip(variables, function()(*shaped), strict=True)
        return {v.name: np.broadcast_to(array, (len(points), *v.shape)) for v, array in found}

    return constrain


def _gradient(
    model: pm.Model,
    rvs: Sequence[TensorVariable],
    variables: Sequence[Variable],
    compile_kwargs: Mapping[str, Any] | None,
) -> Gradient:
    names = [variable.name for variable in variables]
    shapes = {
        model.rvs_to_values[rv]: variable.unconstrained_shape
        for rv, variable in zip(rvs, variables, strict=True)
    }
    subset = len(rvs) < len(model.free_RVs)
    with explain_missing_logp(names):
        logp = _joint(model, rvs)
    numbers = sum(variable.unconstrained_size for variable in variables) + sum(
        int(np.prod(evaluate_shapes([rv])[0], dtype=int)) for rv in model.observed_RVs
    )
    if not compile_kwargs and _is_array_graph(logp, list(shapes)):
        function = _interpreted_gradient(logp, shapes, names)
        if _slow_elements(function) * numbers <= _SLOW_CALLS:
            return _in_chunks(function, max(1, _TEMPORARY_NUMBERS // numbers))
    options = dict(compile_kwargs or {})
    if subset:
        flat, outputs = _flat_gradient(logp, shapes, names)
        compiled = pm.compile([flat], outputs, **options)
        return _in_chunks(lambda rows: compiled(rows[0]), 1)
    zeros = {value.name: np.zeros(shape, value.dtype) for value, shape in shapes.items()}
    with explain_missing_gradient(names):
        compiled = model.logp_dlogp_function(ravel_inputs=True, initial_point=zeros, **options)
    compiled.set_extra_values({})
    return _in_chunks(lambda rows: compiled(rows[0].astype(compiled.dtype)), 1)


def _flat_gradient(
    logp: TensorVariable, shapes: Mapping[TensorVariable, tuple[int, ...]], names: Sequence[str]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Return one vector for all unconstrained values, and log density and gradient there."""
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes.values()]).tolist()
    flat = pt.vector("point", shape=(stops[-1],), dtype="float64")
    parts = {
        value: flat[start:stop].reshape(shape).astype(value.dtype)
        for (value, shape), start, stop in zip(shapes.items(), [0, *stops[:-1]], stops, strict=True)
    }
    (joined,) = graph_replace([logp], parts, strict=False)
    (gradient,) = gradient_of(joined, [flat], names)
    return flat, [joined, gradient]


def _interpreted_gradient(
    logp: TensorVariable, shapes: Mapping[TensorVariable, tuple[int, ...]], names: Sequence[str]
) -> Any:
    # A check that fails for one point must not fail for all.
    per_point = in2out(local_check_parameter_to_ninf_switch)
    logp = rewrite_graph(logp, include=(), custom_rewrite=per_point)
    flat, outputs = _flat_gradient(logp, shapes, names)
    points = pt.matrix("points", shape=(None, *flat.type.shape), dtype="float64")
    return compile_function([points], vectorize_graph(inline_inner_graphs(outputs), {flat: points}))


def _is_array_graph(logp: TensorVariable, values: Sequence[TensorVariable]) -> bool:
    """Whether all that depends on the values are array operations, solvers with fixed matrices."""
    dependent = set(values)
    for node in io_toposort(list(values), [logp]):
        inside = [variable in dependent for variable in node.inputs]
        if not any(inside):
            continue
        dependent.update(node.outputs)
        op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if type(op).__name__ in _SOLVERS:
            if inside[0]:
                return False
        elif not _is_array_operation(op):
            return False
    return True


def _is_array_operation(op: Any) -> bool:
    """Whether an operation, or all that its inner graph is made of, works on arrays."""
    op = op.core_op if isinstance(op, Blockwise) else op
    if isinstance(op, OpFromGraph):
        return all(_is_array_operation(node.op) for node in op.fgraph.apply_nodes)
    return type(op).__module__.startswith(_ARRAY_MODULES)


def _slow_elements(function: Any) -> int:
    """Count the nodes that NumPy has no function for, so that they run element by element."""
    return sum(
        isinstance(node.op, Elemwise) and getattr(node.op.scalar_op, "nfunc_spec", None) is None
        for node in function.maker.fgraph.apply_nodes
    )


def _in_chunks(function: Any, size: int) -> Gradient:
    def gradient(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores, log_densities = np.empty_like(points), np.empty(len(points))
        with np.errstate(all="ignore"):
            for start in range(0, len(points), size):
                chunk = slice(start, start + size)
                log_densities[chunk], scores[chunk] = function(points[chunk])
        scores[~np.isfinite(log_densities)] = np.nan
        return scores, log_densities

    return gradient


def _simulate(
    rvs: Sequence[TensorVariable],
) -> Callable[[int, np.random.Generator], Mapping[str, np.ndarray]]:
    """Return a sampler of n points: all at once when no variable depends on another."""
    names = [str(rv.name) for rv in rvs]
    independent = not any(
        other in set(ancestors([rv])) for rv in rvs for other in rvs if other is not rv
    )
    sampler = compile_repeated_sampler(rvs, at_once=independent)
    return lambda n, rng: dict(zip(names, sampler(n, rng), strict=True))
