"""What a target over PyMC variables is made of: shapes, transforms, log-probability, gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.multivariate import LKJCorrRV, WishartRV
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.transforms import LogExpM1, _default_transform
from pymc.logprob.transforms import (
    ChainedTransform,
    CircularTransform,
    IntervalTransform,
    LogOddsTransform,
    LogTransform,
)
from pymc.pytensorf import find_rng_nodes, replace_rng_nodes, reseed_rngs, rewrite_pregrad
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MethodNotDefined, MissingInputError
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import (
    built_once,
    compile_function,
    interpreted_mode,
    without_compiler,
)
from pymc_ksd.models.lattice import is_discrete
from pymc_ksd.models.target import Variable

_ELEMENTWISE = (
    LogTransform,
    LogExpM1,
    IntervalTransform,
    LogOddsTransform,
    CircularTransform,
)
#: How close the way to unconstrained coordinates and back must lead, as PyMC checks simplices.
_ROUND_TRIP_TOLERANCE = 1e-5


class NotWholeError(ValueError):
    """A variable that is no sample with a score as it is, though parts of it may be."""


def model_key(model: pm.Model) -> tuple[Any, ...]:
    """Return what tells a model's densities apart from those it had before it was changed."""
    return (
        tuple(id(rv) for rv in model.basic_RVs),
        tuple(id(potential) for potential in model.potentials),
        tuple((dim, int(_current_value(length))) for dim, length in model.dim_lengths.items()),
        tuple((dim, labels and tuple(labels)) for dim, labels in model.coords.items()),
    )


def held_value(variable: Any) -> Any:
    """Return the value of a constant or of shared data, None for anything else."""
    if isinstance(variable, Constant):
        return variable.data
    return variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else None


def _current_value(variable: Any) -> Any:
    """Return the value of a small graph of constants and shared data, without compiling it.

    The length of a dim without labels is such a graph: an entry of the shape of a ``pm.Data``.
    """
    if variable.owner is None:
        return held_value(variable)
    node = variable.owner
    outputs: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, [_current_value(part) for part in node.inputs], outputs)
    return outputs[node.outputs.index(variable)][0]


def is_elementwise(transform: Any) -> bool:
    """Whether a transform acts on every element by itself."""
    if transform is None:
        return True
    if isinstance(transform, ChainedTransform):
        return all(is_elementwise(part) for part in transform.transform_list)
    return isinstance(transform, _ELEMENTWISE) or getattr(transform, "ndim_supp", None) == 0


def is_circular(transform: Any) -> bool:
    """Whether a transform leaves a variable on a circle."""
    if isinstance(transform, ChainedTransform):
        return any(is_circular(part) for part in transform.transform_list)
    return isinstance(transform, CircularTransform)


def check_has_logp(rv: TensorVariable, role: str) -> None:
    """Refuse variables without a log-probability."""
    if isinstance(rv.owner.op, SimulatorRV):
        raise ValueError(
            f"The {role} variable {rv.name!r} is a Simulator: it has no log-probability, so there "
            "is no score. Compare simulations with the data by other means, or replace it by a "
            "distribution with a density."
        )


def check_free_logp(rv: TensorVariable) -> None:
    """Refuse free variables for which no score exists, and say what to do instead."""
    check_has_logp(rv, "free")
    if is_discrete(rv):
        raise ValueError(
            f"The free variable {rv.name!r} is discrete ({rv.dtype}). The score is a gradient and "
            "needs continuous variables. Sum the discrete variable out first, for example with "
            "pymc_extras.marginalize or a Mixture likelihood."
        )
    _check_no_atoms(rv, "free")


def check_observed_logp(rv: TensorVariable) -> None:
    """Refuse observed variables that have neither a score nor ratios of probabilities."""
    check_has_logp(rv, "observed")
    if not is_discrete(rv):
        _check_no_atoms(rv, "observed")


def _check_no_atoms(rv: TensorVariable, role: str) -> None:
    """Refuse continuous variables that put positive probability on single values."""
    op = rv.owner.op
    if isinstance(op, CensoredRV):
        raise NotWholeError(
            f"The {role} variable {rv.name!r} is censored: its distribution has atoms at the "
            "censoring points and hence no score there. Test the uncensored observations against "
            "pm.Truncated instead."
        )
    parts = [variable.owner.op for variable in rv.owner.inputs if variable.owner is not None]
    if any(isinstance(part, DiracDeltaRV) for part in [op, *parts]):
        raise NotWholeError(
            f"The {role} variable {rv.name!r} puts positive probability on single values "
            "(DiracDelta, hurdle and zero-inflated models of continuous data): it has no score "
            "there. Test the continuous part alone, on the observations away from those values."
        )


def check_unconstrained(rv: TensorVariable, transform: Any, role: str) -> None:
    """Refuse variables on a constrained support that no transform leads out of."""
    if (
        isinstance(rv.owner.op, LKJCorrRV)
        and isinstance(transform, IntervalTransform)
        and rv.type.shape[-1] != 1
    ):
        # Every correlation lies between -1 and 1, but not every such matrix is a correlation one.
        raise ValueError(
            f"The {role} variable {rv.name!r} is an LKJCorr matrix, and this version of PyMC has "
            "no transform from correlation matrices to unconstrained coordinates, where the score "
            "lives. PyMC 6 has one; with PyMC 5 use LKJCholeskyCov."
        )
    if transform is not None:
        return
    if isinstance(rv.owner.op, WishartRV):
        raise ValueError(
            f"The {role} variable {rv.name!r} is a Wishart matrix, and this version of PyMC has no "
            "transform from symmetric positive definite matrices to unconstrained coordinates, "
            "where the score lives. PyMC 6 has one; with PyMC 5 use LKJCholeskyCov."
        )
    if _default_transform(rv.owner.op, rv) is not None:
        raise ValueError(
            f"The {role} variable {rv.name!r} has a constrained support but no transform to "
            "unconstrained coordinates, where the score lives. Leave out "
            "`default_transform=None`, or give a transform."
        )


def unconstrained_graph(
    transform: Any,
    value: TensorVariable,
    inputs: Sequence[Any],
    sample_axes: Sequence[int] = (),
) -> TensorVariable:
    """Return a value in unconstrained coordinates: not finite where it is outside the support.

    Transforms of single elements see that by themselves. Others may ignore part of the value, such
    as the last element of a simplex, so it is compared with where the way back leads.
    """
    if transform is None:
        return value
    forward = pt.as_tensor_variable(transform.forward(value, *inputs))
    if is_elementwise(transform):
        return forward
    returned = transform.backward(forward, *inputs)
    close = (
        pt.eq(returned, value)
        if is_discrete(value)
        else pt.isclose(returned, value, _ROUND_TRIP_TOLERANCE, _ROUND_TRIP_TOLERANCE)
    )
    axes = sorted(sample_axes)
    inside = close.all(axis=tuple(axis for axis in range(value.ndim) if axis not in axes))
    order = [axes.index(axis) if axis in axes else "x" for axis in range(forward.ndim)]
    return pt.switch(inside.dimshuffle(order), forward, np.nan)


@contextmanager
def explain_missing_logp(names: Sequence[str]) -> Iterator[None]:
    """Turn PyMC's errors about missing log-probabilities into one that names the variables."""
    try:
        yield
    except (NotImplementedError, MethodNotDefined, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"No log-probability could be derived for the variable(s) {', '.join(names)}: {error}"
        ) from error


@contextmanager
def explain_missing_gradient(names: Sequence[str]) -> Iterator[None]:
    """Turn PyTensor's errors about missing gradients into one that names the variables."""
    try:
        yield
    except (NotImplementedError, MethodNotDefined, NullTypeGradError) as error:
        raise ValueError(
            "The log-probability cannot be differentiated with respect to the variable(s) "
            f"{', '.join(names)}: {error}"
        ) from error


def gradient_of(
    logp: TensorVariable, inputs: Sequence[TensorVariable], names: Sequence[str]
) -> list[TensorVariable]:
    """Return the gradients of a scalar log density and explain when there are none."""
    with explain_missing_gradient(names), without_compiler():
        return pt.grad(rewrite_pregrad(logp), list(inputs), disconnected_inputs="ignore")


def evaluate_shapes(variables: Sequence[TensorVariable]) -> list[tuple[int, ...]]:
    """Return the shapes of variables, from their types or else from the graph."""
    unknown = [v for v in variables if any(size is None for size in v.type.shape)]
    known = {}
    if unknown:
        shapes = compile_function([], [pt.as_tensor(v.shape) for v in unknown])()
        known = {id(v): shape for v, shape in zip(unknown, shapes, strict=True)}
    return [tuple(int(size) for size in known.get(id(v), v.type.shape)) for v in variables]


def labels_along(
    model: pm.Model, dims: Sequence[str], shape: Sequence[int]
) -> dict[str, list[Any]]:
    """Return the labels of dims, where the model has as many as there are elements."""
    return {
        dim: list(model.coords[dim])
        for dim, size in zip(dims, shape, strict=False)
        if model.coords.get(dim) is not None and len(model.coords[dim]) == size
    }


def describe(
    model: pm.Model,
    name: str,
    transform: Any,
    shape: tuple[int, ...],
    unconstrained_shape: tuple[int, ...],
    dims: Sequence[str | None] | None,
    unconstrained_name: str = "",
) -> Variable:
    """Collect what labels and results need to know about a variable."""
    named = None
    if dims is not None and len(dims) == len(shape) and all(dim is not None for dim in dims):
        named = tuple(str(dim) for dim in dims)
    return Variable(
        name=name,
        shape=shape,
        unconstrained_shape=unconstrained_shape,
        dims=named,
        coords=labels_along(model, named or (), shape),
        transform=None if transform is None else getattr(transform, "name", None),
        unconstrained_name=unconstrained_name,
        elementwise=is_elementwise(transform) and shape == unconstrained_shape,
    )


def compile_simulation(
    inputs: Sequence[TensorVariable], outputs: Sequence[TensorVariable]
) -> Callable[..., list[np.ndarray]]:
    """Return a function ``(rng, *inputs)`` that draws random variables.

    The graph gets random number generators of its own, so those of the model stay as they are.
    """
    fresh = replace_rng_nodes(list(outputs))
    with without_compiler():
        function = pm.compile(
            list(inputs), fresh, mode=interpreted_mode(), on_unused_input="ignore"
        )
    generators = find_rng_nodes(fresh)

    def draw(rng: np.random.Generator, *values: Any) -> list[np.ndarray]:
        reseed_rngs(generators, rng.integers(2**31, size=4))
        return function(*values)

    return draw


def compile_repeated_sampler(
    rvs: Sequence[TensorVariable], given: Sequence[TensorVariable] = (), *, at_once: bool = True
) -> Callable[..., list[np.ndarray]]:
    """Return a sampler ``(times, rng, *given)`` of variables, many times along a new first axis.

    With `at_once`, what their parameters are computed from is computed once for all, except for
    distributions that cannot have a symbolic size.
    """
    times = pt.lscalar("times")

    def build() -> tuple[Callable[..., list[np.ndarray]], bool]:
        many = []
        if at_once:
            with suppress(NotImplementedError, MissingInputError):
                many = [change_dist_size(rv, (times,), expand=True) for rv in rvs]
        return compile_simulation([times, *given], many or rvs), bool(many)

    compiled = built_once(build)

    def simulate(number: int, rng: np.random.Generator, *known: np.ndarray) -> list[np.ndarray]:
        draw, together = compiled()
        if together:
            return draw(rng, number, *known)
        drawn = [draw(rng, number, *known) for _ in range(number)]
        return [np.stack(parts) for parts in zip(*drawn, strict=True)]

    return simulate


def as_tuple(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return one name or several as a tuple, None where none are given."""
    if isinstance(names, str):
        return (names,)
    return None if names is None else tuple(names)


def named_variables(
    rvs: Sequence[TensorVariable], var_names: Sequence[str] | None, role: str
) -> list[TensorVariable]:
    """Return the variables that a user named, in the model's order; all by default."""
    known = {str(rv.name): rv for rv in rvs}
    if var_names is None:
        return list(rvs)
    unknown = [name for name in var_names if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name {role} variables ({', '.join(known)}), got "
            f"{', '.join(unknown)}."
        )
    return [rv for name, rv in known.items() if name in var_names]


def check_parents(rvs: Sequence[TensorVariable], others: Sequence[TensorVariable]) -> None:
    """Refuse to leave out variables that the chosen ones depend on."""
    above = set(ancestors(rvs))
    needed = [str(rv.name) for rv in others if rv in above and rv not in rvs]
    if needed:
        raise ValueError(
            "`var_names` must include every variable that the chosen ones depend on, otherwise "
            f"their marginal density is unknown; missing: {', '.join(needed)}."
        )
