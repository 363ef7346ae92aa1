"""What users call the parameters of a distribution, and the numbers in its graph."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import Distribution
from pytensor.graph.basic import Apply
from pytensor.scalar import Cast, Identity, Mul
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from pytensor.tensor.variable import TensorVariable

#: What a parameter is called where neither the user nor PyMC has a name for it.
_NO_PARAMETER_NAME = "fitted value"
#: What an input is called that has no name and stands beside no variable that has one.
_NO_INPUT_NAME = "unnamed input"


def parameter_name(graph: TensorVariable, op: Any, index: int) -> str:
    """Return what a distribution's parameter is called: by the user, or by PyMC.

    Parameters
    ----------
    graph : TensorVariable
        The parameter.
    op : Op
        The distribution.
    index : int
        Which of its parameters it is.

    Returns
    -------
    str
    """
    own = _behind(graph).name
    if own:
        return str(own)
    if isinstance(getattr(op, "base_rv_op", None), RandomVariable):
        # Of a truncated one: behind a generator and a size come those of what is truncated.
        op, index = op.base_rv_op, index - 2
    known = _parameters_of(op.__class__)
    return known[index] if 0 <= index < len(known) else _NO_PARAMETER_NAME


@cache
def _parameters_of(kind: Hashable) -> tuple[str, ...]:
    """Return the names of a distribution's parameters, in the order of its density."""
    for found in vars(pm.distributions).values():
        if not (inspect.isclass(found) and issubclass(found, Distribution)):
            continue
        own = getattr(found, "rv_type", None) or type(getattr(found, "rv_op", None))
        if own is kind and hasattr(found, "logp"):
            _, *names = inspect.signature(found.logp).parameters
            return tuple(names)
    return ()


def different(names: Iterable[str]) -> list[str]:
    """Return names, numbered where several are the same."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def as_written(label: Any) -> Any:
    """Return a label as people write it: dates without a time that says nothing."""
    if isinstance(label, datetime) and label.tzinfo is None:
        label = np.datetime64(label)
    if isinstance(label, np.datetime64):
        return str(np.datetime_as_string(label, unit="auto"))
    return label


def column_names(name: str, count: int, labels: Sequence[Any] | None = None) -> list[str]:
    """Return the names of an array's columns, with their labels where there are any."""
    if count == 1:
        return [name]
    if labels is None or len(labels) != count:
        labels = range(count)
    return [f"{name}[{as_written(label)}]" for label in labels]


class InputNames:
    """Names of the numbers in a graph.

    Parameters
    ----------
    model : pm.Model
        The model, whose dims and labels are used.
    nodes : iterable of TensorVariable
        The graph.
    parameters : iterable of (str, TensorVariable)
        The distribution's parameters, whose names inputs have that are one and have no other.
    """

    def __init__(
        self,
        model: pm.Model,
        nodes: Iterable[TensorVariable],
        parameters: Iterable[tuple[str, TensorVariable]] = (),
    ) -> None:
        self._model = model
        self._parameters = {_behind(graph): name for name, graph in parameters}
        self._users: dict[Any, list[Apply]] = defaultdict(list)
        for owner in dict.fromkeys(node.owner for node in nodes if node.owner is not None):
            for own in dict.fromkeys(owner.inputs):
                self._users[own].append(owner)

    def of(self, node: TensorVariable, value: np.ndarray, count: int) -> list[str]:
        """Return the names of the columns of an input.

        That of the data; where they have none, that of the variable they are multiplied with, of
        the dim they are an index of, or of the parameter that they are.
        """
        if node.name:
            return column_names(str(node.name), count, self._labels(str(node.name), -1, value.ndim))
        for owner, place in self._first_users(node):
            others = [one for one in map(_behind, owner.inputs) if one.name]
            if _is_lookup(owner):
                if place and others:
                    return column_names(self._group_name(owner, place), count)
            elif others:
                return self._beside(owner, place, count)
        return column_names(self._parameters.get(node, _NO_INPUT_NAME), count)

    def _first_users(self, node: Any) -> Iterator[tuple[Apply, int]]:
        """Walk what a variable is used for, behind changes of its shape or type."""
        for owner in self._users[node]:
            if _is_transparent(owner):
                yield from self._first_users(owner.outputs[0])
            else:
                yield owner, owner.inputs.index(node)

    def _group_name(self, owner: Apply, place: int) -> str:
        """Return the dim that an index belongs to, or whose groups it tells."""
        array = _behind(owner.inputs[0])
        dims = self._model.named_vars_to_dims.get(array.name, ())
        if place - 1 < len(dims):
            return str(dims[place - 1])
        return f"group of {array.name}"

    def _beside(self, owner: Apply, place: int, count: int) -> list[str]:
        """Return names by the variable that an input is multiplied with."""
        for index, other in enumerate(owner.inputs):
            found = _behind(other)
            if index == place or not found.name:
                continue
            labels = self._labels(str(found.name), 0)
            if count > 1 and labels is not None and len(labels) == count:
                if all(isinstance(label, str) for label in labels):
                    return [str(label) for label in labels]
                return [f"input of {found.name}[{as_written(label)}]" for label in labels]
            if isinstance(owner.op, Elemwise) and not isinstance(owner.op.scalar_op, Mul):
                continue
            return column_names(f"input of {found.name}{self._position(other, labels)}", count)
        return column_names(_NO_INPUT_NAME, count)

    def _labels(self, name: str, axis: int, ndim: int | None = None) -> Sequence[Any] | None:
        """Return the labels of a variable along an axis."""
        dims = self._model.named_vars_to_dims.get(name, ())
        if not dims or (ndim is not None and (ndim != len(dims) or ndim < 2)):
            return None
        return self._model.coords.get(str(dims[axis]))

    def _position(self, variable: Any, labels: Sequence[Any] | None) -> str:
        """Return which element of a variable is taken, as users write it."""
        while variable.owner is not None and _is_transparent(variable.owner):
            variable = variable.owner.inputs[0]
        if variable.owner is None or not isinstance(variable.owner.op, Subtensor):
            return ""
        taken = get_constant_idx(variable.owner.op.idx_list, variable.owner.inputs, True)
        if len(taken) != 1 or not isinstance(taken[0], int | np.integer):
            return ""
        number = int(taken[0])
        known = labels is not None and -len(labels) <= number < len(labels)
        return f"[{as_written(labels[number]) if known and labels is not None else number}]"


def _is_transparent(owner: Apply) -> bool:
    """Whether a node changes the shape or the type of its input alone."""
    op = owner.op
    if isinstance(op, Elemwise):
        return isinstance(op.scalar_op, Cast | Identity)
    return isinstance(op, DimShuffle) or type(op).__name__ in ("Reshape", "SpecifyShape", "Assert")


def _is_lookup(owner: Apply) -> bool:
    # One class in PyTensor 3, two in PyTensor 2.
    return type(owner.op).__name__.startswith("AdvancedSubtensor")


def _behind(variable: Any) -> Any:
    """Return what a variable is before changes of its shape, or before an element was taken."""
    while not variable.name and variable.owner is not None:
        if not (_is_transparent(variable.owner) or isinstance(variable.owner.op, Subtensor)):
            break
        variable = variable.owner.inputs[0]
    return variable
