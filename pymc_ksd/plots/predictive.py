"""The picture of a predictive check: observed against replicated discrepancies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.plots.picture import DASHED, NEUTRAL, Backend, Picture, accent, one_variable

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["draws", "diagonal", "xlabel", "ylabel", "title"]


def plot_ksd_ppc(
    check: xr.Dataset | xr.DataTree,
    *,
    variable: str | None = None,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
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
    check = one_variable(check, variable)
    name = str(check["variable"].item())
    observed, replicated = check["observed"].values, check["replicated"].values
    data = xr.Dataset({name: ("sample", observed)})
    picture = Picture.open(data, (800, 550), Visual, visuals, plot_collection, backend, pc_kwargs)
    both = np.stack([observed, replicated])
    ends = [both.min(), both.max()]
    picture.line("diagonal", ends, ends, color=NEUTRAL, linestyle=DASHED, width=1.5)
    picture.dots("draws", observed, replicated, size=30, color=accent(check), alpha=0.6)
    return picture.close(
        xlabel=f"discrepancy of the observed {name}",
        ylabel="discrepancy of replicated data",
        title=conclusion(check),
    )
