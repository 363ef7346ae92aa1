"""The picture of convergence: discrepancy against the number of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import growth
from pymc_ksd.plots.options import (
    CHAIN,
    NEUTRAL,
    as_dataset,
    collection_options,
    plain,
    visual_options,
)

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_ksd_evolution"]

Visual = Literal["chains", "pooled", "ideal", "xlabel", "ylabel", "title"]
_VISUALS: tuple[Visual, ...] = ("chains", "pooled", "ideal", "xlabel", "ylabel", "title")


def plot_ksd_evolution(
    evolution: xr.Dataset | xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly", "none"] | None = None,
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
    from arviz_plots import PlotCollection
    from arviz_plots import visuals as draw

    options = visual_options(visuals, _VISUALS)
    evolution = as_dataset(evolution)
    if "ksd_per_chain" not in evolution or "n_draws" not in evolution.dims:
        raise ValueError(
            "`evolution` must be a dataset from ksd_evolution; it has no variable 'ksd_per_chain' "
            "over 'n_draws'."
        )
    data = xr.Dataset({"ksd": evolution["ksd"]})
    if plot_collection is None:
        plot_collection = PlotCollection.wrap(
            data, **collection_options(pc_kwargs, backend, (800, 500))
        )
    n_chains = evolution.sizes["chain"]
    lines: list[tuple[str, str, np.ndarray, xr.DataArray, dict[str, Any]]] = []
    steps = evolution["n_draws"].values
    for index in range(n_chains if n_chains > 1 else 0):
        lines.append(
            (
                "chains",
                f"chain_{index}",
                steps,
                evolution["ksd_per_chain"].isel(chain=index),
                {"color": CHAIN, "width": 1.2},
            )
        )
    lines.append(
        ("pooled", "pooled", steps * n_chains, evolution["ksd"], {"color": "#1f4e79", "width": 2.5})
    )
    # With independent draws the expected square is the mean of u(x, x) over their number.
    ideal = np.sqrt(evolution["ess_ksd"] * evolution["ksd"] ** 2 / (steps * n_chains))
    lines.append(
        (
            "ideal",
            "ideal",
            steps * n_chains,
            ideal,
            {"color": NEUTRAL, "linestyle": "C1", "width": 1.5},
        )
    )
    for key, label, x, y, style in lines:
        chosen = options[key]
        if chosen is not None:
            pair = xr.Dataset(
                {"ksd": (("plot_axis", "n_draws"), np.stack([x, y.values]))},
                coords={"plot_axis": ["x", "y"]},
            )
            plot_collection.map(draw.line_xy, label, data=pair, **{**style, **chosen})
    _logarithmic(plot_collection)
    texts = {
        "xlabel": (draw.labelled_x, "draws (thin: each chain, thick: all chains, dashed: ideal)"),
        "ylabel": (draw.labelled_y, "KSD"),
        "title": (draw.labelled_title, growth(evolution)[1]),
    }
    for key, (function, text) in texts.items():
        chosen = options[key]
        if chosen is not None:
            plot_collection.map(
                function, key, data=data, text=plain(plot_collection, text), **chosen
            )
    return plot_collection


def _logarithmic(plot_collection: PlotCollection) -> None:
    """Make both axes logarithmic on the backend at hand."""
    target = plot_collection.get_target("ksd", {})
    if hasattr(target, "set_xscale"):
        target.set_xscale("log")
        target.set_yscale("log")
    elif hasattr(target, "update_xaxes"):
        target.update_xaxes(type="log")
        target.update_yaxes(type="log")
    elif hasattr(target, "x_scale"):
        from bokeh.models import LogAxis, LogScale, LogTicker

        target.x_scale, target.y_scale = LogScale(), LogScale()
        for place in ("below", "left"):
            setattr(target, place, [LogAxis(ticker=LogTicker())])
