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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.comparisons import in_bandwidths
from pymc_ksd.engine.conditional import evaluate_witness
from pymc_ksd.samples.covariates import Column
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stein.points import Points

#: Residuals of observed and of replicated data, for some draws.
Samples = Sequence[Sequence[Points]]

#: Shares of the residuals next to a place below which the witness along a covariate is shown.
_LEVELS = {"low": 0.1, "middle": 0.5, "high": 0.9}
#: Places along the outcome, and along a covariate.
_OUTCOMES, _POSITIONS = 65, 25
#: Share of the replicated curves that lie in the band from end to end, and the least width of the
#: band, as a share of its greatest: a few outliers make spreads where there are hardly any points.
_BAND, _LEAST_WIDTH = 0.95, 0.25


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
        Between what bounds 95 % of those of replicated data lie, at all places together.
    """

    places: np.ndarray
    observed: np.ndarray
    band: np.ndarray


def witness(
    panel: Panel,
    samples: Samples,
    columns: Mapping[str, Sequence[Column]],
    ends: tuple[float, float],
    rng: np.random.Generator,
) -> xr.Dataset:
    """Return the witness of one-dimensional outcomes, and along every covariate.

    Parameters
    ----------
    panel : Panel
        The Stein kernels.
    samples : sequence of pairs of Points
        Residuals of observed and of replicated data, for some draws.
    columns : mapping of str to sequence of Column
        Each covariate at these draws, by its name.
    ends : tuple of float
        Between which residuals it is evaluated.
    rng : numpy.random.Generator
        Picks observations for the covariates' median distances when there are many.

    Returns
    -------
    xarray.Dataset
    """
    outcome = _outcome_curve(panel, samples, ends)
    fields: dict[str, Any] = {
        "residual_value": (("residual",), outcome.places),
        "witness": (("residual",), outcome.observed),
        "witness_band": (("bound", "residual"), outcome.band),
    }
    coords: dict[str, Any] = {"bound": ["lower", "upper"]}
    if columns:
        curves = [_covariate_curve(panel, samples, column, rng) for column in columns.values()]
        dims = ("covariate", "position", "level")
        fields["covariate_value"] = (dims[:2], np.stack([curve.places for curve in curves]))
        fields["covariate_witness"] = (dims, np.stack([curve.observed for curve in curves]))
        band = np.stack([curve.band for curve in curves], axis=1)
        fields["covariate_witness_band"] = (("bound", *dims), band)
        coords |= {"covariate": list(columns), "level": list(_LEVELS)}
    return xr.Dataset(fields, coords=coords)


def _outcome_curve(panel: Panel, samples: Samples, ends: tuple[float, float]) -> Curve:
    """Return the witness over one-dimensional outcomes."""
    places = np.linspace(*ends, _OUTCOMES)
    weights = np.ones((len(samples[0][0].positions), len(places)))
    curves = [
        [_evaluated(panel, points, places[:, None], weights) for points in pair] for pair in samples
    ]
    return _summary(places, np.array(curves))


def _covariate_curve(
    panel: Panel, samples: Samples, columns: Sequence[Column], rng: np.random.Generator
) -> Curve:
    """Return the witness of one-dimensional outcomes along a covariate.

    At every place it is shown for three residuals, each sample's own quantiles there: a model that
    is far off would leave nothing to see at residuals that it expects.
    """
    places = _places(columns)
    curves: list[list[np.ndarray]] = []
    weights = np.empty(0)
    for index, (column, pair) in enumerate(zip(columns, samples, strict=True)):
        if index == 0 or column is not columns[index - 1]:
            weights = _weights(column, places, rng)
        repeated = np.repeat(weights, len(_LEVELS), axis=1)
        curves.append([])
        for points in pair:
            grid = _quantiles(points.positions[:, 0], weights).reshape(-1, 1)
            curve = _evaluated(panel, points, grid, repeated)
            curves[-1].append(curve.reshape(len(places), len(_LEVELS)))
    return _of_one_length(_summary(places, np.array(curves)))


def _evaluated(panel: Panel, points: Points, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the witness of outcomes of one dimension."""
    return panel.joined(evaluate_witness(panel.members, points, places, weights))[:, 0]


def _places(columns: Sequence[Column]) -> np.ndarray:
    """Return where along a covariate the witness is shown: at its values, if they are few."""
    different = {id(column): column.values for column in columns}
    values = np.concatenate(list(different.values()))
    known = np.unique(values)
    if columns[0].labels or len(known) <= _POSITIONS:
        return known
    low, high = np.quantile(values, [0.01, 0.99])
    return np.linspace(low, high, _POSITIONS)


def _weights(column: Column, places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the kernel of a covariate between observations and places, never quite zero."""
    scaled = in_bandwidths([column], rng)[0][:, 0]
    width = np.ptp(column.values)
    per_unit = np.ptp(scaled) / width if width else 1.0
    at = scaled[0] + (places - column.values[0]) * per_unit
    weights = np.exp(-0.5 * (scaled[:, None] - at[None, :]) ** 2)
    return np.maximum(weights, np.finfo(float).tiny)


def _quantiles(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the residuals at :data:`_LEVELS` for every column of weights, shape (places, 3)."""
    order = np.argsort(residuals)
    shares = np.cumsum(weights[order], axis=0)
    shares /= shares[-1]
    rows = [np.argmax(shares >= level - 1e-12, axis=0) for level in _LEVELS.values()]
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


def _summary(places: np.ndarray, curves: np.ndarray) -> Curve:
    """Summarise curves of observed and replicated data, of shape (draws, 2, places, ...)."""
    observed, replicated = curves[:, 0], curves[:, 1]
    count = len(replicated)
    spread = replicated.std(axis=0, ddof=1)
    least = _LEAST_WIDTH * spread.max() or 1.0
    # How far each curve is from the others, as the observed one is from all of them.
    furthest = []
    for index in range(count):
        others = np.delete(replicated, index, axis=0)
        own = others.std(axis=0, ddof=1) if count > 2 else spread
        distance = np.abs(replicated[index] - others.mean(axis=0))
        furthest.append(np.max(distance / np.maximum(own, least)))
    rank = min(int(np.ceil(_BAND * (count + 1))), count)
    width = np.sort(furthest)[rank - 1] * np.maximum(spread, least)
    centre = replicated.mean(axis=0)
    return Curve(places, observed.mean(axis=0), np.stack([centre - width, centre + width]))
