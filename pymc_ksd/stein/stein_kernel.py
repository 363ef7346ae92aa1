"""Stein kernels as compiled functions of named arrays, ready to be evaluated block by block.

The inputs of every function are named, not numbered: what points have on the side of the rows and
on that of the columns (``row.positions``, ``column.scores``, see
:class:`pymc_ksd.stein.points.Points`), what is taken once (``mixing``, ``steps``), and what a block
is reduced by (``row.weights``, ``column.groups``). So are its outputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_ksd.compilation import EVERYBODY, compile_function, compile_key, kept
from pymc_ksd.stein.birth_death import BirthDeath
from pymc_ksd.stein.kernels import Kernel, Tensor
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.operator import Graph, SteinOperator
from pymc_ksd.stein.tilt import TiltedLangevin

#: The Stein operators that there are, by the names that densities give.
OPERATORS: dict[str, SteinOperator] = {
    operator.name: operator for operator in (Langevin(), TiltedLangevin(), BirthDeath())
}
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What a block of pairs is reduced to, besides its sum.

    Attributes
    ----------
    weights : bool
        Quadratic forms in the weights of replicates, over pairs of different points.
    coordinates : bool
        The sum of each coordinate's term.
    groups : bool
        The sums over the rows before each column: of all, and of its own group.
    """

    weights: bool = False
    coordinates: bool = False
    groups: bool = False


@dataclass(frozen=True)
class NamedFunction:
    """A compiled function whose inputs and outputs have names.

    Attributes
    ----------
    function : callable
        Takes arrays, then the kernel's parameters, in a fixed order.
    inputs, outputs : tuple of str
        Names of the arrays, and of what is returned.
    """

    function: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __call__(self, arrays: Arrays, parameters: Sequence[float]) -> dict[str, Any]:
        """Return the outputs by name."""
        numbers = [np.asarray(number) for number in parameters]
        values = self.function(*(arrays[name] for name in self.inputs), *numbers)
        return dict(zip(self.outputs, values, strict=True))


@dataclass(frozen=True)
class SteinKernel:
    """The Stein kernel of an operator and a base kernel.

    Parameters
    ----------
    operator : SteinOperator
        How the density enters.
    kernel : Kernel
        The base kernel.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    """

    operator: SteinOperator
    kernel: Kernel
    compile_kwargs: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides its functions; Stein kernels with equal keys share them."""
        return self.operator.name, self.kernel.structure, compile_key(self.compile_kwargs)

    def numbers_per_pair(self, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return self.operator.numbers_per_pair(self.kernel, dim)

    def pairs(self) -> NamedFunction:
        """Return the function for ``u`` of n pairs, a row and a column each, shape (n,)."""
        return self._single("u", self.operator.pairs)

    def matrix(self) -> list[NamedFunction]:
        """Return the function for ``u`` of a block, rows × columns, with a copy for each core."""
        return self._functions("matrix", lambda graph: {"u": self.operator.block(graph)}, CORES)

    def block(self, wanted: Wanted) -> list[NamedFunction]:
        """Return the function that reduces one block of pairs, with a copy for each core.

        It returns the sum ``u``, and as far as they are wanted ``quadratic``, the m sums of
        ``v u w`` over pairs of different points for weights of shape (m, rows) and (m, columns),
        ``coordinates``, and ``earlier``, shape (2, columns).
        """

        def reduced(graph: Graph) -> dict[str, Tensor]:
            u = self.operator.block(graph)
            outputs = {"u": u.sum(), **_reductions(graph, u, wanted)}
            if wanted.coordinates:
                outputs["coordinates"] = self.operator.coordinates(graph)
            return outputs

        return self._functions(("block", wanted), reduced, CORES)

    def own_coordinates(self) -> NamedFunction:
        """Return the function for the sum over points of each coordinate's term in u(x, x)."""
        return self._single("coordinates", self.operator.own_coordinates)

    def witness(self) -> NamedFunction:
        """Return the function for the witness at ``places``, shape (places, d)."""
        return self._single("witness", self.operator.witness)

    def _single(self, output: str, write: Callable[[Graph], Tensor]) -> NamedFunction:
        return self._functions(("single", output), lambda graph: {output: write(graph)})[0]

    def _functions(
        self, kind: Hashable, write: Callable[[Graph], Mapping[str, Tensor]], copies: int = 1
    ) -> list[NamedFunction]:
        """Compile what is written into a graph, unless it was before.

        A function works for one thread at a time. Interpreted ones are copied in no time; compiled
        ones would be compiled again, so there is only one.
        """

        def build() -> list[NamedFunction]:
            graph = Graph(self.kernel)
            outputs = write(graph)
            inputs = [*graph.inputs.values(), *graph.parameters]
            function = compile_function(inputs, list(outputs.values()), self.compile_kwargs)
            more = 0 if self.compile_kwargs else copies - 1
            return [
                NamedFunction(each, tuple(graph.inputs), tuple(outputs))
                for each in (function, *(function.copy() for _ in range(more)))
            ]

        functions: list[NamedFunction] = kept(EVERYBODY, (*self.key, kind), build)
        return functions


def _reductions(graph: Graph, u: Tensor, wanted: Wanted) -> dict[str, Tensor]:
    """Return what a block of u is reduced to, see :meth:`SteinKernel.block`."""
    outputs = {}
    if wanted.weights or wanted.groups:
        # JAX cannot count rows and columns itself.
        row, column = graph.vector("row.numbers"), graph.vector("column.numbers")
    if wanted.weights:
        v, w = graph.matrix("row.weights"), graph.matrix("column.weights")
        different = pt.switch(pt.eq(row[:, None], column[None, :]), 0.0, u)
        outputs["quadratic"] = pt.sum(v * pt.dot(w, different.T), axis=1)
    if wanted.groups:
        rows, columns = graph.vector("row.groups"), graph.vector("column.groups")
        upper = pt.switch(pt.lt(row[:, None], column[None, :]), u, 0.0)
        own = pt.switch(pt.eq(rows[:, None], columns[None, :]), upper, 0.0)
        outputs["earlier"] = pt.stack([upper.sum(axis=0), own.sum(axis=0)])
    return outputs


@dataclass(frozen=True)
class Member:
    """One of several Stein kernels that see the same points.

    Attributes
    ----------
    name : str
        What it is called in results.
    stein : SteinKernel
        The Stein kernel.
    bandwidth : float
        Its bandwidth, unless the base kernel has one of its own.
    counts : float, default 1.0
        What its excess counts beside that of others.
    """

    name: str
    stein: SteinKernel
    bandwidth: float
    counts: float = 1.0

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers for the kernel's inputs."""
        return self.stein.kernel.parameter_values(self.bandwidth)
