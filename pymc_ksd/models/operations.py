"""How much work a log density is, counted in its graph: the same whenever it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function

#: Modules of operations whose work is known; others are black boxes.
_KNOWN_MODULES = ("pytensor.", "pymc.logprob.", "pymc.distributions.", "pymc_extras.")
#: How many times as long a number takes in a loop that runs step by step.
_LOOP = 100


def numbers_computed(
    output: TensorVariable, inputs: Mapping[TensorVariable, tuple[int, ...]]
) -> float:
    """Return how many numbers are computed from the inputs, of these shapes, for one output.

    Those of inner graphs count for each of their operations, and a hundredfold in loops. The result
    is infinite where an operation is a black box.
    """
    nodes = _nodes_between(list(inputs), output)
    if not all(type(_core(node)).__module__.startswith(_KNOWN_MODULES) for node in nodes):
        return np.inf
    sizes = _sizes([node.outputs[0] for node in nodes], inputs)
    return float(sum(size * _repeats(node) for node, size in zip(nodes, sizes, strict=True)))


def _nodes_between(inputs: Sequence[TensorVariable], output: TensorVariable) -> list[Apply]:
    """Return the operations on the way; what does not depend on the inputs is computed once."""
    dependent: set[Variable] = set(inputs)
    nodes = []
    for node in io_toposort(inputs, [output]):
        if not dependent.isdisjoint(node.inputs):
            dependent.update(node.outputs)
            nodes.append(node)
    return nodes


def _core(node: Apply) -> object:
    """Return an operation, or that which it repeats over batches."""
    return getattr(node.op, "core_op", node.op)


def _repeats(node: Apply) -> int:
    """Return how many operations each number of the output stands for."""
    core = _core(node)
    inner = getattr(core, "fgraph", None)
    if inner is None:
        return 1
    return len(inner.apply_nodes) * (_LOOP if isinstance(core, Scan) else 1)


def _sizes(
    variables: Sequence[Variable], inputs: Mapping[TensorVariable, tuple[int, ...]]
) -> list[int]:
    """Return the number of elements of variables, 1 for what is no array."""
    shapes = [
        variable.type.shape if isinstance(variable.type, TensorType) else ()
        for variable in variables
    ]
    unknown = [place for place, shape in enumerate(shapes) if None in shape]
    if unknown:  # as that of data which may be exchanged
        wanted = [pt.as_tensor(variables[place].shape) for place in unknown]
        zeros = [np.zeros(shape, value.dtype) for value, shape in inputs.items()]
        found = compile_function([*inputs], wanted)(*zeros)
        for place, shape in zip(unknown, found, strict=True):
            shapes[place] = tuple(int(size) for size in shape)
    return [int(np.prod(shape, dtype=int)) for shape in shapes]
