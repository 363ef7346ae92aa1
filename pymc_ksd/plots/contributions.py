"""The picture of single parameters: KSD effective sample size beside the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import parameter_sizes
from pymc_ksd.plots.options import (
    NEUTRAL,
    REJECTED,
    as_dataset,
    collection_options,
    marker_size,
    plain,
    visual_options,
)

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_ksd_contributions"]

Visual = Literal["ess_ksd", "ess_bulk", "labels", "xlabel", "title"]
_VISUALS: tuple[Visual, ...] = ("ess_ksd", "ess_bulk", "labels", "xlabel", "title")


def plot_ksd_contributions(
    measures: xr.Dataset | xr.DataTree,
    *,
    max_parameters: int = 50,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly", "none"] | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot, for every parameter, ``ess_ksd`` beside ``ess_bulk``.

    A parameter whose ``ess_ksd`` is far below its ``ess_bulk`` mixes well around the wrong
    distribution.

    Parameters
    ----------
    measures : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd` returned.
    max_parameters : int, default 50
        With more parameters, those whose draws are worth least are shown.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"ess_ksd"`` (dots),
        ``"ess_bulk"`` (bars), ``"labels"``, ``"xlabel"``, ``"title"``.
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
    measures = as_dataset(measures)
    labels, table = parameter_sizes(measures)
    if not labels:
        raise ValueError(
            "`measures` must be a dataset from ksd; it has no variable with the dim 'diagnostic'."
        )
    title = _title(labels, table)
    xlabel = "effective sample size (dot: ess_ksd, bar: ess_bulk)"
    if len(labels) > max_parameters:
        xlabel += f"; the {max_parameters} worth least of {len(labels):,} parameters"
        chosen_rows = np.sort(np.argsort(_share(table), kind="stable")[:max_parameters])
        labels, table = [labels[row] for row in chosen_rows], table[chosen_rows]
    heights = np.arange(len(labels))[::-1].astype(float)
    data = xr.Dataset({"ess": ("row", table[:, 0])})
    if plot_collection is None:
        height = 220 + 26 * len(labels)
        plot_collection = PlotCollection.wrap(
            data, **collection_options(pc_kwargs, backend, (800, height))
        )
    series: dict[str, tuple[int, dict[str, Any]]] = {
        "ess_bulk": (1, {"color": NEUTRAL, "marker": "|", "size": 60}),
        "ess_ksd": (0, {"color": REJECTED, "marker": "C0", "size": 40}),
    }
    for key, (column, style) in series.items():
        chosen = options[key]
        if chosen is not None:
            style["size"] = marker_size(plot_collection, style["size"])
            pair = xr.Dataset(
                {"ess": (("plot_axis", "row"), np.stack([table[:, column], heights]))},
                coords={"plot_axis": ["x", "y"]},
            )
            plot_collection.map(draw.scatter_xy, key, data=pair, **{**style, **chosen})
    backend_module = _backend_module(plot_collection)
    target = plot_collection.get_target("ess", {})
    known = table[np.isfinite(table)]
    if known.size:
        # From zero on, so that a dot in the middle means half as much.
        backend_module.xlim((0.0, 1.05 * float(known.max())), target)
    backend_module.ylim((-0.7, len(labels) - 0.3), target)
    if options["labels"] is not None:
        backend_module.yticks(
            list(heights),
            [plain(plot_collection, label) for label in labels],
            target,
            **options["labels"],
        )
    texts = {
        "xlabel": (draw.labelled_x, xlabel),
        "title": (draw.labelled_title, title),
    }
    for key, (function, text) in texts.items():
        chosen = options[key]
        if chosen is not None:
            plot_collection.map(
                function, key, data=data, text=plain(plot_collection, text), **chosen
            )
    return plot_collection


def _title(labels: list[str], table: np.ndarray) -> str:
    """Name the parameter whose draws are worth least."""
    worst = int(np.argmin(_share(table)))
    if not np.isfinite(table[:, 1]).any():
        return f"{labels[worst]}: its draws are worth {table[worst, 0]:,.0f} exact ones"
    return (
        f"{labels[worst]}: {table[worst, 1]:,.0f} effective draws by autocorrelation, worth "
        f"{table[worst, 0]:,.0f} exact ones"
    )


def _share(table: np.ndarray) -> np.ndarray:
    """Return ``ess_ksd`` over ``ess_bulk``, or ``ess_ksd`` where no other is known."""
    if not np.isfinite(table[:, 1]).any():
        return table[:, 0]
    share: np.ndarray = table[:, 0] / table[:, 1]
    return np.where(np.isfinite(share), share, np.inf)


def _backend_module(plot_collection: PlotCollection) -> Any:
    from importlib import import_module

    return import_module(f"arviz_plots.backend.{plot_collection.backend}")
