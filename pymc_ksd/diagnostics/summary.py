"""ArviZ's summary table with the discrepancy beside R-hat and the effective sample sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.measured import measure
from pymc_ksd.diagnostics.prepare import comparing, effort_of
from pymc_ksd.diagnostics.results import contribution_name, elements
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.samples.containers import draws_group, with_numbers
from pymc_ksd.stein.kernels import Kernel

#: Columns that are added, and their decimals unless the user says otherwise.
_DIGITS = {"ksd": 3, "ess_ksd": 0}


def ksd_summary(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    kernel: str | Kernel | Callable[..., Any] = "imq",
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "auto",
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **summary_kwargs: Any,
) -> pd.DataFrame:
    """Return ArviZ's summary table with the columns ``ksd`` and ``ess_ksd``.

    A low ``ess_ksd`` is a sign that draws do not come from the posterior, not that this parameter
    is the wrong one, and an error that correlated parameters share shows in none of their rows:
    see :func:`ksd`, and :func:`ksd_test` for a test of all parameters together.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    var_names : str or sequence of str, optional
        Rows to show, as in ``az.summary``: by default the model's free variables, on request any
        variable of the draws. The discrepancy is always that of the whole posterior.
    kernel : str, Kernel or callable, default "imq"
        See :func:`ksd_test`.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        See :func:`ksd_test`.
    scale : {"auto", None, "std", "cov"}, default "auto"
        See :func:`ksd_test`.
    block_size : int, optional
        Points that are compared at a time. Changes speed and memory, never the result.
    random_seed : int or numpy.random.Generator, optional
        Picks the draws for the median distance when there are more than 1,000.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.
    **summary_kwargs
        Passed to ``az.summary``; `round_to` holds for the added columns too.

    Returns
    -------
    pandas.DataFrame
        A row for each scalar. Elements of variables whose unconstrained coordinates do not belong
        to single elements (simplex, ordered, Cholesky factor) show their variable's pooled value;
        deterministic quantities have none.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> values = np.random.default_rng(0).normal(0.3, 1, size=(4, 250))  # wrong mean
    >>> draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    >>> table = pm.ksd_summary(model, draws)
    >>> bool(table.loc["mu", "ess_ksd"] < 100)
    True
    """
    if summary_kwargs.get("fmt", "wide") != "wide":
        raise ValueError(f"`fmt` must be 'wide', got {summary_kwargs['fmt']!r}.")
    if summary_kwargs.get("group", "posterior") not in ("posterior", None):
        raise ValueError(f"`group` must be 'posterior', got {summary_kwargs['group']!r}.")
    how = comparing(kernel, bandwidth, scale, compile_kwargs, draws=True)
    effort = effort_of(block_size, progressbar, client)
    measures = measure(model, data, how, effort, random_seed, coordinates=True).distance()
    return with_measures(measures, data, var_names, **summary_kwargs)


def with_measures(
    measures: xr.Dataset,
    data: Any,
    var_names: str | Sequence[str] | None = None,
    **summary_kwargs: Any,
) -> pd.DataFrame:
    """Add what :func:`ksd` measured to ArviZ's summary of the same draws."""
    import arviz as az

    posterior = draws_group(data)
    assert posterior is not None  # `ksd` has read it
    if isinstance(data, xr.DataArray):
        # Of the only variable, whatever the array is called.
        (name,) = (name for name in measures if "diagnostic" in measures[name].dims)
        posterior = posterior.rename({next(iter(posterior.data_vars)): name})
    names = [var_names] if isinstance(var_names, str) else var_names
    posterior = with_numbers(posterior)
    if names is None:
        # Deterministics may be many and large, so they have to be asked for.
        posterior = posterior[[name for name in posterior if _of(measures, name) is not None]]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Elements that never vary, such as data that are not missing, have no R-hat.
        table = az.summary(posterior, var_names=names, **summary_kwargs)
    coords = summary_kwargs.get("coords") or {}
    shown = {dim: labels for dim, labels in coords.items() if dim in posterior.dims}
    for column, digits in _DIGITS.items():
        numbers = _numbers(measures, posterior, column).sel(shown)
        values = _by_label(numbers, summary_kwargs.get("labeller"))
        table[column] = [
            _rounded(
                values[label].pop(0) if values.get(label) else np.nan,
                summary_kwargs.get("round_to"),
                digits,
            )
            for label in table.index
        ]
    return table


def _of(measures: xr.Dataset, name: Any) -> xr.DataArray | None:
    """Return the diagnostics of a variable of the posterior, if it has some of its own."""
    key = contribution_name(str(name))
    return measures[key] if key in measures and "diagnostic" in measures[key].dims else None


def _numbers(measures: xr.Dataset, posterior: xr.Dataset, diagnostic: str) -> xr.Dataset:
    """Return a diagnostic for every scalar of the posterior, arranged as it is there."""
    arrays = {}
    for name in posterior.data_vars:
        template = posterior[name].transpose("chain", "draw", ...).isel(chain=0, draw=0, drop=True)
        found = _of(measures, name)
        full = xr.DataArray(np.nan) if found is None else found.sel(diagnostic=diagnostic)
        if full.ndim == 0:
            arrays[name] = xr.full_like(template, float(full), dtype=float)
            continue
        if set(full.dims) == set(template.dims):
            full = full.transpose(*template.dims)
        for dim in template.dims:
            if dim in full.indexes and dim in template.indexes:
                wanted, given = template.indexes[dim], full.indexes[dim]
                if given.is_unique and set(wanted) == set(given):
                    full = full.isel({dim: given.get_indexer(wanted)})
        arrays[name] = template.astype(float).copy(data=full.values)
    return xr.Dataset(arrays)


def _by_label(numbers: xr.Dataset, labeller: Any) -> dict[str, list[float]]:
    """Return the numbers for each label that ArviZ gives to a row, in the order of the rows."""
    values: dict[str, list[float]] = {}
    for name, array in numbers.items():
        for label, value in elements(name, array, labeller):
            values.setdefault(label, []).append(float(value))
    return values


def _rounded(number: float, round_to: int | str | None, digits: int) -> float:
    if round_to in ("none", "None"):
        return number
    if isinstance(round_to, str) and round_to.endswith("g"):
        return float(f"{number:.{round_to}}")
    return float(np.round(number, round_to if isinstance(round_to, int) else digits))
