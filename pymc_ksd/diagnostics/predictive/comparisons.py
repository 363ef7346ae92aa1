r"""What observations of a fitted model are compared by, beside their residuals.

A kernel :math:`\exp(-\|c - c'\|^2 / 2)` of covariates lets the discrepancy see residuals that
depend on them. Its bandwidth is short, a third of the median distance: residuals have mean zero
over all observations, so only a local comparison shows where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.inputs import inputs_of
from pymc_ksd.samples.covariates import Column, columns_of_table, user_columns
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stein.bandwidths import median_distance

#: Bandwidth of the kernel in median distances between observations.
_SHORT = 1 / 3
#: Points for the median distance between covariates, and between those that change with the draw.
_MANY_POINTS, _FEW_POINTS = 1_000, 300
#: Most columns that are compared by together, and at all unless a user asks for them.
_MOST_TOGETHER, _MOST = 3, 12


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

    def at(self, given: Given) -> list[Column]:
        """Return the covariates at a draw."""
        return self.columns if self.of_draw is None else self.of_draw(given)

    def in_bandwidths(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return covariates that are the same for all draws in bandwidths, None without any."""
        return in_bandwidths(self.columns, rng) if self.columns and not self.changes else None

    def in_bandwidths_at(
        self, given: Sequence[Given], rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Return covariates that change with the draw in bandwidths, for each of some draws."""
        return [in_bandwidths(self.at(values), rng, _FEW_POINTS) for values in given]


def in_bandwidths(
    columns: Sequence[Column], rng: np.random.Generator, most_points: int = _MANY_POINTS
) -> np.ndarray:
    """Return columns in bandwidths of their common kernel, shape (n, columns)."""
    numbers = [column.scaled() for column in columns if not column.labels]
    labels = [column.scaled() for column in columns if column.labels]
    if numbers:
        table = np.stack(numbers, axis=1)
        numbers = list((table / (_SHORT * median_distance(table, rng, most_points))).T)
    return np.stack([*numbers, *labels], axis=1)


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
        With ``"auto"``, the inputs in the variable's graph and its distribution's parameters.

    Returns
    -------
    list of Comparison
    """
    found = [Comparison("residuals", [])]
    name = density.places.name
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
        return found + _grouped("covariates", columns, len(columns))
    inputs = _input_columns(density)
    columns = _parameter_columns(density, given)
    if len(columns) == len(inputs) == 1 and not inputs[0].labels:
        # Where the parameter is a straight line in the only input, it is the same comparison.
        correlation = np.corrcoef(columns[0].values, inputs[0].values)[0, 1]
        columns = columns if abs(correlation) < 1 - 1e-9 else []
    parameters = [
        replace(comparison, of_draw=_at_draws(density, [c.name for c in comparison.columns]))
        for comparison in _grouped("parameters", columns)
    ]
    return found + parameters + _grouped("inputs", inputs)


def _input_columns(density: FittedDensity) -> list[Column]:
    """Return the inputs in the variable's graph, without repetitions."""
    different: dict[bytes, Column] = {}
    for name, table, labels in inputs_of(density):
        for column in columns_of_table(name, table, labels):
            different.setdefault(column.values.tobytes(), column)
    return list(different.values())


def _parameter_columns(density: FittedDensity, given: Sequence[Given]) -> list[Column]:
    """Return the parameters that vary between observations, at one of the draws each."""
    found: dict[str, Column] = {}
    for draw in (0, len(given) // 2, len(given) - 1):
        for name, table in density.parameters(*given[draw]).items():
            for column in columns_of_table(name, table):
                found.setdefault(column.name, column)
    return list(found.values())


def _at_draws(density: FittedDensity, names: Sequence[str]) -> Callable[[Given], list[Column]]:
    """Return a function for parameters at any draw.

    They are those of the draw and not their posterior mean, which has seen the observations.
    """

    def of_draw(values: Given) -> list[Column]:
        columns = {}
        for name, table in density.parameters(*values).items():
            for column in columns_of_table(name, table, constant=True):
                columns[column.name] = column
        return [columns[name] for name in names]

    return of_draw


def _grouped(name: str, columns: list[Column], most: int = _MOST) -> list[Comparison]:
    """Compare by a few columns together, by many one by one, by very many not at all."""
    if not columns or len(columns) > most:
        return []
    if len(columns) <= _MOST_TOGETHER:
        return [Comparison(name, columns)]
    return [Comparison(f"{name}: {column.name}", [column]) for column in columns]
