"""Draws that are too many to hold, scored and scaled a stretch at a time.

They are walked twice, once for their spread and once to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.samples.stream import DrawStream
from pymc_ksd.stein.operators import OPERATORS
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.scaling import Scaling

#: Draws, evenly spaced, that stand for all where the median is wanted.
_SAMPLED_POINTS = 1_000


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

    def stretches(self, multiple: int) -> Iterator[Points]:
        """Read, score and scale the draws, see :meth:`DrawStream.points`."""
        target, first = self.draws.target, 0
        operator = OPERATORS[target.operator]
        for points in self.draws.points(multiple):
            values = target.values(points)
            bad = operator.unusable(values)
            target.check_support(bad, operator.problem, first, self.n_points)
            first += len(points)
            scaled = operator.apply(self.scaling, points, values)
            # No stretch may wait in memory while another is used or read.
            del points, values, bad
            yield scaled
            del scaled


def scaled_stream(draws: DrawStream, scale: str | None, progressbar: bool) -> ScaledStream:
    """Walk through draws once and find how they are to be scaled."""
    n, dim = draws.n_draws * draws.n_chains, draws.target.dim
    step = -(-n // _SAMPLED_POINTS)
    count, mean, scatter = 0, np.zeros(dim), np.zeros((dim, dim))
    some: list[np.ndarray] = []
    constant = np.ones(dim, dtype=bool)
    with progress_bar("Reading draws", n, progressbar) as bar:
        for points in draws.points():
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
        names = [draws.target.labels[i] for i in np.flatnonzero(constant)[:5]]
        raise ValueError(
            f"`data` must vary, but all {n} values of {', '.join(names)} are the same."
        )
    scaling = Scaling.of_moments(np.median(sample, axis=0), scatter / (n - 1), n, scale)
    return ScaledStream(draws, scaling, scaling.positions(sample))
