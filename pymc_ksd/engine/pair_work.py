"""What is summed over blocks of pairs, on this machine or on another.

A :class:`PairWork` holds all that a block needs and can be sent to other processes; the
:class:`Totals` of different blocks add up, in any grouping. There are sums for each member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.engine.functions import MemberFunctions
from pymc_ksd.engine.schedule import Block
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member, Wanted

__all__ = ["PairWork", "Totals"]

#: What a function of a block returned, for each member.
BlockSums = list[dict[str, np.ndarray]]


@dataclass(frozen=True)
class PairWork:
    """Points to be compared, and what is wanted of every pair.

    Attributes
    ----------
    members : sequence of Member
        The Stein kernels.
    points : Points
        The points.
    weights : ndarray of shape (m, n), optional
        Multipliers of the points for m quadratic forms.
    coordinates : bool
        Whether each coordinate's term is wanted.
    groups : ndarray of shape (n,), optional
        The number of each point's group.
    """

    members: Sequence[Member]
    points: Points
    weights: np.ndarray | None = None
    coordinates: bool = False
    groups: np.ndarray | None = None

    @property
    def n_points(self) -> int:
        """The number of points."""
        return self.points.n_points

    @property
    def n_pairs(self) -> int:
        """The number of pairs of points, which decides how they are compared."""
        return self.n_points**2

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.points.dim

    def functions(self) -> MemberFunctions:
        """Return the functions that reduce a block."""
        wanted = Wanted(self.weights is not None, self.coordinates, self.groups is not None)
        return MemberFunctions(self.members, wanted, self.n_pairs)

    def totals(self) -> Totals:
        """Return the sums over no block."""
        count, dim = len(self.members), self.dim
        return Totals(
            u=np.zeros(count),
            quadratic=np.zeros((count, 0 if self.weights is None else len(self.weights))),
            coordinates=np.zeros((count, dim if self.coordinates else 0)),
            earlier={},
        )

    def reduce(self, functions: MemberFunctions, block: Block) -> BlockSums:
        """Return what the functions of a block return, for each member."""
        arrays = self.points.once(coordinates=self.coordinates)
        for side, part in zip(("row", "column"), block, strict=True):
            arrays |= self.points.part(side, part, coordinates=self.coordinates)
            arrays[f"{side}.numbers"] = np.arange(part.start, part.stop, dtype=np.float64)
            if self.groups is not None:
                arrays[f"{side}.groups"] = self.groups[part]
            if self.weights is not None:
                precision = np.float32 if functions.fused else np.float64
                arrays[f"{side}.weights"] = self.weights[:, part].astype(precision)
        sums = []
        for index, member in enumerate(self.members):
            with functions.borrowed(index) as function:
                sums.append(function(arrays, member.parameters))
        return sums


@dataclass
class Totals:
    """Sums over some of the blocks, for each member.

    Attributes
    ----------
    u : ndarray of shape (members,)
        The sum of the Stein kernel over ordered pairs.
    quadratic : ndarray of shape (members, m)
        The quadratic forms over pairs of different points.
    coordinates : ndarray of shape (members, d)
        The sum of each coordinate's term.
    earlier : dict of ndarray of shape (members, points, 2)
        The sum of u over points before each point, of all and of its own group, for the points of
        the columns that were visited, by the number of their first point.

    Arrays are empty where they are not wanted.
    """

    u: np.ndarray
    quadratic: np.ndarray
    coordinates: np.ndarray
    earlier: dict[int, np.ndarray]

    def add_block(self, block: Block, sums: BlockSums) -> None:
        """Add what :meth:`PairWork.reduce` returned, as often as it stands in the matrix."""
        rows, columns = block
        times = 1.0 if rows == columns else 2.0
        for index, found in enumerate(sums):
            self.u[index] += times * float(found["u"])
            if self.quadratic.size:
                self.quadratic[index] += times * found["quadratic"]
            if self.coordinates.size:
                self.coordinates[index] += times * found["coordinates"]
        if "earlier" in sums[0]:
            self._add_earlier(columns.start, np.stack([found["earlier"].T for found in sums]))

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
        """Return `earlier` of all points together, shape (members, n, 2), or no points."""
        parts = [self.earlier[start] for start in sorted(self.earlier)]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(self.u), 0, 2))
