"""What is computed once for a draw, however many functions of the observations need it.

Solutions of differential equations, other loops and products with large tables may take far longer
than the density of the outcome. Functions of one draw share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function

#: Operations that take no longer than the outcome's own density, beside elementwise ones: parts of
#: their classes' names.
_LIGHT = ("Subtensor", "Alloc", "MakeVector", "Join", "Reshape", "SpecifyShape", "Shape", "Split")


@dataclass(frozen=True)
class Once:
    """Inputs of graphs, and what takes long to compute from them.

    Attributes
    ----------
    inputs : list of TensorVariable
        The inputs.
    long : dict of TensorVariable to TensorVariable
        What takes long, and the variable that stands for it.
    """

    inputs: list[TensorVariable]
    long: dict[TensorVariable, TensorVariable]

    @property
    def given(self) -> list[TensorVariable]:
        """What graphs depend on after :meth:`cut`."""
        return [*self.inputs, *self.long.values()]

    def cut(self, graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return graphs of :attr:`given`."""
        return list(graph_replace(list(graphs), self.long, strict=False))

    def sharing(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a way from functions of :attr:`given` to functions of the inputs.

        All functions that go this way share what was computed for the inputs of the last call, and
        the data that the model had then.
        """
        if not self.long:
            return lambda function: function
        count, compute = len(self.inputs), compile_function(self.inputs, list(self.long))
        data = [node for node in ancestors(list(self.long)) if isinstance(node, SharedVariable)]
        last: list[Any] = []

        def found(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            # pm.set_data puts another array in the place of the former one.
            now = [*inputs, *(node.get_value(borrow=True) for node in data)]
            if not last or not all(map(_is_same, last[0], now)):
                last[:] = [now, [np.asarray(value) for value in compute(*inputs)]]
            values: Sequence[np.ndarray] = last[1]
            return values

        def shared(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def of_inputs(*arguments: Any) -> Any:
                return function(*arguments, *found(arguments[len(arguments) - count :]))

            return of_inputs

        return shared


def _is_same(first: Any, second: Any) -> bool:
    return first is second


def computed_once(
    graphs: Sequence[TensorVariable],
    parameters: Sequence[TensorVariable],
    inputs: Sequence[TensorVariable],
) -> Once:
    """Find what takes long in the parameters of graphs.

    Parameters
    ----------
    graphs : sequence of TensorVariable
        The graphs.
    parameters : sequence of TensorVariable
        Parts of them in which may be cut.
    inputs : sequence of TensorVariable
        What they depend on.

    Returns
    -------
    Once
    """
    # In all of the graphs, or the parts would not be the same.
    common = set.intersection(*(set(ancestors([graph])) for graph in graphs))
    known = set(inputs)
    long: dict[TensorVariable, TensorVariable] = {}
    waiting, seen = list(parameters), set()
    while waiting:
        node = waiting.pop()
        if node in seen or node.owner is None:
            continue
        seen.add(node)
        if _is_light(node.owner.op) or node not in common:
            waiting += node.owner.inputs
        elif known & set(ancestors([node])):
            long[node] = node.type()
    return Once(list(inputs), long)


def _is_light(op: Any) -> bool:
    name = type(op).__name__
    return isinstance(op, Elemwise | DimShuffle) or any(part in name for part in _LIGHT)
