"""Draws that are too many to hold: read, unconstrained, scored and scaled a stretch at a time.

The container may be backed by a file or by Dask. It is walked twice, once for the draws' spread and
once to compare them; memory is that of one stretch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.draws import posterior_dataset, read_draws
from pymc_ksd.points import ScaledPoints, Scaling
from pymc_ksd.progress import progress_bar
from pymc_ksd.score import Score

__all__ = ["DrawStream", "ScaledStream", "is_large"]

#: Numbers from which on draws are not held in memory.
_LARGE_NUMBERS = 10_000_000
#: Numbers in a stretch.
_STRETCH_NUMBERS = 1_000_000
#: Draws, evenly spaced, that stand for all where the median is wanted.
_SAMPLED_POINTS = 1_000


def is_large(score: Score, data: Any) -> bool:
    """Whether draws are so many that they should be streamed."""
    posterior = posterior_dataset(data)
    if posterior is None:
        return False
    n = posterior.sizes.get("draw", 0) * posterior.sizes.get("chain", 1)
    return bool(n * score.dim >= _LARGE_NUMBERS)


class DrawStream:
    """Draws of a density's variables, in stretches.

    Parameters
    ----------
    score : Score
        The density.
    data : DataTree, InferenceData or Dataset
        The draws, see :func:`pymc_ksd.draws.read_draws`. Nothing is read yet.
    """

    def __init__(self, score: Score, data: Any) -> None:
        self.score = score
        if isinstance(data, xr.DataArray) and len(score.variables) == 1:
            data = data.to_dataset(name=score.variables[0].name)
        names = {name for v in score.variables for name in (v.name, v.unconstrained_name)}
        self._groups: dict[str, xr.Dataset] = {}
        for group in ("posterior", "unconstrained_posterior"):
            dataset = posterior_dataset(data, group)
            if dataset is None:
                continue
            sizes = {dim: int(dataset.sizes.get(dim, 0)) for dim in ("chain", "draw")}
            if group == "posterior":
                self.n_chains, self.n_draws = sizes["chain"], sizes["draw"]
            elif sizes != {"chain": self.n_chains, "draw": self.n_draws}:
                continue  # of other draws, as before the posterior was thinned
            # Errors name draws by their labels, so that these have to be those of the whole.
            numbers = {dim: range(size) for dim, size in sizes.items() if dim not in dataset.coords}
            dataset = dataset[[name for name in dataset.data_vars if name in names]]
            self._groups[group] = dataset.assign_coords(numbers)

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
        unit = multiple // gcd(multiple, self.n_chains)
        # What Dask holds in one piece is read at once, or it would be read again and again.
        pieces = [
            max(dataset.chunksizes.get("draw", (0,)), default=0)
            for dataset in self._groups.values()
        ]
        wanted = max(_STRETCH_NUMBERS // (self.n_chains * self.score.dim), *pieces)
        length = unit * max(1, wanted // unit)
        stops = [*range(length, self.n_draws - length + 1, length), self.n_draws]
        for start, stop in zip([0, *stops], stops, strict=False):
            part = {
                group: dataset.isel(draw=slice(start, stop)).compute()
                for group, dataset in self._groups.items()
            }
            # A tree refers to itself and would keep its draws until the garbage collector comes.
            draws = xr.DataTree.from_dict(part) if len(part) > 1 else part["posterior"]
            points = read_draws(self.score, draws, is_part=True).points
            # No stretch may wait in memory while another is used or read.
            del part, draws
            yield points
            del points

    def scaled(self, scale: str | None, progressbar: bool) -> ScaledStream:
        """Walk through the draws once and find how they are to be scaled."""
        n, dim = self.n_draws * self.n_chains, self.score.dim
        step = -(-n // _SAMPLED_POINTS)
        count, mean, scatter = 0, np.zeros(dim), np.zeros((dim, dim))
        some: list[np.ndarray] = []
        constant = np.ones(dim, dtype=bool)
        with progress_bar("Reading draws", n, progressbar) as bar:
            for points in self.points():
                some.append(points[-count % step :: step].copy())
                constant &= (points == some[0][0]).all(axis=0)
                # Moments of two sets of points from those of each.
                difference = points.mean(axis=0) - mean
                centred = points - points.mean(axis=0)
                total = count + len(points)
                scatter += centred.T @ centred
                scatter += np.outer(difference, difference) * (count * len(points) / total)
                mean += difference * (len(points) / total)
                count = total
                bar.advance(len(points))
        sample = np.concatenate(some)
        if constant.any():
            names = [self.score.labels[i] for i in np.flatnonzero(constant)[:5]]
            raise ValueError(
                f"`data` must vary, but all {n} values of {', '.join(names)} are the same."
            )
        scaling = Scaling.of_moments(np.median(sample, axis=0), scatter / (n - 1), n, scale)
        return ScaledStream(self, scaling, scaling.apply(sample, np.zeros(sample.shape)).positions)


@dataclass(frozen=True)
class ScaledStream:
    """Scored draws in the coordinates that a kernel compares, in stretches.

    Attributes
    ----------
    draws : DrawStream
        The draws.
    scaling : Scaling
        How they are scaled.
    sample : ndarray
        Scaled positions of some of them.
    """

    draws: DrawStream
    scaling: Scaling
    sample: np.ndarray

    @property
    def n_points(self) -> int:
        """The number of draws of all chains."""
        return self.draws.n_draws * self.draws.n_chains

    def stretches(self, multiple: int) -> Iterator[ScaledPoints]:
        """Read, score and scale the draws, see :meth:`DrawStream.points`."""
        first = 0
        for points in self.draws.points(multiple):
            scores = self.draws.score.checked(points, first_row=first, n_points=self.n_points)
            first += len(points)
            scaled = self.scaling.apply(points, scores)
            del points, scores
            yield scaled
            del scaled
