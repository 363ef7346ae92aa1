"""What a picture of a predictive check shows: outcomes, what the model expects, and marks.

A view has the user's own data on its vertical axis and on the other what speaks: a covariate,
groups, values of the outcome (how many observations have which), or the elements of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.bins import Bins
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes
from pymc_ksd.diagnostics.predictive.where import Disagreement, Mark, directions, stretches
from pymc_ksd.samples.covariates import Column

#: What the model expects is told by these quantiles of replicated data.
QUANTILES = (0.025, 0.5, 0.975)
#: Places at most, and observations for each at least: of outcomes, and of shares of ones.
_PLACES, _SHARES, _EACH, _EACH_SHARE = 40, 15, 8, 20
#: So few different places have each their own, whatever the number of observations.
_FEW_PLACES = 25
#: Places that are held against replicates at most, and observations for each at least.
_COMPARED, _EACH_COMPARED = 30, 10
#: Groups or elements that are shown at most.
_GROUPS = 25
#: Elements of vectors that are looked at, those whose means are furthest off.
_ELEMENTS = 50
#: Bins of values, and by what share of the expected range they go further out.
_VALUES, _MARGIN = 24, 0.15
#: The least spread of numbers of observations: where none are expected two are too many.
_LEAST_COUNT = 0.5
#: How wide dots of a group are spread, and the step that spreads them evenly.
_SPREAD, _GOLDEN = 0.5, 0.618
_NO_DOTS = np.empty((0, 2))


@dataclass(frozen=True)
class View:
    """One picture.

    Attributes
    ----------
    kind : str
        "covariate", "groups", "values" or "elements".
    along, outcome : str
        What the axes show.
    dots : ndarray of shape (dots, 2)
        Observations.
    places : ndarray of shape (places,)
        Where expectations are told.
    expected : ndarray of shape (places, 3)
        The quantiles of what the model expects there.
    observed : ndarray of shape (places,)
        What the data come to there: shares, numbers of observations or means; or NaN.
    labels : tuple of str
        What places are called, if they are groups or elements.
    marks : sequence of Mark
        Where data and model disagree.
    strength : float
        How far the furthest place is off, in thresholds; 0 where places are not compared.
    named : sequence of (str, float, float)
        Observations that contribute most, and where they are.
    within : str
        The group that is shown, if it is only one.
    """

    kind: str
    along: str
    outcome: str
    dots: np.ndarray
    places: np.ndarray
    expected: np.ndarray
    observed: np.ndarray
    labels: tuple[str, ...] = ()
    marks: Sequence[Mark] = ()
    strength: float = 0.0
    named: Sequence[tuple[str, float, float]] = ()
    within: str = ""

    def dataset(self) -> xr.Dataset:
        """Return the picture as results hold it, every dim at least one long."""
        start, stop, words = _columns([(one.start, one.stop, one.word) for one in self.marks])
        names, at, height = _columns(self.named, text=0)
        x, y = _columns(self.dots.tolist() or [(np.nan, np.nan)])
        labels = self.labels or ("",) * len(self.places)
        fields: dict[str, Any] = {
            "picture_kind": ((), self.kind),
            "picture_along": ((), self.along),
            "picture_strength": ((), self.strength),
            "picture_outcome": ((), self.outcome),
            "picture_within": ((), self.within),
            "picture_x": (("picture_dot",), x),
            "picture_y": (("picture_dot",), y),
            "picture_at": (("picture_place",), self.places),
            "picture_expected": (("picture_place", "picture_quantile"), self.expected),
            "picture_observed": (("picture_place",), self.observed),
            "picture_label": (("picture_place",), np.array(labels, dtype=str)),
            "picture_name": (("picture_named",), names),
            "picture_name_x": (("picture_named",), at),
            "picture_name_y": (("picture_named",), height),
            "marked_from": (("marked",), start),
            "marked_to": (("marked",), stop),
            "marked_as": (("marked",), words),
        }
        picture = xr.Dataset(fields, coords={"picture_quantile": list(QUANTILES)})
        # With numbers for labels results of several variables can be of different lengths.
        sizes = {dim: n for dim, n in picture.sizes.items() if dim != "picture_quantile"}
        return picture.assign_coords({dim: np.arange(n) for dim, n in sizes.items()})


def _columns(rows: Sequence[Any], text: int = 2) -> list[np.ndarray]:
    """Return the columns of rows, one of which is text; without rows one of nothing."""
    if not len(rows):
        rows = [tuple("" if index == text else np.nan for index in range(3))]
    return [np.array(column) for column in zip(*rows, strict=True)]


def along_column(
    column: Column,
    outcomes: Outcomes,
    names: Sequence[str],
    contributions: tuple[np.ndarray, np.ndarray] | None,
    *,
    step_by_step: bool,
) -> View:
    """Return outcomes along a covariate or by groups.

    Parameters
    ----------
    column : Column
        The covariate.
    outcomes : Outcomes
        Observed and replicated outcomes.
    names : sequence of str
        What the elements of an outcome are called.
    contributions : tuple of ndarray, optional
        What every observation adds to the discrepancy of the data, and of replicated data, shapes
        (n,) and (draws, n). Without it nothing is marked.
    step_by_step : bool
        Whether observations depend on those before them, and so do expectations.
    """
    bins = _bins(column, len(column.values))
    found, marked = None, np.zeros(bins.count, dtype=bool)
    if contributions is not None:
        observed, replicated = (bins.of_neighbours(bins.sums(part)) for part in contributions)
        found = Disagreement.of(observed, replicated)
        marked = found.marked()
    shown, outcomes, marked = _fewer(bins.at(outcomes.rows), outcomes, found, marked)
    element, words = _loudest(shown, outcomes, marked)
    marks = stretches(shown, marked, words)
    values = outcomes.shown[:, element]
    at_most = _SHARES if outcomes.are_binary else _PLACES
    each = _EACH_SHARE if outcomes.are_binary else _EACH
    if not shown.labels:
        count = max(3, min(len(values) // each, at_most))
        n_places = len(np.unique(column.values[outcomes.rows]))
        if not outcomes.are_binary and (step_by_step or n_places <= _FEW_PLACES):
            count = n_places
        shown = Bins.along(column.values[outcomes.rows], count)
    at, expected, share = _expected(shown, outcomes, element)
    places = spread_within(shown.values) if shown.labels else shown.values
    return View(
        kind="groups" if shown.labels else "covariate",
        along=column.name,
        outcome=names[element],
        dots=np.column_stack([places, values]),
        places=at,
        expected=expected,
        observed=share,
        labels=shown.labels,
        marks=marks,
        strength=0.0 if found is None else found.strength,
    )


def _bins(column: Column, n: int) -> Bins:
    if column.labels or len(np.unique(column.values)) == 2:
        return Bins.groups(column.values, column.names)
    return Bins.along(column.values, max(3, min(n // _EACH_COMPARED, _COMPARED)))


def _fewer(
    bins: Bins, outcomes: Outcomes, found: Disagreement | None, marked: np.ndarray
) -> tuple[Bins, Outcomes, np.ndarray]:
    """Keep the groups that are furthest off if there are too many to show."""
    if not bins.labels or bins.count <= _GROUPS:
        return bins, outcomes, marked
    order = np.arange(bins.count) if found is None else np.argsort(-found.excess, kind="stable")
    kept = np.sort(order[:_GROUPS])
    few, inside = bins.only(kept)
    drawn = [part[inside] for part in outcomes.drawn]
    return few, Outcomes(outcomes.rows[inside], outcomes.observed, drawn), marked[kept]


def furthest_group(column: Column, observed: np.ndarray, replicated: np.ndarray) -> np.ndarray:
    """Tell which observations are in the group that adds most to the discrepancy."""
    bins = Bins.groups(column.values, column.names)
    found = Disagreement.of(bins.sums(observed), bins.sums(replicated))
    inside: np.ndarray = bins.codes == int(np.argmax(found.excess))
    return inside


def _loudest(bins: Bins, outcomes: Outcomes, marked: np.ndarray) -> tuple[int, list[str]]:
    """Return the element that is shifted most where it is marked, and what it is in every bin."""
    where = marked if marked.any() else np.ones_like(marked)
    best, loudest = (0, [""] * bins.count), -1.0
    for element in outcomes.furthest(_ELEMENTS):
        words, shift = directions(bins, outcomes, element)
        if (size := float(np.abs(shift[where]).max())) > loudest:
            best, loudest = (element, words), size
    return best


def _expected(
    bins: Bins, outcomes: Outcomes, element: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places, quantiles of what the model expects there, and observed shares of ones."""
    replicated = outcomes.replicated[:, :, element]
    if outcomes.are_binary:
        shares = np.quantile(bins.means(replicated), QUANTILES, axis=0).T
        return bins.places, shares, bins.means(outcomes.shown[:, element])
    medians = np.median(replicated, axis=0)
    rows, slopes = np.full((bins.count, len(QUANTILES)), np.nan), np.zeros(bins.count)
    for index in np.unique(bins.codes):
        inside = bins.codes == index
        distance = bins.values[inside] - bins.places[index]
        if np.ptp(distance) > 0:
            # Where expectations rise steeply a bin would look wider than it is.
            slopes[index] = np.polyfit(distance, medians[inside], 1)[0]
        rows[index] = np.quantile(replicated[:, inside] - slopes[index] * distance, QUANTILES)
    places = bins.places
    possible = replicated.min(), replicated.max()
    if not bins.labels:
        # From the first observation to the last.
        ends = np.array([bins.values.min(), bins.values.max()])
        first, last = rows[[0, -1]] + (slopes[[0, -1]] * (ends - places[[0, -1]]))[:, None]
        rows, places = np.vstack([first, rows, last]), np.concatenate([ends[:1], places, ends[1:]])
    return places, np.clip(rows, *possible), np.full(len(places), np.nan)


def over_values(
    name: str, observed: np.ndarray, replicated: np.ndarray, *, whole: bool, is_marked: bool
) -> View:
    """Return how many observations have which value.

    Parameters
    ----------
    name : str
        What the values are.
    observed, replicated : ndarray of shape (draws, n)
        The values of observed and of replicated data.
    whole : bool
        Whether they are whole numbers.
    is_marked : bool
        Whether the check rejects.
    """
    bins = _bins_of_values(observed, replicated, whole=whole)
    counts = _counts(bins, replicated)
    mean = _counts(bins, observed).mean(axis=0)
    found = Disagreement.of(mean, counts, both_sides=True, least=_LEAST_COUNT)
    words = np.where(found.excess > 0, "more", "fewer").tolist()
    marked = found.marked(both_sides=True) & is_marked
    return View(
        kind="values",
        along=name,
        outcome="number of observations",
        dots=_NO_DOTS,
        places=bins.places,
        expected=np.quantile(counts, QUANTILES, axis=0).T,
        observed=mean,
        labels=bins.labels,
        marks=stretches(bins, marked, words),
        strength=found.strength,
    )


def _bins_of_values(observed: np.ndarray, replicated: np.ndarray, *, whole: bool) -> Bins:
    """Return bins of equal width over what is expected and a little more.

    The first goes from the smallest value of all, the last to the largest.
    """
    low, high = np.quantile(replicated, [0.001, 0.999])
    margin = _MARGIN * (high - low) or 1.0
    low = max(low - margin, min(observed.min(), low))
    high = min(high + margin, max(observed.max(), high))
    least, most = min(observed.min(), replicated.min()), max(observed.max(), replicated.max())
    labels: list[str] = []
    nothing = np.empty(0)
    if whole:
        step = max(1, int(np.ceil((high - low + 1) / _VALUES)))
        first = np.floor(low) + step * np.arange(int((high - np.floor(low)) // step) + 1)
        edges = np.append(first, first[-1] + step) - 0.5
        labels = [f"{one:g}–{one + step - 1:g}" if step > 1 else f"{one:g}" for one in first]
        least, most = least - 0.5, most + 0.5
        if least < edges[0]:
            labels[0] = f"{first[0] + step - 1:g} or less"
        if most > edges[-1]:
            labels[-1] = f"{first[-1]:g} or more"
    else:
        edges = np.linspace(low, high, _VALUES + 1)
    places = (edges[1:] + edges[:-1]) / 2
    edges[[0, -1]] = min(least, edges[0]), max(most, edges[-1])
    return Bins(nothing, nothing.astype(int), places, edges, tuple(labels))


def _counts(bins: Bins, values: np.ndarray) -> np.ndarray:
    """Return how many values are in every bin, those beyond in the last, shape (draws, bins)."""
    codes = np.searchsorted(bins.edges[1:-1], values, side="right")
    return np.array([np.bincount(row, minlength=bins.count) for row in codes], dtype=float)


def by_element(
    along: str,
    outcome: str,
    labels: Sequence[str],
    observed: np.ndarray,
    replicated: np.ndarray,
    *,
    is_marked: bool,
) -> View:
    """Return numbers of the elements of a vector, or of pairs of them.

    Parameters
    ----------
    along, outcome : str
        What elements are, and what the numbers are.
    labels : sequence of str
        What each is called.
    observed, replicated : ndarray of shape (elements,), (draws, elements)
        The numbers.
    is_marked : bool
        Whether the check rejects.
    """
    found = Disagreement.of(observed, replicated, both_sides=True)
    kept = np.sort(np.argsort(-np.abs(found.excess), kind="stable")[:_GROUPS])
    bins = Bins.beside(np.arange(len(kept)), [labels[one] for one in kept])
    words = np.where(found.excess > 0, "larger", "smaller")[kept].tolist()
    marked = found.marked(both_sides=True)[kept] & is_marked
    return View(
        kind="elements",
        along=along,
        outcome=outcome,
        dots=_NO_DOTS,
        places=bins.places,
        expected=np.quantile(replicated[:, kept], QUANTILES, axis=0).T,
        observed=observed[kept],
        labels=bins.labels,
        marks=stretches(bins, marked, words),
        strength=found.strength,
    )


def spread_within(places: np.ndarray) -> np.ndarray:
    """Return places of observations in groups side by side, so that they can be told apart."""
    spread: np.ndarray = places + _SPREAD * (np.arange(len(places)) * _GOLDEN % 1 - 0.5)
    return spread
