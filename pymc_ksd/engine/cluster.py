"""Blocks of pairs as tasks on the workers of a Dask cluster.

Points, scores and weights travel to every worker once; a task is a few numbers, its result the sums
over some blocks, and sums are added on the workers. A task whose worker is lost is done again.

What is to be done is a *work*: it has the number of points, the functions of a block, a way to
reduce one, and totals to which blocks and other totals can be added, see
:class:`pymc_ksd.engine.pair_work.PairWork`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import is_long
from pymc_ksd.engine.progress import ProgressBar
from pymc_ksd.engine.schedule import Block, number_of_pairs, one_thread_for_products

__all__ = ["checked_client", "on_cluster"]

#: Tasks for each thread of the cluster, and the most blocks in one.
_TASKS_PER_THREAD, _BLOCKS_PER_TASK = 32, 64
#: How many sums are added at a time.
_ADDED = 8
#: Seconds to wait for a first worker.
_PATIENCE = 30
#: How often points are sent again after all workers that held them were lost.
_ATTEMPTS = 3


def checked_client(client: Any, n_pairs: float) -> Any:
    """Return whose workers do the work, if any do."""
    if client is None:
        return _active_client(n_pairs)
    if client is not False and not all(hasattr(client, name) for name in ("scatter", "submit")):
        raise TypeError(
            "`client` must be a client of Dask, False to stay on this machine, or None, got "
            f"{type(client).__name__}."
        )
    return client


def _active_client(n_pairs: float) -> Any:
    """Return the active client of Dask, if there is one and enough to do for it.

    A task of the cluster does its work itself: tasks of its own might wait for its place.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or not is_long(n_pairs):
        return None
    try:
        distributed.get_worker()
        return None
    except ValueError:
        pass
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def on_cluster(client: Any, work: Any, size: int, bar: ProgressBar) -> Any:
    """Sum over all blocks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    work : object
        Points and what is wanted of them.
    size : int
        Points in a block.
    bar : ProgressBar
        Told how many pairs are done.

    Returns
    -------
    object
        The totals of the work.
    """
    for remaining in reversed(range(_ATTEMPTS)):
        try:
            return _attempt(client, work, size, bar)
        except CancelledError:
            # No worker is left that holds the points, as when the only one was restarted.
            if not remaining:
                raise
    raise AssertionError("unreachable")


def _attempt(client: Any, work: Any, size: int, bar: ProgressBar) -> Any:
    from distributed import as_completed

    _wait_for_workers(client)
    numbers = np.array(list(_block_numbers(work.n_points, size)), dtype=np.int32)
    threads = max(1, sum(client.nthreads().values()))
    length = min(_BLOCKS_PER_TASK, -(-len(numbers) // (_TASKS_PER_THREAD * threads)))
    parts = [numbers[start : start + length] for start in range(0, len(numbers), length)]
    futures: list[Any] = []
    done = 0.0
    try:
        data = client.scatter(work, broadcast=True, hash=False)
        level = [client.submit(_totals, data, size, part, pure=False) for part in parts]
        tasks = dict(zip(level, parts, strict=True))
        futures = [data, *level]
        while len(level) > 1:
            groups = [level[start : start + _ADDED] for start in range(0, len(level), _ADDED)]
            level = [client.submit(_added, group, pure=False) for group in groups]
            futures += level
        for future in as_completed(tasks):
            if future.status == "error":
                future.result()  # raises
            pairs = sum(map(number_of_pairs, _blocks(work.n_points, size, tasks[future])))
            bar.advance(pairs)
            done += pairs
        return level[0].result()
    except BaseException:
        bar.advance(-done)
        client.cancel(futures, force=True)
        raise


def _wait_for_workers(client: Any) -> None:
    """Points are sent to workers, so there has to be one."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError as error:
        raise RuntimeError(
            f"The cluster of `client` has no workers, also after {_PATIENCE} seconds. Start some "
            "and wait for them with `client.wait_for_workers(1)`; a cluster that adapts needs a "
            "minimum of 1."
        ) from error


def _block_numbers(n: int, size: int) -> Iterator[tuple[int, int]]:
    count = -(-n // size)
    return ((row, column) for row in range(count) for column in range(row, count))


def _blocks(n: int, size: int, numbers: np.ndarray) -> list[Block]:
    """Return blocks by the numbers of their rows and columns."""
    starts = (numbers * size).tolist()
    return [
        (slice(row, min(row + size, n)), slice(column, min(column + size, n)))
        for row, column in starts
    ]


def _totals(work: Any, size: int, numbers: np.ndarray) -> Any:
    """Sum over some blocks: what a task does."""
    functions = work.functions()
    totals = work.totals()
    # Machine code may run in several threads of a worker, functions of graphs may not.
    alone = nullcontext() if functions.fused else FUNCTIONS_LOCK
    with alone, one_thread_for_products():
        for block in _blocks(work.n_points, size, numbers):
            totals.add_block(block, work.reduce(functions, block))
    return totals


def _added(parts: Sequence[Any]) -> Any:
    """Add sums over different blocks."""
    totals = deepcopy(parts[0])
    for part in parts[1:]:
        totals.add(part)
    return totals
