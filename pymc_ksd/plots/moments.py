"""The picture of means and standard deviations: by how much each is off, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import Biases, are_moments, status_of, within_margin, worst_moment
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, STRONG, Backend, Picture, as_dataset

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal[
    "margin", "zero", "mean", "mean_interval", "sd", "sd_interval", "labels", "legend",
    "xlabel", "title",
]  # fmt: skip
#: Half the width of a 95 % interval in standard errors, and how far rows are drawn apart.
_QUANTILE, _APART = 1.96, 0.16
#: How pale that is drawn which may be chance, and how this and the margin look in a legend.
_CHANCE, _PALER, _BAND = 0.4, "#b4b4b4", "#d5dfe9"
#: What goes with the mean and with the standard deviation: name, colour, marker.
_MEAN = ("mean, in posterior sd", STRONG, "C0", _APART)
_SD = ("sd (0.1 is 10 %)", "#d95f02", "C5", -_APART)


def plot_ksd_moments(
    result: xr.Dataset | xr.DataTree,
    *,
    max_parameters: int = 30,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the errors of the mean and standard deviation of every parameter.

    Both are in units of the posterior standard deviation, with 95 % intervals from the standard
    errors ``mcse_bias_mean`` and ``mcse_bias_sd``, and the worst parameters come first. Some of
    many intervals exclude zero by chance: those that may be chance after adjusting for their number
    are pale.

    Parameters
    ----------
    result : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_moments` or :func:`pymc_ksd.ksd_expectation` returned.
    max_parameters : int, default 30
        If there are more parameters, the worst are shown.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"mean"`` and ``"sd"`` (dots),
        ``"mean_interval"`` and ``"sd_interval"`` (lines), ``"margin"`` (the band within which a
        certificate requires all of them to lie), ``"zero"`` (a line), ``"labels"``, ``"legend"``,
        ``"xlabel"``, ``"title"``.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        The figure, its axes and everything drawn, to be changed or saved.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> import pymc_ksd
    >>> score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    >>> values = np.random.default_rng(0).normal(0.3, 1, size=(4, 250))
    >>> draws = xr.Dataset({"x": (("chain", "draw"), values)})
    >>> pc = pymc_ksd.plot_ksd_moments(pymc_ksd.ksd_moments(score, draws), backend="none")
    """
    result = as_dataset(result)
    if not are_moments(result):
        raise ValueError(
            "`result` must be a dataset from ksd_moments or ksd_expectation, which its attribute "
            f"'result' says; it says {result.attrs.get('result')!r}."
        )
    biases, xlabel = Biases.of(result), "error of the draws, in posterior standard deviations"
    if len(biases.labels) > max_parameters:
        xlabel += f"; the {max_parameters} worst of {len(biases.labels):,} parameters"
        biases = biases.first(max_parameters)
    # Of what is shown without any number, too, there is a picture.
    data = xr.Dataset({"bias": ("row", np.nan_to_num(biases.sizes[:, 0]))})
    size = (800, 190 + 34 * len(biases.labels))
    picture = Picture.open(data, size, Visual, visuals, plot_collection, backend, pc_kwargs)
    margin = float(result.attrs.get("margin", 0.0))
    _background(picture, len(biases.labels), margin)
    entries = []
    for visual, column, (name, colour, marker, up) in (("mean", 0, _MEAN), ("sd", 1, _SD)):
        _row_by_row(picture, visual, biases, column, up, color=colour, marker=marker)
        entries.append((name, {"color": colour, "width": 2.0}))
    if not biases.proven.all():
        entries.append(("not significant", {"color": _PALER, "width": 2.0}))
    if margin:
        entries.append((f"margin of {margin:g}", {"color": _BAND, "width": 8.0}))
    _frame(picture, biases, margin)
    picture.legend("legend", entries)
    return picture.close(xlabel=xlabel, title=_title(result))


def _row_by_row(
    picture: Picture,
    visual: str,
    biases: Biases,
    column: int,
    up: float,
    *,
    color: str,
    marker: str,
) -> None:
    """Draw the dots and intervals of all parameters, those that may be chance in a paler colour."""
    heights = np.arange(len(biases.labels))[::-1] + up
    proven = biases.proven[:, column]
    for suffix, rows, alpha in (("", proven, 1.0), ("_by_chance", ~proven, _CHANCE)):
        if not rows.any():
            continue
        bias, error = biases.sizes[rows, column], _QUANTILE * biases.errors[rows, column]
        # One line with gaps, a piece for each parameter.
        ends = np.stack([bias - error, bias + error, np.full_like(bias, np.nan)], axis=1).ravel()
        across, interval = np.repeat(heights[rows], 3), f"{visual}_interval"
        style: dict[str, Any] = {"color": color, "alpha": alpha}
        picture.line(interval, ends, across, label=interval + suffix, width=2.0, **style)
        picture.dots(
            visual, bias, heights[rows], size=40, label=visual + suffix, marker=marker, **style
        )


def _background(picture: Picture, count: int, margin: float) -> None:
    """Draw the band of the margin, and the line that stands for no error."""
    if margin:
        edges = np.array([[-margin, margin], [-0.7, -0.7], [count - 0.3, count - 0.3]])
        band = xr.Dataset(
            {picture.name: (("kwarg", "place"), edges)},
            coords={"kwarg": ["x", "y_bottom", "y_top"]},
        )
        picture.draw("margin", "fill_between_y", band, color=PALE, alpha=0.35)
    ends = [-0.7, count - 0.3]
    picture.line("zero", [0.0, 0.0], ends, color=NEUTRAL, linestyle=DASHED, width=1.0)


def _frame(picture: Picture, biases: Biases, margin: float) -> None:
    """Name the rows, and show all of what is drawn, and zero."""
    functions = import_module(f"arviz_plots.backend.{picture.collection.backend}")
    ends = [biases.sizes + side * _QUANTILE * biases.errors for side in (-1, 1)]
    known = np.concatenate([[-margin, margin, -0.02, 0.02], *(one.ravel() for one in ends)])
    low, high = np.nanmin(known), np.nanmax(known)
    room = 0.05 * (high - low)
    functions.xlim((low - room, high + room), picture.axes)
    functions.ylim((-0.7, len(biases.labels) - 0.3), picture.axes)
    if (chosen := picture.options["labels"]) is not None:
        unknown = np.isnan(biases.sizes).all(axis=1)
        texts = [
            picture.plain(f"{label} (no correction)" if nothing else label)
            for label, nothing in zip(biases.labels, unknown, strict=True)
        ]
        heights = np.arange(len(texts))[::-1].astype(float)
        functions.yticks(list(heights), texts, picture.axes, **chosen)


def _title(result: xr.Dataset) -> str:
    """Say what was found, shorter than the conclusion does."""
    status, within = status_of(result), within_margin(result)
    if status == "rejected":
        return worst_moment(result).removesuffix(".") or "Outside the margin"
    if status == "cannot tell":
        return "Cannot tell whether means and standard deviations are right"
    return (
        f"{within[0].upper()}{within[1:]}" if within else "No significant error in any mean or sd"
    )
