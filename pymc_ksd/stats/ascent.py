"""The way up: L-BFGS from many starting points at a time, so that each step is one call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Maps points of shape (n, d) to scores, shape (n, d), and log densities, shape (n,).
ScoreAndDensity = Callable[[np.ndarray], tuple[np.ndarray, ...]]

#: Steps and changes of the gradient that are remembered.
_MEMORY = 10
#: The longest step, in units of the scales, and how often a step is made shorter.
_LONGEST, _SHORTENED = 10.0, 12
#: The part of the promised gain that a step must bring.
_SUFFICIENT = 1e-4
#: The promised gain below which a point has arrived.
_ARRIVED = 1e-9
#: The largest score that is told from larger ones: squares and their sums are finite.
_STEEPEST = 1e100


@dataclass(frozen=True)
class Summits:
    """Where ascents have ended.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        The last points.
    log_densities : ndarray of shape (n,)
        Their log densities; -inf where the start had none.
    ended : ndarray of bool of shape (n,)
        Whether there was nothing more to gain; else the density was still rising.
    """

    points: np.ndarray
    log_densities: np.ndarray
    ended: np.ndarray


def evaluate(function: ScoreAndDensity, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and log densities, of points without either zero and -inf.

    Of scores whose squares would overflow only the signs matter.
    """
    with np.errstate(all="ignore"):
        scores, log_densities = function(points)[:2]
    bad = ~(np.isfinite(log_densities) & np.isfinite(scores).all(axis=1))
    scores = np.clip(np.where(bad[:, None], 0.0, scores), -_STEEPEST, _STEEPEST)
    return scores, np.where(bad, -np.inf, log_densities)


def climb(
    function: ScoreAndDensity,
    starts: np.ndarray,
    scales: np.ndarray,
    most_steps: int,
    advance: Callable[[int], None] = lambda steps: None,
) -> Summits:
    """Go up from every start by limited-memory BFGS.

    Parameters
    ----------
    function : callable
        Score and log density.
    starts : ndarray of shape (n, d)
        Where to begin.
    scales : ndarray of shape (d,)
        Rough sizes of the coordinates.
    most_steps : int
        Steps after which it ends in any case.
    advance : callable, optional
        Is told the number of finished steps.

    Returns
    -------
    Summits
    """
    points = starts / scales
    scores, heights = evaluate(function, starts)
    scores = scores * scales
    memory: deque[tuple[np.ndarray, np.ndarray, np.ndarray]] = deque(maxlen=_MEMORY)
    active = np.isfinite(heights)
    ended = ~active
    for _ in range(most_steps):
        if not active.any():
            break
        steps = _directions(scores, memory)
        steps[~active] = 0.0
        gains = (steps * scores).sum(axis=1)
        arrived = active & (gains < _ARRIVED)
        ended |= arrived
        active &= ~arrived
        moved = _step(function, points, heights, steps, gains, active, scales)
        new_points, new_scores, new_heights, stuck = moved
        # No step gains: a summit with an edge, or one that rounding hides.
        ended |= stuck
        active &= ~stuck
        memory.append(_remembered(new_points - points, scores - new_scores))
        points, scores, heights = new_points, new_scores, new_heights
        advance(1)
    return Summits(points * scales, heights, ended)


def _directions(
    scores: np.ndarray, memory: deque[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Return quasi-Newton steps, no longer than the longest."""
    direction, factors = scores.copy(), []
    for step, change, weight in reversed(memory):
        factor = weight * (step * direction).sum(axis=1)
        factors.append(factor)
        direction -= factor[:, None] * change
    size = np.linalg.norm(scores, axis=1)
    # Without a memory the first step has the length of one scale.
    scaling = 1 / np.maximum(size, 1.0)
    for _, change, weight in memory:
        with np.errstate(divide="ignore", invalid="ignore"):
            newest = 1 / (weight * (change**2).sum(axis=1))
        scaling = np.where(weight > 0, newest, scaling)
    direction *= scaling[:, None]
    for (step, change, weight), factor in zip(memory, reversed(factors), strict=True):
        direction += (factor - weight * (change * direction).sum(axis=1))[:, None] * step
    uphill = (direction * scores).sum(axis=1) > 0
    direction = np.where(uphill[:, None], direction, scores / np.maximum(size, 1.0)[:, None])
    length = np.linalg.norm(direction, axis=1)
    return np.asarray(direction * np.minimum(1.0, _LONGEST / np.maximum(length, 1e-300))[:, None])


def _step(
    function: ScoreAndDensity,
    points: np.ndarray,
    heights: np.ndarray,
    steps: np.ndarray,
    gains: np.ndarray,
    active: np.ndarray,
    scales: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Take steps, each shortened until it gains; also return which never did."""
    new_points, new_heights, scores = points.copy(), heights.copy(), np.zeros_like(points)
    waiting = np.flatnonzero(active)
    fraction = 1.0
    for _ in range(_SHORTENED):
        if not waiting.size:
            break
        tried = points[waiting] + fraction * steps[waiting]
        tried_scores, tried_heights = evaluate(function, tried * scales)
        good = tried_heights >= heights[waiting] + _SUFFICIENT * fraction * gains[waiting]
        rows = waiting[good]
        new_points[rows], new_heights[rows] = tried[good], tried_heights[good]
        scores[rows] = tried_scores[good] * scales
        waiting = waiting[~good]
        fraction /= 2 if fraction > 0.1 else 4
    stuck = np.zeros(len(points), dtype=bool)
    stuck[waiting] = True
    return new_points, scores, new_heights, stuck


def _remembered(step: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a step, the loss of gradient along it, and a weight: 0 where it is of no use."""
    curvature = (step * change).sum(axis=1)
    size = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
    useful = curvature > 1e-10 * np.maximum(size, 1e-300)
    return step, change, np.where(useful, 1 / np.where(useful, curvature, 1.0), 0.0)
