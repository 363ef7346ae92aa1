"""How blocks of pairs are visited: the upper triangle, in order, by several threads at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from pymc_ksd.stein.stein_kernel import Member

__all__ = [
    "GENERAL_NUMBERS",
    "Block",
    "default_block_size",
    "in_order",
    "number_of_pairs",
    "one_thread_for_products",
    "upper_triangle",
]

#: Rows and columns of a block.
Block = tuple[slice, slice]
#: Points in a block of a radial kernel: its temporaries then fit the processor's caches.
_RADIAL_BLOCK = 512
#: Fewest and most points in a block for machine code, and how many blocks at least side by side.
_FUSED_BLOCK, _SIDE_BY_SIDE = (256, 1024), 8
#: Numbers that one temporary may hold where it has several for every pair.
GENERAL_NUMBERS = 4_000_000
#: Blocks handed to every thread ahead of time.
_AHEAD = 4
#: The largest allocation that makes glibc raise its threshold for keeping freed memory, nearly.
_KEPT_BYTES = 31 * 2**20


def default_block_size(members: Sequence[Member], fused: bool, n: int, dim: int) -> int:
    """Return how many points a block has when the user does not say."""
    if fused:
        least, most = _FUSED_BLOCK
        return max(least, min(most, n // _SIDE_BY_SIDE))
    numbers = max(member.stein.numbers_per_pair(dim) for member in members)
    return max(1, min(_RADIAL_BLOCK, int(np.sqrt(GENERAL_NUMBERS / numbers))))


def upper_triangle(n: int, size: int) -> Iterator[Block]:
    """Visit all pairs of n points once, a point with itself included, in blocks of `size`."""
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    for index, rows in enumerate(parts):
        for columns in parts[index:]:
            yield rows, columns


def number_of_pairs(block: Block) -> float:
    """Return how many of the n (n + 1) / 2 pairs a block stands for."""
    rows, columns = block
    pairs = (rows.stop - rows.start) * (columns.stop - columns.start)
    return pairs / 2 if rows == columns else float(pairs)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looking for them takes a while


class _OneThread:
    """A limit for the whole process: set by the first thread that enters, lifted by the last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_ONE_THREAD = _OneThread()


def one_thread_for_products() -> Any:
    """Return a context in which the linear algebra library starts no threads of its own."""
    return _ONE_THREAD


def in_order(
    work: Callable[[Any], Any], items: Iterable[Any], n_threads: int
) -> Iterator[tuple[Any, Any]]:
    """Work on items in threads and yield each with its result, in the order of the items.

    NumPy and machine code let other threads run while they compute. One thread a core is enough, so
    the linear algebra library is kept from starting more.
    """
    # Freed at once: the C library of Linux then keeps the memory of freed blocks for the next ones,
    # where it would return them to the system and ask for them again.
    np.empty(_KEPT_BYTES, dtype=np.int8)
    if n_threads == 1:
        for item in items:
            yield item, work(item)
        return
    waiting: deque[tuple[Any, Future[Any]]] = deque()
    with one_thread_for_products(), ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > _AHEAD * n_threads:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for item, future in waiting:
                yield item, future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
