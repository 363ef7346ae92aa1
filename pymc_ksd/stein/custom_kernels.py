"""Kernels from users' own PyTensor functions, and what the argument `kernel` may be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from pymc_ksd.stein.kernels import IMQ, RBF, Kernel, Matern52, Tensor, Tensors

#: Kernels that have a name.
KERNELS: dict[str, type[Kernel]] = {"rbf": RBF, "imq": IMQ, "matern52": Matern52}


class _FromFunction(Kernel):
    """A kernel given by a user's function, with named numbers that stay inputs."""

    #: How many arguments of the function are not numbers.
    _n_arguments: int
    #: What these are, in words.
    _takes: str

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        bandwidth: float | None = None,
        name: str | None = None,
        **parameters: float,
    ) -> None:
        super().__init__(bandwidth=bandwidth)
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.parameters = {key: float(value) for key, value in parameters.items()}
        try:
            accepted = list(inspect.signature(function).parameters)[self._n_arguments :]
        except ValueError:  # written in C
            accepted = []
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

    def _call(self, arguments: Tensors, parameters: Tensors) -> Tensor:
        names = ["bandwidth"] * self._wants_bandwidth + list(self.parameters)
        named = dict(zip(names, parameters, strict=True))
        try:
            value = pt.as_tensor_variable(self.function(*arguments, **named))
        except Exception as error:  # whatever a user's function raises
            raise TypeError(
                f"The kernel function {self.name!r} must take {self._takes} and return an "
                f"expression made of PyTensor operations, but failed with {type(error).__name__}: "
                f"{error}"
            ) from error
        if not set(arguments) <= set(ancestors([value])):
            raise ValueError(
                f"The kernel function {self.name!r} must depend on {self._takes}, got {value}."
            )
        return value

    def __repr__(self) -> str:
        """Name the kernel's function and its parameters."""
        numbers = [f"{key}={value:g}" for key, value in self.parameters.items()]
        return self._named([self.name, *numbers])

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

    _n_arguments = 1
    _takes = "squared distances"

    def profile(self, squared_distance: Tensor, parameters: Tensors) -> Tensor:
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
    _n_arguments = 2
    _takes = "two vectors"

    def expression(self, x: Tensor, y: Tensor, parameters: Tensors) -> Tensor:
        """Return the scalar ``k(x, y)`` for two vectors."""
        value = self._call([x, y], parameters)
        if value.ndim != 0:
            raise ValueError(
                f"The kernel function {self.name!r} must return a scalar for two vectors, "
                f"got {value.ndim} dimension(s)."
            )
        return value


def register_kernel(name: str, kernel: type[Kernel]) -> None:
    """Make a kernel known under a name, for the argument `kernel`.

    Parameters
    ----------
    name : str
        Its name, in lower case.
    kernel : type of Kernel
        Its class, which can be called without arguments.
    """
    KERNELS[name] = kernel


def get_kernel(kernel: str | Kernel | Callable[..., Any]) -> Kernel:
    """Turn the argument `kernel` of a public function into a :class:`Kernel`.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name (``"rbf"``, ``"imq"``, ``"matern52"``), a kernel, or a PyTensor function of two
        vectors, see :class:`General`.

    Returns
    -------
    Kernel
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        return kernel()
    if isinstance(kernel, str):
        if kernel.lower() not in KERNELS:
            raise ValueError(
                f"`kernel` must be one of {', '.join(map(repr, KERNELS))}, a Kernel or a function "
                f"of two vectors, got {kernel!r}."
            )
        return KERNELS[kernel.lower()]()
    if callable(kernel):
        return General(kernel)
    raise TypeError(
        f"`kernel` must be a name, a Kernel or a function of two vectors, "
        f"got {type(kernel).__name__}."
    )
