"""How blocks of pairs are visited: the upper triangle, in order, by several threads at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

#: Rows and columns of a block.
Block = tuple[slice, slice]
#: Blocks handed to every thread ahead of time.
_AHEAD = 4
#: The largest allocation that makes glibc raise its threshold for keeping freed memory, nearly.
_KEPT_BYTES = 31 * 2**20


def upper_triangle(n: int, size: int, first: int = 0) -> Iterator[Block]:
    """Visit all pairs of n points once, a point with itself included, in blocks of `size`."""
    end = first + n
    parts = [slice(start, min(start + size, end)) for start in range(first, end, size)]
    for index, rows in enumerate(parts):
        for columns in parts[index:]:
            yield rows, columns


def blocks_of_parts(parts: Iterable[int], size: int) -> Iterator[Block]:
    """Visit all pairs of points within each of several parts, which follow one another."""
    first = 0
    for n in parts:
        yield from upper_triangle(n, size, first)
        first += n


def number_of_pairs(block: Block) -> float:
    """Return how many of the n (n + 1) / 2 pairs a block stands for."""
    rows, columns = block
    pairs = (rows.stop - rows.start) * (columns.stop - columns.start)
    return pairs / 2 if rows == columns else float(pairs)


class _OneThread:
    """Keep the linear algebra library from starting threads of its own.

    A limit for the whole process: set by the first thread that enters, lifted by the last.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._libraries: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._libraries = self._libraries or ThreadpoolController()  # takes a while
                self._limit = self._libraries.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


ONE_THREAD = _OneThread()


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
    with ONE_THREAD, ThreadPoolExecutor(n_threads) as pool:
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
