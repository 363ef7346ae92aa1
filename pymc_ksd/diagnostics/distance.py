"""How far a sampler's draws are from the posterior, in numbers to hold against R-hat and ESS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.measured import measure
from pymc_ksd.diagnostics.prepare import comparing, effort_of
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.stein.kernels import Kernel


def ksd(
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
) -> xr.Dataset:
    r"""Compute the discrepancy between draws and the posterior: overall, by chain and by variable.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    var_names : str or sequence of str, optional
        Show the contributions of these variables only. The discrepancy is always that of the whole
        posterior: marginal densities, and their scores, are unknown.
    kernel : str, Kernel or callable, default "imq"
        See :func:`ksd_test`.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        See :func:`ksd_test`. Several are averaged.
    scale : {"auto", None, "std", "cov", "stein"}, default "auto"
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

    Returns
    -------
    xarray.Dataset
        With variables

        - ``ksd`` and ``ess_ksd``: the root of the V-statistic V of all draws, and the number of
          independent draws that would have it, :math:`\frac{1}{n} \sum_i u(x_i, x_i) / V`,
        - ``ksd_per_chain`` and ``ess_ksd_per_chain``: the same for each chain by itself,
        - for each variable, under its own name and dims and with the dim ``diagnostic``: ``ksd``
          and ``ess_ksd`` of the coordinate's own Stein kernel in units of its standard deviation,
          and ArviZ's ``ess_bulk`` beside them. Variables whose unconstrained coordinates do not
          belong to single elements (simplex, ordered, Cholesky factor) show their pooled value.

    Notes
    -----
    For independent draws ``ess_ksd`` is about their number, for correlated draws it falls as the
    usual effective sample size does, and for a biased sampler it stops growing however long the
    run. By chance it may be larger than the number of draws, which means no more than as good as
    exact ones.

    Numbers of single variables do not tell which variable is wrong. Each is made of the score given
    all other variables, and where variables are correlated, an error that they share is invisible
    in each of them: with two means off by 0.3 standard deviations and a correlation of 0.98,
    ``ess_ksd`` of both was about the number of draws. :func:`ksd_test` compares all variables
    together.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    ...     tau = pm.HalfNormal("tau")
    >>> rng = np.random.default_rng(0)
    >>> draws = xr.Dataset(
    ...     {
    ...         "mu": (("chain", "draw"), rng.normal(0.5, 1, size=(4, 250))),  # wrong mean
    ...         "tau": (("chain", "draw"), abs(rng.normal(size=(4, 250)))),
    ...     }
    ... )
    >>> measures = pm.ksd(model, draws)
    >>> bool(measures["mu"].sel(diagnostic="ess_ksd") < 100)
    True
    """
    names = [var_names] if isinstance(var_names, str) else var_names
    how = comparing(kernel, bandwidth, scale, compile_kwargs, draws=True)
    effort = effort_of(block_size, progressbar, client)
    measured = measure(
        model, data, how, effort, random_seed, coordinates=True, var_names=names or ()
    )
    return measured.distance(names)
