"""Kernels from users' own PyTensor functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.stein.kernels import Expressions, Kernel

__all__ = ["General", "Radial"]


class _FromFunction(Kernel):
    """A kernel given by a user's function, with named numbers that stay inputs."""

    def __init__(
        self,
        function: Callable[..., TensorVariable],
        *,
        n_arguments: int,
        bandwidth: float | None,
        name: str | None,
        parameters: dict[str, float],
    ) -> None:
        super().__init__(bandwidth=bandwidth)
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.parameters = {key: float(value) for key, value in parameters.items()}
        accepted = list(inspect.signature(function).parameters)[n_arguments:]
        self._wants_bandwidth = "bandwidth" in accepted
        if bandwidth is not None and not self._wants_bandwidth:
            raise ValueError(
                f"`bandwidth` was given, but the kernel function {self.name!r} has no argument "
                "of that name."
            )

    @property
    def structure(self) -> Hashable:
        """The function itself, and the names of its parameters."""
        return type(self), self.function, tuple(self.parameters)

    @property
    def takes_bandwidth(self) -> bool:
        """Whether the function has an argument named ``bandwidth`` that is still free."""
        return self._wants_bandwidth and self.bandwidth is None

    def parameter_values(self, bandwidth: float) -> tuple[float, ...]:
        """Return the bandwidth, if the function wants it, and the named parameters."""
        first = super().parameter_values(bandwidth) if self._wants_bandwidth else ()
        return (*first, *self.parameters.values())

    def _call(self, arguments: Expressions, parameters: Expressions) -> TensorVariable:
        names = ["bandwidth"] * self._wants_bandwidth + list(self.parameters)
        value = self.function(*arguments, **dict(zip(names, parameters, strict=True)))
        return pt.as_tensor_variable(value)

    def __repr__(self) -> str:
        """Name the kernel's function and its parameters."""
        inner = [self.name] + [f"{key}={value:g}" for key, value in self.parameters.items()]
        inner += [] if self.bandwidth is None else [f"bandwidth={self.bandwidth:g}"]
        return f"{type(self).__name__}({', '.join(inner)})"

    @property
    def formula(self) -> str:
        """The function and what it depends on."""
        return f"{self.name}({'r²' if self.radial else 'x, y'})"


class Radial(_FromFunction):
    r"""A radial kernel from a PyTensor expression :math:`\varphi(r^2)`.

    Parameters
    ----------
    function : callable
        Takes an array of squared distances, then any parameters by name, and returns the kernel
        elementwise. It receives the test's bandwidth when it has an argument ``bandwidth``. Its
        first two derivatives must be finite at zero distance.
    bandwidth : float, optional
        Fix the bandwidth of this kernel.
    name : str, optional
        How the kernel is called in results.
    **parameters : float
        Further arguments of `function`.

    Examples
    --------
    A rational quadratic kernel:

    >>> from pymc_ksd import Radial
    >>> def rational_quadratic(squared_distance, bandwidth, alpha):
    ...     return (1 + squared_distance / (2 * alpha * bandwidth**2)) ** (-alpha)
    >>> Radial(rational_quadratic, alpha=0.8)
    Radial(rational_quadratic, alpha=0.8)
    """

    def __init__(
        self,
        function: Callable[..., TensorVariable],
        *,
        bandwidth: float | None = None,
        name: str | None = None,
        **parameters: float,
    ) -> None:
        super().__init__(
            function, n_arguments=1, bandwidth=bandwidth, name=name, parameters=parameters
        )

    def profile(self, squared_distance: TensorVariable, parameters: Expressions) -> TensorVariable:
        r"""Return :math:`\varphi` at an array of squared distances, elementwise."""
        return self._call([squared_distance], parameters)


class General(_FromFunction):
    """A kernel from any PyTensor expression of two points.

    Parameters
    ----------
    function : callable
        Takes two vectors of length d, then any parameters by name, and returns the scalar kernel.
        It must be symmetric, positive definite and twice differentiable. It receives the test's
        bandwidth when it has an argument ``bandwidth``.
    bandwidth : float, optional
        Fix the bandwidth of this kernel.
    name : str, optional
        How the kernel is called in results.
    **parameters : float
        Further arguments of `function`.

    Examples
    --------
    A periodic kernel for angles:

    >>> import pytensor.tensor as pt
    >>> from pymc_ksd import General
    >>> def periodic(x, y, bandwidth):
    ...     return pt.exp(-2 * pt.sum(pt.sin((x - y) / 2) ** 2) / bandwidth**2)
    >>> General(periodic)
    General(periodic)
    """

    radial = False

    def __init__(
        self,
        function: Callable[..., TensorVariable],
        *,
        bandwidth: float | None = None,
        name: str | None = None,
        **parameters: float,
    ) -> None:
        super().__init__(
            function, n_arguments=2, bandwidth=bandwidth, name=name, parameters=parameters
        )

    def expression(
        self, x: TensorVariable, y: TensorVariable, parameters: Expressions
    ) -> TensorVariable:
        """Return the scalar ``k(x, y)`` for two vectors."""
        value = self._call([x, y], parameters)
        if value.ndim != 0:
            raise ValueError(
                f"The kernel function {self.name!r} must return a scalar for two vectors, "
                f"got {value.ndim} dimension(s)."
            )
        return value
