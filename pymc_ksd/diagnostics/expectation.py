"""Expectations of functions of draws, corrected by Stein features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.moments import ORDERS, moments_of, read_scored
from pymc_ksd.diagnostics.prepare import effort_of
from pymc_ksd.diagnostics.quantities import Quantities
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.options import check_alpha


def ksd_expectation(
    model: pm.Model | Score | None = None,
    data: Any = None,
    function: Callable[[xr.Dataset], Any] | None = None,
    *,
    alpha: float = 0.05,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    """Return the corrected expectation of a function of the draws, with its standard error.

    Smooth functions gain as much as parameters do, see :func:`ksd_moments`. Probabilities of
    events, which are means of zeros and ones, gain little.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    function : callable
        Takes the posterior, a Dataset with the dims chain and draw, and returns a DataArray with
        these dims and any others, or a Dataset or mapping of such arrays. It must work draw by
        draw: if there are many draws, it gets some of them at a time. An array of draws of a
        model's only variable has that variable's name.
    alpha : float, default 0.05
        Level of the test.
    progressbar : bool, default True
        Show a progress bar when scoring takes long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    xarray.Dataset
        What :func:`ksd_moments` returns, for the variable ``expectation``, or for those that the
        function names.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", 1, 1)
    >>> values = np.random.default_rng(0).normal(1, 1, size=(4, 250))
    >>> draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    >>> found = pm.ksd_expectation(model, draws, lambda posterior: posterior["mu"] ** 2)
    >>> print(found["expectation"].sel(diagnostic=["mean", "stein_mean"]).values.round(3))
    [1.86 2.  ]
    """
    if not callable(function):
        raise TypeError(
            "`function` must take the posterior as a Dataset and return a DataArray with the dims "
            f"'chain' and 'draw', got {type(function).__name__}."
        )
    alpha = check_alpha(alpha)
    draws = read_scored(model, data, compile_kwargs, progressbar)

    def evaluated(posterior: xr.Dataset) -> dict[str, xr.DataArray]:
        # A function may add to what it is given: the caller's draws stay as they are.
        return _checked(function(posterior.copy()), posterior)

    posterior = draws.posterior
    if draws.stream is not None:
        # Which names, dims and labels there are, a few of the draws tell.
        posterior = posterior.isel(draw=slice(2)).compute()
    quantities = Quantities.of_function(evaluated, posterior)
    effort = effort_of(None, progressbar, client)
    result = moments_of(draws, quantities, ORDERS["auto"], alpha, None, effort)
    result.attrs["result"] = "ksd_expectation"
    return result


def _checked(found: Any, posterior: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return what a function made of draws, as arrays of numbers by name."""
    arrays = dict(found) if isinstance(found, Mapping) else {"expectation": found}
    if not arrays:
        raise ValueError("`function` must return at least one array, got an empty mapping.")
    for name, array in arrays.items():
        if not isinstance(array, xr.DataArray) or not {"chain", "draw"} <= set(array.dims):
            kind = f" with the dims {array.dims}" if isinstance(array, xr.DataArray) else ""
            raise ValueError(
                "`function` must return a DataArray with the dims 'chain' and 'draw', or a mapping "
                f"of names to such arrays, got {type(array).__name__}{kind} for {name!r}."
            )
        lost = [dim for dim in ("chain", "draw") if array.sizes[dim] != posterior.sizes[dim]]
        if lost or not array.size:
            raise ValueError(
                "`function` must return a number for every chain and draw, got an array of sizes "
                f"{dict(array.sizes)} for {name!r} of {posterior.sizes['chain']} chains and "
                f"{posterior.sizes['draw']} draws."
            )
        if array.dtype.kind not in "biuf":
            raise ValueError(f"`function` must return numbers, got {array.dtype} for {name!r}.")
    return {
        str(name): array.astype(float).transpose("chain", "draw", ...)
        for name, array in arrays.items()
    }
