"""The walk over all blocks of pairs, on this machine's threads or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.cluster import checked_client, on_cluster
from pymc_ksd.engine.functions import Totals
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.schedule import in_order, number_of_pairs, upper_triangle


@dataclass(frozen=True)
class Effort:
    """How sums over pairs are computed, which changes speed and memory but no result.

    Attributes
    ----------
    block_size : int, optional
        Points that are compared at a time.
    progressbar : bool
        Whether to show bars when the work is long.
    client : distributed.Client or False, optional
        Whose workers do the work; by default the active one, if there is one and work for it.
    """

    block_size: int | None = None
    progressbar: bool = False
    client: Any = None


#: What is done when nobody asks for anything else.
PLAIN = Effort()


def add_up(work: Any, effort: Effort) -> Totals:
    """Reduce every block once and add up what comes of it.

    Parameters
    ----------
    work : object
        What is to be done, see :mod:`pymc_ksd.engine.cluster`.
    effort : Effort
        How it is done.

    Returns
    -------
    Totals
        Sums over all blocks.
    """
    n, functions = work.points.n_points, work.functions()
    client = checked_client(effort.client, functions.n_pairs)
    size = effort.block_size or functions.block_size(n, work.points.dim)
    with progress_bar("Comparing points", n * (n + 1) / 2, effort.progressbar) as bar:
        if client:
            return on_cluster(client, work, size, bar)
        totals, threads = Totals(), functions.count if n > size else 1
        with FUNCTIONS_LOCK:
            for block, found in in_order(
                lambda block: work.reduce(functions, block), upper_triangle(n, size), threads
            ):
                totals.add(found)
                bar.advance(number_of_pairs(block))
    return totals
