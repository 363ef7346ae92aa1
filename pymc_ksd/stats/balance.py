r"""Whether draws visit modes in the right proportions, by balanced moves between them.

Affine maps carry the neighbourhood of one mode into that of any other: a point with the place
:math:`z` in units of mode :math:`k` is :math:`T_k(z) = c_k + L_k z`. The points
:math:`T_1(z), \dots, T_K(z)` are one orbit. Given its orbit, a draw from :math:`q` is at mode
:math:`k` with the known probability

.. math:: \pi_k(z) = \frac{q(T_k(z)) |L_k|}{\sum_j q(T_j(z)) |L_j|},

whatever the shapes of the modes. (It is the balance of moves there and back,
:math:`E \alpha(x, T x) = E \alpha(x, T^{-1} x)`, with Barker's acceptance probability.) So the
number of independent draws at a mode is a sum of trials with known probabilities: nothing has to be
estimated for its distribution under the null hypothesis, and modes without any draw need no care.
Draws that some map would carry out of the neighbourhood it leads to are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ksd.stats.ascent import ScoreAndDensity, evaluate
from pymc_ksd.stats.local_modes import Modes
from pymc_ksd.stats.zero_means import cautious_times

#: Iterations that shares of modes are found in, and the change at which they are.
_ITERATIONS, _SETTLED = 200, 1e-8
#: Parts of the draws from which the error of shares is estimated.
_PARTS = 20


@dataclass(frozen=True)
class Orbits:
    """Draws, and how likely each is to be at any mode.

    Attributes
    ----------
    nearest : ndarray of int of shape (n,)
        The mode that each draw is at.
    places : ndarray of shape (n, d)
        Where it is from there, in the mode's own units.
    used : ndarray of bool of shape (n,)
        Draws all of whose moves end in the neighbourhood they lead to.
    probabilities : ndarray of shape (n, k)
        How likely each draw is at each mode, given its orbit; zero for those left out.
    """

    nearest: np.ndarray
    places: np.ndarray
    used: np.ndarray
    probabilities: np.ndarray

    @property
    def at_mode(self) -> np.ndarray:
        """Whether a draw is used and at a mode, shape (n, k)."""
        at = self.nearest[:, None] == np.arange(self.probabilities.shape[1])
        return np.asarray(at & self.used[:, None])

    @property
    def excess(self) -> np.ndarray:
        """Terms of the number of draws at each mode less its expectation, shape (n, k)."""
        return np.asarray(self.at_mode - self.probabilities)

    @property
    def variances(self) -> np.ndarray:
        """Variances of these numbers, were draws independent, shape (k,)."""
        return np.asarray((self.probabilities * (1 - self.probabilities)).sum(axis=0))

    def shares_of_draws(self) -> np.ndarray:
        """Return the part of all draws at each mode."""
        return np.bincount(self.nearest, minlength=self.probabilities.shape[1]) / len(self.nearest)


def orbits_of(
    function: ScoreAndDensity, modes: Modes, points: np.ndarray, log_densities: np.ndarray
) -> Orbits:
    """Move draws from their modes to all others.

    Parameters
    ----------
    function : callable
        Score and log density.
    modes : Modes
        Two modes or more.
    points : ndarray of shape (n, d)
        The draws.
    log_densities : ndarray of shape (n,)
        Their log densities.

    Returns
    -------
    Orbits
    """
    nearest = modes.nearest(points)
    rows = np.arange(len(points))
    places = modes.standardised(points)[nearest, rows]
    used = np.ones(len(points), dtype=bool)
    weights = np.empty((len(points), modes.number))
    for mode in range(modes.number):
        moved = modes.placed(places, mode)
        stays = nearest == mode
        used &= stays | (modes.nearest(moved) == mode)
        weights[stays, mode] = log_densities[stays]
        weights[~stays, mode] = evaluate(function, moved[~stays])[1]
    weights += modes.log_sizes
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    return Orbits(nearest, places, used, np.where(used[:, None], probabilities, 0.0))


def tail_probabilities(orbits: Orbits, times: np.ndarray) -> np.ndarray:
    """Return how likely numbers of draws at modes are, or less likely ones; two-sided, each alone.

    Parameters
    ----------
    orbits : Orbits
        Draws and their probabilities.
    times : ndarray of shape (k,)
        How many draws count as much as one independent draw, for each mode.

    Returns
    -------
    ndarray of shape (k,)
    """
    from scipy.special import betainc  # slow to import

    found = np.ones(len(times))
    for mode, time in enumerate(times):
        trials = orbits.probabilities[orbits.used, mode]
        count = orbits.at_mode[:, mode].sum() / time
        if 2 * trials.sum() > len(trials):
            trials, count = 1 - trials, len(trials) / time - count
        mean, variance = trials.sum() / time, (trials * (1 - trials)).sum() / time
        if not mean > 0:
            found[mode] = float(count == 0)
            continue
        # Trials with several probabilities: the binomial distribution with this mean and variance.
        chance = np.clip(1 - variance / mean, 1e-300, 1 - 1e-12)
        number = max(mean / chance, count)
        at_least = betainc(count, number - count + 1, chance) if count > 0 else 1.0
        at_most = betainc(number - count, count + 1, 1 - chance) if count < number else 1.0
        found[mode] = min(1.0, 2 * min(at_least, at_most))
    return found


def effective_times(
    orbits: Orbits, labels: np.ndarray, times: np.ndarray, within: float
) -> np.ndarray:
    """Return how many draws count as much as one independent draw, for the visits to each mode.

    Where no draw is, or every one, visits tell nothing of how slowly chains move: they are taken to
    come and go as freely as the draws move near modes. Where every chain stays at one mode and not
    all at the same, each chain is one draw.

    Parameters
    ----------
    orbits : Orbits
        The draws.
    labels : ndarray of int of shape (chain, draw)
        The mode that each is at.
    times : ndarray of shape (k,)
        Autocorrelation times of the visits.
    within : float
        That of the draws' places near their modes.

    Returns
    -------
    ndarray of shape (k,)
    """
    visits = orbits.shares_of_draws()
    slow = np.maximum(cautious_times(times), 1.0)
    slow = np.where(moves_of(labels, len(times)) == 0, labels.shape[1], slow)
    return np.where((visits == 0) | (visits == 1), max(within, 1.0), np.maximum(slow, 1.0))


def moves_of(labels: np.ndarray, n_modes: int) -> np.ndarray:
    """Count how often chains come to each mode or leave it, shape (k,)."""
    at = labels[..., None] == np.arange(n_modes)
    return np.asarray((at[:, 1:] != at[:, :-1]).sum(axis=(0, 1)))


def balanced_shares(orbits: Orbits) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of the density near each mode by which moves of the draws are in balance.

    Near each mode the draws must be like the density; how many are there does not matter. Of modes
    without a draw, those that are moved there tell.

    Returns
    -------
    shares, errors : ndarray of shape (k,)
        The shares and their standard errors.
    """
    rows = np.flatnonzero(orbits.used)
    labels, probabilities = orbits.nearest[rows], orbits.probabilities[rows]
    shares = _in_balance(labels, probabilities)
    parts = [
        _in_balance(np.delete(labels, part), np.delete(probabilities, part, axis=0))
        for part in np.array_split(np.arange(len(rows)), min(_PARTS, len(rows)))
    ]
    spread = np.var(parts, axis=0) * (len(parts) - 1)
    return shares, np.sqrt(spread)


def _in_balance(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Solve the equations of balance by iteration."""
    n, k = probabilities.shape
    visits = np.bincount(labels, minlength=k) / max(n, 1)
    shares = np.full(k, 1 / k)
    for _ in range(_ITERATIONS):
        density = probabilities @ (visits / np.maximum(shares, 1e-300))
        new = (probabilities / np.maximum(density, 1e-300)[:, None]).mean(axis=0)
        new = new / new.sum()
        if np.abs(new - shares).max() < _SETTLED:
            break
        shares = new
    return np.asarray(new)
