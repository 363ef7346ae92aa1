"""The walk over all blocks of pairs, on this machine's threads or on a cluster."""

from __future__ import annotations

from typing import Any

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.cluster import checked_client, on_cluster
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.schedule import (
    default_block_size,
    in_order,
    number_of_pairs,
    upper_triangle,
)

__all__ = ["add_up"]


def add_up(work: Any, block_size: int | None, progressbar: bool, client: Any) -> tuple[Any, int]:
    """Reduce every block once and add up what comes of it.

    Parameters
    ----------
    work : object
        What is to be done, see :mod:`pymc_ksd.engine.cluster`.
    block_size : int, optional
        Points in a block.
    progressbar : bool
        Whether to show a bar when the work is long.
    client : distributed.Client or False, optional
        Whose workers do the work; by default the active one, if there is one and work for it.

    Returns
    -------
    totals : object
        The work's totals over all blocks.
    size : int
        How many points a block had.
    """
    n = work.n_points
    client = checked_client(client, work.n_pairs)
    functions = work.functions()
    size = block_size or default_block_size(work.members, functions.fused, n, work.dim)
    with progress_bar("Comparing points", n * (n + 1) / 2, progressbar) as bar:
        if client:
            return on_cluster(client, work, size, bar), size
        totals = work.totals()
        threads = functions.count if n > size else 1
        with FUNCTIONS_LOCK:
            for block, found in in_order(
                lambda block: work.reduce(functions, block), upper_triangle(n, size), threads
            ):
                totals.add_block(block, found)
                bar.advance(number_of_pairs(block))
    return totals, size
