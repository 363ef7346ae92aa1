"""The picture of convergence: discrepancy against the number of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import growth
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, STRONG, Backend, Picture, as_dataset

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["chains", "pooled", "ideal", "xlabel", "ylabel", "title"]


def plot_ksd_evolution(
    evolution: xr.Dataset | xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Plot the discrepancy against the number of draws, on logarithmic axes.

    Parameters
    ----------
    evolution : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_evolution` returned.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"chains"`` and ``"pooled"``
        (lines), ``"ideal"`` (what independent draws would reach, falling like
        :math:`1/\sqrt n`), ``"xlabel"``, ``"ylabel"``, ``"title"``.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        The figure, its axes and all that was drawn, to be changed or saved.
    """
    evolution = as_dataset(evolution)
    if "ksd_per_chain" not in evolution or "n_draws" not in evolution.dims:
        raise ValueError(
            "`evolution` must be a dataset from ksd_evolution; it has no variable 'ksd_per_chain' "
            "over 'n_draws'."
        )
    data = xr.Dataset({"ksd": evolution["ksd"]})
    picture = Picture.open(data, (800, 500), Visual, visuals, plot_collection, backend, pc_kwargs)
    steps, n_chains = evolution["n_draws"].values, evolution.sizes["chain"]
    if n_chains > 1:
        for index, values in enumerate(evolution["ksd_per_chain"].transpose("chain", ...).values):
            picture.line("chains", steps, values, label=f"chain_{index}", color=PALE, width=1.2)
    n_draws, ksd = steps * n_chains, evolution["ksd"].values
    picture.line("pooled", n_draws, ksd, color=STRONG, width=2.5)
    # With independent draws the expected square is the mean of u(x, x) over their number.
    ideal = np.sqrt(evolution["ess_ksd"].values * ksd**2 / n_draws)
    picture.line("ideal", n_draws, ideal, color=NEUTRAL, linestyle=DASHED, width=1.5)
    picture.make_logarithmic("xy")
    return picture.close(
        xlabel="draws (thin: each chain, thick: all chains, dashed: ideal)",
        ylabel="KSD",
        title=growth(evolution)[1],
    )
