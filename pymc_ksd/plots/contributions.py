"""The picture of single parameters: KSD effective sample size beside the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import parameter_sizes
from pymc_ksd.plots.picture import NEUTRAL, REJECTED, Backend, Picture, as_dataset

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["ess_ksd", "ess_bulk", "labels", "xlabel", "title"]


def plot_ksd_contributions(
    measures: xr.Dataset | xr.DataTree,
    *,
    max_parameters: int = 50,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot, for every parameter, ``ess_ksd`` beside ``ess_bulk``.

    An ``ess_ksd`` far below ``ess_bulk`` is a sign that draws do not come from the posterior. It
    does not say which parameter is wrong, and a large one does not say that its parameter is right:
    an error that correlated parameters share is invisible in each of them. :func:`ksd_test`
    compares all of them together.

    Parameters
    ----------
    measures : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd` returned.
    max_parameters : int, default 50
        With more parameters, those with the least ``ess_ksd`` for their ``ess_bulk`` are shown.
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
    labels, table = parameter_sizes(as_dataset(measures))
    if not labels:
        raise ValueError(
            "`measures` must be a dataset from ksd; it has no variable with the dim 'diagnostic'."
        )
    title = _title(labels, table)
    xlabel = "effective sample size (dot: ess_ksd, bar: ess_bulk)"
    if len(labels) > max_parameters:
        xlabel += f"; the {max_parameters} lowest of {len(labels):,} parameters"
        rows = np.sort(np.argsort(_share(table), kind="stable")[:max_parameters])
        labels, table = [labels[row] for row in rows], table[rows]
    ess_ksd, ess_bulk = table.T
    size = (800, 220 + 26 * len(labels))
    data = xr.Dataset({"ess": ("row", ess_ksd)})
    picture = Picture.open(data, size, Visual, visuals, plot_collection, backend, pc_kwargs)
    heights = np.arange(len(labels))[::-1].astype(float)
    picture.dots("ess_bulk", ess_bulk, heights, size=60, color=NEUTRAL, marker="|")
    picture.dots("ess_ksd", ess_ksd, heights, size=40, color=REJECTED, marker="C0")
    functions = import_module(f"arviz_plots.backend.{picture.collection.backend}")
    known = table[np.isfinite(table)]
    if known.size:
        # From zero on, so that a dot in the middle means half as much.
        functions.xlim((0.0, 1.05 * float(known.max())), picture.axes)
    functions.ylim((-0.7, len(labels) - 0.3), picture.axes)
    if (chosen := picture.options["labels"]) is not None:
        texts = [picture.plain(label) for label in labels]
        functions.yticks(list(heights), texts, picture.axes, **chosen)
    return picture.close(xlabel=xlabel, title=title)


def _title(labels: list[str], table: np.ndarray) -> str:
    """Name the parameter with the lowest number, without a claim that others are right."""
    worst = int(np.argmin(_share(table)))
    own, usual = table[worst]
    if not np.isfinite(usual):
        return f"{labels[worst]}: the lowest ess_ksd ({own:,.0f})"
    return f"{labels[worst]}: the lowest ess_ksd for its ess_bulk ({own:,.0f} of {usual:,.0f})"


def _share(table: np.ndarray) -> np.ndarray:
    """Return ``ess_ksd`` over ``ess_bulk``, or ``ess_ksd`` where no other is known."""
    if not np.isfinite(table[:, 1]).any():
        return table[:, 0]
    share: np.ndarray = table[:, 0] / table[:, 1]
    return np.where(np.isfinite(share), share, np.inf)
