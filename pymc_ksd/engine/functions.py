"""Compiled functions of blocks of pairs, machine code or graphs, and the sums they are added to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np

from pymc_ksd.engine.machine_block import MachineBlock
from pymc_ksd.engine.machine_code import machine_loops
from pymc_ksd.engine.schedule import Block
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import CORES, Member, Wanted

#: From this many pairs on machine code is worth the seconds it may take to compile.
_FUSED_PAIRS = 2_000_000
#: Points in a block of a radial kernel: its temporaries then fit the processor's caches.
_RADIAL_BLOCK = 512
#: Fewest and most points in a block for machine code, and how many blocks at least side by side.
_FUSED_BLOCK, _SIDE_BY_SIDE = (256, 1024), 8
#: Numbers that one temporary may hold where it has several for every pair.
GENERAL_NUMBERS = 4_000_000
#: The weights of replicates among the arrays of a block.
_WEIGHTS = {"row.weights", "column.weights"}


def is_long(n_pairs: float) -> bool:
    """Whether there are so many pairs that machine code is worth while."""
    return n_pairs >= _FUSED_PAIRS


class BlockFunctions:
    """The functions of several members.

    Members with machine code are evaluated together, in one pass. Others share functions if their
    Stein kernels differ in numbers alone; every copy of these is lent to one thread at a time.

    Parameters
    ----------
    members : sequence of Member
        The Stein kernels.
    wanted : Wanted, optional
        What a block is reduced to; None for the block itself.
    n_pairs : float
        The number of pairs of points, which decides how they are compared.
    """

    def __init__(self, members: Sequence[Member], wanted: Wanted | None, n_pairs: float) -> None:
        self._members, self.n_pairs = members, n_pairs
        loops = machine_loops([member.stein for member in members], compiled=is_long(n_pairs))
        self._together = [
            index for index, member in enumerate(members) if loops and loops.takes(member.stein)
        ]
        #: Whether all are evaluated together, which several threads may do.
        self.fused = len(self._together) == len(members)
        #: How many threads may work side by side.
        self.count = CORES
        self._machine_block: MachineBlock | None = None
        if loops:
            own = [members[index] for index in self._together]
            self._machine_block = MachineBlock(loops, wanted, own)
        self._free: dict[Any, SimpleQueue[Any]] = {}
        for stein in (members[index].stein for index in self._alone):
            copies = stein.matrix() if wanted is None else stein.block(wanted)
            self.count = min(self.count, len(copies))
            free = self._free[stein.key] = SimpleQueue()
            for function in copies:
                free.put(function)

    @property
    def _alone(self) -> list[int]:
        """Which members are evaluated one by one."""
        return [index for index in range(len(self._members)) if index not in self._together]

    def evaluate(self, arrays: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Give what is found for each member in a block, in their order."""
        together: dict[str, Any] = {}
        if self._machine_block:
            together = self._machine_block(arrays)
        if self._free:
            # Graphs take numbers of one type only.
            names = _WEIGHTS & arrays.keys()
            arrays = {**arrays, **{name: arrays[name].astype(np.float64) for name in names}}
        for index, member in enumerate(self._members):
            if index in self._together:
                position = self._together.index(index)
                yield {name: values[position] for name, values in together.items()}
                continue
            free = self._free[member.stein.key]
            function = free.get()
            try:
                found = function(arrays, member.parameters)
            finally:
                free.put(function)
            yield found

    def matrices(self, points: Points, block: Block) -> Iterator[np.ndarray]:
        """Give each member's block of u, with zeros where a point is paired with itself."""
        rows, columns = block
        for found in self.evaluate(points.arrays(row=rows, column=columns)):
            if rows == columns:
                np.fill_diagonal(found["u"], 0.0)
            yield found["u"]

    def block_size(self, n: int, dim: int) -> int:
        """Return how many points a block has when the user does not say."""
        if self.fused:
            least, most = _FUSED_BLOCK
            return max(least, min(most, n // _SIDE_BY_SIDE))
        numbers = numbers_per_pair(self._members, dim)
        return max(1, min(_RADIAL_BLOCK, int(np.sqrt(GENERAL_NUMBERS / numbers))))


def numbers_per_pair(members: Sequence[Member], dim: int) -> int:
    """Return how many numbers a temporary holds for every pair of points, at the most."""
    return max(member.stein.numbers_per_pair(dim) for member in members)


@dataclass
class Totals:
    """Sums over some of the blocks, which add up in any grouping.

    Attributes
    ----------
    sums : dict of str to ndarray
        Sums over all pairs of these blocks, by name, with a leading axis of members.
    by_point : dict of int to ndarray of shape (members, points, ...)
        Sums for each point over its pairs in these blocks, by the number of the first point.
    """

    sums: dict[Any, np.ndarray] = field(default_factory=dict)
    by_point: dict[Any, np.ndarray] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Add sums over other blocks, which are left as they are."""
        for own, others in ((self.sums, other.sums), (self.by_point, other.by_point)):
            for key, values in others.items():
                own[key] = own[key] + values if key in own else values

    def of_points(self) -> np.ndarray:
        """Return the sums of all points together, shape (members, n, ...)."""
        return np.concatenate([self.by_point[start] for start in sorted(self.by_point)], axis=1)
