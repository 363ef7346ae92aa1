"""The kernels that have a name, and what the argument `kernel` may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymc_ksd.stein.custom_kernels import General
from pymc_ksd.stein.kernels import IMQ, RBF, Kernel, Matern52

__all__ = ["KERNELS", "get_kernel", "register_kernel"]

#: Kernels that have a name.
KERNELS: dict[str, type[Kernel]] = {"rbf": RBF, "imq": IMQ, "matern52": Matern52}


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
