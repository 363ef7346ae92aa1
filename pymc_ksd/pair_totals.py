"""What is summed over blocks of pairs, on this machine or on another.

A :class:`PairWork` holds all that a block needs and can be sent to other processes; the
:class:`Totals` of different blocks add up, in any grouping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ksd.block_walk import Block, Functions, is_long, parameter_sets
from pymc_ksd.points import Points
from pymc_ksd.stein import SteinKernel

__all__ = ["PairWork", "Totals"]


@dataclass(frozen=True)
class PairWork:
    """Points to be compared, and what is wanted of every pair.

    Attributes
    ----------
    stein : SteinKernel
        The Stein kernel.
    points : Points
        Points and their scores.
    bandwidths : ndarray
        One bandwidth, or several whose Stein kernels are averaged.
    weights : ndarray of shape (m, n), optional
        Multipliers of the points for m quadratic forms.
    coordinates : bool
        Whether each coordinate's term is wanted.
    groups : ndarray of shape (n,), optional
        The number of each point's group.
    """

    stein: SteinKernel
    points: Points
    bandwidths: np.ndarray
    weights: np.ndarray | None = None
    coordinates: bool = False
    groups: np.ndarray | None = None

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.points.positions)

    def functions(self) -> Functions:
        """Return the functions that reduce a block."""
        return Functions(
            self.stein.block(
                weights=self.weights is not None,
                coordinates=self.coordinates,
                groups=self.groups is not None,
                fused=is_long(self.n_points**2),
            )
        )

    def reduce(self, functions: Functions, block: Block) -> list[np.ndarray]:
        """Return what the function of a block returns, averaged over bandwidths."""
        points, weights, groups = self.points, self.weights, self.groups
        inputs = [array[part] for part in block for array in points.arrays]
        if weights is not None:
            precision = np.float32 if functions.fused else np.float64
            inputs += [weights[:, part].astype(precision) for part in block]
        if self.coordinates:
            inputs += [array[part] for part in block for array in points.coordinate_arrays]
            inputs += points.coordinate_constants
        if groups is not None:
            inputs += [groups[part] for part in block]
        if weights is not None or groups is not None:
            inputs += [np.arange(part.start, part.stop, dtype=np.float64) for part in block]
        sets = parameter_sets(self.stein, self.bandwidths)
        with functions.borrowed() as function:
            outputs = [function(*inputs, *points.constants, *parameters) for parameters in sets]
        return [np.mean(parts, axis=0) for parts in zip(*outputs, strict=True)]


@dataclass
class Totals:
    """Sums over some of the blocks.

    Attributes
    ----------
    u : float
        The sum of the Stein kernel over ordered pairs.
    quadratic : ndarray of shape (m,)
        The quadratic forms over pairs of different points.
    coordinates : ndarray of shape (d,)
        The sum of each coordinate's term.
    earlier : dict of ndarray of shape (points, 2)
        The sum of u over points before each point, of all and of its own group, for the points of
        the columns that were visited, by the number of their first point.

    Arrays are empty where they are not wanted.
    """

    u: float
    quadratic: np.ndarray
    coordinates: np.ndarray
    earlier: dict[int, np.ndarray]

    @classmethod
    def of(cls, work: PairWork) -> Totals:
        """Return the sums over no block."""
        return cls(
            u=0.0,
            quadratic=np.zeros(0 if work.weights is None else len(work.weights)),
            coordinates=np.zeros(work.points.positions.shape[1] if work.coordinates else 0),
            earlier={},
        )

    def add_block(self, block: Block, sums: list[np.ndarray]) -> None:
        """Add what :meth:`PairWork.reduce` returned, as often as it stands in the matrix."""
        rows, columns = block
        times = 1.0 if rows == columns else 2.0
        rest = iter(sums)
        self.u += times * float(next(rest))
        if len(self.quadratic):
            self.quadratic += times * next(rest)
        if len(self.coordinates):
            self.coordinates += times * next(rest)
        for before in rest:
            self._add_earlier(columns.start, before.T)

    def add(self, other: Totals) -> None:
        """Add the sums over other blocks."""
        self.u += other.u
        self.quadratic += other.quadratic
        self.coordinates += other.coordinates
        for start, part in other.earlier.items():
            self._add_earlier(start, part)

    def _add_earlier(self, start: int, part: np.ndarray) -> None:
        self.earlier[start] = self.earlier[start] + part if start in self.earlier else part

    def all_earlier(self) -> np.ndarray:
        """Return `earlier` of all points together, shape (n, 2)."""
        return np.concatenate([self.earlier[start] for start in sorted(self.earlier)])
