"""Samplers that are known to be wrong, each by one error that is easily made: they must be caught.

They know the densities of their targets by themselves, and not through a model, so that no error of
the one can hide in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_ksd.samplers.targets import TARGETS, BatteryTarget, Draws

#: Moments of the target "normal", and the variance of a random walk's steps in units of its own.
_MEAN, _SD, _DIM, _WALK = 1.0, 2.0, 5, 2.5
#: The step of Langevin proposals in units of the target's variance.
_LANGEVIN = 0.4
#: Chains, moves before the first draw, and moves from one draw to the next.
N_CHAINS, _WARMUP, _APART = 4, 200, 8

#: Draws of every variable, shape (chain, draw, *shape).
Chains = Draws


@dataclass(frozen=True)
class Control:
    """A wrong sampler of one target.

    Attributes
    ----------
    name : str
        What it is called.
    error : str
        What is wrong with it.
    target : str
        The name of the target it is run on.
    draw : callable
        ``draw(n_draws, rng)`` returns four chains.
    """

    name: str
    error: str
    target: str
    draw: Callable[[int, np.random.Generator], Chains]


def _target(name: str) -> BatteryTarget:
    return next(target for target in TARGETS if target.name == name)


def exact_chains(target: BatteryTarget, n_draws: int, rng: np.random.Generator) -> Chains:
    """Return four chains of independent draws."""
    draws = target.exact(N_CHAINS * n_draws, rng)
    return {name: a.reshape(N_CHAINS, n_draws, *a.shape[1:]) for name, a in draws.items()}


def _log_density(x: np.ndarray) -> np.ndarray:
    """Return the log density of the target "normal", up to a constant."""
    return np.asarray(-0.5 * (((x - _MEAN) / _SD) ** 2).sum(axis=-1))


def _score(x: np.ndarray) -> np.ndarray:
    return np.asarray((_MEAN - x) / _SD**2)


def _no_jacobian(n_draws: int, rng: np.random.Generator) -> Chains:
    """Walk through the logarithm of a positive variable as if it were the variable."""
    draws = dict(exact_chains(_target("bounded"), n_draws, rng))

    def log_density(z: np.ndarray) -> np.ndarray:
        # That of Gamma(3, 1) at exp(z): the Jacobian would add z.
        return np.asarray(2.0 * z - np.exp(z))

    z, rate = np.log(draws["rate"][:, 0]), np.empty((N_CHAINS, n_draws))
    for index in range(-_WARMUP, _APART * n_draws):
        proposal = z + 1.2 * rng.normal(size=N_CHAINS)
        accepted = np.log(rng.uniform(size=N_CHAINS)) < log_density(proposal) - log_density(z)
        z = np.where(accepted, proposal, z)
        if index >= 0:
            rate[:, index // _APART] = np.exp(z)
    return {**draws, "rate": rate}


def _walk(n_draws: int, rng: np.random.Generator, *, records: str) -> Chains:
    """Run random-walk Metropolis and record something else than the state after every move.

    Either proposals, accepted or not, or states after moves that were accepted only.
    """
    x = rng.normal(_MEAN, _SD, size=(N_CHAINS, _DIM))
    draws = np.empty((N_CHAINS, n_draws, _DIM))
    counts = np.full(N_CHAINS, -_WARMUP)
    chains = np.arange(N_CHAINS)
    while (counts < _APART * n_draws).any():
        proposal = x + _SD * np.sqrt(_WALK) * rng.normal(size=x.shape)
        accepted = np.log(rng.uniform(size=N_CHAINS)) < _log_density(proposal) - _log_density(x)
        x = np.where(accepted[:, None], proposal, x)
        shown = proposal if records == "proposals" else x
        counted = chains[accepted] if records == "moves" else chains
        recorded = counted[(counts[counted] >= 0) & (counts[counted] < _APART * n_draws)]
        draws[recorded, counts[recorded] // _APART] = shown[recorded]
        counts[counted] += 1
    return {"x": draws}


def _langevin(n_draws: int, rng: np.random.Generator, *, accepts: str) -> Chains:
    """Run Langevin proposals, accepted always or as if they were those of a random walk."""
    x, step = rng.normal(_MEAN, _SD, size=(N_CHAINS, _DIM)), _LANGEVIN * _SD**2
    draws = np.empty((N_CHAINS, n_draws, _DIM))
    for index in range(-_WARMUP, _APART * n_draws):
        proposal = x + step * _score(x) + np.sqrt(2 * step) * rng.normal(size=x.shape)
        if accepts == "symmetric":
            ratio = _log_density(proposal) - _log_density(x)
            accepted = np.log(rng.uniform(size=N_CHAINS)) < ratio
            proposal = np.where(accepted[:, None], proposal, x)
        x = proposal
        if index >= 0:
            draws[:, index // _APART] = x
    return {"x": draws}


def _frozen(n_draws: int, rng: np.random.Generator) -> Chains:
    """Return exact draws, of which one chain stands still at the first."""
    draws = exact_chains(_target("normal"), n_draws, rng)
    for array in draws.values():
        array[0] = array[0, 0]
    return draws


CONTROLS: tuple[Control, ...] = (
    Control(
        "missing Jacobian",
        "a positive variable is sampled on the logarithmic scale without the Jacobian",
        "bounded",
        _no_jacobian,
    ),
    Control(
        "off-by-one acceptance",
        "Metropolis records every proposal before it is accepted or rejected",
        "normal",
        lambda n_draws, rng: _walk(n_draws, rng, records="proposals"),
    ),
    Control(
        "rejections not counted",
        "Metropolis does not repeat its state when a proposal is rejected",
        "normal",
        lambda n_draws, rng: _walk(n_draws, rng, records="moves"),
    ),
    Control(
        "wrong step",
        "Langevin proposals are accepted as if they were symmetric",
        "normal",
        lambda n_draws, rng: _langevin(n_draws, rng, accepts="symmetric"),
    ),
    Control("frozen chain", "one chain of four never moves", "normal", _frozen),
    Control(
        "unadjusted Langevin",
        "Langevin proposals are accepted always",
        "normal",
        lambda n_draws, rng: _langevin(n_draws, rng, accepts="always"),
    ),
)
