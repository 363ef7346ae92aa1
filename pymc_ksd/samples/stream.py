"""Draws that are too many to hold: read and unconstrained a stretch at a time.

The container may be backed by a file or by Dask; memory is that of one stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.target import Target
from pymc_ksd.samples.containers import (
    as_only_variable,
    drawn_independently,
    draws_group,
    with_draw_numbers,
)
from pymc_ksd.samples.draws import check_together, read_draws

#: Numbers from which on draws are not held in memory.
_LARGE_NUMBERS = 10_000_000
#: Numbers in a stretch.
_STRETCH_NUMBERS = 1_000_000
#: The least draws of a chain that tell how correlated they are.
_CONSECUTIVE = 1_000


def is_large(target: Target, data: Any) -> bool:
    """Whether draws are so many that they should be streamed.

    Those of a density that is known at its own draws alone are not: nothing else can score them.
    """
    posterior = draws_group(data)
    if posterior is None or target.stored:
        return False
    n = posterior.sizes.get("draw", 0) * posterior.sizes.get("chain", 1)
    return bool(n * target.dim >= _LARGE_NUMBERS)


class DrawStream:
    """Draws of a density's variables, in stretches.

    Parameters
    ----------
    target : Target
        The density.
    data : DataTree, InferenceData or Dataset
        The draws, see :func:`pymc_ksd.samples.draws.read_draws`. No more is read yet than tells
        whether they belong to the density's model.
    others : sequence of str, optional
        Other variables of the posterior that are wanted beside the points.
    """

    def __init__(self, target: Target, data: Any, others: Sequence[str] = ()) -> None:
        self.target = target
        self.independent = drawn_independently(data)
        data = as_only_variable(data, target.variables)
        self.mismatch = check_together(
            target.belonging,
            draws_group(data),
            target.bambi,
            draws_group(data, "observed_data"),
        )
        names = {name for v in target.variables for name in (v.name, v.unconstrained_name)}
        names |= set() if target.bambi is None else target.bambi.names
        names |= set(others)
        self._groups: dict[str, xr.Dataset] = {}
        for group in ("posterior", "unconstrained_posterior"):
            dataset = draws_group(data, group)
            if dataset is None:
                continue
            sizes = {dim: int(dataset.sizes.get(dim, 0)) for dim in ("chain", "draw")}
            if group == "posterior":
                self.n_chains, self.n_draws = sizes["chain"], sizes["draw"]
            elif sizes != {"chain": self.n_chains, "draw": self.n_draws}:
                continue  # of other draws, as before the posterior was thinned
            dataset = with_draw_numbers(dataset)
            self._groups[group] = dataset[[name for name in dataset.data_vars if name in names]]

    def points(self, multiple: int = 1) -> Iterator[np.ndarray]:
        """Read unconstrained draws of all chains together.

        Parameters
        ----------
        multiple : int, default 1
            Every stretch but the last has a multiple of this many points.

        Yields
        ------
        ndarray of shape (points, d)
        """
        for points, _ in self.stretches(multiple):
            # No stretch may wait in memory while another is used or read.
            del _
            yield points
            del points

    def stretches(self, multiple: int = 1) -> Iterator[tuple[np.ndarray, xr.Dataset]]:
        """Read the same with the posterior that the points are of."""
        unit = multiple // gcd(multiple, self.n_chains)
        # What Dask holds in one piece is read at once, or it would be read again and again.
        pieces = [
            max(dataset.chunksizes.get("draw", (0,)), default=0)
            for dataset in self._groups.values()
        ]
        wanted = max(_STRETCH_NUMBERS // (self.n_chains * self.target.dim), *pieces)
        length = unit * max(1, wanted // unit)
        stops = [*range(length, self.n_draws - length + 1, length), self.n_draws]
        for start, stop in zip([0, *stops], stops, strict=False):
            yield self._read(slice(start, stop))

    def thinned(self, step: int) -> tuple[np.ndarray, xr.Dataset]:
        """Read one draw of so many, and the posterior that they are of."""
        return self._read(slice(None, None, step))

    def consecutive(self) -> np.ndarray:
        """Read consecutive draws from the middle of every chain, shape (chain, draw, d)."""
        wanted = max(_STRETCH_NUMBERS // (self.n_chains * self.target.dim), _CONSECUTIVE)
        length = min(wanted, self.n_draws)
        start = (self.n_draws - length) // 2
        points, _ = self._read(slice(start, start + length))
        return points.reshape(length, self.n_chains, -1).swapaxes(0, 1)

    def _read(self, draws: slice) -> tuple[np.ndarray, xr.Dataset]:
        part = {name: dataset.isel(draw=draws).compute() for name, dataset in self._groups.items()}
        # A tree refers to itself and would keep its draws until the garbage collector comes.
        tree = xr.DataTree.from_dict(part) if len(part) > 1 else part["posterior"]
        return read_draws(self.target, tree, is_part=True).points, part["posterior"]
