"""Covariates of observations as columns of numbers, or of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_ksd.models.observed.fitted import FittedDensity
from pymc_ksd.models.observed.inputs import indexing_names, model_data
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.observed.names import column_names
from pymc_ksd.samples.containers import covariate_parts

#: Distance between different labels in bandwidths: they are not compared at all.
_LABEL_DISTANCE = 6.0


@dataclass(frozen=True)
class Column:
    """One covariate.

    Attributes
    ----------
    name : str
        What it is called in results.
    values : ndarray of shape (n,)
        A number for every observation.
    labels : bool
        Whether the numbers are labels of groups, without order.
    names : tuple of str
        What groups 0, 1, ... are called, where that is known.
    """

    name: str
    values: np.ndarray
    labels: bool = False
    names: tuple[str, ...] = ()

    def at(self, rows: np.ndarray) -> Column:
        """Return the column of some observations."""
        return replace(self, values=self.values[rows])

    def scaled(self) -> np.ndarray:
        """Return the column in units in which columns can be compared."""
        if self.labels:
            return _LABEL_DISTANCE * (self.values - self.values.min())
        # Sums in single precision would not tell apart what is far from zero.
        centred: np.ndarray = self.values - self.values.mean()
        return centred / (centred.std() or 1.0)


def columns_of_table(
    name: str | Sequence[str], values: Any, labels: bool = False, *, constant: bool = False
) -> list[Column]:
    """Return the columns of an array with one row for each observation.

    They have names of their own, or one in common. Those that do not vary are left out, unless
    `constant` ones are wanted too.
    """
    table = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    names = column_names(name, table.shape[1]) if isinstance(name, str) else name
    varies = np.ptp(table, axis=0) > 1e-12 * np.abs(table).max(axis=0, initial=0.0)
    return [
        Column(label, column, labels)
        for label, column, moves in zip(names, table.T, varies, strict=True)
        if moves or constant
    ]


def user_columns(model: pm.Model, covariates: Any, density: FittedDensity) -> list[Column]:
    """Return the columns that a user asked for.

    Parameters
    ----------
    model : pm.Model
        The model, whose data can be named.
    covariates : array_like, Series, DataFrame, Dataset, str or sequence of str
        The covariates.
    density : FittedDensity
        The observed variable.

    Returns
    -------
    list of Column
    """
    columns: list[Column] = []
    for key, values, is_name in covariate_parts(covariates):
        labels = is_name and key in indexing_names(density)
        found = model_data(model, key) if is_name else values
        columns += _read_column(key, found, labels, density.places)
    if not columns:
        raise ValueError("`covariates` must vary between observations, but none does.")
    return columns


def _read_column(key: str, values: Any, labels: bool, places: Places) -> list[Column]:
    if np.asarray(values).dtype.kind in "mM" or isinstance(
        getattr(values, "dtype", None), pd.DatetimeTZDtype | pd.PeriodDtype
    ):
        raise TypeError(
            f"`covariates` must hold numbers, or labels in a DataFrame, but {key!r} holds dates or "
            "times: give numbers, such as days since the first."
        )
    groups: tuple[str, ...] = ()
    if isinstance(values, pd.Series) and not pd.api.types.is_numeric_dtype(values):
        codes, known = pd.factorize(values, use_na_sentinel=False)
        array, labels, groups = codes.astype(np.float64), True, tuple(map(str, known))
    else:
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"`covariates` must hold numbers, or labels in a DataFrame, but {key!r} does not."
            ) from error
    if not np.isfinite(array).all():
        raise ValueError(
            f"`covariates` must be finite, but {np.count_nonzero(~np.isfinite(array))} value(s) of "
            f"{key!r} are not."
        )
    table = places.rows(array) if array.ndim else None
    if table is None and array.ndim in (1, 2) and len(array) == places.n:
        table = array.reshape(places.n, -1)
    if table is None:
        raise ValueError(
            f"`covariates` must have one row for each of the {places.n} observations of "
            f"{places.name!r}, but {key!r} has shape {array.shape}."
        )
    return [replace(column, names=groups) for column in columns_of_table(key, table, labels)]
