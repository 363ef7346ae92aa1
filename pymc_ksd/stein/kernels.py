r"""Base kernels :math:`k(x, x')`, written as PyTensor expressions.

A *radial* kernel is one expression :math:`\varphi(r^2)` of the squared distance
:math:`r^2 = \|x - x'\|^2`; a *general* kernel is any expression of two vectors. Derivatives come
from PyTensor. A built-in kernel overrides :meth:`Kernel.profile_derivatives` only where
differentiating its expression is slow or undefined at zero distance.

Every number a kernel depends on (bandwidth, exponent, weights of a sum) is an input of the compiled
Stein kernel, so changing it never compiles anything again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.tensor.variable import TensorVariable as Tensor

from pymc_ksd.options import positive_number

if TYPE_CHECKING:
    from rich.text import Text

Tensors = Sequence[Tensor]
#: A radial kernel and its first two derivatives in the squared distance.
Derivatives = tuple[Tensor, Tensor, Tensor]


class Kernel:
    """A positive definite base kernel.

    Parameters
    ----------
    bandwidth : float, optional
        Fix the bandwidth of this kernel. By default it is the one the test chooses, see the
        argument `bandwidth` of :func:`pymc_ksd.ksd_test`.

    Notes
    -----
    Kernels add up and can be multiplied by positive numbers: ``RBF() + 0.5 * IMQ()``.
    """

    #: Whether the kernel depends on its arguments through their distance alone.
    radial: bool = True

    def __init__(self, *, bandwidth: float | None = None) -> None:
        self.bandwidth = None if bandwidth is None else positive_number(bandwidth, "bandwidth")

    @property
    def structure(self) -> Hashable:
        """What decides the kernel's graph; kernels with equal structure share compiled code."""
        return (type(self),)

    @property
    def takes_bandwidth(self) -> bool:
        """Whether the kernel needs a bandwidth from the test."""
        return self.bandwidth is None

    def parameter_values(self, bandwidth: float) -> tuple[float, ...]:
        """Return the numbers for the kernel's inputs, given the bandwidth the test has chosen."""
        return (bandwidth if self.bandwidth is None else self.bandwidth,)

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        raise NotImplementedError

    def profile_derivatives(self, squared_distance: Tensor, parameters: Tensors) -> Derivatives:
        r"""Return :math:`\varphi, \varphi', \varphi''` at an array of squared distances."""
        value = self.profile(squared_distance, parameters)
        first = self.gradient(value.sum(), squared_distance)
        second = self.gradient(first.sum(), squared_distance, disconnected_inputs="ignore")
        return value, first, second

    def gradient(self, value: Tensor, inputs: Any, disconnected_inputs: str = "raise") -> Any:
        """Return ``pytensor.grad`` of a part of the kernel, with an error that names the kernel."""
        try:
            return pt.grad(value, inputs, disconnected_inputs=disconnected_inputs)
        except (DisconnectedInputError, NullTypeGradError, NotImplementedError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            if isinstance(error, DisconnectedInputError):
                reason = "it has no derivative in both of its arguments"
            raise ValueError(
                f"`kernel` {self!r} must have a gradient, but cannot be differentiated ({reason}): "
                "write it with smooth PyTensor operations."
            ) from error

    def expression(self, x: Tensor, y: Tensor, parameters: Tensors) -> Tensor:
        """Return the scalar ``k(x, y)`` for two vectors."""
        return self.profile(pt.sum((x - y) ** 2), parameters)

    def __add__(self, other: Kernel) -> Kernel:
        """Add another kernel."""
        if not isinstance(other, Kernel):
            return NotImplemented
        return SumKernel([(1.0, self), (1.0, other)])

    def __mul__(self, weight: float) -> Kernel:
        """Multiply by a positive number."""
        return SumKernel([(positive_number(weight, "weight"), self)])

    __rmul__ = __mul__

    def __repr__(self) -> str:
        """Name the kernel and its bandwidth, when fixed."""
        return self._named([])

    def _named(self, inner: list[str]) -> str:
        fixed = [] if self.bandwidth is None else [f"bandwidth={self.bandwidth:g}"]
        return f"{type(self).__name__}({', '.join(inner + fixed)})"

    @property
    def formula(self) -> str:
        """The kernel as a function of the distance r, or of two points, in one line of text."""
        return "k(x, y)"

    @property
    def meaning(self) -> str:
        """The formula, and what the letters in it stand for."""
        return ", ".join([self.formula, *self._letters])

    @property
    def _letters(self) -> tuple[str, ...]:
        letters = ["r = |x − y|"] if self.radial else []
        if self.bandwidth is not None:
            letters.append(f"h = {self.bandwidth:g}")
        elif self.takes_bandwidth:
            letters.append("h chosen by the test")
        return tuple(letters)

    def _repr_html_(self) -> str:
        """Return the kernel with its formula for a notebook."""
        return f"<code>{escape(repr(self))}</code> &nbsp; {escape(self.meaning)}"

    def __rich__(self) -> Text:
        """Return the kernel with its formula for a ``rich`` console."""
        from rich.text import Text

        return Text.assemble((repr(self), "bold"), "  ", self.meaning)


class RBF(Kernel):
    r"""Gaussian kernel :math:`\exp(-r^2 / 2h^2)` with bandwidth :math:`h`.

    Parameters
    ----------
    bandwidth : float, optional
        Fix the bandwidth :math:`h` of this kernel.

    Examples
    --------
    >>> from pymc_ksd import IMQ, RBF
    >>> RBF() + 0.5 * IMQ(bandwidth=2)
    RBF() + 0.5 * IMQ(bandwidth=2)
    """

    formula = "exp(−r² / 2h²)"

    def parameter_values(self, bandwidth: float) -> tuple[float, ...]:
        """Return the factor of the squared distance: one product less for every pair."""
        (h,) = super().parameter_values(bandwidth)
        return (-0.5 / h**2,)

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        (factor,) = parameters
        return pt.exp(squared_distance * factor)


class IMQ(Kernel):
    r"""Inverse multiquadric kernel :math:`(1 + r^2 / h^2)^{\beta}` with :math:`-1 < \beta < 0`.

    Its slow decay lets the discrepancy see samples that fail to converge in three dimensions and
    more, which the Gaussian kernel can miss [1]_.

    Parameters
    ----------
    beta : float, default -0.5
        The exponent.
    bandwidth : float, optional
        Fix the bandwidth :math:`h` of this kernel.

    References
    ----------
    .. [1] Gorham, J., and Mackey, L. (2017). Measuring sample quality with kernels. Proceedings of
       the 34th International Conference on Machine Learning. arXiv:1703.01717
    """

    def __init__(self, beta: float = -0.5, *, bandwidth: float | None = None) -> None:
        super().__init__(bandwidth=bandwidth)
        if not -1 < beta < 0:
            raise ValueError(f"`beta` must lie strictly between -1 and 0, got {beta!r}.")
        self.beta = float(beta)

    @property
    def _inverse_root(self) -> bool:
        return self.beta == -0.5

    @property
    def structure(self) -> Hashable:
        """The square root of the usual exponent has a graph of its own, without powers."""
        return IMQ, self._inverse_root

    def parameter_values(self, bandwidth: float) -> tuple[float, ...]:
        """Return the bandwidth and, unless it is -1/2, the exponent."""
        values = super().parameter_values(bandwidth)
        return values if self._inverse_root else (*values, self.beta)

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        base = 1 + squared_distance / parameters[0] ** 2
        return 1 / pt.sqrt(base) if self._inverse_root else base ** parameters[1]

    def profile_derivatives(self, squared_distance: Tensor, parameters: Tensors) -> Derivatives:
        r"""Return :math:`\varphi, \varphi', \varphi''`, by products alone if it is -1/2."""
        value = self.profile(squared_distance, parameters)
        inverse = 1 / parameters[0] ** 2
        beta = -0.5 if self._inverse_root else parameters[1]
        shrink = value * value if self._inverse_root else 1 / (1 + squared_distance * inverse)
        first = (beta * inverse) * (value * shrink)
        second = ((beta - 1) * inverse) * (first * shrink)
        return value, first, second

    def __repr__(self) -> str:
        """Name the kernel, its exponent when unusual, and its bandwidth when fixed."""
        return self._named([] if self._inverse_root else [f"beta={self.beta:g}"])

    @property
    def formula(self) -> str:
        """The kernel as a function of the distance r."""
        return f"(1 + r² / h²)^{self.beta:g}"


class Matern52(Kernel):
    r"""Matérn kernel of smoothness 5/2: :math:`(1 + a + a^2/3) e^{-a}`, :math:`a = \sqrt5 r/h`.

    Parameters
    ----------
    bandwidth : float, optional
        Fix the bandwidth :math:`h` of this kernel.
    """

    formula = "(1 + a + a²/3) exp(−a), a = √5 r/h"

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        return self.profile_derivatives(squared_distance, parameters)[0]

    def profile_derivatives(self, squared_distance: Tensor, parameters: Tensors) -> Derivatives:
        r"""Return :math:`\varphi, \varphi', \varphi''`; the root has no derivative at zero."""
        (bandwidth,) = parameters
        a = pt.sqrt(5 * squared_distance) / bandwidth
        decay, inverse = pt.exp(-a), 1 / bandwidth**2
        first = (-5 / 6 * inverse) * ((1 + a) * decay)
        return (1 + a + a**2 / 3) * decay, first, (25 / 12 * inverse**2) * decay


class SumKernel(Kernel):
    """A sum of kernels with positive weights, which ``RBF() + 0.5 * IMQ()`` makes.

    Parameters
    ----------
    terms : list of (float, Kernel)
        Weights and kernels.
    """

    def __init__(self, terms: list[tuple[float, Kernel]]) -> None:
        super().__init__()
        flat: list[tuple[float, Kernel]] = []
        for weight, kernel in terms:
            inner = kernel.terms if isinstance(kernel, SumKernel) else [(1.0, kernel)]
            flat += [(weight * factor, term) for factor, term in inner]
        self.terms: tuple[tuple[float, Kernel], ...] = tuple(flat)
        self.radial = all(kernel.radial for _, kernel in self.terms)

    @property
    def structure(self) -> Hashable:
        """The structures of the terms."""
        return SumKernel, tuple(kernel.structure for _, kernel in self.terms)

    @property
    def takes_bandwidth(self) -> bool:
        """Whether any term needs a bandwidth."""
        return any(kernel.takes_bandwidth for _, kernel in self.terms)

    def parameter_values(self, bandwidth: float) -> tuple[float, ...]:
        """Return weight and parameters of each term in turn."""
        return tuple(
            number
            for weight, kernel in self.terms
            for number in (weight, *kernel.parameter_values(bandwidth))
        )

    def split(self, parameters: Tensors) -> list[tuple[Tensor, Kernel, Tensors]]:
        """Return weight, kernel and parameters of each term."""
        parts, start = [], 0
        for _, kernel in self.terms:
            end = start + 1 + len(kernel.parameter_values(1.0))
            parts.append((parameters[start], kernel, parameters[start + 1 : end]))
            start = end
        return parts

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        return sum(
            weight * kernel.profile(squared_distance, inner)
            for weight, kernel, inner in self.split(parameters)
        )

    def profile_derivatives(self, squared_distance: Tensor, parameters: Tensors) -> Derivatives:
        r"""Return :math:`\varphi, \varphi', \varphi''` as the sums of the terms' own."""
        parts = [
            [weight * part for part in kernel.profile_derivatives(squared_distance, inner)]
            for weight, kernel, inner in self.split(parameters)
        ]
        value, first, second = (sum(order) for order in zip(*parts, strict=True))
        return value, first, second

    def expression(self, x: Tensor, y: Tensor, parameters: Tensors) -> Tensor:
        """Return the scalar ``k(x, y)`` for two vectors."""
        return sum(
            weight * kernel.expression(x, y, inner)
            for weight, kernel, inner in self.split(parameters)
        )

    def __repr__(self) -> str:
        """Write the sum out."""
        return self._written([repr(kernel) for _, kernel in self.terms], " * ", " + ")

    @property
    def formula(self) -> str:
        """The terms' formulas, added up."""
        return self._written([kernel.formula for _, kernel in self.terms], " · ", " + ")

    @property
    def meaning(self) -> str:
        """The formula, or that of every term where bandwidths differ."""
        letters = {kernel._letters for _, kernel in self.terms}
        if len(letters) == 1:
            return ", ".join([self.formula, *letters.pop()])
        return self._written([kernel.meaning for _, kernel in self.terms], " · ", "; plus ")

    def _written(self, terms: list[str], times: str, plus: str) -> str:
        weighted = zip(self.terms, terms, strict=True)
        return plus.join(text if w == 1 else f"{w:g}{times}{text}" for (w, _), text in weighted)
