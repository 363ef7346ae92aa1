"""Observed against replicated data of one variable: discrepancies at every draw, and p-values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.comparisons import Comparison
from pymc_ksd.diagnostics.predictive.joined import Statistics
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes
from pymc_ksd.diagnostics.predictive.parts import MOST_PAIRS, Parts
from pymc_ksd.diagnostics.predictive.picture import Speaking, picture
from pymc_ksd.diagnostics.predictive.residuals import Residuals, residuals_given
from pymc_ksd.diagnostics.predictive.witness import witness
from pymc_ksd.diagnostics.prepare import Comparing, check_slope
from pymc_ksd.diagnostics.results import at_places
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.progress import Advancing, progress_bar
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.samples.covariates import Column
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Numbers that samples evaluated together may have, and into how many batches long work is divided.
_NUMBERS, _BATCHES = 25_000_000, 8
#: Draws and observations from which the witness is computed, at the most.
_WITNESS_DRAWS, _WITNESS_POINTS = 40, 5_000
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


@dataclass
class _Compared:
    """What comes of comparing observed and replicated data at all draws.

    Attributes
    ----------
    panel : Panel
        The Stein kernels of the residuals.
    sums : list of ndarray of shape (kernels, draws, 2, covariates)
        Sums over pairs of observed and of replicated data, for batches of draws.
    rows : ndarray of shape (kernels, n, covariates)
        What each observation has part in, added up over draws.
    shown : list of pairs of Points
        Residuals of observed and replicated data at some draws.
    columns : list of list of list of Column
        Each comparison's covariates at these draws.
    outcomes : Outcomes
        Observed and replicated outcomes of some observations.
    alike : bool
        Whether all observations have the same distribution.
    """

    outcomes: Outcomes

    panel: Panel = field(default_factory=lambda: Panel(()))
    sums: list[np.ndarray] = field(default_factory=list)
    rows: Any = 0.0
    shown: list[tuple[Points, Points]] = field(default_factory=list)
    columns: list[list[list[Column]]] = field(default_factory=list)
    alike: bool = True


def check_variable(
    fitted: Fitted, how: Comparing, effort: Effort, alpha: float, rng: np.random.Generator
) -> xr.Dataset:
    """Return the result for one observed variable, with its name and settings as attributes."""
    *rngs, median_rng, parts_rng = rng.spawn(4)
    density, comparisons = fitted.density, fitted.comparisons
    data = density.data()
    parts = Parts.of(len(data), parts_rng)
    (picture_rng,) = parts_rng.spawn(1)
    compared = _Compared(Outcomes.of(data, len(fitted.given), picture_rng))
    _compare(compared, fitted, data, parts, how, effort, rngs, median_rng)
    panel = compared.panel
    statistics = Statistics.of(
        np.concatenate(compared.sums, axis=1) / parts.pairs,
        panel.everyone,
        comparisons,
        same_data=density.same_data,
    )
    dataset = statistics.dataset()
    kernel, covariate = statistics.places[statistics.strongest]
    contributions = parts.restored(compared.rows)[kernel, :, covariate]
    contributions /= len(fitted.given) * parts.pairs
    dataset = dataset.merge(at_places(contributions, density.places))
    number, width = _comparison_of(comparisons, covariate)
    speaking = Speaking(
        member=panel.everyone[kernel],
        comparison=comparisons[number],
        width=width,
        contributions=contributions,
        samples=compared.shown,
        columns=[at_draw[number] for at_draw in compared.columns],
        parts=parts,
        rejects=float(dataset["p_value"]) <= alpha,
        alike=compared.alike,
    )
    dataset = dataset.merge(picture(density, speaking, compared.outcomes, picture_rng))
    if density.variable.unconstrained_size == 1:
        ends = _CIRCLE if density.circular else _ENDS
        shown, columns = _shown(compared, comparisons, median_rng)
        dataset = dataset.merge(witness(panel, shown, columns, ends, median_rng))
    return dataset.assign_attrs(
        variable=density.places.name,
        bandwidth=np.array([member.bandwidth for member in panel.everyone]),
        compared_by=_compared_by(comparisons),
        n_parts=len(parts.lengths),
    )


def _comparison_of(comparisons: Sequence[Comparison], covariate: int) -> tuple[int, int]:
    """Return the number of a comparison, and of its bandwidth, by the number of covariates."""
    every = [(i, width) for i, one in enumerate(comparisons) for width in range(len(one.widths))]
    return every[covariate]


def _shown(
    compared: _Compared, comparisons: Sequence[Comparison], rng: np.random.Generator
) -> tuple[list[tuple[Points, Points]], dict[str, list[Column]]]:
    """Return samples and covariates from which the witness is computed: of many points, some."""
    shown = compared.shown
    columns = {
        column.name: [at_draw[number][index] for at_draw in compared.columns]
        for number, comparison in enumerate(comparisons)
        for index, column in enumerate(comparison.columns)
    }
    n = shown[0][0].n_points
    if n <= _WITNESS_POINTS:
        return shown, columns
    few = np.sort(rng.choice(n, _WITNESS_POINTS, replace=False))
    # Those that are the same for all draws stay the same.
    reduced = {id(one): one.at(few) for at_draws in columns.values() for one in at_draws}
    return (
        [(observed.at(few), replicated.at(few)) for observed, replicated in shown],
        {name: [reduced[id(one)] for one in own] for name, own in columns.items()},
    )


def _compared_by(comparisons: Sequence[Comparison]) -> str:
    """Say what observations are compared by, in one line."""
    told = []
    for comparison in comparisons:
        kind = comparison.name.partition(":")[0]
        names = ", ".join(column.name for column in comparison.columns)
        told.append(f"{kind}: {names}" if names else kind)
    return "; ".join(told)


def _compare(
    compared: _Compared,
    fitted: Fitted,
    data: np.ndarray,
    parts: Parts,
    how: Comparing,
    effort: Effort,
    rngs: Sequence[np.random.Generator],
    median_rng: np.random.Generator,
) -> None:
    """Compare observed and replicated data at all draws, a batch of them at a time."""
    density, given, comparisons = fitted.density, fitted.given, fitted.comparisons
    same = [
        None if comparison.changes else comparison.in_bandwidths(median_rng)
        for comparison in comparisons
    ]
    # Half a batch is to simulate, half to compare.
    with progress_bar(f"Checking {density.places.name}", len(given), effort.progressbar) as bar:
        residuals = _residuals(fitted, len(data), rngs[0])
        for batch in _batches(fitted, len(data)):
            changing: list[list[list[np.ndarray]]] = [[] for _ in comparisons]
            samples: list[tuple[Points, Points]] = []
            for values in batch:
                of_draw = next(residuals)
                is_known = density.same_data and samples
                observed = samples[0][0] if is_known else of_draw.of_data(data, rngs[1])
                replicated, outcomes = of_draw.replicated(rngs[1])
                samples.append((observed, replicated))
                compared.outcomes.add(outcomes)
                compared.alike = compared.alike and of_draw.alike
                columns = [comparison.at(values) for comparison in comparisons]
                if len(compared.columns) < _WITNESS_DRAWS:
                    compared.columns.append(columns)
                for own, comparison, found in zip(changing, comparisons, columns, strict=True):
                    if comparison.changes:
                        own.append(comparison.in_bandwidths_of(found, median_rng))
                bar.advance(0.5)
            if not compared.sums:
                compared.panel = _panel(density, how, samples[0][1].positions, median_rng)
            compared.shown += samples[: _WITNESS_DRAWS - len(compared.shown)]
            sums, rows = evaluate_conditional(
                compared.panel.everyone,
                [[parts.arranged(points) for points in pair] for pair in samples],
                [*_covariates(same, changing, parts)],
                effort,
                parts=parts.lengths,
                bar=Advancing(bar, 0.5 * len(batch)),
            )
            compared.sums.append(sums)
            compared.rows = compared.rows + rows


def _panel(
    density: FittedDensity, how: Comparing, positions: np.ndarray, rng: np.random.Generator
) -> Panel:
    """Return the kernels of residuals, from replicated ones: they must not look at the data."""
    panel = how.panel(OPERATORS[density.operator], positions, rng)
    check_slope(panel, positions)
    return panel


def _residuals(fitted: Fitted, n: int, rng: np.random.Generator) -> Iterator[Residuals]:
    """Give the way to residuals at every draw."""
    density, known = fitted.density, None
    for values in fitted.given:
        # Without free variables all draws are the same: so are centre and scale.
        if known is None or density.given:
            known = residuals_given(density, n, values, rng)
        yield known


def _batches(fitted: Fitted, n: int) -> Iterator[Sequence[Given]]:
    """Divide draws so that their samples can be held, and long work often moves the bar."""
    given, size = fitted.given, fitted.density.variable.unconstrained_size
    step = max(1, min(_NUMBERS // (8 * n * size), len(given)))
    if n * n * len(given) >= MOST_PAIRS:
        step = min(step, -(-len(given) // _BATCHES))
    for start in range(0, len(given), step):
        yield given[start : start + step]


def _covariates(
    same: Sequence[list[Any] | None], changing: Sequence[list[list[np.ndarray]]], parts: Parts
) -> Iterator[Any]:
    """Give covariates in every bandwidth of every comparison, as they are compared."""
    for fixed, own in zip(same, changing, strict=True):
        if fixed is not None:
            yield from map(parts.arranged, fixed)
        else:
            for width in range(len(own[0])):
                yield [parts.arranged(at_draw[width]) for at_draw in own]
