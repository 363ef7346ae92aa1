"""Gradients stored with draws: held against the model at a few draws before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.target import Target
from pymc_ksd.options import warn_user
from pymc_ksd.samples.sample import DrawsWarning
from pymc_ksd.samples.stored import stored_log_densities

#: Draws at which gradients and log densities are held against the model's; more where there are
#: more chains, each of which has one.
_CHECKED_DRAWS = 5
#: How far a gradient may be from the model's, as a share of its length, in standard deviations of
#: the draws; and in these units besides. Gradients and draws may be stored as single floats.
_TOLERANCE, _LEAST = 1e-3, 1e-3
#: How far differences of log densities may be from the model's: as a share of them, and besides.
_SHARE_OF_LOG_DENSITY, _LEAST_LOG_DENSITY = 1e-6, 1e-3
#: Steps of finite differences, in standard deviations of the draws, and what they are weighed by:
#: the error is of the fourth order.
_STEP = 1e-4
_STEPS, _WEIGHTS = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12


def checked_gradients(
    target: Target,
    points: np.ndarray,
    gradients: np.ndarray | None,
    posterior: xr.Dataset,
    data: Any,
) -> tuple[tuple[np.ndarray, ...], str]:
    """Return stored scores and log densities that can be used, and where scores come from.

    Parameters
    ----------
    target : Target
        The density; what it says at a few draws decides.
    points : ndarray of shape (draw, chain, d)
        Unconstrained draws.
    gradients : ndarray of shape (draw, chain, d), optional
        What is stored beside them.
    posterior : xarray.Dataset
        The draws as they are stored.
    data : DataTree or InferenceData
        The container.

    Returns
    -------
    values : tuple of ndarray
        Scores, of shape (n, d), and perhaps log densities, of shape (n,); none if they cannot be
        used.
    scores : {"model", "stored", "model, stored ones differ"}
        Where scores come from.
    """
    if gradients is None:
        raise ValueError(
            "`data` must have finite gradients beside its draws, for the variables "
            f"{', '.join(target.names)}: the Score knows no others."
        )
    n_draws, n_chains, dim = points.shape
    flat, scores = points.reshape(-1, dim), gradients.reshape(-1, dim)
    found = stored_log_densities(posterior, data, only_unconstrained=target.stored)
    candidates = [one.reshape(-1) for one in found]
    if target.stored:
        _check_sign(flat, scores)
        return (scores, *candidates[:1]), "stored"
    few = _checked_rows(n_draws, n_chains)
    spread = np.maximum(flat.std(axis=0), np.finfo(float).tiny)
    log_densities = _quick_check(target, flat[few], scores[few], spread)
    if log_densities is None:
        own = target.values(flat[few])
        if not _is_close(own[0], scores[few], spread):
            error = np.abs((own[0] - scores[few]) * spread)
            row, column = np.unravel_index(int(np.argmax(error)), error.shape)
            draw, chain = divmod(int(few[row]), n_chains)
            warn_user(
                "The gradients stored in `data` are not those of `model`, most of all for "
                f"{target.labels[column]}: {scores[few][row, column]:.4g} in draw {draw} of chain "
                f"{chain}, where the model's is {own[0][row, column]:.4g}. Either the sampler's "
                "gradients are wrong, or it sampled another model or other data. The model's own "
                "are used.",
                DrawsWarning,
            )
            return (), "model, stored ones differ"
        log_densities = own[1] if len(own) > 1 else None
    if log_densities is None:
        return (scores,), "stored"
    return (scores, *_consistent(candidates, few, log_densities)[:1]), "stored"


def _checked_rows(n_draws: int, n_chains: int) -> np.ndarray:
    """Return the numbers of a few draws, from the first to the last and of every chain."""
    count = max(_CHECKED_DRAWS, n_chains)
    draws = np.linspace(0, n_draws - 1, count).astype(int)
    return np.unique(draws * n_chains + np.arange(count) % n_chains)


def _quick_check(
    target: Target, points: np.ndarray, scores: np.ndarray, spread: np.ndarray
) -> np.ndarray | None:
    """Return log densities of a few points if their scores are right; otherwise nothing is known.

    Scores are compared with finite differences of the log density in one direction for each point,
    to which every coordinate adds.
    """
    if target.log_density is None:
        return None
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=points.shape)
    directions = signs * spread
    steps = _STEP * _STEPS[:, None, None] * directions
    try:
        moved = target.log_density((points + steps).reshape(-1, points.shape[1]))
        log_densities = target.log_density(points)
    except Exception:
        return None  # what is wrong with the model is told by whoever compiles it
    differences = _WEIGHTS @ moved.reshape(len(_STEPS), -1) / _STEP
    parts = scores * directions
    error = np.abs(differences - parts.sum(axis=1))
    allowed = _TOLERANCE * np.sqrt((parts**2).sum(axis=1)) + _LEAST
    is_right = np.isfinite(log_densities).all() and (error <= allowed).all()
    return log_densities if is_right else None


def _is_close(own: np.ndarray, stored: np.ndarray, spread: np.ndarray) -> bool:
    """Whether scores are the same, in standard deviations of the draws."""
    error = np.abs((own - stored) * spread)
    length = np.sqrt(((own * spread) ** 2).sum(axis=1, keepdims=True))
    return bool((error <= _TOLERANCE * length + _LEAST).all())


def _consistent(
    candidates: list[np.ndarray], rows: np.ndarray, own: np.ndarray
) -> list[np.ndarray]:
    """Return the stored log densities that are the model's, up to a constant."""
    kept = []
    for stored in candidates:
        gap = stored[rows] - own
        allowed = _LEAST_LOG_DENSITY + _SHARE_OF_LOG_DENSITY * np.abs(own).max()
        if np.ptp(gap) <= allowed:
            kept.append(stored)
    return kept


def _check_sign(points: np.ndarray, scores: np.ndarray) -> None:
    """Warn where scores look like gradients of the potential energy, minus the log density.

    Under the density the covariances of coordinates and their own scores are all -1.
    """
    centred = points - points.mean(axis=0)
    if (centred * scores).mean(axis=0).sum() > 0:
        warn_user(
            "The gradients stored in `data` grow with the draws, as those of a potential energy "
            "do, which is minus the log density: write them with the opposite sign, as "
            "pymc_ksd.with_gradients(…, of_potential=True) does.",
            DrawsWarning,
        )
