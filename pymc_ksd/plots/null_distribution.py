"""The picture of a test: where the statistic falls in its null distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.plots.options import (
    ACCEPTED,
    REJECTED,
    as_dataset,
    collection_options,
    plain,
    visual_options,
)

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_ksd_test"]

Visual = Literal["null", "critical_value", "statistic", "label", "xlabel", "title"]
_VISUALS: tuple[Visual, ...] = (
    "null",
    "critical_value",
    "statistic",
    "label",
    "xlabel",
    "title",
)


def plot_ksd_test(
    result: xr.Dataset | xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly", "none"] | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the null distribution of a test, its critical value and the statistic.

    Parameters
    ----------
    result : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_test` returned.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"null"`` (histogram),
        ``"critical_value"`` and ``"statistic"`` (vertical lines), ``"label"`` (their names),
        ``"xlabel"``, ``"title"``.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        The figure, its axes and all that was drawn, to be changed or saved.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_ksd
    >>> score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    >>> data = np.random.default_rng(0).normal(size=100)
    >>> result = pymc_ksd.ksd_test(score, data, random_seed=0)
    >>> pc = pymc_ksd.plot_ksd_test(result, backend="none")
    """
    from arviz_plots import PlotCollection
    from arviz_plots import visuals as draw

    options = visual_options(visuals, _VISUALS)
    result = as_dataset(result)
    if "null_distribution" not in result:
        raise ValueError(
            "`result` must be a dataset from ksd_test; it has no variable 'null_distribution'."
        )
    data = _histogram(result)
    if plot_collection is None:
        plot_collection = PlotCollection.wrap(
            data, **collection_options(pc_kwargs, backend, (800, 450))
        )
    rejected = float(result["p_value"]) <= float(result.attrs["alpha"])
    accent = REJECTED if rejected else ACCEPTED

    if options["null"] is not None:
        plot_collection.map(
            draw.hist,
            "null",
            data=data,
            **{"color": "#9fb6cd", "edgecolor": "white", "alpha": 1.0, **options["null"]},
        )
    top = float(data["null_distribution"].sel(plot_axis="histogram").max())
    lines = {
        "critical_value": (
            f"critical value ({float(result.attrs['alpha']):g})",
            {"color": "#444444", "linestyle": "C1", "width": 1.5},
            0.98,
        ),
        "statistic": ("statistic", {"color": accent, "linestyle": "C0", "width": 2.5}, 0.86),
    }
    for name, (text, style, height) in lines.items():
        at = float(result[name])
        if options[name] is None or not np.isfinite(at):
            continue
        position = xr.Dataset({"null_distribution": at})
        # A line between two points, because some backends draw vertical lines behind all else.
        ends = xr.Dataset(
            {"null_distribution": (("plot_axis", "end"), [[at, at], [0.0, 1.05 * top]])},
            coords={"plot_axis": ["x", "y"]},
        )
        plot_collection.map(draw.line_xy, name, data=ends, **{**style, **options[name]})
        if options["label"] is not None:
            near_right = at > _middle(result)
            plot_collection.map(
                draw.annotate_xy,
                f"{name}_label",
                data=position,
                x=at,
                y=top * height,
                text=f"{text} " if near_right else f" {text}",
                **{
                    "horizontal_align": "right" if near_right else "left",
                    "vertical_align": "top",
                    "color": style["color"],
                    **options["label"],
                },
            )
    if options["xlabel"] is not None:
        text = f"{result.attrs['statistic'].upper()}-statistic, {result.attrs['null']} null"
        plot_collection.map(draw.labelled_x, "xlabel", data=data, text=text, **options["xlabel"])
    if options["title"] is not None:
        plot_collection.map(
            draw.labelled_title,
            "title",
            data=data,
            text=plain(plot_collection, conclusion(result)),
            **options["title"],
        )
    return plot_collection


def _histogram(result: xr.Dataset) -> xr.Dataset:
    counts, edges = np.histogram(result["null_distribution"].values, bins="fd")
    if len(counts) > 60:
        counts, edges = np.histogram(result["null_distribution"].values, bins=60)
    table = np.stack([counts.astype(float), edges[:-1], edges[1:]])
    return xr.Dataset(
        {"null_distribution": (("plot_axis", "hist_dim"), table)},
        coords={"plot_axis": ["histogram", "left_edges", "right_edges"]},
    )


def _middle(result: xr.Dataset) -> float:
    values = result["null_distribution"].values
    low = min(float(values.min()), float(result["statistic"]))
    high = max(float(values.max()), float(result["statistic"]))
    return (low + high) / 2
