"""ArviZ's summary table with the discrepancy beside R-hat and the effective sample sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.draws import posterior_dataset
from pymc_ksd.kernels import Kernel
from pymc_ksd.sampler_quality import ksd
from pymc_ksd.score import Score

__all__ = ["ksd_summary"]

#: Columns that are added, and their decimals unless the user says otherwise.
_DIGITS = {"ksd": 3, "ess_ksd": 0}


def ksd_summary(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    kernel: str | Kernel | Callable[..., Any] = "imq",
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "cov",
    block_size: int | None = None,
    random_seed: int | np.random.Generator = 0,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    **summary_kwargs: Any,
) -> pd.DataFrame:
    """Return ArviZ's summary table with the columns ``ksd`` and ``ess_ksd``.

    Parameters
    ----------
    model, data, kernel, bandwidth, scale, block_size, random_seed, progressbar, compile_kwargs
        See :func:`ksd`.
    var_names : str or sequence of str, optional
        Rows to show, as in ``az.summary``. The discrepancy is always that of the whole posterior.
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
    import arviz as az

    if summary_kwargs.get("fmt", "wide") != "wide":
        raise ValueError(f"`fmt` must be 'wide', got {summary_kwargs['fmt']!r}.")
    if summary_kwargs.get("group", "posterior") not in ("posterior", None):
        raise ValueError(f"`group` must be 'posterior', got {summary_kwargs['group']!r}.")
    measures = ksd(
        model,
        data,
        kernel=kernel,
        bandwidth=bandwidth,
        scale=scale,
        block_size=block_size,
        random_seed=random_seed,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
    )
    posterior = posterior_dataset(data)
    if posterior is None:  # a nameless DataArray of the only variable
        (name,) = (name for name in measures if "diagnostic" in measures[name].dims)
        posterior = data.to_dataset(name=name)
    names = [var_names] if isinstance(var_names, str) else var_names
    table = az.summary(posterior, var_names=names, **summary_kwargs)
    labeller = summary_kwargs.get("labeller")
    round_to = summary_kwargs.get("round_to")
    for column, digits in _DIGITS.items():
        values = _by_label(measures, posterior, column, labeller)
        numbers = [values.get(label, np.nan) for label in table.index]
        table[column] = [_rounded(number, round_to, digits) for number in numbers]
    return table


def _by_label(
    measures: xr.Dataset, posterior: xr.Dataset, diagnostic: str, labeller: Any
) -> dict[str, float]:
    """Return one number for each label that ArviZ gives to a row."""
    from arviz_base.labels import BaseLabeller
    from arviz_base.sel_utils import xarray_var_iter

    labeller = labeller or BaseLabeller()
    values = {}
    for name in posterior.data_vars:
        key = f"{name}_contribution" if f"{name}_contribution" in measures else str(name)
        if key not in measures or "diagnostic" not in measures[key].dims:
            continue
        template = posterior[name].transpose("chain", "draw", ...).isel(chain=0, draw=0, drop=True)
        full = measures[key].sel(diagnostic=diagnostic, drop=True)
        if set(full.dims) == set(template.dims):
            full = full.transpose(*template.dims)
        if full.shape == template.shape and not _same_labels(full, template):
            full = template.copy(data=full.values)
        full = full.broadcast_like(template).to_dataset(name=name)
        for _, selection, position, value in xarray_var_iter(full, skip_dims=set()):
            values[labeller.make_label_flat(name, selection, position)] = float(value)
    return values


def _same_labels(full: xr.DataArray, template: xr.DataArray) -> bool:
    """Whether the elements can be told by labels rather than by position."""
    return all(
        dim in full.indexes
        and dim in template.indexes
        and set(full.indexes[dim]) == set(template.indexes[dim])
        for dim in template.dims
    )


def _rounded(number: float, round_to: int | str | None, digits: int) -> float:
    if round_to in ("none", "None"):
        return number
    if isinstance(round_to, str) and round_to.endswith("g"):
        return float(f"{number:.{round_to}}")
    return float(np.round(number, round_to if isinstance(round_to, int) else digits))
