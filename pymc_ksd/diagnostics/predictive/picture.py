"""The picture of a check on the user's own data: along what speaks, with marks where it rejects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.bins import Bins
from pymc_ksd.diagnostics.predictive.comparisons import Comparison
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes
from pymc_ksd.diagnostics.predictive.parts import Parts
from pymc_ksd.diagnostics.predictive.views import (
    View,
    along_column,
    by_element,
    over_values,
    spread_within,
    with_names,
)
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.samples.covariates import Column
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member

#: Observations that are named, the ones that contribute most.
_NAMED = 3


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
        for (_, replicated), columns in zip(self.samples, self.columns, strict=True):
            covariates = fixed
            if self.comparison.changes:
                covariates = self.comparison.in_bandwidths_of(columns, rng)[self.width]
            _, rows = evaluate_conditional(
                [self.member],
                [[self.parts.arranged(replicated)]],
                [self.parts.arranged(covariates)],
                parts=self.parts.lengths,
            )
            found.append(self.parts.restored(rows[0].T)[0])
        return np.array(found) / self.parts.pairs

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
    if speaking.comparison.columns:
        view = _along(density, speaking, outcomes, names, rng)
    else:
        found = list(_over_values(density, speaking, outcomes))
        view, _ = max(found, key=lambda pair: pair[1])
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
    # Without a misfit any will do.
    columns = columns if speaking.rejects else columns[:1]
    both = (speaking.contributions, speaking.replicated(rng)) if speaking.rejects else None
    step_by_step = density.past is not None
    found = [
        (along_column(column, outcomes, names, both, step_by_step=step_by_step), column)
        for column in columns
    ]
    (view, _), column = max(found, key=lambda pair: pair[0][1])
    values = outcomes.observed[:, names.index(view.outcome)]
    places = column.values
    if view.labels:
        at = {label: float(place) for place, label in zip(view.places, view.labels, strict=True)}
        groups = Bins.groups(column.values, column.names)
        own = np.array([at.get(label, np.nan) for label in groups.labels])
        places = spread_within(own[groups.codes])
    return with_names(view, _named(density.places, speaking, places, values))


def _over_values(
    density: FittedDensity, speaking: Speaking, outcomes: Outcomes
) -> Iterator[tuple[View, float]]:
    """Give views of the distribution of outcomes, or of residuals where each has its own."""
    name, is_marked = density.places.name, speaking.rejects
    quantity = density.quantity or name
    if outcomes.n_elements > 1:
        yield by_element(quantity, outcomes, _labels(density), is_marked=is_marked)
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
    view, strength = over_values(along, observed, replicated, whole=whole, is_marked=is_marked)
    named = _named(density.places, speaking, places, np.zeros_like(places))
    yield with_names(view, named), strength


def _size(points: Points) -> np.ndarray:
    """Return single residuals as they are, and the lengths of vectors."""
    positions = points.positions
    size: np.ndarray = positions[:, 0] if points.dim == 1 else np.linalg.norm(positions, axis=1)
    return size


def _named(
    places: Places, speaking: Speaking, x: np.ndarray, y: np.ndarray
) -> list[tuple[str, float, float]]:
    """Return the observations that contribute most to a misfit, by their labels."""
    worst = np.argsort(-speaking.contributions, kind="stable")[:_NAMED]
    if not speaking.rejects:
        return []
    return [
        (_label(places, int(one)), float(x[one]), float(y[one]))
        for one in worst
        if speaking.contributions[one] > 0 and np.isfinite(x[one])
    ]


def _label(places: Places, number: int) -> str:
    """Return what an observation is called: its labels, or its indices."""
    at = np.argwhere(places.numbers == number)[0]
    parts = [
        str(places.coords[dim][index] if dim in places.coords else index)
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
            str(index if labels is None else labels[index])
            for index, labels in zip(position, known, strict=True)
        )
        for position in np.ndindex(*variable.shape)
    ]


def _element_names(density: FittedDensity) -> list[str]:
    name = density.quantity or density.places.name
    return [f"{name}[{label}]" if label else name for label in _labels(density)]
