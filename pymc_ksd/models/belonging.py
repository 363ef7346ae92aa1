"""What a model computes from its free variables, to tell whether stored draws belong to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from pymc_ksd.compilation import built_once, compile_function, kept, one_at_a_time, replaced_in
from pymc_ksd.models.log_density import model_key
from pymc_ksd.models.target import Belonging, Variable

#: Deterministics with more nodes than this are not computed again.
_MOST_NODES = 1_000
#: How far a mean may be from zero, in standard deviations, to be that of a centred column.
_CENTRED = 1e-9


def belonging(model: pm.Model) -> Belonging:
    """Return what a model computes from its free variables; it is kept as long as the model."""
    found: Belonging = kept(
        model, ("belonging", model_key(model)), lambda: one_at_a_time(_build(model))
    )
    return found


def _build(model: pm.Model) -> Belonging:
    free = list(model.free_RVs)
    names = tuple(str(rv.name) for rv in free)
    chosen = [graph for graph in model.deterministics if _is_simple(graph, free)]

    def compiled() -> Callable[..., list[np.ndarray]]:
        inputs = {rv: rv.type(name=f"{rv.name}_given") for rv in free}
        graphs = replaced_in(chosen, inputs)
        function: Callable[..., list[np.ndarray]] = compile_function([*inputs.values()], graphs)
        return function

    function = built_once(compiled)
    kinds = [rv.dtype for rv in free]
    outputs = [str(graph.name) for graph in chosen]

    def compute(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = [np.asarray(values[n], dtype=kind) for n, kind in zip(names, kinds, strict=True)]
        with np.errstate(all="ignore"):
            return dict(zip(outputs, function()(*given), strict=True))

    # Not the model itself, which would then never be let go.
    observed = {str(rv.name): model.rvs_to_values[rv] for rv in model.observed_RVs}
    return Belonging(
        tuple(_labelled(model, name) for name in names),
        tuple(_labelled(model, name) for name in outputs),
        compute,
        _has_centred_inputs(model),
        lambda: _observed(observed),
    )


def _observed(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the data of observed variables, as far as nothing is computed from them first."""
    found = {}
    for name, value in values.items():
        if _is_cast(value):  # as whole numbers are that were given as others
            value = value.owner.inputs[0]
        if isinstance(value, Constant):
            found[name] = np.asarray(value.data)
        elif isinstance(value, SharedVariable):
            found[name] = np.asarray(value.get_value())
    return found


def _is_cast(value: Any) -> bool:
    op = getattr(value.owner, "op", None)
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast)


def _labelled(model: pm.Model, name: str) -> Variable:
    """Return a variable with its dims and their labels."""
    dims = tuple(str(dim) for dim in model.named_vars_to_dims.get(name) or ())
    labels = {dim: model.coords.get(dim) for dim in dims}
    known = {dim: list(values) for dim, values in labels.items() if values is not None}
    return Variable(name, dims=dims or None, coords=known)


def _is_simple(graph: pm.Deterministic, free: Sequence[object]) -> bool:
    """Whether a deterministic is a function of free variables and fixed numbers, and a small one.

    Data that may have been set since tell nothing about the draws.
    """
    nodes = list(ancestors([graph], blockers=free))
    if len(nodes) > _MOST_NODES or not set(free) & set(nodes):
        return False
    inner = [node for node in nodes if node not in free]
    # Also generators of random numbers are shared, and have no dimensions.
    is_data = [
        isinstance(node, SharedVariable) and getattr(node.type, "ndim", 1) > 0 for node in inner
    ]
    ops = [node.owner.op for node in inner if node.owner is not None]
    return not any(is_data) and not any(isinstance(op, RandomVariable | Scan) for op in ops)


def _has_centred_inputs(model: pm.Model) -> bool:
    """Whether a table of inputs of observed variables has columns of mean zero only."""
    for node in ancestors(model.observed_RVs):
        if not isinstance(node, Constant) or getattr(node.data, "ndim", 0) != 2:
            continue
        table = np.asarray(node.data)
        if table.dtype.kind == "f" and len(table) > 1 and table.size:
            spread = table.std(axis=0)
            if (spread > 0).all() and (np.abs(table.mean(axis=0)) <= _CENTRED * spread).all():
                return True
    return False
