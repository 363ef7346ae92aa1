"""Compiled functions of blocks of pairs: machine code or graphs, lent to one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from pymc_ksd.engine.machine_block import MachineBlock
from pymc_ksd.engine.machine_code import machine_loops
from pymc_ksd.stein.stein_kernel import CORES, Member, SteinKernel, Wanted

__all__ = ["Functions", "MemberFunctions", "is_long"]

#: From this many pairs on machine code is worth the seconds it may take to compile.
_FUSED_PAIRS = 2_000_000


def is_long(n_pairs: float) -> bool:
    """Whether there are so many pairs that machine code is worth while."""
    return n_pairs >= _FUSED_PAIRS


class Functions:
    """Copies of a compiled function, each lent to one thread at a time."""

    def __init__(self, copies: Sequence[Any]) -> None:
        self.count = len(copies)
        #: Whether they are machine code, which may run in several threads.
        self.fused = isinstance(copies[0], MachineBlock)
        self._free: SimpleQueue[Any] = SimpleQueue()
        for function in copies:
            self._free.put(function)

    @classmethod
    def of(cls, stein: SteinKernel, wanted: Wanted | None, n_pairs: float) -> Functions:
        """Return the functions that reduce a block, or, if nothing is wanted, return it whole."""
        loops = machine_loops(stein) if is_long(n_pairs) else None
        if loops is not None:
            return cls([MachineBlock(loops, wanted)] * CORES)
        return cls(stein.matrix() if wanted is None else stein.block(wanted))

    @contextmanager
    def borrowed(self) -> Iterator[Any]:
        """Give a copy that no other thread uses meanwhile."""
        function = self._free.get()
        try:
            yield function
        finally:
            self._free.put(function)


class MemberFunctions:
    """The functions of several members, shared by those whose Stein kernels differ in numbers."""

    def __init__(self, members: Sequence[Member], wanted: Wanted | None, n_pairs: float) -> None:
        by_key = {
            member.stein.key: Functions.of(member.stein, wanted, n_pairs) for member in members
        }
        self._functions = [by_key[member.stein.key] for member in members]
        self.fused = all(functions.fused for functions in self._functions)
        #: How many threads may work side by side.
        self.count = min(functions.count for functions in self._functions)

    @contextmanager
    def borrowed(self, member: int) -> Iterator[Any]:
        """Give a member's function, which no other thread uses meanwhile."""
        with self._functions[member].borrowed() as function:
            yield function
