"""The picture of a predictive check: observed against replicated discrepancies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.plots.options import (
    ACCEPTED,
    NEUTRAL,
    REJECTED,
    collection_options,
    marker_size,
    one_variable,
    plain,
    visual_options,
)

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_ksd_ppc"]

Visual = Literal["draws", "diagonal", "xlabel", "ylabel", "title"]
_VISUALS: tuple[Visual, ...] = ("draws", "diagonal", "xlabel", "ylabel", "title")


def plot_ksd_ppc(
    check: xr.Dataset | xr.DataTree,
    *,
    variable: str | None = None,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly", "none"] | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the discrepancies of observed against those of replicated data, one dot a draw.

    Below the diagonal the observed data are further from the model than data replicated from it;
    the p-value is the share of draws above.

    Parameters
    ----------
    check : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_ppc` returned.
    variable : str, optional
        Which observed variable, by default the one with the smallest p-value.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"draws"`` (dots),
        ``"diagonal"``, ``"xlabel"``, ``"ylabel"``, ``"title"``.
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
    check = one_variable(check, variable)
    name = str(check["variable"].item())
    pairs = np.stack([check["observed"].values, check["replicated"].values])
    data = xr.Dataset({name: (("plot_axis", "sample"), pairs)}, coords={"plot_axis": ["x", "y"]})
    if plot_collection is None:
        plot_collection = PlotCollection.wrap(
            data.sel(plot_axis="x", drop=True),
            **collection_options(pc_kwargs, backend, (800, 550)),
        )
    if options["diagonal"] is not None:
        ends = [pairs.min(), pairs.max()]
        line = xr.Dataset(
            {name: (("plot_axis", "end"), np.array([ends, ends]))},
            coords={"plot_axis": ["x", "y"]},
        )
        style = {"color": NEUTRAL, "linestyle": "C1", "width": 1.5}
        plot_collection.map(draw.line_xy, "diagonal", data=line, **{**style, **options["diagonal"]})
    if options["draws"] is not None:
        rejected = float(check["p_value"]) <= float(check.attrs["alpha"])
        style = {"color": REJECTED if rejected else ACCEPTED, "alpha": 0.6}
        style["size"] = marker_size(plot_collection, 30)
        plot_collection.map(draw.scatter_xy, "draws", data=data, **{**style, **options["draws"]})
    texts = {
        "xlabel": (draw.labelled_x, f"discrepancy of the observed {name}"),
        "ylabel": (draw.labelled_y, "discrepancy of replicated data"),
        "title": (draw.labelled_title, conclusion(check)),
    }
    for key, (function, text) in texts.items():
        chosen = options[key]
        if chosen is not None:
            plot_collection.map(
                function, key, data=data, text=plain(plot_collection, text), **chosen
            )
    return plot_collection
