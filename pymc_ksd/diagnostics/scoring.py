"""Points, and what a Stein operator takes of them: data, simulated points, and streams of draws.

Draws that are too many to hold are scored and scaled a stretch at a time. They are walked twice,
once for their spread and once to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.models.target import Target
from pymc_ksd.samples.sample import Sample
from pymc_ksd.samples.stream import DrawStream
from pymc_ksd.stein.operator import SteinOperator
from pymc_ksd.stein.points import Points, Scaling
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Points that are scored before progress is shown.
_SCORED_TOGETHER = 2_000
#: How often simulated points are drawn again that rounding has put outside the support.
_ATTEMPTS = 20
#: Draws of a chain, evenly spaced, that stand for all where chains are compared or the median is
#: wanted, and the numbers that they may have together, unless fewer draws than the last were left.
_THINNED_DRAWS, _THINNED_NUMBERS, _FEWEST_DRAWS = 1_000, 1_000_000, 20


def check_varies(points: np.ndarray, target: Target) -> None:
    """Refuse points that are all the same in some coordinate, and name it."""
    constant = np.flatnonzero((points == points[0]).all(axis=0))
    if constant.size:
        labels = target.labels
        shown = ", ".join(labels[index] for index in constant[:5])
        more = f" and {constant.size - 5} more" if constant.size > 5 else ""
        hint = ""
        if OPERATORS[target.operator].takes_constant_points:
            hint = " `null` 'parametric' can test them all the same."
        raise ValueError(
            f"`data` must vary, but all {len(points)} values of {shown}{more} are the same.{hint}"
        )


def score_sample(
    target: Target, sample: Sample, progressbar: bool = False
) -> tuple[np.ndarray, ...]:
    """Return what the operator takes of a sample, as it is stored or as the target says."""
    if sample.values:
        return sample.values
    return score_points(target, sample.points, progressbar)


def score_points(
    target: Target, points: np.ndarray, progressbar: bool = False
) -> tuple[np.ndarray, ...]:
    """Return what the operator takes of points, after making sure that it can be used."""
    operator = OPERATORS[target.operator]
    step = _SCORED_TOGETHER if target.pointwise else len(points)
    parts = []
    with progress_bar("Scoring points", len(points), progressbar and target.pointwise) as bar:
        for start in range(0, len(points), step):
            parts.append(target.values(points[start : start + step]))
            bar.advance(len(parts[-1][0]))
    values = tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
    target.check_support(operator.unusable(values), operator.problem)
    operator.check_values(values, target.names)
    return values


def redrawn(
    draw: Callable[[], np.ndarray],
    values_at: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    operator: SteinOperator,
    problem: Callable[[str], str],
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Simulate points and evaluate them; draw again those that rounding has put on a boundary.

    Parameters
    ----------
    draw : callable
        Returns new points, always as many.
    values_at : callable
        Returns what the operator takes of points.
    operator : SteinOperator
        Which of it can be used.
    problem : callable
        Says what is wrong where so many of so many points cannot be drawn.

    Returns
    -------
    points : ndarray of shape (n, d)
        The points.
    values : tuple of ndarray of shape (n, d)
        What the operator takes of them.
    """
    points = draw()
    for _ in range(_ATTEMPTS):
        bad = ~np.isfinite(points).all(axis=1)
        if not bad.all():
            full = np.where(bad[:, None], points[np.flatnonzero(~bad)[:1]], points)
            values = values_at(full)
            bad |= operator.unusable(values).any(axis=1)
            if not bad.any():
                return points, values
        points[bad] = draw()[bad]
    raise ValueError(problem(f"{np.count_nonzero(bad)} of {len(points)}"))


@dataclass(frozen=True)
class ScaledStream:
    """Scored draws in the coordinates that a kernel compares, in stretches.

    Attributes
    ----------
    draws : DrawStream
        The draws.
    scaling : Scaling
        How they are scaled.
    sample : Sample
        Some of them, evenly spaced, chain by chain.
    """

    draws: DrawStream
    scaling: Scaling
    sample: Sample

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
            rows = range(first, first + len(points))
            target.check_support(bad, operator.problem, rows, self.n_points)
            first += len(points)
            scaled = operator.apply(self.scaling, points, values)
            # No stretch may wait in memory while another is used or read.
            del points, values, bad
            yield scaled
            del scaled


def scaled_stream(draws: DrawStream, scale: str | None, progressbar: bool) -> ScaledStream:
    """Walk through draws once and find how they are to be scaled."""
    n_chains, dim = draws.n_chains, draws.target.dim
    n = draws.n_draws * n_chains
    most = min(_THINNED_DRAWS, max(_FEWEST_DRAWS, _THINNED_NUMBERS // (n_chains * dim)))
    step = -(-draws.n_draws // most)
    count, mean, scatter = 0, np.zeros(dim), np.zeros((dim, dim))
    some: list[np.ndarray] = []
    constant = np.ones(dim, dtype=bool)
    with progress_bar("Reading draws", n, progressbar) as bar:
        for points in draws.points():
            by_draw = points.reshape(-1, n_chains, dim)
            some.append(by_draw[-(count // n_chains) % step :: step].copy())
            constant &= (points == some[0][0, 0]).all(axis=0)
            # Moments of two sets of points from those of each.
            difference = points.mean(axis=0) - mean
            centred = points - points.mean(axis=0)
            total = count + len(points)
            scatter += centred.T @ centred
            scatter += np.outer(difference, difference) * (count * len(points) / total)
            mean += difference * (len(points) / total)
            count = total
            bar.advance(len(points))
    if constant.any():
        names = [draws.target.labels[i] for i in np.flatnonzero(constant)[:5]]
        raise ValueError(
            f"`data` must vary, but all {n} values of {', '.join(names)} are the same."
        )
    sample = Sample(
        np.concatenate(some).reshape(-1, dim),
        n_chains,
        are_draws=True,
        independent=draws.independent,
        mismatch=draws.mismatch,
    )
    centre = np.median(sample.points, axis=0)
    return ScaledStream(draws, Scaling.of_moments(centre, scatter / (n - 1), n, scale), sample)
