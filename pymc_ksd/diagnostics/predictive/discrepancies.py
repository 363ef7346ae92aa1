"""Observed against replicated data of one variable: discrepancies at every draw, and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.comparisons import Comparison
from pymc_ksd.diagnostics.predictive.residuals import residuals_given
from pymc_ksd.diagnostics.predictive.witness import witness
from pymc_ksd.diagnostics.prepare import Comparing, check_slope
from pymc_ksd.diagnostics.results import at_places
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.samples.covariates import Column
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stats.nulls import monte_carlo_p_value
from pymc_ksd.stats.panel import Panel, spread_of
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Numbers that samples evaluated together may have.
_NUMBERS = 25_000_000
#: Draws from which the witness is computed.
_WITNESS_DRAWS = 40
#: Where the witness of residuals, and of angles, is evaluated.
_ENDS, _CIRCLE = (-4.0, 4.0), (-np.pi, np.pi)


@dataclass(frozen=True)
class Fitted:
    """A fitted variable, ready to be checked.

    Attributes
    ----------
    density : FittedDensity
        The observed variable.
    given : sequence of tuple of ndarray
        Draws of the free variables.
    comparisons : sequence of Comparison
        What observations are compared by.
    """

    density: FittedDensity
    given: Sequence[Given]
    comparisons: Sequence[Comparison]

    def columns(self, count: int) -> dict[str, list[Column]]:
        """Return each covariate at the first draws, by its name."""
        found = {}
        for comparison in self.comparisons:
            at_draws = [comparison.at(values) for values in self.given[:count]]
            for index, column in enumerate(comparison.columns):
                found[column.name] = [columns[index] for columns in at_draws]
        return found


@dataclass
class _Compared:
    """What comes of comparing observed and replicated data at all draws.

    Attributes
    ----------
    panel : Panel
        The Stein kernels.
    sums : list of ndarray of shape (draws, 2, comparisons)
        Sums over pairs of observed and of replicated data, for batches of draws.
    rows : ndarray of shape (n, comparisons)
        What each observation has part in, added up over draws.
    shown : list of pairs of Points
        Residuals of observed and replicated data at some draws.
    """

    panel: Panel
    sums: list[np.ndarray]
    rows: np.ndarray
    shown: list[tuple[Points, Points]]


def check_variable(
    fitted: Fitted, how: Comparing, effort: Effort, rng: np.random.Generator
) -> xr.Dataset:
    """Return the result for one observed variable, with its name and bandwidths as attributes."""
    *rngs, median_rng = rng.spawn(3)
    density, comparisons = fitted.density, fitted.comparisons
    compared = _compare(fitted, how, effort, rngs, median_rng)
    n = len(compared.rows)
    pairs = n * (n - 1)
    observed, replicated = np.moveaxis(np.concatenate(compared.sums) / pairs, 1, 0)
    dataset = _discrepancies(observed, replicated, [c.name for c in comparisons])
    strongest = int(np.argmax(dataset["comparison_excess"].values))
    dataset = dataset.assign(contributions_of=((), comparisons[strongest].name))
    contributions = compared.rows[:, strongest] / (len(fitted.given) * pairs)
    dataset = dataset.merge(at_places(contributions, density.places))
    if density.variable.unconstrained_size == 1:
        shown, ends = compared.shown, _CIRCLE if density.circular else _ENDS
        columns = fitted.columns(len(shown))
        dataset = dataset.merge(witness(compared.panel, shown, columns, ends, median_rng))
    return dataset.assign_attrs(bandwidth=compared.panel.bandwidths, variable=density.places.name)


def _compare(
    fitted: Fitted,
    how: Comparing,
    effort: Effort,
    rngs: Sequence[np.random.Generator],
    median_rng: np.random.Generator,
) -> _Compared:
    """Compare observed and replicated data at all draws, a batch of them at a time."""
    density, given, comparisons = fitted.density, fitted.given, fitted.comparisons
    scale_rng, replicate_rng = rngs
    data = density.data()
    n = len(data)
    compared = _Compared(Panel(()), [], np.zeros((n, len(comparisons))), [])
    fixed = [comparison.in_bandwidths(median_rng) for comparison in comparisons]
    # Without free variables all draws are the same: so are centre and scale.
    known = None if density.given else residuals_given(density, n, (), scale_rng)
    step = max(1, _NUMBERS // (8 * n * density.variable.unconstrained_size))
    for start in range(0, len(given), step):
        batch = given[start : start + step]
        samples: list[tuple[Points, Points]] = []
        with progress_bar("Replicating data", len(batch), effort.progressbar) as bar:
            for values in batch:
                residuals = known or residuals_given(density, n, values, scale_rng)
                observed = samples[0][0] if known and samples else residuals.of_data(data)
                samples.append((observed, residuals.replicated(replicate_rng)))
                bar.advance(1)
        if start == 0:
            # From replicated data: a bandwidth must not look at the observations.
            operator, positions = OPERATORS[density.operator], samples[0][1].positions
            compared.panel = how.panel(operator, positions, median_rng)
            check_slope(compared.panel, positions)
        covariates = [
            comparison.in_bandwidths_at(batch, median_rng) if comparison.changes else same
            for comparison, same in zip(comparisons, fixed, strict=True)
        ]
        sums, rows = evaluate_conditional(
            compared.panel.members,
            samples,
            covariates,
            effort,
        )
        compared.sums.append(compared.panel.joined(sums))
        compared.rows += compared.panel.joined(rows)
        compared.shown += samples[: _WITNESS_DRAWS - len(compared.shown)]
    return compared


def _discrepancies(
    observed: np.ndarray, replicated: np.ndarray, comparisons: Sequence[str]
) -> xr.Dataset:
    """Return p-values and discrepancies from the statistics of all draws and comparisons."""
    centre, spread = replicated.mean(axis=0), spread_of(replicated, ddof=1)
    standard = (observed - centre) / spread
    largest = standard.max(axis=1), ((replicated - centre) / spread).max(axis=1)
    single = [_p_value(*pair) for pair in zip(observed.T, replicated.T, strict=True)]
    return xr.Dataset(
        {
            "p_value": ((), _p_value(*largest)),
            "observed": (("sample",), largest[0]),
            "replicated": (("sample",), largest[1]),
            "comparison_p_value": (("comparison",), single),
            "observed_statistic": (("sample", "comparison"), observed),
            "replicated_statistic": (("sample", "comparison"), replicated),
            "comparison_excess": (("comparison",), standard.mean(axis=0)),
        },
        coords={"comparison": list(comparisons)},
    )


def _p_value(observed: np.ndarray, replicated: np.ndarray) -> float:
    """Return the share of draws whose replicated data are at least as far off."""
    return monte_carlo_p_value(0.0, replicated - observed)
