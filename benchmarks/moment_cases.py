"""Targets of several shapes with exact draws, and draws with known errors, for ``ksd_moments``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter
from scipy.special import gammainccinv, ndtr, stdtrit

from pymc_ksd import Score

__all__ = ["ERRORS", "TARGETS", "Error", "Target", "chains", "two_modes"]

N_CHAINS = 4


@dataclass(frozen=True)
class Target:
    """A density that independent normal numbers can be turned into.

    Attributes
    ----------
    draw : callable
        Maps normal numbers of shape (..., d) to draws.
    score, log_density : callable
        Of points of shape (n, d).
    """

    draw: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]

    def compiled(self, dim: int) -> Score:
        """Return the score as the library takes it."""
        return Score.from_callable(self.score, dim, log_density=self.log_density)


def _curved(u: np.ndarray) -> np.ndarray:
    x = u.copy()
    if x.shape[-1] > 1:
        x[..., 1] += 0.5 * (x[..., 0] ** 2 - 1)
    return x


def _curved_score(x: np.ndarray) -> np.ndarray:
    score = -x.copy()
    if x.shape[1] > 1:
        rest = x[:, 1] - 0.5 * (x[:, 0] ** 2 - 1)
        score[:, 1] = -rest
        score[:, 0] += rest * x[:, 0]
    return score


def _curved_log_density(x: np.ndarray) -> np.ndarray:
    u = x.copy()
    if x.shape[1] > 1:
        u[:, 1] -= 0.5 * (x[:, 0] ** 2 - 1)
    return np.asarray(-0.5 * (u**2).sum(axis=1))


def _funnel(u: np.ndarray) -> np.ndarray:
    x = u.copy()
    x[..., 1:] *= np.exp(x[..., :1] / 2)
    return x


def _funnel_score(x: np.ndarray) -> np.ndarray:
    precision = np.exp(-x[:, :1])
    score = np.empty_like(x)
    score[:, 1:] = -x[:, 1:] * precision
    squares = (x[:, 1:] ** 2 * precision).sum(axis=1)
    score[:, 0] = -x[:, 0] - 0.5 * (x.shape[1] - 1) + 0.5 * squares
    return score


def _funnel_log_density(x: np.ndarray) -> np.ndarray:
    squares = (x[:, 1:] ** 2 * np.exp(-x[:, :1])).sum(axis=1)
    return np.asarray(-0.5 * (x[:, 0] ** 2 + (x.shape[1] - 1) * x[:, 0] + squares))


def equicorrelated(dim: int, correlation: float) -> Target:
    """Return a normal density whose coordinates are all correlated with each other."""
    apart = 1 - correlation
    # What the sum of all coordinates adds to each, in a root of the covariance and in its inverse.
    by_mean = (np.sqrt(apart + dim * correlation) - np.sqrt(apart)) / dim
    shared = correlation / (apart + dim * correlation)

    def score(x: np.ndarray) -> np.ndarray:
        return np.asarray(-(x - shared * x.sum(axis=1, keepdims=True)) / apart)

    return Target(
        lambda u: np.sqrt(apart) * u + by_mean * u.sum(axis=-1, keepdims=True),
        score,
        lambda x: 0.5 * (x * score(x)).sum(axis=1),
    )


TARGETS = {
    "normal": Target(lambda u: u, lambda x: -x, lambda x: -0.5 * (x**2).sum(axis=1)),
    "Student-t(5)": Target(
        lambda u: stdtrit(5, ndtr(u)),
        lambda x: -6 * x / (5 + x**2),
        lambda x: -3 * np.log1p(x**2 / 5).sum(axis=1),
    ),
    "skewed": Target(
        lambda u: np.log(gammainccinv(2, ndtr(-u))),
        lambda x: 2 - np.exp(x),
        lambda x: (2 * x - np.exp(x)).sum(axis=1),
    ),
    "banana": Target(_curved, _curved_score, _curved_log_density),
    "funnel": Target(_funnel, _funnel_score, _funnel_log_density),
}


def chains(rng: np.random.Generator, n_draws: int, dim: int, correlation: float) -> np.ndarray:
    """Return normal numbers, correlated along four chains, shape (4, draws, d)."""
    noise = rng.normal(size=(N_CHAINS, n_draws, dim))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


@dataclass(frozen=True)
class Error:
    """What is wrong with one parameter of normal draws: its mean in sd, its scale as a factor."""

    mean: float = 0.0
    scale: float = 1.0

    def plant(self, draws: np.ndarray, parameter: int = 0) -> np.ndarray:
        """Return draws with the error in one parameter."""
        draws = draws.copy()
        draws[..., parameter] = self.mean + self.scale * draws[..., parameter]
        return draws


ERRORS = {
    "mean off by 0.05 sd": Error(mean=0.05),
    "mean off by 0.1 sd": Error(mean=0.1),
    "sd 10 % too large": Error(scale=1.1),
    "sd 10 % too small": Error(scale=0.9),
}


def two_modes(
    centre: float, bias: float
) -> tuple[Score, Callable[[np.random.Generator, int], np.ndarray]]:
    """Return equal modes on both sides of zero, and what draws them with weights that are wrong.

    The mean of these draws is off by so many standard deviations of the density.
    """
    score = Score.from_callable(
        lambda x: centre * np.tanh(centre * x) - x,
        1,
        log_density=lambda x: (np.logaddexp(centre * x, -centre * x) - x**2 / 2)[:, 0],
    )
    weight = 0.5 + bias * np.sqrt(1 + centre**2) / (2 * centre)

    def draw(rng: np.random.Generator, n_draws: int) -> np.ndarray:
        signs = np.where(rng.uniform(size=(N_CHAINS, n_draws)) < weight, 1, -1)
        return rng.normal(centre * signs, 1)

    return score, draw
