"""Blocks of pairs as tasks on the workers of a Dask cluster.

Points, scores and weights travel to every worker once; a task is a few numbers, its result the sums
over some blocks, and sums are added on the workers. A task whose worker is lost is done again.

What is to be done is a *work*: it has points, their blocks, the functions of a block, and a way to
reduce one to totals, see :class:`pymc_ksd.engine.pairs.PairWork`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from typing import Any

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import Totals, is_long
from pymc_ksd.engine.progress import Advancing, ProgressBar
from pymc_ksd.engine.schedule import ONE_THREAD, Block, number_of_pairs

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


def on_cluster(client: Any, work: Any, size: int, bar: ProgressBar | Advancing) -> Totals:
    """Sum over all blocks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    work : object
        Points and what is wanted of them.
    size : int
        Points in a block.
    bar : ProgressBar or Advancing
        Told how many pairs are done.

    Returns
    -------
    Totals
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _attempt(client, work, size, bar)
        except CancelledError:
            # No worker is left that holds the points, as when the only one was restarted.
            continue
    return _attempt(client, work, size, bar)


def _attempt(client: Any, work: Any, size: int, bar: ProgressBar | Advancing) -> Totals:
    from distributed import as_completed

    wait_for_workers(client)
    blocks = list(work.blocks(size))
    threads = max(1, sum(client.nthreads().values()))
    parts = _groups(blocks, min(_BLOCKS_PER_TASK, -(-len(blocks) // (_TASKS_PER_THREAD * threads))))
    futures: list[Any] = []
    done = 0.0
    try:
        data = client.scatter(work, broadcast=True, hash=False)
        level = [client.submit(_totals, data, part, pure=False) for part in parts]
        tasks = dict(zip(level, parts, strict=True))
        futures = [data, *level]
        while len(level) > 1:
            level = [client.submit(_added, group, pure=False) for group in _groups(level, _ADDED)]
            futures += level
        for future in as_completed(tasks):
            if future.status == "error":
                future.result()  # raises
            pairs = sum(map(number_of_pairs, tasks[future]))
            bar.advance(pairs)
            done += pairs
        totals: Totals = level[0].result()
        return totals
    except BaseException:
        bar.advance(-done)
        client.cancel(futures, force=True)
        raise


def _groups(items: list[Any], length: int) -> list[list[Any]]:
    return [items[start : start + length] for start in range(0, len(items), length)]


def finished(client: Any, future: Any) -> Any:
    """Return a future that is done; an error if no workers are left that could do it."""
    from distributed import wait

    while True:
        try:
            wait(future, timeout=_PATIENCE)
        except TimeoutError:
            wait_for_workers(client)  # those there are may take longer
        else:
            return future


def wait_for_workers(client: Any) -> None:
    """Wait for a first worker, to which points are sent, and say so if none comes."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError as error:
        raise RuntimeError(
            f"The cluster of `client` has no workers, also after {_PATIENCE} seconds. Start some "
            "and wait for them with `client.wait_for_workers(1)`; a cluster that adapts needs a "
            "minimum of 1."
        ) from error


def _totals(work: Any, blocks: Sequence[Block]) -> Totals:
    """Sum over some blocks: what a task does."""
    functions = work.functions()
    # Machine code may run in several threads of a worker, functions of graphs may not.
    alone = nullcontext() if functions.fused else FUNCTIONS_LOCK
    with alone, ONE_THREAD:
        return _added(work.reduce(functions, block) for block in blocks)


def _added(parts: Iterable[Totals]) -> Totals:
    """Add sums over different blocks."""
    totals = Totals()
    for part in parts:
        totals.add(part)
    return totals
