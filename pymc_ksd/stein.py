r"""The Langevin Stein kernel of a base kernel, as PyTensor graphs over blocks of points.

For the score :math:`s = \nabla \log q` the Stein kernel is a sum over coordinates,

.. math::

    u(x, x') = \sum_\ell s_\ell s'_\ell k + s_\ell \partial_{x'_\ell} k
               + s'_\ell \partial_{x_\ell} k + \partial_{x_\ell} \partial_{x'_\ell} k .

With a radial kernel :math:`k = \varphi(r^2)` it becomes

.. math::

    u = \varphi\, s \cdot s' + 2 \varphi' \left[(x - x') \cdot (s' - s) - d\right]
        - 4 \varphi'' r^2 ,

which needs three matrix products and one elementwise pass for a block of pairs. Any other kernel is
differentiated in full.

Contributions of single coordinates are measured in units of standard deviations, :math:`y`, while
the kernel may compare points in other coordinates :math:`z = M y` (see
:class:`pymc_ksd.points.ScaledPoints`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import FUNCTIONS_LOCK, compile_function, compile_key
from pymc_ksd.fused_block import FusedBlock
from pymc_ksd.kernel_code import block_loops, profile_source
from pymc_ksd.kernels import Kernel, SumKernel

__all__ = ["SteinKernel", "reductions"]

_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
#: Compiled functions kept for reuse; the oldest is dropped beyond this number.
_MAX_CACHED = 64
_functions: dict[Any, Any] = {}
#: Kernels' code that this machine cannot compile.
_unusable: set[str] = set()


@dataclass(frozen=True)
class SteinKernel:
    """The Stein kernel of a base kernel, ready to be evaluated block by block.

    Parameters
    ----------
    kernel : Kernel
        The base kernel.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    """

    kernel: Kernel
    compile_kwargs: Mapping[str, Any] | None = None

    def numbers_per_pair(self, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        return 1 if self.kernel.radial else dim**2

    def pairs(self) -> Any:
        """Return the function ``(x, s, y, t, *parameters) -> u`` of n pairs, shape (n,)."""
        return self._cached("pairs", self._build_pairs)

    def block(
        self, *, weights: bool, coordinates: bool, groups: bool = False, fused: bool = False
    ) -> list[Any]:
        """Return the function that reduces one block of pairs, with a copy for each core.

        A function works for one thread at a time. Interpreted ones are copied in no time; compiled
        ones would be compiled again, so there is only one. With `fused`, kernels that
        :mod:`pymc_ksd.kernel_code` can write out get machine code instead, see
        :class:`pymc_ksd.fused_block.FusedBlock`: many times faster, after two seconds when a
        machine compiles it for the first time.

        Its inputs are ``x, s, y, t`` (rows of the block, then columns: points and scores); with
        `weights`, the multipliers ``v, w`` of rows and columns, shapes (m, rows) and (m, columns),
        for machine code in single precision; with `coordinates`, the scores in standardised
        coordinates of rows and columns and the matrix M; with `groups`, the numbers of the rows'
        and columns' groups; with `weights` or `groups`, the numbers of the rows and columns
        themselves; then the kernel's parameters. It returns the sum of u over the block, with
        `weights` the m sums of ``v u w`` over pairs of different points, with `coordinates` the sum
        of each coordinate's term, and with `groups` the sums of u over the rows before each column,
        all of them and those of its own group, shape (2, columns).
        """
        wanted = {"weights": weights, "coordinates": coordinates, "groups": groups}
        loops = self._loops() if fused else None
        if loops is not None:
            return [FusedBlock(loops, **wanted)] * _CORES
        return self._cached(
            ("block", *wanted.values()), lambda: self._copies(self._build_block(**wanted))
        )

    def own_coordinates(self) -> Any:
        """Return the function ``(x, s, standard scores, M, *parameters)`` for points by themselves.

        It returns the sum over points of each coordinate's term in ``u(x_i, x_i)``, shape (d,).
        """
        return self._cached("own coordinates", self._build_own_coordinates)

    def matrix(self, *, fused: bool = False) -> list[Any]:
        """Return the function ``(x, s, y, t, *parameters) -> u`` of a block, rows × columns.

        There is a copy for each core, and machine code with `fused`, see :meth:`block`.
        """
        loops = self._loops() if fused else None
        if loops is not None:
            return [FusedBlock(loops, matrix=True)] * _CORES
        return self._cached("matrix", lambda: self._copies(self._build_matrix()))

    def witness(self) -> Any:
        r"""Return the function ``(x, s, y, w, *parameters) -> f`` for the witness at places y.

        It is the sum over points of :math:`w (s\, k(x, y) + \nabla_x k(x, y))`, shape
        (places, d), for weights w of shape (points, places).
        """
        return self._cached("witness", self._build_witness)

    def _cached(self, kind: Any, build: Any) -> Any:
        key = (type(self), self.kernel.structure, kind, compile_key(self.compile_kwargs))
        with FUNCTIONS_LOCK:
            function = _functions.pop(key, None)
            if function is None:
                function = build()
                while len(_functions) >= _MAX_CACHED:
                    _functions.pop(next(iter(_functions)))
            _functions[key] = function
        return function

    def _copies(self, function: Any) -> list[Any]:
        if self.compile_kwargs:
            return [function]
        return [function, *(function.copy() for _ in range(_CORES - 1))]

    def _loops(self) -> ModuleType | None:
        """Return machine code for the kernel, if it can be written out and no other is wanted."""
        if self.compile_kwargs or not self.kernel.radial:
            return None
        source = self._cached("source", lambda: profile_source(self.kernel))
        if source is None:
            return None
        with FUNCTIONS_LOCK:
            return self._compiled_loops(source)

    def _compiled_loops(self, source: str) -> ModuleType | None:
        if source in _unusable:
            return None
        try:
            loops = block_loops(source)
            # The kernel's own code, the only part of the loops that is not the same for all.
            loops.profile(1.0, tuple(map(float, self.kernel.parameter_values(1.0))))
        except Exception as error:  # of numba, of the compiler or of the file system
            _unusable.add(source)
            warnings.warn(
                f"The kernel {self.kernel!r} could not be compiled to machine code "
                f"({type(error).__name__}: {error}). Results are the same, but slower; "
                'compile_kwargs={"mode": "NUMBA"} may help.',
                stacklevel=2,
            )
            return None
        return loops

    def _parameters(self) -> list[TensorVariable]:
        count = len(self.kernel.parameter_values(1.0))
        return [pt.dscalar(f"parameter_{index}") for index in range(count)]

    def _build_pairs(self) -> Any:
        x, s, y, t = (pt.dmatrix(name) for name in "xsyt")
        parameters = self._parameters()
        if self.kernel.radial:
            difference = x - y
            squared = pt.sum(difference**2, axis=-1)
            cross = pt.sum(difference * (t - s), axis=-1)
            derivatives = self.kernel.profile_derivatives(squared, parameters)
            u = _radial_stein(derivatives, squared, pt.sum(s * t, axis=-1), cross, x.shape[1])
        else:
            u = _general_stein(self.kernel, x, s, y, t, parameters).total
        return self._compile([x, s, y, t, *parameters], u)

    def _build_own_coordinates(self) -> Any:
        x, s, mixing = (pt.dmatrix(name) for name in ("x", "s_standard", "mixing"))
        unused = pt.dmatrix("s")
        parameters = self._parameters()
        if self.kernel.radial:
            origin = pt.zeros((1,))
            value, first, _ = self.kernel.profile_derivatives(origin, parameters)
            metric = pt.sum(mixing**2, axis=0)
            sums = value * pt.sum(s**2, axis=0) - 2 * first * x.shape[0] * metric
        else:
            terms = _general_stein(self.kernel, x, s, x, s, parameters)
            sums = terms.coordinate_terms(s, s, mixing).sum(axis=0)
        return self._compile([x, unused, s, mixing, *parameters], sums)

    def _build_matrix(self) -> Any:
        x, s, y, t = (pt.dmatrix(name) for name in "xsyt")
        parameters = self._parameters()
        u = _block_stein(self.kernel, x, s, y, t, parameters).total
        return self._compile([x, s, y, t, *parameters], u)

    def _build_witness(self) -> Any:
        x, s, y, w = (pt.dmatrix(name) for name in "xsyw")
        parameters = self._parameters()
        points, places = x[:, None, :], y[None, :, :]
        value, gradient, _, _ = _full_derivatives(self.kernel, points, places, parameters)
        f = pt.sum(w[:, :, None] * (s[:, None, :] * value[:, :, None] + gradient), axis=0)
        return self._compile([x, s, y, w, *parameters], f)

    def _build_block(self, weights: bool, coordinates: bool, groups: bool) -> Any:
        x, s, y, t = (pt.dmatrix(name) for name in "xsyt")
        parameters = self._parameters()
        terms = _block_stein(self.kernel, x, s, y, t, parameters)
        extra, sums = [], None
        if coordinates:
            extra = [pt.dmatrix(name) for name in ("s_standard", "t_standard", "mixing")]
            sums = terms.coordinate_sums(*extra)
        inputs, outputs = reductions(terms.total, weights, sums, extra, groups)
        return self._compile([x, s, y, t, *inputs, *parameters], outputs)

    def _compile(self, inputs: list[TensorVariable], outputs: Any) -> Any:
        return compile_function(inputs, outputs, self.compile_kwargs)


def reductions(
    u: TensorVariable,
    weights: bool,
    coordinate_sums: TensorVariable | None,
    coordinate_inputs: list[TensorVariable],
    groups: bool,
) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Return what a block of u is reduced to, and the inputs for that, see `SteinKernel.block`."""
    inputs, outputs = [], [u.sum()]
    # JAX cannot count rows and columns itself.
    row, column = pt.dvector("row"), pt.dvector("column")
    if weights:
        v, w = pt.dmatrix("v"), pt.dmatrix("w")
        inputs += [v, w]
        different = pt.switch(pt.eq(row[:, None], column[None, :]), 0.0, u)
        outputs.append(pt.sum(v * pt.dot(w, different.T), axis=1))
    if coordinate_sums is not None:
        inputs += coordinate_inputs
        outputs.append(coordinate_sums)
    if groups:
        rows, columns = pt.dvector("rows"), pt.dvector("columns")
        inputs += [rows, columns]
        upper = pt.switch(pt.lt(row[:, None], column[None, :]), u, 0.0)
        own = pt.switch(pt.eq(rows[:, None], columns[None, :]), upper, 0.0)
        outputs.append(pt.stack([upper.sum(axis=0), own.sum(axis=0)]))
    if weights or groups:
        inputs += [row, column]
    return inputs, outputs


def _radial_stein(
    derivatives: tuple[TensorVariable, TensorVariable, TensorVariable],
    squared: TensorVariable,
    scores_product: TensorVariable,
    cross: TensorVariable,
    dim: TensorVariable,
) -> TensorVariable:
    value, first, second = derivatives
    return value * scores_product + (2 * first) * (cross - dim) - (4 * second) * squared


@dataclass(frozen=True)
class _RadialTerms:
    """A block of the Stein kernel of a radial kernel, and what its coordinates are made of."""

    total: TensorVariable
    derivatives: tuple[TensorVariable, TensorVariable, TensorVariable]
    x: TensorVariable
    y: TensorVariable

    def coordinate_sums(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        value, first, second = self.derivatives
        x, y = pt.dot(self.x, mixing), pt.dot(self.y, mixing)
        metric = pt.sum(mixing**2, axis=0)
        rows, columns = first.sum(axis=1), first.sum(axis=0)
        cross = (
            pt.sum(x * pt.dot(first, t) + s * pt.dot(first, y), axis=0)
            - pt.dot(rows, x * s)
            - pt.dot(columns, y * t)
            - rows.sum() * metric
        )
        squares = (
            pt.dot(second.sum(axis=1), x**2)
            + pt.dot(second.sum(axis=0), y**2)
            - 2 * pt.sum(x * pt.dot(second, y), axis=0)
        )
        return pt.sum(s * pt.dot(value, t), axis=0) + 2 * cross - 4 * squares


def _block_stein(
    kernel: Kernel,
    x: TensorVariable,
    s: TensorVariable,
    y: TensorVariable,
    t: TensorVariable,
    parameters: list[TensorVariable],
) -> _RadialTerms | _GeneralTerms:
    """Return the Stein kernel of all pairs of rows and columns."""
    if not kernel.radial:
        return _general_stein(
            kernel, x[:, None, :], s[:, None, :], y[None, :, :], t[None, :, :], parameters
        )
    squared = pt.sum(x**2, axis=1)[:, None] + pt.sum(y**2, axis=1)[None, :] - 2 * pt.dot(x, y.T)
    squared = pt.maximum(squared, 0)
    cross = (
        pt.dot(pt.concatenate([x, s], axis=1), pt.concatenate([t, y], axis=1).T)
        - pt.sum(x * s, axis=1)[:, None]
        - pt.sum(y * t, axis=1)[None, :]
    )
    derivatives = kernel.profile_derivatives(squared, parameters)
    total = _radial_stein(derivatives, squared, pt.dot(s, t.T), cross, x.shape[1])
    return _RadialTerms(total, derivatives, x, y)


@dataclass(frozen=True)
class _GeneralTerms:
    """The Stein kernel of a general kernel, from the kernel and its derivatives at every pair."""

    total: TensorVariable
    value: TensorVariable
    gradient_x: TensorVariable
    gradient_y: TensorVariable
    mixed: TensorVariable

    def coordinate_terms(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        mixed = pt.sum(mixing * pt.dot(self.mixed, mixing), axis=-2)
        return (
            s * t * self.value[..., None]
            + s * pt.dot(self.gradient_y, mixing)
            + t * pt.dot(self.gradient_x, mixing)
            + mixed
        )

    def coordinate_sums(
        self, s: TensorVariable, t: TensorVariable, mixing: TensorVariable
    ) -> TensorVariable:
        return self.coordinate_terms(s[:, None, :], t[None, :, :], mixing).sum(axis=(0, 1))


def _general_stein(
    kernel: Kernel,
    x: TensorVariable,
    s: TensorVariable,
    y: TensorVariable,
    t: TensorVariable,
    parameters: list[TensorVariable],
) -> _GeneralTerms:
    """Differentiate the kernel of two vectors in full, for all pairs that x and y broadcast to."""
    value, gradient_x, gradient_y, mixed = _full_derivatives(kernel, x, y, parameters)
    total = (
        value * pt.sum(s * t, axis=-1)
        + pt.sum(s * gradient_y + t * gradient_x, axis=-1)
        + pt.diagonal(mixed, axis1=-2, axis2=-1).sum(axis=-1)
    )
    return _GeneralTerms(total, value, gradient_x, gradient_y, mixed)


def _full_derivatives(
    kernel: Kernel, x: TensorVariable, y: TensorVariable, parameters: list[TensorVariable]
) -> list[TensorVariable]:
    """Return the kernel, its two gradients and its mixed second derivatives at every pair."""
    if isinstance(kernel, SumKernel):
        terms = [
            [weight * part for part in _full_derivatives(term, x, y, list(inner))]
            for weight, term, inner in kernel.split(parameters)
        ]
        return [sum(parts) for parts in zip(*terms, strict=True)]
    if kernel.radial:
        difference = x - y
        squared = pt.sum(difference**2, axis=-1)
        value, first, second = kernel.profile_derivatives(squared, parameters)
        pull = 2 * first[..., None] * difference
        outer = difference[..., :, None] * difference[..., None, :]
        mixed = -2 * first[..., None, None] * pt.eye(x.shape[-1]) - 4 * (
            second[..., None, None] * outer
        )
        return [value, pull, -pull, mixed]
    a, b, direction = pt.dvector("a"), pt.dvector("b"), pt.dvector("direction")
    value = kernel.expression(a, b, parameters)
    gradient_a, gradient_b = pt.grad(value, [a, b], disconnected_inputs="ignore")
    row = pt.grad(pt.dot(gradient_a, direction), b, disconnected_inputs="ignore")
    mixed = vectorize_graph(row, {direction: pt.eye(x.shape[-1])})
    shape = pt.broadcast_shape(x, y)
    full_x, full_y = pt.broadcast_to(x, shape), pt.broadcast_to(y, shape)
    return vectorize_graph([value, gradient_a, gradient_b, mixed], {a: full_x, b: full_y})
