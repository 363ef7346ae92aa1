"""What a Stein operator is: how a density enters a Stein kernel, and what it takes of a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt

from pymc_ksd.stein.kernels import Derivatives, Kernel, Tensor
from pymc_ksd.stein.points import Points, Scaling

#: What a density says of n points, of shape (n, d): scores, or rates of steps up and down. Log
#: densities, of shape (n,), may follow scores.
Values = Sequence[np.ndarray]


class Graph:
    """A function that is being written: its kernel, and inputs that are made when first asked for.

    Attributes
    ----------
    kernel : Kernel
        The base kernel.
    parameters : list of TensorVariable
        The numbers on which it depends.
    inputs : dict of str to TensorVariable
        The arrays that were asked for, see :meth:`pymc_ksd.stein.points.Points.arrays`.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        count = len(kernel.parameter_values(1.0))
        self.parameters = [pt.dscalar(f"parameter_{index}") for index in range(count)]
        self.inputs: dict[str, Tensor] = {}

    def matrix(self, name: str) -> Tensor:
        """Return the input with this name, a matrix."""
        return self.inputs.setdefault(name, pt.dmatrix(name))

    def vector(self, name: str) -> Tensor:
        """Return the input with this name, a vector."""
        return self.inputs.setdefault(name, pt.dvector(name))

    def rows(self, *names: str) -> list[Tensor]:
        """Return inputs that belong to the points of the rows."""
        return [self.matrix(f"row.{name}") for name in names]

    def columns(self, *names: str) -> list[Tensor]:
        """Return inputs that belong to the points of the columns."""
        return [self.matrix(f"column.{name}") for name in names]

    def profile(self, squared_distance: Tensor) -> Tensor:
        """Return a radial kernel at squared distances."""
        return self.kernel.profile(squared_distance, self.parameters)

    def profile_derivatives(self, squared_distance: Tensor) -> Derivatives:
        """Return a radial kernel and its first two derivatives at squared distances."""
        return self.kernel.profile_derivatives(squared_distance, self.parameters)


class SteinOperator:
    """How a density enters a Stein kernel.

    A subclass brings points and what it takes of them to scale, and writes the Stein kernel as
    graphs of the arrays in its :class:`pymc_ksd.stein.points.Points`;
    :class:`pymc_ksd.stein.stein_kernel.SteinKernel` compiles them. It is found in
    :data:`pymc_ksd.stein.stein_kernel.OPERATORS` under its name, which densities refer to.
    """

    #: What densities call it.
    name: str = ""
    #: Whether there is machine code for radial kernels, see :mod:`pymc_ksd.engine.machine_code`.
    has_machine_code: bool = False
    #: Whether there is machine code for sums with kernels of covariates, too.
    has_conditional_code: bool = False
    #: What the scores of points are called, where it takes scores.
    scores: str = ""
    #: Whether scores are multiplied by ``tilt_factors`` of points, and u by their ``tilts``.
    tilted: bool = False
    #: Whether points that are all the same can be tested, by nulls that simulate others.
    takes_constant_points: bool = False
    #: What is wrong with points at which its terms are not finite; a variable's name follows.
    problem: str = "lie outside the support of"

    def unusable(self, values: Values) -> np.ndarray:
        """Tell at which points and coordinates a density's values cannot be used."""
        return np.logical_or.reduce([~np.isfinite(value) for value in values])

    def check_values(self, values: Values, names: Sequence[str]) -> None:
        """Refuse values of a density over these variables of which nothing can be learnt."""

    def scaled(self, points: np.ndarray, values: Values, scale: str | None) -> Points:
        """Bring points and a density's values there to the coordinates that a kernel compares.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            Unconstrained points.
        values : sequence of ndarray of shape (n, d)
            What the density says of them: scores, or rates of steps up and down.
        scale : {None, "std", "cov", "stein"}
            With ``"cov"``, points are whitened: z = L⁻¹(x − median), L the Cholesky factor of their
            covariance, or, with ``"stein"``, of what it and the scores agree on.

        Returns
        -------
        Points
        """
        raise NotImplementedError

    def apply(self, scaling: Scaling, points: np.ndarray, values: Values) -> Points:
        """Scale points in a way that is known already, as for a part of many draws."""
        raise NotImplementedError

    def standardised(
        self, points: np.ndarray, values: Values, centre: np.ndarray, spread: np.ndarray
    ) -> Points:
        """Return points of which each has a centre and a spread of its own."""
        raise NotImplementedError

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a typical value and a spread along the first axis of simulated values."""
        raise NotImplementedError

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        raise NotImplementedError

    def pairs(self, graph: Graph) -> Tensor:
        """Return u of n pairs, a row and a column each, shape (n,)."""
        raise NotImplementedError

    def block(self, graph: Graph) -> Tensor:
        """Return u of all pairs of rows and columns, shape (rows, columns)."""
        raise NotImplementedError

    def coordinates(self, graph: Graph) -> Tensor:
        """Return the sum of each coordinate's term in u over all these pairs, shape (d,)."""
        raise NotImplementedError

    def own_coordinates(self, graph: Graph) -> Tensor:
        """Return the sum over rows of each coordinate's term in u(x, x), shape (d,)."""
        raise NotImplementedError

    def witness(self, graph: Graph) -> Tensor:
        """Return the operator applied to k(·, place), summed over rows with weights.

        Places and weights are the inputs ``places``, shape (places, d), and ``weights``, shape
        (rows, places).
        """
        raise NotImplementedError
