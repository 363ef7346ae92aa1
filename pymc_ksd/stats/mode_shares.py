"""How much of a density each mode holds, by importance sampling from all neighbourhoods.

Half of the points come from normal distributions around the modes and half from Student's t, so
that no weight is large where a neighbourhood is about normal, in any dimension. In a few rounds the
distributions move to the mass they have found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_ksd.stats.ascent import ScoreAndDensity, evaluate
from pymc_ksd.stats.local_modes import Modes

#: Degrees of freedom of Student's t, and points of a round for every mode: at least so many, and so
#: many for every coordinate.
_DEGREES, _POINTS, _POINTS_PER_COORDINATE = 4.0, 500, 20
#: Rounds in which the distributions move, and by what factor the last round is larger.
_ROUNDS, _LAST = 3, 4
#: Rounds that are counted while shares are estimated.
ROUNDS_IN_ALL = _ROUNDS + _LAST
#: Effective points for every coordinate by which a neighbourhood's mean and covariance are known.
_TO_MOVE = 10
#: Effective points, and the largest part that one of them may hold, for shares to be relied on.
_ENOUGH, _LARGEST = 100, 0.05


@dataclass(frozen=True)
class Shares:
    """Parts of a density's mass that are near each mode.

    Attributes
    ----------
    shares : ndarray of shape (k,)
        The parts.
    errors : ndarray of shape (k,)
        Their standard errors.
    are_known : bool
        Whether they can be relied on.
    """

    shares: np.ndarray
    errors: np.ndarray
    are_known: bool


def estimate_shares(
    function: ScoreAndDensity,
    modes: Modes,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda rounds: None,
) -> tuple[Modes, Shares]:
    """Estimate the mass near each mode, and where it is.

    Parameters
    ----------
    function : callable
        Score and log density.
    modes : Modes
        The modes.
    rng : numpy.random.Generator
        Randomness.
    advance : callable, optional
        Is told the number of finished rounds.

    Returns
    -------
    modes : Modes
        The same with neighbourhoods that fit the mass, as far as it was found.
    shares : Shares
        The parts of the mass.
    """
    count = max(_POINTS, _POINTS_PER_COORDINATE * modes.locations.shape[1])
    modes = modes.with_neighbourhoods(
        modes.centres, modes.roots, modes.log_densities - modes.log_densities.max()
    )
    for _ in range(_ROUNDS):
        points, weights, _ = _weighted_points(function, modes, count, rng)
        modes = _moved(modes, points, weights)
        advance(1)
    _, weights, nearest = _weighted_points(function, modes, _LAST * count, rng)
    advance(_LAST)
    near = nearest == np.arange(modes.number)[:, None]
    shares = near @ weights
    # How many points come from each mode's normal and Student's t is no chance.
    terms = ((near - shares[:, None]) * weights).reshape(modes.number, 2 * modes.number, -1)
    errors = np.sqrt((terms.var(axis=2, ddof=1) * terms.shape[2]).sum(axis=1))
    known = bool((weights**2).sum() < 1 / _ENOUGH and weights.max() < _LARGEST)
    return modes, Shares(shares, errors, known)


def _weighted_points(
    function: ScoreAndDensity, modes: Modes, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points around the modes, weights that sum to one, and the nearest mode of each."""
    dim = modes.locations.shape[1]
    points = []
    for mode in range(modes.number):
        standardised = rng.normal(size=(count, dim))
        half = count // 2
        standardised[:half] /= np.sqrt(rng.chisquare(_DEGREES, size=(half, 1)) / _DEGREES)
        points.append(modes.placed(standardised, mode))
    joined = np.concatenate(points)
    log_weights = evaluate(function, joined)[1] - _log_mixture(modes, joined)
    weights = np.exp(log_weights - log_weights.max())
    return joined, weights / weights.sum(), modes.nearest(joined)


def _log_mixture(modes: Modes, points: np.ndarray) -> np.ndarray:
    """Return the log density of what points are drawn from, up to a constant."""
    from scipy.special import gammaln, logsumexp  # slow to import

    dim = points.shape[1]
    squares = (modes.standardised(points) ** 2).sum(axis=2)
    normal = -0.5 * squares
    student = (
        gammaln((_DEGREES + dim) / 2)
        - gammaln(_DEGREES / 2)
        + 0.5 * dim * np.log(2 / _DEGREES)
        - 0.5 * (_DEGREES + dim) * np.log1p(squares / _DEGREES)
    )
    parts = np.logaddexp(normal, student) - modes.log_sizes[:, None]
    return np.asarray(logsumexp(parts, axis=0))


def _moved(modes: Modes, points: np.ndarray, weights: np.ndarray) -> Modes:
    """Return the modes with the mean, covariance and share of the mass near each."""
    dim = points.shape[1]
    centres, roots = modes.centres.copy(), modes.roots.copy()
    nearest, squares = modes.nearest(points), (modes.standardised(points) ** 2).sum(axis=2)
    shares = np.array([weights[nearest == mode].sum() for mode in range(modes.number)])
    for mode in range(modes.number):
        # Far out, single points with large weights would decide about a covariance.
        near = (nearest == mode) & (squares[mode] < 9 + 3 * dim)
        own = weights[near]
        if not own.sum() > 0 or own.sum() ** 2 / (own**2).sum() < _TO_MOVE * dim + 50:
            continue
        own = own / own.sum()
        centre = own @ points[near]
        shifted = (points[near] - centre) / modes.scales
        values, vectors = np.linalg.eigh((shifted * own[:, None]).T @ shifted)
        if values[0] > 1e-12 * values[-1]:
            centres[mode] = centre
            roots[mode] = (vectors * np.sqrt(values)) @ vectors.T
    with np.errstate(divide="ignore"):
        heights = np.log(shares) - np.linalg.slogdet(roots)[1]
    # A mode whose mass was missed keeps what its own height says.
    missed = ~np.isfinite(heights)
    if missed.any():
        heights = modes.heights
    return modes.with_neighbourhoods(centres, roots, heights)
