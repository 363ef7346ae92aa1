"""What a Stein operator is: how a density enters a Stein kernel, and what it takes of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.stein.kernels import Expressions, Kernel
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.scaling import Scaling

__all__ = ["BlockGraph", "Graphs", "SteinOperator"]

#: Arrays of a function's inputs by their names, see :class:`pymc_ksd.stein.points.Points`.
Graphs = Mapping[str, TensorVariable]


@dataclass(frozen=True)
class BlockGraph:
    """The Stein kernel of a block of pairs.

    Attributes
    ----------
    total : TensorVariable of shape (rows, columns)
        The Stein kernel u.
    coordinates : TensorVariable of shape (d,), optional
        The sum over the block of each coordinate's term, where it was asked for.
    """

    total: TensorVariable
    coordinates: TensorVariable | None = None


class SteinOperator:
    """How a density enters a Stein kernel.

    A subclass says what it takes of every point and writes the Stein kernel as graphs of that;
    :class:`pymc_ksd.stein.stein_kernel.SteinKernel` compiles them. It is registered in
    :mod:`pymc_ksd.stein.operators` under its name, which densities refer to.
    """

    #: What densities call it.
    name: str = ""
    #: What it takes of every point besides its position, and what it takes once.
    terms: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    #: What single coordinates' terms take of every point in addition, and once.
    coordinate_terms: tuple[str, ...] = ()
    coordinate_constants: tuple[str, ...] = ()
    #: Whether there is machine code for radial kernels, see :mod:`pymc_ksd.engine.machine_code`.
    has_machine_code: bool = False
    #: Whether points that are all the same can be tested, by nulls that simulate others.
    takes_constant_points: bool = False
    #: What is wrong with points at which its terms are not finite; a variable's name follows.
    problem: str = "lie outside the support of"

    def unusable(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Tell at which points and coordinates a density's values cannot be used."""
        return np.logical_or.reduce([~np.isfinite(value) for value in values])

    def check_values(self, values: Sequence[np.ndarray], names: Sequence[str]) -> None:
        """Refuse values of a density over these variables of which nothing can be learnt."""

    def scaled(self, points: np.ndarray, values: Sequence[np.ndarray], scale: str | None) -> Points:
        """Bring points and a density's values there to the coordinates that a kernel compares.

        Parameters
        ----------
        points : ndarray of shape (n, d)
            Unconstrained points.
        values : sequence of ndarray of shape (n, d)
            What the density says of them: scores, or rates of steps up and down.
        scale : {None, "std", "cov"}
            With ``"cov"``, points are whitened: z = L⁻¹(x − median), L the Cholesky factor of their
            covariance.

        Returns
        -------
        Points
        """
        raise NotImplementedError

    def apply(self, scaling: Scaling, points: np.ndarray, values: Sequence[np.ndarray]) -> Points:
        """Scale points in a way that is known already, as for a part of many draws."""
        raise NotImplementedError

    def standardised(
        self,
        points: np.ndarray,
        values: Sequence[np.ndarray],
        centre: np.ndarray,
        spread: np.ndarray,
    ) -> Points:
        """Return points of which each has a centre and a spread of its own."""
        raise NotImplementedError

    def location_and_spread(self, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a typical value and a spread along the first axis of simulated values."""
        raise NotImplementedError

    def numbers_per_pair(self, kernel: Kernel, dim: int) -> int:
        """Return how many numbers a temporary holds for every pair of points."""
        raise NotImplementedError

    def pairs(
        self, kernel: Kernel, first: Graphs, second: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return u of n pairs of points, shape (n,)."""
        raise NotImplementedError

    def block(
        self,
        kernel: Kernel,
        rows: Graphs,
        columns: Graphs,
        once: Graphs,
        parameters: Expressions,
        *,
        coordinates: bool,
    ) -> BlockGraph:
        """Return u of all pairs of rows and columns."""
        raise NotImplementedError

    def own_coordinates(
        self, kernel: Kernel, points: Graphs, once: Graphs, parameters: Expressions
    ) -> TensorVariable:
        """Return the sum over points of each coordinate's term in u(x, x), shape (d,)."""
        raise NotImplementedError

    def witness(
        self,
        kernel: Kernel,
        points: Graphs,
        places: TensorVariable,
        weights: TensorVariable,
        once: Graphs,
        parameters: Expressions,
    ) -> TensorVariable:
        """Return the operator applied to k(·, place), summed over weighted points."""
        raise NotImplementedError
