"""From data, or a density, to points in the coordinates in which a kernel compares them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pymc_ksd.points import Points, scale_lattice_points, scale_points
from pymc_ksd.score import Score

__all__ = ["scored_points", "simulated_points"]

#: Numbers that are simulated at a time.
_SIMULATED_NUMBERS = 100_000


def scored_points(
    score: Score, points: np.ndarray, scale: str | None, progressbar: bool = False
) -> Points:
    """Score points, or find their rates, and scale them.

    Parameters
    ----------
    score : Score
        The density.
    points : ndarray of shape (n, d)
        Unconstrained points.
    scale : {None, "std", "cov"}
        How they are scaled, see :func:`pymc_ksd.points.scale_points`.
    progressbar : bool, default False
        Show a bar when scoring takes long.

    Returns
    -------
    Points
    """
    if score.discrete:
        return scale_lattice_points(points, *score.checked_rates(points), scale)
    return scale_points(points, score.checked(points, progressbar=progressbar), scale)


def simulated_points(
    score: Score, n: int, count: int, scale: str | None, rng: np.random.Generator
) -> Iterator[Points]:
    """Draw samples of n points from the density, without end.

    Where rows do not matter, several samples are drawn and scored at a time, at most `count`.

    Yields
    ------
    Points
    """
    together = 1
    if score.pointwise:
        together = min(count, max(1, _SIMULATED_NUMBERS // (n * score.dim)))
    while True:
        points = score.simulate(n * together, rng)
        if together == 1:
            yield scored_points(score, points, scale)
            continue
        scores = score.checked(points)
        for start in range(0, len(points), n):
            rows = slice(start, start + n)
            yield scale_points(points[rows], scores[rows], scale)
