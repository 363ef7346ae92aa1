"""Radial kernels' PyTensor expressions, written out as Python code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_ksd.stein.kernels import Kernel

#: PyTensor's operations on numbers that NumPy has under the same name.
_NUMPY = ("Cos", "Cosh", "Expm1", "Log", "Log1p", "Sin", "Sinh", "Sqrt", "Tan", "Tanh")
#: What the operations are in Python; braces are their arguments.
_CODE = {
    **{name: f"np.{name.lower()}({{0}})" for name in _NUMPY},
    "Abs": "abs({0})",
    "EQ": "{0} == {1}",
    "Exp": "exp({0})",
    "Identity": "{0}",
    "GE": "{0} >= {1}",
    "GT": "{0} > {1}",
    "LE": "{0} <= {1}",
    "LT": "{0} < {1}",
    "Maximum": "max({0}, {1})",
    "Minimum": "min({0}, {1})",
    "NEQ": "{0} != {1}",
    "Neg": "-{0}",
    "Pow": "{0} ** {1}",
    "Reciprocal": "1.0 / {0}",
    "ScalarMaximum": "max({0}, {1})",
    "ScalarMinimum": "min({0}, {1})",
    "Second": "{1}",
    "Sqr": "{0} * {0}",
    "Sub": "{0} - {1}",
    "Switch": "{1} if {0} else {2}",
    "TrueDiv": "{0} / {1}",
}
#: What some of them are for arrays.
_ARRAY_CODE = _CODE | {
    "Abs": "np.abs({0})",
    "Exp": "np.exp({0})",
    "Maximum": "np.maximum({0}, {1})",
    "Minimum": "np.minimum({0}, {1})",
    "ScalarMaximum": "np.maximum({0}, {1})",
    "ScalarMinimum": "np.minimum({0}, {1})",
    "Switch": "np.where({0}, {1}, {2})",
}
#: What some of them are in single precision.
_SINGLE_CODE = _CODE | {"Exp": "exp_single({0})", "Reciprocal": "np.float32(1.0) / {0}"}
#: Operations with any number of arguments.
_CHAINS = {"Add": " + ", "Mul": " * "}
#: What stands before the definition of every function of the loops.
_DECORATOR = "@njit(**_OPTIONS)\n"


def profile_source(kernel: Kernel, *, arrays: bool = False) -> str | None:
    """Return Python code for a radial kernel and its first two derivatives.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    arrays : bool, default False
        Whether squared distances are arrays and nothing is to be compiled.

    Returns
    -------
    str or None
        Functions ``profile_0(squared, parameters)`` and ``parameters_0(row)``, which takes the
        parameters from the beginning of an array; None where the kernel's expression has operations
        that are not written out here.
    """
    written = _written(kernel, _ARRAY_CODE if arrays else _CODE, "({!r})")
    if written is None:
        return None
    body, results = written
    profile = f"def profile_0(squared, parameters):\n{body}    return {', '.join(results)}\n"
    if arrays:
        return profile
    count = len(kernel.parameter_values(1.0))
    numbers = "".join(f"row[{index}], " for index in range(count))
    return f"{_DECORATOR}{profile}\n\n{_DECORATOR}def parameters_0(row):\n    return ({numbers})\n"


def single_source(kernel: Kernel) -> str | None:
    """Return ``single_0(squared, parameters)``, the kernel alone in single precision."""
    written = _written(kernel, _SINGLE_CODE, "np.float32({!r})")
    if written is None:
        return None
    body, (value, *_) = written
    return f"{_DECORATOR}def single_0(squared, parameters):\n{body}    return {value}\n"


def _written(kernel: Kernel, known: Mapping[str, str], number: str) -> tuple[str, list[str]] | None:
    """Write out a radial kernel and its first two derivatives.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    known : mapping of str to str
        What operations are in Python.
    number : str
        What numbers are.

    Returns
    -------
    body : str
        Lines of code.
    results : list of str
        What the kernel and its derivatives are called in it.
    """
    squared = pt.dscalar("squared")
    count = len(kernel.parameter_values(1.0))
    parameters = [pt.dscalar(f"parameters[{index}]") for index in range(count)]
    derivatives = kernel.profile_derivatives(squared, parameters)
    outputs = [pt.as_tensor_variable(part) for part in derivatives]
    inputs = [squared, *parameters]
    names = {variable: variable.name for variable in inputs}

    def name(variable: Any) -> str:
        if isinstance(variable, Constant):
            return number.format(float(variable.data.item()))
        return str(names[variable])

    roots = set(graph_inputs(outputs)) - set(inputs)
    if not all(_is_number(root) for root in roots):
        return None
    lines: dict[str, str] = {}
    for node in io_toposort(inputs, outputs):
        arguments = [name(variable) for variable in node.inputs]
        if isinstance(node.op, DimShuffle | Sum):  # of a single number
            names[node.outputs[0]] = arguments[0]
            continue
        if not isinstance(node.op, Elemwise) or not all(node.outputs[0].broadcastable):
            return None
        if isinstance(node.op.scalar_op, Cast) and node.outputs[0].dtype == "float64":
            names[node.outputs[0]] = arguments[0]
            continue
        kind = type(node.op.scalar_op).__name__
        if kind not in known and kind not in _CHAINS:
            return None
        code = known[kind].format(*arguments) if kind in known else _CHAINS[kind].join(arguments)
        # What has been computed before is used again.
        names[node.outputs[0]] = lines.setdefault(code, f"v{len(lines)}")
    body = "".join(f"    {variable} = {code}\n" for code, variable in lines.items())
    return body, [name(output) for output in outputs]


def _is_number(variable: Any) -> bool:
    """Whether what a graph begins with is one finite number."""
    if not isinstance(variable, Constant):
        return False
    value = np.asarray(variable.data)
    return value.size == 1 and value.dtype.kind in "fiub" and bool(np.isfinite(value).all())
