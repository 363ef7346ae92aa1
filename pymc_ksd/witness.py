r"""Where data and model disagree: the function that the discrepancy finds between them.

The Stein discrepancy is the largest mean of :math:`\mathcal{A} f` over functions f of a ball in the
kernel's space, and the f that reaches it is, up to a factor,

.. math::

    f(x) = \frac{1}{n} \sum_i s_i k(x_i, x) + \nabla_{x_i} k(x_i, x),

a smoothed difference between the scores of the model and of the data. Where f is positive the
model's density rises more steeply than that of the data: it expects larger values. With a kernel of
covariates, f depends on them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.covariates import Column, Comparison
from pymc_ksd.engine import evaluate_witness
from pymc_ksd.points import Points
from pymc_ksd.stein import SteinKernel

__all__ = ["LEVELS", "Curve", "Samples", "covariate_curve", "outcome_curve"]

#: Residuals of observed and of replicated data, for some draws.
Samples = tuple[Sequence[Points], Sequence[Points]]

#: Shares of the residuals next to a place below which the witness along a covariate is shown.
LEVELS = {"low": 0.1, "middle": 0.5, "high": 0.9}
#: Places along the outcome, and along a covariate.
_OUTCOMES, _POSITIONS = 65, 25
#: Shares of the replicated curves between which the band lies.
_BAND = (0.025, 0.975)


@dataclass(frozen=True)
class Curve:
    """The witness at several places.

    Attributes
    ----------
    places : ndarray of shape (places,)
        Residuals, or values of a covariate.
    observed : ndarray of shape (places, ...)
        The witness of the observations, its mean over draws.
    band : ndarray of shape (2, places, ...)
        Between what bounds that of replicated data lies mostly.
    """

    places: np.ndarray
    observed: np.ndarray
    band: np.ndarray


def outcome_curve(
    stein: SteinKernel,
    samples: Samples,
    bandwidths: np.ndarray,
    ends: tuple[float, float],
) -> Curve:
    """Return the witness over one-dimensional outcomes."""
    places = np.linspace(*ends, _OUTCOMES)
    weights = np.ones((len(samples[0][0].positions), len(places)))
    return _summary(places, _evaluate(stein, samples, bandwidths, places, weights))


def covariate_curve(
    stein: SteinKernel,
    samples: Samples,
    bandwidths: np.ndarray,
    column: Column,
    rng: np.random.Generator,
) -> Curve:
    """Return the witness of one-dimensional outcomes along a covariate.

    At every place it is shown for three residuals, the observations' own quantiles there: a model
    that is far off would leave nothing to see at residuals that it expects.

    Parameters
    ----------
    stein : SteinKernel
        The Stein kernel.
    samples : pair of sequence of Points
        Residuals of observed and of replicated data, for some draws.
    bandwidths : ndarray
        Bandwidths of the Stein kernel.
    column : Column
        The covariate.
    rng : numpy.random.Generator
        Picks observations for the covariate's median distance when there are many.

    Returns
    -------
    Curve
    """
    alone = Comparison(column.name, [column]).in_bandwidths(rng)
    scaled = np.asarray(alone)[:, 0]
    values, first = np.unique(column.values, return_index=True)
    at = scaled[first]
    if not column.labels and len(values) > _POSITIONS:
        low, high = np.quantile(column.values, [0.01, 0.99])
        known, values = values, np.linspace(low, high, _POSITIONS)
        at = np.interp(values, known, at)
    weights = np.exp(-0.5 * (scaled[:, None] - at[None, :]) ** 2)
    grid = _quantiles(samples[0][0].positions[:, 0], weights).ravel()
    curves = _evaluate(stein, samples, bandwidths, grid, np.repeat(weights, len(LEVELS), axis=1))
    curve = _summary(values, [c.reshape(len(c), len(at), len(LEVELS)) for c in curves])
    return _of_one_length(curve)


def _quantiles(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the residuals at :data:`LEVELS` for every column of weights, shape (places, 3)."""
    order = np.argsort(residuals)
    shares = np.cumsum(weights[order], axis=0)
    shares /= shares[-1]
    rows = [np.argmax(shares >= level - 1e-12, axis=0) for level in LEVELS.values()]
    quantiles: np.ndarray = residuals[order][np.stack(rows, axis=1)]
    return quantiles


def _of_one_length(curve: Curve) -> Curve:
    """Keep the places with the largest witness if there are too many, fill up with NaN if few."""
    largest = np.argsort(-np.abs(curve.observed).max(axis=1), kind="stable")[:_POSITIONS]
    chosen = np.sort(largest)
    few = _POSITIONS - len(chosen)
    return Curve(
        np.pad(curve.places[chosen], (0, few), constant_values=np.nan),
        np.pad(curve.observed[chosen], ((0, few), (0, 0)), constant_values=np.nan),
        np.pad(curve.band[:, chosen], ((0, 0), (0, few), (0, 0)), constant_values=np.nan),
    )


def _evaluate(
    stein: SteinKernel,
    samples: Samples,
    bandwidths: np.ndarray,
    grid: np.ndarray,
    weights: np.ndarray,
) -> list[np.ndarray]:
    """Return the witness of every sample of observed and of replicated data."""
    places = grid[:, None]
    return [
        np.stack(
            [evaluate_witness(stein, points, bandwidths, places, weights)[:, 0] for points in draws]
        )
        for draws in samples
    ]


def _summary(places: np.ndarray, curves: Sequence[np.ndarray]) -> Curve:
    observed, replicated = curves
    return Curve(places, observed.mean(axis=0), np.quantile(replicated, _BAND, axis=0))
