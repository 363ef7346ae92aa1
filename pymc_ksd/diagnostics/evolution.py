"""The discrepancy of a sampler's draws as they accumulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.measured import Measured, measure
from pymc_ksd.diagnostics.score import Score
from pymc_ksd.stein.kernels import Kernel

#: Steps of an evolution curve.
_STEPS = 100


def ksd_evolution(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    kernel: str | Kernel | Callable[..., Any] = "imq",
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "cov",
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    """Follow the discrepancy as draws accumulate, per chain and pooled, in one pass.

    A sampler that converges to the posterior keeps to a straight line of slope -1/2 on log-log
    axes, and its ``ess_ksd`` grows in proportion to the draws; a biased one levels off.

    Parameters
    ----------
    model : pm.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    kernel : str, Kernel or callable, default "imq"
        See :func:`ksd_test`.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        See :func:`ksd_test`. That of all draws holds for all steps.
    scale : {None, "std", "cov"}, default "cov"
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
    measured = measure(
        model,
        data,
        kernel=kernel,
        bandwidth=bandwidth,
        scale=scale,
        block_size=block_size,
        random_seed=random_seed,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
        client=client,
    )
    return evolution_result(measured)


def evolution_result(measured: Measured) -> xr.Dataset:
    """Return what :func:`ksd_evolution` returns."""
    sums, sample = measured.sums, measured.prepared.sample
    steps = np.unique(np.geomspace(1, sample.n_draws, _STEPS).round().astype(int))
    counts = steps * sample.n_chains
    pooled_v = np.cumsum(sums.diagonal + 2 * sums.earlier[:, 0])[counts - 1] / counts**2
    pooled_diagonal = np.cumsum(sums.diagonal)[counts - 1] / counts
    chain_v, chain_diagonal = (part[:, steps - 1] for part in measured.chain_curves())
    return xr.Dataset(
        {
            "ksd": ("n_draws", np.sqrt(np.maximum(pooled_v, 0))),
            "ess_ksd": ("n_draws", pooled_diagonal / pooled_v),
            "ksd_per_chain": (("chain", "n_draws"), np.sqrt(np.maximum(chain_v, 0))),
            "ess_ksd_per_chain": (("chain", "n_draws"), chain_diagonal / chain_v),
        },
        coords={"n_draws": steps, **measured.chain_coords},
        attrs=measured.attributes("ksd_evolution"),
    )
