"""How far a sampler's draws are from the posterior, in numbers to hold against R-hat and ESS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.custom_kernels import get_kernel
from pymc_ksd.draws import Draws, check_draws, read_draws
from pymc_ksd.engine import PairSums, evaluate_all_pairs
from pymc_ksd.goodness_of_fit import (
    check_bandwidth,
    check_circular,
    check_count,
    check_varies,
    generator,
    resolve_score,
)
from pymc_ksd.kernels import Kernel
from pymc_ksd.points import bandwidth_rule, choose_bandwidths, scale_points
from pymc_ksd.results import attributes, contribution_name, contributions
from pymc_ksd.score import Score
from pymc_ksd.stein import SteinKernel

__all__ = ["ksd", "ksd_evolution"]

#: Steps of an evolution curve.
_STEPS = 100


@dataclass(frozen=True)
class _Measured:
    """One pass over all pairs of draws, and what went into it."""

    score: Score
    draws: Draws
    sums: PairSums
    settings: dict[str, Any]

    @property
    def chain_coords(self) -> dict[str, Any]:
        """The chains' labels, where they have some."""
        posterior = self.draws.posterior
        return {"chain": posterior["chain"].values} if "chain" in posterior.coords else {}

    def chain_values(self, values: np.ndarray) -> np.ndarray:
        """Arrange one number for each draw by chain and draw."""
        return values.reshape(self.draws.n_draws, self.draws.n_chains).T


def _measure(
    model: pm.Model | Score | None,
    data: Any,
    *,
    kernel: str | Kernel | Callable[..., Any],
    bandwidth: str | float | ArrayLike,
    scale: str | None,
    coordinates: bool,
    var_names: Sequence[str] | None = None,
    block_size: int | None,
    random_seed: int | np.random.Generator,
    progressbar: bool,
    compile_kwargs: Mapping[str, Any] | None,
    client: Any,
) -> _Measured:
    base_kernel = get_kernel(kernel)
    check_bandwidth(base_kernel, bandwidth)
    block_size = None if block_size is None else check_count(block_size, "block_size", 1)
    score = resolve_score(model, None, None, compile_kwargs)
    check_circular(score.circular, base_kernel)
    check_draws(data, "data")
    known = [variable.name for variable in score.variables]
    unknown = [name for name in var_names or () if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name free variables ({', '.join(known)}), got {', '.join(unknown)}."
        )
    draws = read_draws(score, data, stacklevel=4)
    check_varies(draws.points, score)
    seed, rng = generator(random_seed)
    scores = score.checked(draws.points, progressbar=progressbar)
    scaled = scale_points(draws.points, scores, scale)
    bandwidth = bandwidth_rule(bandwidth, draws=True, scale=scale)
    bandwidths = choose_bandwidths(bandwidth, scaled.positions, rng)
    sums = evaluate_all_pairs(
        SteinKernel(base_kernel, compile_kwargs),
        scaled,
        bandwidths,
        coordinates=coordinates,
        groups=draws.chain_numbers,
        block_size=block_size,
        progressbar=progressbar,
        client=client,
    )
    settings = {
        "target": score.kind,
        "kernel": base_kernel,
        "bandwidth": bandwidths,
        "scale": scale,
        "n": len(draws.points),
        "n_chains": draws.n_chains,
        "dim": score.dim,
        "seed": seed,
    }
    return _Measured(score, draws, sums, settings)


def ksd(
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
    client: Any = None,
) -> xr.Dataset:
    r"""Measure how far draws are from the posterior: overall, by chain and by variable.

    Parameters
    ----------
    model : pm.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    var_names : str or sequence of str, optional
        Show the contributions of these variables only. The discrepancy is always that of the whole
        posterior: marginal densities, and their scores, are unknown.
    kernel : str, Kernel or callable, default "imq"
        See :func:`ksd_test`.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        See :func:`ksd_test`.
    scale : {None, "std", "cov"}, default "cov"
        See :func:`ksd_test`.
    block_size : int, optional
        Points that are compared at a time. Changes speed and memory, never the result.
    random_seed : int or numpy.random.Generator, default 0
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
    run. Where it is far below ``ess_bulk``, the draws mix well around the wrong distribution.

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
    measured = _measure(
        model,
        data,
        kernel=kernel,
        bandwidth=bandwidth,
        scale=scale,
        coordinates=True,
        var_names=names,
        block_size=block_size,
        random_seed=random_seed,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
        client=client,
    )
    sums, n = measured.sums, len(measured.draws.points)
    total = (sums.off_diagonal + float(sums.diagonal.sum())) / n**2
    chain_v, chain_diagonal = (part[:, -1] for part in _chain_curves(measured))
    dataset = xr.Dataset(
        {
            "ksd": np.sqrt(max(total, 0.0)),
            "ess_ksd": sums.diagonal.mean() / total,
            "ksd_per_chain": ("chain", np.sqrt(np.maximum(chain_v, 0))),
            "ess_ksd_per_chain": ("chain", chain_diagonal / chain_v),
        },
        coords=measured.chain_coords,
        attrs=attributes(measured.settings),
    )
    assert sums.coordinates is not None
    assert sums.coordinates_diagonal is not None
    variables = measured.score.variables
    v = contributions(sums.coordinates / n**2, variables)
    diagonal = contributions(sums.coordinates_diagonal / n, variables)
    for variable in variables:
        if names is not None and variable.name not in names:
            continue
        key = contribution_name(variable.name)
        parts = [
            np.sqrt(v[key]),
            diagonal[key] / v[key],
            _ess_bulk(measured, variable.name, v[key]),
        ]
        joined = xr.concat(parts, "diagnostic", coords="minimal", compat="override")
        dataset[key] = joined.assign_coords(diagnostic=["ksd", "ess_ksd", "ess_bulk"])
    return dataset


def ksd_evolution(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    kernel: str | Kernel | Callable[..., Any] = "imq",
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "cov",
    block_size: int | None = None,
    random_seed: int | np.random.Generator = 0,
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
    random_seed : int or numpy.random.Generator, default 0
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
    measured = _measure(
        model,
        data,
        kernel=kernel,
        bandwidth=bandwidth,
        scale=scale,
        coordinates=False,
        block_size=block_size,
        random_seed=random_seed,
        progressbar=progressbar,
        compile_kwargs=compile_kwargs,
        client=client,
    )
    sums, draws = measured.sums, measured.draws
    assert sums.earlier is not None
    steps = np.unique(np.geomspace(1, draws.n_draws, _STEPS).round().astype(int))
    counts = steps * draws.n_chains
    pooled_v = np.cumsum(sums.diagonal + 2 * sums.earlier[:, 0])[counts - 1] / counts**2
    pooled_diagonal = np.cumsum(sums.diagonal)[counts - 1] / counts
    chain_v, chain_diagonal = (part[:, steps - 1] for part in _chain_curves(measured))
    return xr.Dataset(
        {
            "ksd": ("n_draws", np.sqrt(np.maximum(pooled_v, 0))),
            "ess_ksd": ("n_draws", pooled_diagonal / pooled_v),
            "ksd_per_chain": (("chain", "n_draws"), np.sqrt(np.maximum(chain_v, 0))),
            "ess_ksd_per_chain": (("chain", "n_draws"), chain_diagonal / chain_v),
        },
        coords={"n_draws": steps, **measured.chain_coords},
        attrs=attributes(measured.settings),
    )


def _chain_curves(measured: _Measured) -> tuple[np.ndarray, np.ndarray]:
    """Return V and the mean diagonal after every draw of each chain, shape (chain, draw)."""
    sums, draws = measured.sums, measured.draws
    assert sums.earlier is not None
    diagonal = measured.chain_values(sums.diagonal)
    counts = np.arange(1, draws.n_draws + 1)
    v = np.cumsum(diagonal + 2 * measured.chain_values(sums.earlier[:, 1]), axis=1) / counts**2
    return v, np.cumsum(diagonal, axis=1) / counts


def _ess_bulk(measured: _Measured, name: str, template: xr.DataArray) -> xr.DataArray:
    """Return ArviZ's bulk ESS of a variable in the shape of its contribution."""
    from arviz_stats.base import array_stats

    if name not in measured.draws.posterior:
        return xr.full_like(template, np.nan)
    values = measured.draws.posterior[name].values
    flat = values.reshape(*values.shape[:2], -1)
    sizes = np.array([array_stats.ess(flat[..., j]) for j in range(flat.shape[-1])])
    if template.shape == values.shape[2:]:
        return template.copy(data=sizes.reshape(template.shape))
    known = sizes[np.isfinite(sizes)]
    return xr.full_like(template, known.min() if known.size else np.nan)
