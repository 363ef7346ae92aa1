"""The picture of where a model fails: the witness function, or single observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import contribution_name
from pymc_ksd.plots.options import (
    CHAIN,
    NEUTRAL,
    collection_options,
    marker_size,
    one_variable,
    plain,
    visual_options,
)

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_ksd_witness"]

Visual = Literal["witness", "band", "zero", "observations", "xlabel", "ylabel", "title"]
_VISUALS: tuple[Visual, ...] = (
    "witness",
    "band",
    "zero",
    "observations",
    "xlabel",
    "ylabel",
    "title",
)
#: Colours of the witness at low, middle and high residuals.
_LEVEL_COLOURS = ("#2166ac", "#444444", "#b2182b")


@dataclass(frozen=True)
class _View:
    """What is drawn: lines over places with a band, or dots without."""

    places: np.ndarray
    lines: np.ndarray
    colours: tuple[str, ...]
    xlabel: str
    ylabel: str
    title: str
    band: np.ndarray | None = None


def plot_ksd_witness(
    check: xr.Dataset | xr.DataTree,
    *,
    covariate: str | None = None,
    variable: str | None = None,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly", "none"] | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot where a fitted model and its data disagree.

    For outcomes of one dimension the line is the function that the discrepancy has found between
    data and model: where it is above zero the model expects larger values than there are, where it
    is below zero smaller ones. Of data replicated from the model, 95 % stay in the grey band from
    end to end. Along a covariate there are three lines, for low, middle and high residuals: the
    quantiles 10, 50 and 90 % of those nearby. For outcomes of several dimensions the contributions
    of single observations are shown.

    Parameters
    ----------
    check : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_ppc` returned.
    covariate : str, optional
        Show the witness along this covariate, one of ``check["covariate"]``, or over the residuals
        with ``"residual"``. By default whichever leaves its band most.
    variable : str, optional
        Which observed variable, by default the one with the smallest p-value.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"witness"`` (lines), ``"band"``,
        ``"zero"`` (the line at zero), ``"observations"`` (dots), ``"xlabel"``, ``"ylabel"``,
        ``"title"``.
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
    view = _view(check, name, covariate)
    data = xr.Dataset({name: ("place", view.places)})
    if plot_collection is None:
        plot_collection = PlotCollection.wrap(
            data, **collection_options(pc_kwargs, backend, (800, 480))
        )
    if view.band is not None and options["band"] is not None:
        edges = xr.Dataset(
            {name: (("kwarg", "place"), np.stack([view.places, *view.band]))},
            coords={"kwarg": ["x", "y_bottom", "y_top"]},
        )
        style = {"color": CHAIN, "alpha": 0.35}
        plot_collection.map(draw.fill_between_y, "band", data=edges, **{**style, **options["band"]})
    if options["zero"] is not None:
        style = {"color": NEUTRAL, "width": 1.0, "linestyle": "C1"}
        plot_collection.map(
            draw.hline, "zero", data=xr.Dataset({name: 0.0}), **{**style, **options["zero"]}
        )
    function, key = (
        (draw.line_xy, "witness")
        if view.band is not None
        else (
            draw.scatter_xy,
            "observations",
        )
    )
    if options[key] is not None:
        for index, (line, colour) in enumerate(zip(view.lines, view.colours, strict=True)):
            pair = xr.Dataset(
                {name: (("plot_axis", "place"), np.stack([view.places, line]))},
                coords={"plot_axis": ["x", "y"]},
            )
            look: dict[str, Any] = {"color": colour}
            look |= (
                {"width": 2.5} if key == "witness" else {"size": marker_size(plot_collection, 20)}
            )
            plot_collection.map(function, f"{key}_{index}", data=pair, **{**look, **options[key]})
    texts = {
        "xlabel": (draw.labelled_x, view.xlabel),
        "ylabel": (draw.labelled_y, view.ylabel),
        "title": (draw.labelled_title, view.title),
    }
    for key_, (function, text) in texts.items():
        chosen = options[key_]
        if chosen is not None:
            plot_collection.map(
                function, key_, data=data, text=plain(plot_collection, text), **chosen
            )
    return plot_collection


def _view(check: xr.Dataset, name: str, covariate: str | None) -> _View:
    """Choose what to show."""
    if "witness" not in check or not np.isfinite(check["witness"].values).any():
        if covariate is not None:
            raise ValueError(
                f"`covariate` was given, but {name!r} has several dimensions and no witness over "
                "a covariate: its single observations can be shown."
            )
        return _observations(check, name)
    views = {"residual": _over_residuals(check)}
    if "covariate" in check.dims:
        for label in check["covariate"].values:
            places = check["covariate_value"].sel(covariate=label).values
            if np.isfinite(places).any():
                views[str(label)] = _along(check, str(label))
    if covariate is None:
        covariate = max(views, key=lambda key: _exceedance(views[key]))
    if covariate not in views:
        raise ValueError(f"`covariate` must be one of {', '.join(views)}, got {covariate!r}.")
    return views[covariate]


def _over_residuals(check: xr.Dataset) -> _View:
    places = check["residual_value"].values
    line, band = check["witness"].values, check["witness_band"].transpose("bound", ...).values
    return _View(
        places,
        line[None],
        ("#1f4e79",),
        "residual (in predictive standard deviations)",
        "witness (above 0: larger expected)",
        _title(check, "the residual", places, line[None], band[:, None]),
        band,
    )


def _along(check: xr.Dataset, covariate: str) -> _View:
    chosen = check.sel(covariate=covariate)
    places = chosen["covariate_value"].values
    known = np.isfinite(places)
    lines = chosen["covariate_witness"].transpose("level", "position").values[:, known]
    bands = chosen["covariate_witness_band"].transpose("bound", "level", "position").values
    bands = bands[:, :, known]
    envelope = np.stack([bands[0].min(axis=0), bands[1].max(axis=0)])
    return _View(
        places[known],
        lines,
        _LEVEL_COLOURS,
        f"{covariate} (blue, grey, red: at low, middle, high residuals)",
        "witness (above 0: larger expected)",
        _title(check, covariate, places[known], lines, bands),
        envelope,
    )


def _observations(check: xr.Dataset, name: str) -> _View:
    values = check[contribution_name(name)].values.reshape(-1)
    worst = int(np.nanargmax(values))
    return _View(
        np.arange(values.size, dtype=float),
        values[None],
        ("#1f4e79",),
        f"observation of {name}",
        "contribution to the discrepancy",
        f"Observation {worst} adds most to the discrepancy",
    )


def _title(
    check: xr.Dataset, what: str, places: np.ndarray, lines: np.ndarray, bands: np.ndarray
) -> str:
    """Say where the witness is largest outside its band, if the model is rejected."""
    outside = np.where((lines > bands[1]) | (lines < bands[0]), np.abs(lines), 0.0)
    if float(check["p_value"]) > float(check.attrs["alpha"]) or not outside.any():
        return f"Along {what}: no more than data replicated from the model may show"
    line, place = np.unravel_index(int(np.argmax(outside)), lines.shape)
    expected = "larger" if lines[line, place] > 0 else "smaller"
    return f"Most where {what} is {places[place]:.4g}: the model expects {expected} values there"


def _exceedance(view: _View) -> float:
    """Return how high the witness is, in heights of its band."""
    if view.band is None:
        return 0.0
    return float(np.abs(view.lines).max() / np.abs(view.band).max())
