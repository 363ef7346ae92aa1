"""Stein kernels as compiled functions of named arrays, ready to be evaluated block by block.

The inputs of every function are named, not numbered: what points have on the side of the rows and
on that of the columns (``row.positions``, ``column.scores``, see
:class:`pymc_ksd.stein.points.Points`), what is taken once (``mixing``, ``steps``), and what a block
is reduced by (``row.weights``, ``column.groups``). So are its outputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import EVERYBODY, compile_function, compile_key, kept
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.operator import SteinOperator

__all__ = ["CORES", "Member", "NamedFunction", "SteinKernel", "Wanted"]

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
    #: Whether it wants the weights of replicates in single precision.
    small_weights = False

    def __call__(self, arrays: Arrays, parameters: Sequence[float]) -> dict[str, Any]:
        """Return the outputs by name."""
        numbers = [np.asarray(number) for number in parameters]
        values = self.function(*(arrays[name] for name in self.inputs), *numbers)
        return dict(zip(self.outputs, values, strict=True))

    def copy(self) -> NamedFunction:
        """Return a function that may run beside this one in another thread."""
        return NamedFunction(self.function.copy(), self.inputs, self.outputs)


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

        def build() -> NamedFunction:
            graph = _Graph(self)
            u = self.operator.pairs(
                self.kernel, graph.side("row"), graph.side("column"), graph.once(), graph.parameters
            )
            return graph.compiled({"u": u})

        return self._kept("pairs", build)

    def matrix(self) -> list[NamedFunction]:
        """Return the function for ``u`` of a block, rows × columns, with a copy for each core."""

        def build() -> list[NamedFunction]:
            graph = _Graph(self)
            return self._copies(graph.compiled({"u": graph.block(coordinates=False).total}))

        return self._kept("matrix", build)

    def block(self, wanted: Wanted) -> list[NamedFunction]:
        """Return the function that reduces one block of pairs, with a copy for each core.

        A function works for one thread at a time. Interpreted ones are copied in no time; compiled
        ones would be compiled again, so there is only one.

        It returns the sum ``u``, and as far as they are wanted ``quadratic``, the m sums of
        ``v u w`` over pairs of different points for weights of shape (m, rows) and (m, columns),
        ``coordinates``, and ``earlier``, shape (2, columns).
        """

        def build() -> list[NamedFunction]:
            graph = _Graph(self)
            terms = graph.block(coordinates=wanted.coordinates)
            outputs = {"u": terms.total.sum(), **graph.reductions(terms.total, wanted)}
            if wanted.coordinates:
                outputs["coordinates"] = terms.coordinates
            return self._copies(graph.compiled(outputs))

        return self._kept(("block", wanted), build)

    def own_coordinates(self) -> NamedFunction:
        """Return the function for the sum over points of each coordinate's term in u(x, x)."""

        def build() -> NamedFunction:
            graph = _Graph(self)
            points = graph.side("row", coordinates=True)
            once = graph.once(coordinates=True)
            sums = self.operator.own_coordinates(self.kernel, points, once, graph.parameters)
            return graph.compiled({"coordinates": sums})

        return self._kept("own coordinates", build)

    def witness(self) -> NamedFunction:
        """Return the function for the witness at ``places``, shape (places, d)."""

        def build() -> NamedFunction:
            graph = _Graph(self)
            places, weights = graph.matrix("places"), graph.matrix("weights")
            f = self.operator.witness(
                self.kernel, graph.side("row"), places, weights, graph.once(), graph.parameters
            )
            return graph.compiled({"witness": f})

        return self._kept("witness", build)

    def _kept(self, kind: Any, build: Any) -> Any:
        return kept(EVERYBODY, (*self.key, kind), build)

    def _copies(self, function: NamedFunction) -> list[NamedFunction]:
        if self.compile_kwargs:
            return [function]
        return [function, *(function.copy() for _ in range(CORES - 1))]


class _Graph:
    """The inputs of a function that is being written, by name, and how it is compiled."""

    def __init__(self, stein: SteinKernel) -> None:
        self._stein = stein
        self._inputs: dict[str, TensorVariable] = {}
        count = len(stein.kernel.parameter_values(1.0))
        self.parameters = [pt.dscalar(f"parameter_{index}") for index in range(count)]

    def matrix(self, name: str) -> TensorVariable:
        """Return the input with this name, made on first use."""
        return self._inputs.setdefault(name, pt.dmatrix(name))

    def vector(self, name: str) -> TensorVariable:
        """Return the input with this name, a vector."""
        return self._inputs.setdefault(name, pt.dvector(name))

    def side(self, side: str, *, coordinates: bool = False) -> dict[str, TensorVariable]:
        """Return what the operator takes of the points on one side."""
        operator = self._stein.operator
        names = ["positions", *operator.terms]
        names += operator.coordinate_terms if coordinates else ()
        return {name: self.matrix(f"{side}.{name}") for name in names}

    def once(self, *, coordinates: bool = False) -> dict[str, TensorVariable]:
        """Return what it takes once."""
        operator = self._stein.operator
        names = [*operator.constants, *(operator.coordinate_constants if coordinates else ())]
        return {name: self.matrix(name) for name in names}

    def block(self, *, coordinates: bool) -> Any:
        """Return the Stein kernel of a block."""
        return self._stein.operator.block(
            self._stein.kernel,
            self.side("row", coordinates=coordinates),
            self.side("column", coordinates=coordinates),
            self.once(coordinates=coordinates),
            self.parameters,
            coordinates=coordinates,
        )

    def reductions(self, u: TensorVariable, wanted: Wanted) -> dict[str, TensorVariable]:
        """Return what a block of u is reduced to, see :meth:`SteinKernel.block`."""
        outputs = {}
        if wanted.weights or wanted.groups:
            # JAX cannot count rows and columns itself.
            row, column = self.vector("row.numbers"), self.vector("column.numbers")
        if wanted.weights:
            v, w = self.matrix("row.weights"), self.matrix("column.weights")
            different = pt.switch(pt.eq(row[:, None], column[None, :]), 0.0, u)
            outputs["quadratic"] = pt.sum(v * pt.dot(w, different.T), axis=1)
        if wanted.groups:
            rows, columns = self.vector("row.groups"), self.vector("column.groups")
            upper = pt.switch(pt.lt(row[:, None], column[None, :]), u, 0.0)
            own = pt.switch(pt.eq(rows[:, None], columns[None, :]), upper, 0.0)
            outputs["earlier"] = pt.stack([upper.sum(axis=0), own.sum(axis=0)])
        return outputs

    def compiled(self, outputs: Mapping[str, TensorVariable]) -> NamedFunction:
        """Compile a function of all inputs that were named, and of the kernel's parameters."""
        inputs = [*self._inputs.values(), *self.parameters]
        function = compile_function(inputs, list(outputs.values()), self._stein.compile_kwargs)
        return NamedFunction(function, tuple(self._inputs), tuple(outputs))


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
    """

    name: str
    stein: SteinKernel
    bandwidth: float

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers for the kernel's inputs."""
        return self.stein.kernel.parameter_values(self.bandwidth)
