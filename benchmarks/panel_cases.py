"""Problems on which tests with several kernels are compared, most of them from the literature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats

from pymc_ksd import Score, compile_score

__all__ = ["PROBLEMS", "Problem", "best_power_of_signs"]

Trial = Callable[[np.random.Generator, int], tuple[Score, Any]]

#: Steps of the Gibbs sampler before a Boltzmann machine is drawn from.
_GIBBS_STEPS = 500
#: Standard deviations of the directions of a stiff normal distribution, and these directions.
_STIFF = np.logspace(1, -1, 20)
_DIRECTIONS = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
#: Centres of three modes.
_MODES = np.array([-5.0, 0.0, 5.0])


@dataclass(frozen=True)
class Problem:
    """A model and data that do not come from it.

    Attributes
    ----------
    n : int
        Points.
    trial : callable
        ``trial(rng, n)`` returns the model's score and data.
    best_other : str
        The power of the best other test that is known on a problem of this description. Details
        that the description leaves open may differ.
    goal : float
        The power to reach, if there is one.
    """

    n: int
    trial: Trial
    best_other: str
    goal: float | None


@cache
def normal(dim: int) -> Score:
    """Return the score of independent standard normal variables."""
    return Score.from_callable(lambda x: -x, dim)


def against_normal(dim: int, draw: Callable[[np.random.Generator, int], np.ndarray]) -> Trial:
    """Return a trial of data against independent standard normal variables."""
    return lambda rng, n: (normal(dim), draw(rng, n))


def _first_wider(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 15)) * np.where(np.arange(15) == 0, np.sqrt(2), 1.0)


def _accepted(
    rng: np.random.Generator, n: int, candidates: np.ndarray, waves: np.ndarray
) -> np.ndarray:
    """Keep n candidates, with probability proportional to one plus half a wave."""
    kept: np.ndarray = candidates[rng.uniform(size=len(candidates)) * 1.5 < 1 + 0.5 * waves]
    return kept[:n]


def _sine(rng: np.random.Generator, n: int) -> np.ndarray:
    candidates = rng.normal(size=4 * n)
    return _accepted(rng, n, candidates, np.sin(8 * candidates))


def _bumps(rng: np.random.Generator, n: int) -> np.ndarray:
    candidates = rng.uniform(size=4 * n)
    return _accepted(rng, n, candidates, 0.8 * np.sin(8 * np.pi * candidates))


def _smooth_waves(within: np.ndarray) -> np.ndarray:
    """Return what a bump up and one down in the unit interval add to the density."""
    waves = np.zeros_like(within)
    for sign, centre in ((1.0, 0.25), (-1.0, 0.75)):
        inside = 1 - (4 * (within - centre)) ** 2
        bump = np.exp(-1 / np.maximum(inside, 1e-12))
        waves += sign * np.where(inside > 0, bump, 0.0)
    return 2.7 / 4 * waves


def best_power_of_signs(n: int = 500) -> float:
    """Return the power of the best test that has only the signs of four bumps to find.

    With f the wave of one bump, the four sums of f over points are independent and nearly normal.
    """
    mean_square = float(np.mean(_smooth_waves((np.arange(10_000) + 0.5) / 10_000) ** 2))
    return float(stats.ncx2.sf(stats.chi2.isf(0.05, 4), 4, n * mean_square))


def _bumps_of_random_sign(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw from the uniform density with four smooth bumps, each up and down or down and up."""
    candidates = rng.uniform(size=6 * n)
    place, within = np.divmod(4 * candidates, 1)
    signs = rng.choice([-1.0, 1.0], size=4)[place.astype(int)]
    density = 1 + signs * _smooth_waves(within)
    kept: np.ndarray = candidates[rng.uniform(size=len(candidates)) * 1.5 < density]
    return kept[:n]


@cache
def _compiled(name: str) -> Score:
    """Return the score of a PyMC model, compiled once in every process."""
    with pm.Model() as model:
        {"gamma": lambda: pm.Gamma("x", 5, 1), "uniform": lambda: pm.Uniform("x", 0, 1)}[name]()
    return compile_score(model)


def _gamma(more: float) -> Trial:
    return lambda rng, n: (_compiled("gamma"), rng.gamma(5 + more, 1, n))


def _boltzmann(deviation: float) -> Trial:
    """Return a trial of a restricted Boltzmann machine whose couplings are perturbed."""

    def trial(rng: np.random.Generator, n: int) -> tuple[Score, np.ndarray]:
        couplings = rng.choice([-1.0, 1.0], size=(50, 40))
        visible, hidden = rng.normal(size=50), rng.normal(size=40)
        wrong = couplings + deviation * rng.normal(size=couplings.shape)
        x = rng.normal(size=(n, 50))
        for _ in range(_GIBBS_STEPS):
            up = rng.uniform(size=(n, 40)) < 0.5 * (1 + np.tanh(0.5 * x @ wrong + hidden))
            x = visible + 0.5 * np.where(up, 1.0, -1.0) @ wrong.T + rng.normal(size=(n, 50))

        def score(points: np.ndarray) -> np.ndarray:
            inner = np.tanh(0.5 * points @ couplings + hidden)
            return np.asarray(visible - points + 0.5 * inner @ couplings.T)

        return Score.from_callable(score, 50), x

    return trial


@cache
def _three_modes_score() -> Score:
    def score(x: np.ndarray) -> np.ndarray:
        distances = _MODES - x
        weights = np.exp(-0.5 * distances**2)
        return np.asarray((weights * distances).sum(axis=1) / weights.sum(axis=1))[:, None]

    return Score.from_callable(score, 1)


def _three_modes(rng: np.random.Generator, n: int) -> tuple[Score, np.ndarray]:
    return _three_modes_score(), rng.normal(rng.choice(_MODES, n), 1.15)


@cache
def _stiff_score() -> Score:
    precision = (_DIRECTIONS / _STIFF**2) @ _DIRECTIONS.T
    return Score.from_callable(lambda x: -x @ precision, 20)


def stiff(factor: float) -> Trial:
    """Return a trial of a stiff normal with wrong variances of its five shortest directions."""

    def trial(rng: np.random.Generator, n: int) -> tuple[Score, np.ndarray]:
        deviations = _STIFF * np.where(np.arange(20) >= 15, np.sqrt(factor), 1.0)
        return _stiff_score(), (rng.normal(size=(n, 20)) * deviations) @ _DIRECTIONS.T

    return trial


def _laplace(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.laplace(0, np.sqrt(0.5), size=(n, 15))


def _shifted(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0.07, 1, size=(n, 5))


PROBLEMS = {
    "Laplace, variance 1, for normal, d = 15": Problem(
        1_000, against_normal(15, _laplace), "FSSD-opt 37", 0.98
    ),
    "variance 2 of one coordinate of 15": Problem(
        1_000, against_normal(15, _first_wider), "33", 0.98
    ),
    "Gamma(5.2) for Gamma(5)": Problem(500, _gamma(0.2), "KSDAgg 43", 0.40),
    "Gamma(5.3) for Gamma(5)": Problem(500, _gamma(0.3), "KSDAgg 75", 0.74),
    "Boltzmann machine, d = 50, d' = 40, σ = 0.01": Problem(
        1_000, _boltzmann(0.01), "KSDAgg 31", 0.29
    ),
    "Boltzmann machine, d = 50, d' = 40, σ = 0.02": Problem(
        1_000, _boltzmann(0.02), "KSDAgg 99", 0.99
    ),
    "normal times 1 + sin(8x)/2": Problem(500, against_normal(1, _sine), "5", 0.98),
    "uniform times 1 + 0.4 sin(8πx)": Problem(
        500, lambda rng, n: (_compiled("uniform"), _bumps(rng, n)), "KSDAgg 65", 0.95
    ),
    "uniform with 4 bumps of random sign": Problem(
        500,
        lambda rng, n: (_compiled("uniform"), _bumps_of_random_sign(rng, n)),
        "",
        None,
    ),
    "three modes 5 apart with sd 1.15 for 1": Problem(500, _three_modes, "KSDAgg 39", 0.50),
    "normal, d = 20, eigenvalues 100 to 0.01, the 5 smallest × 1.3": Problem(
        500, stiff(1.3), "5", 0.40
    ),
    "mean 0.07 of every coordinate of 5": Problem(200, against_normal(5, _shifted), "", 0.35),
}
