"""From a radial kernel's PyTensor expression to machine code for a block of pairs.

The kernel and its derivatives are written out as Python and placed in a copy of
:mod:`pymc_ksd.engine.machine_loops`, which numba compiles. Copies live in PyTensor's directory of
compiled code, named after their content, so that later processes find the machine code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_ksd.compilation import EVERYBODY, FUNCTIONS_LOCK, kept
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.stein_kernel import SteinKernel

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
#: Operations with any number of arguments.
_CHAINS = {"Add": " + ", "Mul": " * "}
#: Kernels' code that this machine cannot compile.
_unusable: set[str] = set()
#: Between what lines of the template the kernel's code goes.
_MARKS = ("# <profile>\n", "# </profile>\n")


def machine_loops(stein: SteinKernel) -> ModuleType | None:
    """Return machine code for a Stein kernel, if it can be written out and no other is wanted."""
    kernel = stein.kernel
    if stein.compile_kwargs or not (stein.operator.has_machine_code and kernel.radial):
        return None
    with FUNCTIONS_LOCK:
        source = kept(EVERYBODY, ("source", kernel.structure), lambda: profile_source(kernel))
        if source is None or source in _unusable:
            return None
        try:
            loops = _loops_module(source)
            # The kernel's own code, the only part of the loops that is not the same for all.
            loops.profile(1.0, tuple(map(float, kernel.parameter_values(1.0))))
        except Exception as error:  # of numba, of the compiler or of the file system
            _unusable.add(source)
            warnings.warn(
                f"The kernel {kernel!r} could not be compiled to machine code "
                f"({type(error).__name__}: {error}). Results are the same, but slower; "
                'compile_kwargs={"mode": "NUMBA"} may help.',
                stacklevel=2,
            )
            return None
        return loops


def profile_source(kernel: Kernel) -> str | None:
    """Return Python code for a radial kernel and its first two derivatives.

    Parameters
    ----------
    kernel : Kernel
        The kernel.

    Returns
    -------
    str or None
        A function ``profile(squared, parameters)``; None where the kernel's expression has
        operations that are not written out here.
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
            return f"({float(variable.data.item())!r})"
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
        if kind not in _CODE | _CHAINS:
            return None
        code = _CODE[kind].format(*arguments) if kind in _CODE else _CHAINS[kind].join(arguments)
        # What has been computed before is used again.
        names[node.outputs[0]] = lines.setdefault(code, f"v{len(lines)}")
    results = ", ".join(name(output) for output in outputs)
    head = "@njit(**_OPTIONS)\ndef profile(squared, parameters):\n"
    body = "".join(f"    {variable} = {code}\n" for code, variable in lines.items())
    return f"{head}{body}    return {results}\n"


def _is_number(variable: Any) -> bool:
    """Whether what a graph begins with is one finite number."""
    if not isinstance(variable, Constant):
        return False
    value = np.asarray(variable.data)
    return value.size == 1 and value.dtype.kind in "fiub" and bool(np.isfinite(value).all())


@cache
def _loops_module(source: str) -> ModuleType:
    """Return the loops over a block of pairs with a kernel's code inside.

    Parameters
    ----------
    source : str
        The kernel's code, from :func:`profile_source`.

    Returns
    -------
    module
    """
    template = Path(__file__).with_name("machine_loops.py").read_text(encoding="utf-8")
    start, end = (template.index(mark) for mark in _MARKS)
    text = template[:start] + source + "\n\n" + template[end + len(_MARKS[1]) :]
    name = f"pymc_ksd_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    path = _stored(text, f"{name}.py")
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # where numba looks for a function's module
    specification.loader.exec_module(module)
    return module


def _stored(text: str, name: str) -> Path:
    """Write a file unless it is there, in a directory that lasts if there is one to write to."""
    for folder in (Path(pytensor.config.compiledir) / "pymc_ksd", None):
        try:
            folder = folder or Path(tempfile.mkdtemp(prefix="pymc_ksd_"))
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            if not path.exists():
                # At once, so that no other process finds half of it.
                handle, temporary = tempfile.mkstemp(dir=folder)
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(temporary, 0o644)  # others may share the directory
                os.replace(temporary, path)
            return path
        except OSError:
            continue
    raise OSError("There is no directory to write compiled code to: set PYTENSOR_FLAGS.")
