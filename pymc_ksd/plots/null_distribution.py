"""The picture of a test: where the statistic falls in its null distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, Backend, Picture, accent, as_dataset

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["null", "critical_value", "statistic", "label", "xlabel", "title"]


def plot_ksd_test(
    result: xr.Dataset | xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
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
    result = as_dataset(result)
    if "null_distribution" not in result:
        raise ValueError(
            "`result` must be a dataset from ksd_test; it has no variable 'null_distribution'."
        )
    data = _histogram(result)
    picture = Picture.open(data, (800, 450), Visual, visuals, plot_collection, backend, pc_kwargs)
    picture.draw("null", "hist", data, color=PALE, edgecolor="white", alpha=1.0)
    top = float(data["null_distribution"].sel(plot_axis="histogram").max())
    level, colour = f"critical value ({float(result.attrs['alpha']):g})", accent(result)
    lines: tuple[tuple[Visual, str, float, dict[str, Any]], ...] = (
        ("critical_value", level, 0.98, {"color": NEUTRAL, "linestyle": DASHED, "width": 1.5}),
        ("statistic", "statistic", 0.86, {"color": colour, "linestyle": "C0", "width": 2.5}),
    )
    for visual, label, height, style in lines:
        at = float(result[visual])
        if picture.options[visual] is None or not np.isfinite(at):
            continue
        # A line between two points, because some backends draw vertical lines behind all else.
        picture.line(visual, [at, at], [0.0, 1.05 * top], **style)
        near_right = at > _middle(result)
        picture.draw(
            "label",
            "annotate_xy",
            xr.Dataset({"null_distribution": at}),
            label=f"{visual}_label",
            x=at,
            y=top * height,
            text=f"{label} " if near_right else f" {label}",
            horizontal_align="right" if near_right else "left",
            vertical_align="top",
            color=style["color"],
        )
    return picture.close(
        xlabel=f"{_unit(result)}, {result.attrs['null']} null",
        title=conclusion(result),
    )


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
    values = [*result["null_distribution"].values, float(result["statistic"])]
    return (min(values) + max(values)) / 2


def _unit(result: xr.Dataset) -> str:
    """Say what the statistic is: an estimate, or the largest of several in one unit."""
    name = f"{result.attrs['statistic'].upper()}-statistic"
    return f"Largest {name} of {result.sizes['member']}, in sd" if "member" in result.dims else name
