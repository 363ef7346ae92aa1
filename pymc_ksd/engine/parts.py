"""What a function makes of parts of a sample, added up or one by one, here or on a cluster.

Parts come from an iterator, which may read them from a file, and are not held longer than needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import add
from typing import Any

from pymc_ksd.engine.cluster import finished, wait_for_workers
from pymc_ksd.engine.progress import ProgressBar

#: Parts for each thread of a cluster that are on their way at a time.
_PARTS_PER_THREAD = 2
#: How many sums are added at a time.
_ADDED = 8


def add_parts(
    function: Callable[[Any], Any], parts: Iterable[Any], client: Any, bar: ProgressBar
) -> Any:
    """Add up what a function makes of every part.

    Parameters
    ----------
    function : callable
        Takes a part, and returns something that can be added.
    parts : iterable
        The parts, each with ``n_points``.
    client : distributed.Client, optional
        Whose workers do it and add up what they have found.
    bar : ProgressBar
        Told how many points are done.

    Returns
    -------
    object
        The sum.
    """
    if not client:
        return reduce(add, map_parts(function, parts, client, bar))
    total: Any = None
    for future in _submitted(function, parts, client, bar, _ADDED):
        total = future if total is None else client.submit(_sum, [total, future], pure=False)
    return finished(client, total).result()


def map_parts(
    function: Callable[[Any], Any], parts: Iterable[Any], client: Any, bar: ProgressBar
) -> Iterator[Any]:
    """Yield what a function makes of every part, in their order; see :func:`add_parts`."""
    if client:
        for future in _submitted(function, parts, client, bar, 1):
            yield finished(client, future).result()
        return
    for part in parts:
        found = function(part)
        bar.advance(part.n_points)
        del part  # before the next one is read
        yield found


def _submitted(
    function: Callable[[Any], Any], parts: Iterable[Any], client: Any, bar: ProgressBar, group: int
) -> Iterator[Any]:
    """Yield futures of what is made of parts, or of the sum of several, some at a time."""
    wait_for_workers(client)
    most = _PARTS_PER_THREAD * max(1, sum(client.nthreads().values()))
    pending: deque[tuple[Any, int]] = deque()
    done: list[Any] = []

    def finish() -> None:
        future, count = pending.popleft()
        done.append(finished(client, future))
        bar.advance(count)

    for part in parts:
        count = part.n_points
        pending.append((client.submit(_applied, function, part, pure=False), count))
        del part
        if len(pending) >= most:
            finish()
        if len(done) >= group:
            yield done.pop() if group == 1 else client.submit(_sum, done, pure=False)
            done = []
    while pending:
        finish()
        if len(done) >= group:
            yield done.pop() if group == 1 else client.submit(_sum, done, pure=False)
            done = []
    if done:
        yield client.submit(_sum, done, pure=False)


def _applied(function: Callable[[Any], Any], part: Any) -> Any:
    return function(part)


def _sum(parts: Iterable[Any]) -> Any:
    return reduce(add, parts)
