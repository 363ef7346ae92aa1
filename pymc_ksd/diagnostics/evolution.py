"""The discrepancy of a sampler's draws as they accumulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.measured import measure
from pymc_ksd.diagnostics.prepare import comparing, effort_of
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.stein.kernels import Kernel


def ksd_evolution(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    kernel: str | Kernel | Callable[..., Any] = "imq",
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "auto",
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    """Compute the discrepancy as draws accumulate, per chain and pooled.

    A sampler that converges to the posterior keeps to a straight line of slope -1/2 on log-log
    axes, and its ``ess_ksd`` grows in proportion to the draws; a biased one levels off.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    kernel : str, Kernel or callable, default "imq"
        See :func:`ksd_test`.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        See :func:`ksd_test`. Several are averaged. That of all draws holds for all steps.
    scale : {"auto", None, "std", "cov", "stein"}, default "auto"
        See :func:`ksd_test`. That of all draws holds for all steps.
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
        ``ksd`` and ``ess_ksd`` of the first draws of all chains together, ``ksd_per_chain`` and
        ``ess_ksd_per_chain`` of each chain, over the dim ``n_draws``, the number of draws taken
        from every chain.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> import pymc_ksd
    >>> score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    >>> values = np.random.default_rng(0).normal(size=(4, 250))
    >>> draws = xr.Dataset({"x": (("chain", "draw"), values)})
    >>> evolution = pymc_ksd.ksd_evolution(score, draws)
    >>> bool(evolution["ess_ksd"][-1] > evolution["ess_ksd"].sel(n_draws=50, method="nearest"))
    True
    """
    how = comparing(kernel, bandwidth, scale, compile_kwargs, draws=True)
    effort = effort_of(block_size, progressbar, client)
    return measure(model, data, how, effort, random_seed).evolution()
