"""The walk over all blocks of pairs, on this machine's threads or on a cluster."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.cluster import checked_client, on_cluster
from pymc_ksd.engine.functions import Totals
from pymc_ksd.engine.progress import Advancing, progress_bar
from pymc_ksd.engine.schedule import in_order, number_of_pairs


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


def add_up(work: Any, effort: Effort, bar: Advancing | None = None) -> Totals:
    """Reduce every block once and add up what comes of it.

    Parameters
    ----------
    work : object
        What is to be done, see :mod:`pymc_ksd.engine.cluster`.
    effort : Effort
        How it is done.
    bar : Advancing, optional
        Told what share of the work is done; by default a bar of its own is shown.

    Returns
    -------
    Totals
        Sums over all blocks.
    """
    functions = work.functions()
    client = checked_client(effort.client, functions.n_pairs)
    size = effort.block_size or functions.block_size(work.n_points, work.dim)
    # Blocks are walked, never listed: small ones are as many as pairs.
    total = sum(map(number_of_pairs, work.blocks(size)))
    several = next(islice(work.blocks(size), 1, None), None) is not None
    with (
        progress_bar("Comparing points", total, effort.progressbar)
        if bar is None
        else nullcontext(bar.of(total))
    ) as shown:
        if client:
            return on_cluster(client, work, size, shown)
        totals, threads = Totals(), functions.count if several else 1
        with FUNCTIONS_LOCK:
            for block, found in in_order(
                lambda block: work.reduce(functions, block), work.blocks(size), threads
            ):
                totals.add(found)
                shown.advance(number_of_pairs(block))
    return totals
