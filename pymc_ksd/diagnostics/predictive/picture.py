"""The picture of a check on the user's own data: along what speaks, with marks where it rejects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.bins import Bins, group_names
from pymc_ksd.diagnostics.predictive.comparisons import Comparison
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes
from pymc_ksd.diagnostics.predictive.parts import Parts
from pymc_ksd.diagnostics.predictive.views import (
    View,
    along_column,
    by_element,
    furthest_group,
    over_values,
    spread_within,
)
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.observed.names import as_written
from pymc_ksd.samples.covariates import Column
from pymc_ksd.stats.panel import in_deviations
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member

#: Observations that are named: how many of how many that contribute most, and how far apart, as a
#: share of the axes, so that their names can be read.
_NAMED, _CONSIDERED, _APART = 3, 30, 0.05
#: A single group is shown along numbers if it has more different ones.
_FEW = 5
#: Elements of vectors whose residuals are shown together at most.
_MOST_TOGETHER = 7
#: Draws whose replicated data observations are held against.
_DRAWS = 25


@dataclass(frozen=True)
class Speaking:
    """What exceeds its replicates most, and what it has been computed from.

    Attributes
    ----------
    member : Member
        The kernel of residuals.
    comparison : Comparison
        What observations are compared by.
    width : int
        Which of the bandwidths of covariates it is.
    contributions : ndarray of shape (n,)
        What every observation adds, on average over draws.
    samples : sequence of pairs of Points
        Residuals of observed and of replicated data, for some draws.
    columns : sequence of list of Column
        The covariates at these draws.
    parts : Parts
        Which observations are compared with which.
    rejects : bool
        Whether the check rejects.
    alike : bool
        Whether all observations have the same distribution.
    """

    member: Member
    comparison: Comparison
    width: int
    contributions: np.ndarray
    samples: Sequence[tuple[Points, Points]]
    columns: Sequence[list[Column]]
    parts: Parts
    rejects: bool
    alike: bool

    def replicated(self, rng: np.random.Generator) -> np.ndarray:
        """Return what observations add to the discrepancies of replicated data, (draws, n)."""
        fixed = self.comparison.in_bandwidths(rng)[self.width]
        found = []
        few = zip(self.samples[:_DRAWS], self.columns[:_DRAWS], strict=True)
        for (_, replicated), columns in few:
            covariates = fixed
            if self.comparison.changes:
                covariates = self.comparison.in_bandwidths_of(columns, rng)[self.width]
            _, rows = evaluate_conditional(
                [self.member],
                [[self.parts.arranged(replicated)]],
                [self.parts.arranged(covariates)],
                Effort(client=False),
                parts=self.parts.lengths,
            )
            found.append(self.parts.restored(rows[0].T)[0])
        return np.array(found) / self.parts.pairs

    def excess(self, chosen: Sequence[int], rng: np.random.Generator) -> float:
        """Return by how much observed data exceed replicated ones with some covariates alone."""
        every = self.comparison.columns
        own = replace(self.comparison, columns=[every[index] for index in chosen])
        width = min(self.width, len(own.widths) - 1)
        covariates: Any
        if own.changes:
            few = [[columns[index] for index in chosen] for columns in self.columns[:_DRAWS]]
            tables = [own.in_bandwidths_of(columns, rng)[width] for columns in few]
            covariates = [self.parts.arranged(table) for table in tables]
        else:
            covariates = self.parts.arranged(own.in_bandwidths(rng)[width])
        samples = [[self.parts.arranged(points) for points in pair] for pair in self.samples]
        sums, _ = evaluate_conditional(
            [self.member],
            samples[:_DRAWS],
            [covariates],
            Effort(client=False),
            parts=self.parts.lengths,
        )
        observed, replicated = sums[0, :, :, 0].T
        return float(in_deviations(observed, replicated, ddof=1).mean())

    def mean_columns(self) -> list[Column]:
        """Return the covariates, where they change with the draw on average."""
        if not self.comparison.changes:
            return self.comparison.columns
        tables = [[column.values for column in columns] for columns in self.columns]
        means = np.mean(tables, axis=0)
        return [
            Column(column.name, values, column.labels, column.names)
            for column, values in zip(self.comparison.columns, means, strict=True)
        ]


def picture(
    density: FittedDensity, speaking: Speaking, outcomes: Outcomes, rng: np.random.Generator
) -> xr.Dataset:
    """Return what a picture of the data shows along what speaks loudest.

    Parameters
    ----------
    density : FittedDensity
        The observed variable.
    speaking : Speaking
        What exceeds its replicates most.
    outcomes : Outcomes
        Observed and replicated outcomes.
    rng : numpy.random.Generator
        Picks observations for median distances.

    Returns
    -------
    xarray.Dataset
    """
    names = _element_names(density)
    if density.is_nominal:
        known, outcomes = outcomes.by_category()
        names = [f"share of {name} {one:g}" for name in names for one in known]
    if speaking.comparison.columns:
        view = _along(density, speaking, outcomes, names, rng)
    elif density.is_nominal:
        view = _by_category(names, outcomes, is_marked=speaking.rejects)
    else:
        view = max(_over_values(density, speaking, outcomes), key=lambda one: one.strength)
    return view.dataset()


def _along(
    density: FittedDensity,
    speaking: Speaking,
    outcomes: Outcomes,
    names: Sequence[str],
    rng: np.random.Generator,
) -> View:
    """Return the view along the covariate that shows the misfit most."""
    columns = speaking.mean_columns()
    kind = speaking.comparison.name.partition(":")[0]
    step_by_step = density.past is not None and kind == "inputs"
    if not speaking.rejects:
        # Without a misfit any will do.
        return along_column(columns[0], outcomes, names, None, step_by_step=step_by_step)
    added = (speaking.contributions, speaking.replicated(rng))
    found = list(_candidates(columns, added))
    best = 0
    if len(found) > 1:
        best = int(np.argmax([speaking.excess(one.compared_by, rng) for one in found]))
    chosen = found[best]
    inside = chosen.inside
    own = chosen.column.at(np.flatnonzero(inside))
    of_own = (added[0][inside], added[1][:, inside])
    few = outcomes.among(inside)
    view = along_column(own, few, names, of_own, step_by_step=step_by_step)
    places = _places_in(view, chosen.column)
    values = outcomes.observed[:, names.index(view.outcome)]
    named = _named(density.places, speaking, np.where(inside, places, np.nan), values)
    return replace(view, named=named, within=chosen.group)


@dataclass(frozen=True)
class _Candidate:
    """A covariate that may be shown.

    Attributes
    ----------
    column : Column
        The covariate.
    inside : ndarray of bool of shape (n,)
        Which observations are shown along it.
    compared_by : sequence of int
        By which of the covariates these are compared.
    group : str
        What group they are, if it is only one.
    """

    column: Column
    inside: np.ndarray
    compared_by: Sequence[int]
    group: str = ""


def _candidates(
    columns: Sequence[Column], added: tuple[np.ndarray, np.ndarray]
) -> Iterator[_Candidate]:
    """Give covariates to show; numbers within groups for the group that adds most."""
    everyone = np.ones(len(columns[0].values), dtype=bool)
    groups = [index for index, column in enumerate(columns) if column.labels]
    for index in groups or range(len(columns)):
        yield _Candidate(columns[index], everyone, [index])
    if not groups or len(groups) == len(columns):
        return
    group = columns[groups[0]]
    inside = furthest_group(group, *added)
    label = f"{group.name} {group_names(group.values[inside], group.names)[0]}"
    for index, column in enumerate(columns):
        if not column.labels and len(np.unique(column.values[inside])) > _FEW:
            own = replace(column, name=f"{column.name} in {label}")
            yield _Candidate(own, inside, [index, *groups], label)


def _places_in(view: View, column: Column) -> np.ndarray:
    """Return where every observation is in a view, NaN where it is not shown."""
    if not view.labels:
        return column.values
    at = {label: float(place) for place, label in zip(view.places, view.labels, strict=True)}
    groups = Bins.groups(column.values, column.names)
    own = np.array([at.get(label, np.nan) for label in groups.labels])
    return spread_within(own[groups.codes])


def _over_values(density: FittedDensity, speaking: Speaking, outcomes: Outcomes) -> Iterator[View]:
    """Give views of the distribution of outcomes, or of residuals where each has its own."""
    is_marked, quantity = speaking.rejects, density.quantity or density.places.name
    if outcomes.n_elements > 1:
        yield from _by_element(density, speaking, outcomes)
    if outcomes.n_elements == 1 and speaking.alike:
        places = outcomes.observed[:, 0]
        observed, replicated = outcomes.shown[None, :, 0], outcomes.replicated[:, :, 0]
        along, whole = quantity, outcomes.are_whole
    else:
        sizes = [[_size(points) for points in pair] for pair in speaking.samples]
        observed, replicated = np.array(sizes).transpose(1, 0, 2)
        places = observed.mean(axis=0)
        what = "residual" if density.variable.unconstrained_size == 1 else "length of the residual"
        along, whole = f"{what} of {quantity}, in predictive standard deviations", False
    view = over_values(along, observed, replicated, whole=whole, is_marked=is_marked)
    # Those among many others could not be told apart.
    rare = np.interp(places, view.places, view.expected[:, 1]) < 1
    single = np.where(rare, places, np.nan)
    named = _named(density.places, speaking, single, np.zeros_like(places)) if rare.any() else []
    yield replace(view, named=named)


def _by_category(names: Sequence[str], outcomes: Outcomes, *, is_marked: bool) -> View:
    """Return the view of how many outcomes are of which category."""
    what, observed, replicated = outcomes.totals()
    of = "number" if what == "total" else "share"
    labels = [name.removeprefix("share of ") for name in names]
    return by_element(
        "category", f"{of} of outcomes", labels, observed, replicated, is_marked=is_marked
    )


def _by_element(density: FittedDensity, speaking: Speaking, outcomes: Outcomes) -> Iterator[View]:
    """Give views of the elements of vectors: totals or means, and how residuals vary together."""
    name, labels = density.quantity or density.places.name, _labels(density)
    what, observed, replicated = outcomes.totals()
    of = f"element of {name}"
    yield by_element(
        of, f"{what} of {name}", labels, observed, replicated, is_marked=speaking.rejects
    )
    dim = density.variable.unconstrained_size
    if dim != len(labels) or dim > _MOST_TOGETHER:
        return
    first, second = np.triu_indices(dim, k=1)
    pairs = [f"{labels[i]} and {labels[j]}" for i, j in zip(first, second, strict=True)]
    moments = np.array(
        [[_second_moments(points) for points in pair] for pair in speaking.samples]
    )  # (draws, 2, dim, dim)
    for along, outcome, names, table in (
        (of, "mean square of residuals", labels, np.diagonal(moments, axis1=2, axis2=3)),
        (f"pair of elements of {name}", "mean product of residuals", pairs,
         moments[:, :, first, second]),
    ):  # fmt: skip
        yield by_element(
            along,
            outcome,
            names,
            table[:, 0].mean(axis=0),
            table[:, 1],
            is_marked=speaking.rejects,
        )


def _second_moments(points: Points) -> np.ndarray:
    moments: np.ndarray = points.positions.T @ points.positions / points.n_points
    return moments


def _size(points: Points) -> np.ndarray:
    """Return single residuals as they are, and the lengths of vectors."""
    positions = points.positions
    size: np.ndarray = positions[:, 0] if points.dim == 1 else np.linalg.norm(positions, axis=1)
    return size


def _named(
    places: Places, speaking: Speaking, x: np.ndarray, y: np.ndarray
) -> list[tuple[str, float, float]]:
    """Return observations that contribute most to a misfit, by their labels."""
    if not speaking.rejects:
        return []
    apart = [_APART * (np.nanmax(axis) - np.nanmin(axis)) for axis in (x, y)]
    named: list[int] = []
    size = np.where(np.isfinite(x), speaking.contributions, -np.inf)
    for one in np.argsort(-size, kind="stable")[:_CONSIDERED].tolist():
        near = [abs(x[one] - x[i]) <= apart[0] and abs(y[one] - y[i]) <= apart[1] for i in named]
        if size[one] > 0 and not any(near):
            named.append(one)
    return [(_label(places, i), float(x[i]), float(y[i])) for i in named[:_NAMED]]


def _label(places: Places, number: int) -> str:
    """Return what an observation is called: its labels, or its indices."""
    at = np.argwhere(places.numbers == number)[0]
    parts = [
        str(as_written(places.coords[dim][index]) if dim in places.coords else index)
        for dim, index in zip(places.dims, at, strict=True)
    ]
    return ", ".join(parts)


def _labels(density: FittedDensity) -> list[str]:
    """Return what the elements of an outcome are called."""
    variable = density.variable
    dims = variable.dims or ()
    known = [variable.coords.get(dim) for dim in dims] or [None] * len(variable.shape)
    return [
        ", ".join(
            str(index if labels is None else as_written(labels[index]))
            for index, labels in zip(position, known, strict=True)
        )
        for position in np.ndindex(*variable.shape)
    ]


def _element_names(density: FittedDensity) -> list[str]:
    name = density.quantity or density.places.name
    return [f"{name}[{label}]" if label else name for label in _labels(density)]
