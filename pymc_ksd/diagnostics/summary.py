"""ArviZ's summary table with corrected means, and by how much the draws' own are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.moments import ksd_moments
from pymc_ksd.diagnostics.results import elements, moments_name
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.samples.containers import check_draws, draws_group, with_numbers

#: Columns that are added.
COLUMNS = ("stein_mean", "stein_mcse", "bias_mean", "bias_sd", "p_value")
#: The dim of these while they are put together, which no variable has.
_COLUMN = "_column"
#: Decimals of numbers, unless the user says otherwise, and significant digits of standard errors.
_DECIMALS, _DIGITS = 3, 2
#: The part of a standard deviation beyond which no mean is shown more exactly.
_FINEST = 1e-4


def ksd_summary(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    order: str | int = "auto",
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **summary_kwargs: Any,
) -> pd.DataFrame:
    """Return ArviZ's summary table with corrected means and the biases of the draws.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    var_names : str or sequence of str, optional
        Rows to show, as in ``az.summary``: by default the model's free variables; any other
        variable of the draws may be named. P-values are adjusted for the number of rows.
    order : {"auto", 1, 2}, default "auto"
        See :func:`ksd_moments`.
    progressbar : bool, default True
        Show a progress bar when scoring takes long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.
    **summary_kwargs
        Passed to ``az.summary``; `round_to` applies to the added columns, too.

    Returns
    -------
    pandas.DataFrame
        A row for each scalar, with ArviZ's columns and

        - ``stein_mean`` and ``stein_mcse``: the corrected mean and its standard error, NaN where
          the correction cannot be relied on,
        - ``bias_mean``: by how many posterior standard deviations the draws' mean is too high,
        - ``bias_sd``: by what fraction their standard deviation is too large,
        - ``p_value``: the smaller of the p-values of the two, adjusted for everything that is
          shown.

        :func:`ksd_moments` returns more, including whether the draws can tell at all.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> values = np.random.default_rng(0).normal(0.3, 1, size=(4, 250))  # wrong mean
    >>> draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    >>> table = pm.ksd_summary(model, draws)
    >>> bool(table.loc["mu", "bias_mean"] > 0.2)
    True
    >>> bool(table.loc["mu", "p_value"] < 0.01)
    True
    """
    if summary_kwargs.get("fmt", "wide") != "wide":
        raise ValueError(f"`fmt` must be 'wide', got {summary_kwargs['fmt']!r}.")
    if summary_kwargs.get("group", "posterior") not in ("posterior", None):
        raise ValueError(f"`group` must be 'posterior', got {summary_kwargs['group']!r}.")
    check_draws(data, "data")
    names = _shown(data, var_names, summary_kwargs.pop("filter_vars", None))
    moments = ksd_moments(
        model,
        data,
        var_names=names,
        order=order,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
        client=client,
    )
    return with_moments(moments, data, names, **summary_kwargs)


def with_moments(
    moments: xr.Dataset,
    data: Any,
    names: Sequence[str] | None = None,
    **summary_kwargs: Any,
) -> pd.DataFrame:
    """Add what :func:`ksd_moments` found to ArviZ's summary of the same draws."""
    import arviz as az

    posterior = draws_group(data)
    assert posterior is not None  # `ksd_moments` has read it
    if isinstance(data, xr.DataArray):
        # Of the only variable, whatever the array is called.
        (name,) = (name for name in moments if "diagnostic" in moments[name].dims)
        posterior = posterior.rename({next(iter(posterior.data_vars)): name})
    if names is None:
        names = [name for name in posterior if _of(moments, name) is not None]
    posterior = posterior[list(names)]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Elements that never vary, such as data that are not missing, have no R-hat.
        table = az.summary(posterior, **summary_kwargs)
    coords = summary_kwargs.get("coords") or {}
    shown = {dim: labels for dim, labels in coords.items() if dim in posterior.dims}
    rows = _by_label(_numbers(moments, posterior).sel(shown), summary_kwargs.get("labeller"))
    added = [rows[label].pop(0) for label in table.index]
    round_to = summary_kwargs.get("round_to")
    table[list(COLUMNS)] = np.array([_rounded(sd, row, round_to) for sd, *row in added])
    return table


def _shown(
    data: Any, var_names: str | Sequence[str] | None, filter_vars: str | None
) -> Sequence[str] | None:
    """Return the variables that ArviZ would show, None for the model's free variables."""
    import arviz as az

    names = [var_names] if isinstance(var_names, str) else var_names
    posterior = draws_group(data)
    if names is None or posterior is None:
        return names
    if filter_vars is None and not any(name.startswith("~") for name in names):
        return names
    found = az.extract(
        with_numbers(posterior),
        var_names=list(names),
        filter_vars=filter_vars,
        combined=False,
        keep_dataset=True,
    )
    return [str(name) for name in found.data_vars]


def _of(moments: xr.Dataset, name: Any) -> xr.DataArray | None:
    """Return the diagnostics of a variable of the posterior, if it has some."""
    key = moments_name(str(name))
    return moments[key] if key in moments and "diagnostic" in moments[key].dims else None


def _numbers(moments: xr.Dataset, posterior: xr.Dataset) -> xr.Dataset:
    """Return standard deviations and the added columns for every scalar of the posterior."""
    arrays = {}
    for name in posterior.data_vars:
        found = _of(moments, name)
        assert found is not None  # others are not shown
        dims = {f"{dim}_": dim for dim in posterior[name].dims if dim == "diagnostic"}
        arrays[name] = _added(found).rename(dims)
    return xr.Dataset(arrays)


def _added(diagnostics: xr.DataArray) -> xr.DataArray:
    """Return the standard deviation and the added columns from the diagnostics of a variable."""
    parts = [diagnostics.sel(diagnostic=name, drop=True) for name in ("sd", *COLUMNS[:-1])]
    # Both are adjusted for all that is shown.
    p_values = diagnostics.sel(diagnostic=["p_mean", "p_sd"]).min("diagnostic")
    return xr.concat([*parts, p_values], _COLUMN, coords="minimal", compat="override")


def _by_label(numbers: xr.Dataset, labeller: Any) -> dict[str, list[np.ndarray]]:
    """Return the numbers for each label that ArviZ gives to a row, in the order of the rows."""
    values: dict[str, list[np.ndarray]] = {}
    for name, array in numbers.items():
        for label, row in elements(name, array, labeller, skip=_COLUMN):
            values.setdefault(label, []).append(row)
    return values


def _rounded(sd: float, row: Sequence[float], round_to: int | str | None) -> Sequence[float]:
    """Round the added columns of a row, by default the mean as exactly as it is known."""
    if round_to in ("none", "None"):
        return row
    if isinstance(round_to, str) and round_to.endswith("g"):
        return [float(f"{number:.{round_to}}") for number in row]
    if isinstance(round_to, int):
        return [float(np.round(number, round_to)) for number in row]
    stein_mean, error, *others = row
    finest, decimals = max(error, _FINEST * sd), _DECIMALS
    if finest > 0:
        decimals = _DIGITS - 1 - int(np.floor(np.log10(finest)))
    exact = [float(np.round(number, decimals)) for number in (stein_mean, error)]
    return [*exact, *(float(np.round(number, _DECIMALS)) for number in others)]
