"""From radial kernels' PyTensor expressions to machine code for a block of pairs.

Kernels and their derivatives are written out as Python and placed in a copy of
:mod:`pymc_ksd.engine.machine_loops`, which numba compiles. Copies live in PyTensor's directory of
compiled code, named after their content, so that later processes find the machine code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
from pymc_ksd.engine.array_loops import ArrayLoops
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.stein_kernel import Member, SteinKernel

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
#: Operations with any number of arguments.
_CHAINS = {"Add": " + ", "Mul": " * "}
#: Kernels' code that this machine cannot compile.
_unusable: set[str] = set()
#: Between what lines of the template the code is that is repeated for every kernel, and its own.
_KERNEL = re.compile(r"^ *# <kernel>\n(.*?)^ *# </kernel>\n", re.DOTALL | re.MULTILINE)
_PROFILE = re.compile(r"^# <profile>\n.*?^# </profile>\n", re.DOTALL | re.MULTILINE)


#: What stands before the definition of every function of the loops.
_DECORATOR = "@njit(**_OPTIONS)\n"


@dataclass(frozen=True)
class MachineLoops:
    """Code for some kernels.

    Attributes
    ----------
    module : module or ArrayLoops
        A compiled copy of :mod:`pymc_ksd.engine.machine_loops`, or the same for arrays.
    kinds : mapping of hashable to int
        The kernels' numbers in it, by their structure.
    compiled : bool
        Whether it is machine code.
    """

    module: Any
    kinds: Mapping[Hashable, int]
    compiled: bool = True

    def takes(self, stein: SteinKernel) -> bool:
        """Whether a Stein kernel is among them."""
        return may_have_machine_code(stein) and stein.kernel.structure in self.kinds

    def numbers(self, members: Sequence[Member]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what the loops read of members: kinds, parameters, and whether they are tilted."""
        steins = [member.stein for member in members]
        parameters = [member.parameters for member in members]
        table = np.zeros((len(steins), max(1, *map(len, parameters))))
        for row, numbers in zip(table, parameters, strict=True):
            row[: len(numbers)] = numbers
        return (
            np.array([self.kinds[stein.kernel.structure] for stein in steins]),
            table,
            np.array([stein.operator.tilted for stein in steins]),
        )

    def profile_at_zero(self, member: Member) -> tuple[float, float]:
        """Return a member's kernel and its first derivative at distance zero."""
        profile = getattr(self.module, f"profile_{self.kinds[member.stein.kernel.structure]}")
        value, slope, _ = profile(0.0, tuple(map(float, member.parameters)))
        return value, slope


def machine_loops(steins: Iterable[SteinKernel], *, compiled: bool = True) -> MachineLoops | None:
    """Return code for those Stein kernels that can be written out, if any can.

    Kernels that are to be compiled in another way are left out.

    Parameters
    ----------
    steins : iterable of SteinKernel
        The Stein kernels.
    compiled : bool, default True
        Whether machine code is worth the seconds it may take to compile; else for arrays.

    Returns
    -------
    MachineLoops or None
    """
    found: dict[Hashable, str] = {}
    with FUNCTIONS_LOCK:
        for stein in steins:
            if not may_have_machine_code(stein):
                continue
            kernel = stein.kernel
            key = ("source", kernel.structure, compiled)
            source = kept(EVERYBODY, key, partial(profile_source, kernel, arrays=not compiled))
            if source is not None and (not compiled or _compiles(source, kernel)):
                found[kernel.structure] = source
        if not found:
            return None
        sources = tuple(sorted(set(found.values())))
        kinds = {structure: sources.index(source) for structure, source in found.items()}
        module = _loops_module(sources) if compiled else _array_loops(sources)
        return MachineLoops(module, kinds, compiled)


_array_loops = cache(ArrayLoops)


def may_have_machine_code(stein: SteinKernel) -> bool:
    """Whether a Stein kernel is radial and to be compiled in no other way."""
    return not stein.compile_kwargs and stein.operator.has_machine_code and stein.kernel.radial


@cache
def machine_signs() -> ModuleType:
    """Return machine code for quadratic forms of signs."""
    return stored_module(template("machine_signs"))


def _compiles(source: str, kernel: Kernel) -> bool:
    """Whether a kernel's own code can be compiled, the only part that is not the same for all."""
    if source in _unusable:
        return False
    try:
        module = _loops_module((source,))
        module.profile_0(1.0, tuple(map(float, kernel.parameter_values(1.0))))
        return True
    except Exception as error:  # of numba, of the compiler or of the file system
        _unusable.add(source)
        warnings.warn(
            f"The kernel {kernel!r} could not be compiled to machine code "
            f"({type(error).__name__}: {error}). Results are the same, but slower; "
            'compile_kwargs={"mode": "NUMBA"} may help.',
            stacklevel=3,
        )
        return False


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
    known = _ARRAY_CODE if arrays else _CODE
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
        if kind not in known | _CHAINS:
            return None
        code = known[kind].format(*arguments) if kind in known else _CHAINS[kind].join(arguments)
        # What has been computed before is used again.
        names[node.outputs[0]] = lines.setdefault(code, f"v{len(lines)}")
    results = ", ".join(name(output) for output in outputs)
    body = "".join(f"    {variable} = {code}\n" for code, variable in lines.items())
    numbers = "".join(f"row[{index}], " for index in range(count))
    profile = f"def profile_0(squared, parameters):\n{body}    return {results}\n"
    if arrays:
        return profile
    return f"{_DECORATOR}{profile}\n\n{_DECORATOR}def parameters_0(row):\n    return ({numbers})\n"


def _is_number(variable: Any) -> bool:
    """Whether what a graph begins with is one finite number."""
    if not isinstance(variable, Constant):
        return False
    value = np.asarray(variable.data)
    return value.size == 1 and value.dtype.kind in "fiub" and bool(np.isfinite(value).all())


@cache
def _loops_module(sources: tuple[str, ...]) -> ModuleType:
    """Return the loops over a block of pairs with kernels' code inside.

    Parameters
    ----------
    sources : tuple of str
        Each kernel's code, from :func:`profile_source`.

    Returns
    -------
    module
    """

    def for_every_kernel(section: re.Match[str]) -> str:
        before, *after = _PROFILE.split(section[1])
        texts = [source.join([before, *after]) for source in sources]
        return "".join(
            text.replace("_0(", f"_{number}(").replace("kind == 0", f"kind == {number}")
            for number, text in enumerate(texts)
        )

    return stored_module(_KERNEL.sub(for_every_kernel, template("machine_loops")))


def template(name: str) -> str:
    """Return the text of a module of this package that is only compiled as a copy."""
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")


@cache
def stored_module(text: str) -> ModuleType:
    """Return a module with this text, whose machine code is kept for later processes."""
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
