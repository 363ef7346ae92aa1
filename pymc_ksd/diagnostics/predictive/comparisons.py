r"""What observations of a fitted model are compared by, beside their residuals.

A kernel :math:`\exp(-\|c - c'\|^2 / 2 h^2)` of covariates lets the discrepancy see residuals that
depend on them. Residuals have mean zero over all observations, so only a local comparison shows
where they do not: h is a third of the median distance between observations, and, for what changes
slowly, the median itself. Groups are compared each with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.inputs import inputs_of
from pymc_ksd.models.observed.names import as_written, column_names
from pymc_ksd.models.observed.names import different as numbered
from pymc_ksd.samples.covariates import Column, columns_of_table, user_columns
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stein.bandwidths import median_distance

#: What the comparison without covariates is called.
RESIDUALS = "residuals"
#: Bandwidths of the kernel in median distances between observations, the shortest first.
WIDTHS = (1 / 3, 1.0)
#: Points for the median distance between covariates, and between those that change with the draw.
_MANY_POINTS, _FEW_POINTS = 1_000, 300
#: Most columns that are compared by together, and at all unless a user asks for them.
_MOST_TOGETHER, _MOST = 3, 12

#: A function of the free variables at a draw for numbers by name, shape (n, columns) each.
Tables = Callable[..., dict[str, np.ndarray]]


@dataclass(frozen=True)
class Comparison:
    """Covariates by which observations are compared together; none to compare all with all.

    Attributes
    ----------
    name : str
        What it is called in results.
    columns : list of Column
        The covariates, or, where they change with the draw, those of one of them.
    of_draw : callable, optional
        Returns the columns, in the same order, for the values of the free variables at a draw.
    """

    name: str
    columns: list[Column]
    of_draw: Callable[[Given], list[Column]] | None = None

    @property
    def changes(self) -> bool:
        """Whether the covariates are different at every draw."""
        return self.of_draw is not None

    @property
    def widths(self) -> tuple[float, ...]:
        """The bandwidths in median distances, NaN where only the same group is compared."""
        numbers = [column for column in self.columns if not column.labels]
        if not numbers:
            return (np.nan,)
        # Within groups there are few observations: then the longer one is local enough.
        return WIDTHS if len(numbers) == len(self.columns) else WIDTHS[-1:]

    def at(self, given: Given) -> list[Column]:
        """Return the covariates at a draw."""
        return self.columns if self.of_draw is None else self.of_draw(given)

    def in_bandwidths(self, rng: np.random.Generator) -> list[np.ndarray | None]:
        """Return covariates that are the same for all draws in each bandwidth, None without any."""
        return [*in_bandwidths(self.columns, rng, self.widths)] if self.columns else [None]

    def in_bandwidths_of(
        self, columns: Sequence[Column], rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Return the columns of one draw in each bandwidth."""
        return in_bandwidths(columns, rng, self.widths, _FEW_POINTS)


def in_bandwidths(
    columns: Sequence[Column],
    rng: np.random.Generator,
    widths: Sequence[float] = WIDTHS[:1],
    most_points: int = _MANY_POINTS,
) -> list[np.ndarray]:
    """Return columns in each of several bandwidths of their common kernel, shape (n, columns)."""
    numbers = [column.scaled() for column in columns if not column.labels]
    labels = [column.scaled() for column in columns if column.labels]
    if not numbers:
        return [np.stack(labels, axis=1)]
    table = np.stack(numbers, axis=1)
    median = median_distance(table, rng, most_points)
    return [np.stack([*(table / (width * median)).T, *labels], axis=1) for width in widths]


def find_comparisons(
    model: pm.Model, density: FittedDensity, given: Sequence[Given], covariates: Any
) -> list[Comparison]:
    """Return what observations are compared by: always nothing first, then covariates.

    Parameters
    ----------
    model : pm.Model
        The model.
    density : FittedDensity
        The observed variable.
    given : sequence of tuple of ndarray
        Draws of the free variables.
    covariates : "auto", None, or anything that :func:`user_columns` reads
        With ``"auto"``, the inputs in the variable's graph and its distribution's parameters; of a
        path also time and past.

    Returns
    -------
    list of Comparison
    """
    found = [Comparison(RESIDUALS, [])]
    name = density.source
    if isinstance(covariates, Mapping) and not isinstance(covariates, xr.Dataset):
        if name not in covariates:
            raise ValueError(
                f"`covariates` must have an entry for the observed variable {name!r}, got "
                f"{', '.join(map(str, covariates))}."
            )
        covariates = covariates[name]
    if covariates is None:
        return found
    if not (isinstance(covariates, str) and covariates == "auto"):
        columns = user_columns(model, covariates, density)
        return found + _of_numbers_and_groups("covariates", columns, len(columns))
    inputs = input_columns(model, density)
    columns = _columns_of_draws(density, density.parameters, given)
    if not density.given and density.past is None and 0 < len(inputs) <= _MOST_TOGETHER:
        # They are known functions of the inputs, which are compared together.
        columns = []
    elif density.operator == "birth_death":
        # Numbers of trials are compared by as parameters; they explain nothing that inputs do.
        inputs = [one for one in inputs if not _is_among(one, columns)] or inputs
    if len(columns) == len(inputs) == 1 and not inputs[0].labels:
        # Where the parameter is a straight line in the only input, it is the same comparison.
        correlation = np.corrcoef(columns[0].values, inputs[0].values)[0, 1]
        columns = columns if abs(correlation) < 1 - 1e-9 else []
    parameters = [
        _at_draws(density, density.parameters, one) for one in _grouped("parameters", columns)
    ]
    return found + parameters + _past(density, given) + _of_numbers_and_groups("inputs", inputs)


def input_columns(model: pm.Model, density: FittedDensity) -> list[Column]:
    """Return inputs in the variable's graph and places along a path, by different names."""
    columns = _different([*inputs_of(model, density), *density.along])
    if len(columns) > _MOST and density.along:
        # Matrices, such as one of distances, would be too many columns to compare by.
        columns = _different(density.along)
    names = numbered(column.name for column in columns)
    return [
        replace(column, name=name, names=_group_names(model, column))
        for column, name in zip(columns, names, strict=True)
    ]


def _is_among(column: Column, others: Iterable[Column]) -> bool:
    """Whether one of the other columns has the same numbers."""
    return any(np.array_equal(column.values, other.values) for other in others)


def _group_names(model: pm.Model, column: Column) -> tuple[str, ...]:
    """Return the labels of the dim that a column of groups is an index of."""
    labels = (model.coords.get(column.name) or ()) if column.labels else ()
    names = tuple(str(as_written(label)) for label in labels)
    return names if column.values.max() < len(names) and column.values.min() >= 0 else ()


def _different(tables: Iterable[tuple[str | Sequence[str], np.ndarray, bool]]) -> list[Column]:
    """Return the columns of tables without repetitions."""
    different: dict[bytes, Column] = {}
    for names, table, labels in tables:
        for column in columns_of_table(names, table, labels):
            different.setdefault(column.values.tobytes(), column)
    return list(different.values())


def _past(density: FittedDensity, given: Sequence[Given]) -> list[Comparison]:
    """Compare the steps of a path by each of those before them."""
    if density.past is None:
        return []
    columns = _columns_of_draws(density, density.past, given)
    found = []
    for name in density.past(*given[0]):
        own = [column for column in columns if column.name.partition("[")[0] == name]
        steps = _grouped("past" if len(own) > _MOST_TOGETHER else f"past: {name}", own)
        found += [_at_draws(density, density.past, one) for one in steps]
    return found


def _columns_of_draws(
    density: FittedDensity, tables: Tables, given: Sequence[Given]
) -> list[Column]:
    """Return the columns that vary between observations, at one of the draws each."""
    found: dict[str, Column] = {}
    for draw in (0, len(given) // 2, len(given) - 1):
        for column in _columns_at(density, tables, given[draw]):
            found.setdefault(column.name, column)
    return list(found.values())


def _columns_at(
    density: FittedDensity, tables: Tables, values: Given, *, constant: bool = False
) -> Iterator[Column]:
    """Walk the columns at a draw, with labels of the outcome's own elements where they fit."""
    dims = density.variable.dims or ()
    labels = density.variable.coords.get(dims[0]) if len(dims) == 1 else None
    for name, table in tables(*values).items():
        names = column_names(name, table.shape[1], labels)
        yield from columns_of_table(names, table, constant=constant)


def _at_draws(density: FittedDensity, tables: Tables, comparison: Comparison) -> Comparison:
    """Return the comparison with columns of every draw, if draws differ.

    They are those of the draw and not their posterior mean, which has seen the observations.
    """
    if not density.given:
        return comparison

    def of_draw(values: Given) -> list[Column]:
        columns = {c.name: c for c in _columns_at(density, tables, values, constant=True)}
        return [columns[column.name] for column in comparison.columns]

    return replace(comparison, of_draw=of_draw)


def _of_numbers_and_groups(
    name: str, columns: Sequence[Column], most: int = _MOST
) -> list[Comparison]:
    """Compare by numbers, by each column of groups, and by numbers within groups."""
    numbers = [column for column in columns if not column.labels]
    groups = [column for column in columns if column.labels]
    found = _grouped(name, numbers, most)
    if len(groups) <= most:
        names = ["groups"] if len(groups) == 1 else [f"groups: {one.name}" for one in groups]
        found += [Comparison(own, [one]) for own, one in zip(names, groups, strict=True)]
    if len(groups) == 1 and 0 < len(numbers) <= _MOST_TOGETHER:
        found.append(Comparison(f"{name} within groups", [*numbers, *groups]))
    return found


def _grouped(name: str, columns: list[Column], most: int = _MOST) -> list[Comparison]:
    """Compare by a few columns together, by many one by one, by very many not at all."""
    if not columns or len(columns) > most:
        return []
    if len(columns) <= _MOST_TOGETHER:
        return [Comparison(name, columns)]
    return [Comparison(f"{name}: {column.name}", [column]) for column in columns]
