"""From radial kernels' PyTensor expressions to machine code for a block of pairs.

Kernels and their derivatives are written out as Python, see
:mod:`pymc_ksd.engine.written_kernels`, and placed in a copy of
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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytensor

from pymc_ksd.compilation import EVERYBODY, FUNCTIONS_LOCK, kept
from pymc_ksd.engine.array_loops import ArrayLoops
from pymc_ksd.engine.written_kernels import profile_source, single_source
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.stein_kernel import Member, SteinKernel

#: Kernels' code that this machine cannot compile.
_unusable: set[str] = set()
#: Between what lines of the template the code is that is repeated for every kernel, and its own.
_KERNEL = re.compile(r"^ *# <kernel>\n(.*?)^ *# </kernel>\n", re.DOTALL | re.MULTILINE)
_PROFILE = re.compile(r"^# <profile>\n.*?^# </profile>\n", re.DOTALL | re.MULTILINE)


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
            if source is not None and (not compiled or _compiles(source, kernel, _loops_module)):
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


def _compiles(
    source: str, kernel: Kernel, module_of: Callable[[tuple[str, ...]], ModuleType]
) -> bool:
    """Whether a kernel's own code can be compiled, the only part that is not the same for all."""
    if source in _unusable:
        return False
    try:
        module = module_of((source,))
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
    return stored_module(_for_every_kernel(template("machine_loops"), sources))


@cache
def _conditional_module(sources: tuple[str, ...]) -> ModuleType:
    """Return the loops over a block of pairs of many samples, with kernels' code inside."""
    first = _for_every_kernel(template("machine_loops"), sources)
    _, added = template("conditional_loops").split("# <added>\n")
    return stored_module(f"{first}\n\n{_for_every_kernel(added, sources)}")


def _for_every_kernel(text: str, sources: tuple[str, ...]) -> str:
    """Repeat what is between the marks of a template for every kernel's code."""

    def repeated(section: re.Match[str]) -> str:
        before, *after = _PROFILE.split(section[1])
        texts = [source.join([before, *after]) for source in sources]
        return "".join(
            text.replace("_0(", f"_{number}(").replace("kind == 0", f"kind == {number}")
            for number, text in enumerate(texts)
        )

    return _KERNEL.sub(repeated, text)


def conditional_loops(members: Sequence[Member]) -> MachineLoops | None:
    """Return machine code for sums of Stein kernels times kernels of covariates, if all have it."""
    operators = {member.stein.operator.name for member in members}
    if len(operators) > 1 or not all(_may_be_conditional(member.stein) for member in members):
        return None
    found: dict[Hashable, str] = {}
    with FUNCTIONS_LOCK:
        for kernel in (member.stein.kernel for member in members):
            source = kept(EVERYBODY, ("conditional", kernel.structure), partial(_both, kernel))
            if source is None or not _compiles(source, kernel, _conditional_module):
                return None
            found[kernel.structure] = source
        sources = tuple(sorted(set(found.values())))
        kinds = {structure: sources.index(source) for structure, source in found.items()}
        return MachineLoops(_conditional_module(sources), kinds)


def _may_be_conditional(stein: SteinKernel) -> bool:
    operator = stein.operator
    return not stein.compile_kwargs and operator.has_conditional_code and stein.kernel.radial


def _both(kernel: Kernel) -> str | None:
    """Return a kernel's code in double and in single precision."""
    profile, single = profile_source(kernel), single_source(kernel)
    return None if profile is None or single is None else f"{profile}\n\n{single}"


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
