"""The picture of where a model fails: the witness function, or single observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import contribution_name, rejects
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, STRONG, Backend, Picture, one_variable

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["witness", "band", "zero", "observations", "xlabel", "ylabel", "title"]
#: Colours of the witness at low, middle and high residuals.
_LEVEL_COLOURS = ("#2166ac", NEUTRAL, "#b2182b")


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
    backend: Backend | None = None,
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
    check = one_variable(check, variable)
    name = str(check["variable"].item())
    view = _view(check, name, covariate)
    data = xr.Dataset({name: ("place", view.places)})
    picture = Picture.open(data, (800, 480), Visual, visuals, plot_collection, backend, pc_kwargs)
    if view.band is not None:
        edges = xr.Dataset(
            {name: (("kwarg", "place"), np.stack([view.places, *view.band]))},
            coords={"kwarg": ["x", "y_bottom", "y_top"]},
        )
        picture.draw("band", "fill_between_y", edges, color=PALE, alpha=0.35)
    zero = xr.Dataset({name: 0.0})
    picture.draw("zero", "hline", zero, color=NEUTRAL, width=1.0, linestyle=DASHED)
    for index, (line, colour) in enumerate(zip(view.lines, view.colours, strict=True)):
        if view.band is None:
            label = f"observations_{index}"
            picture.dots("observations", view.places, line, label=label, color=colour, size=20)
        else:
            label = f"witness_{index}"
            picture.line("witness", view.places, line, label=label, color=colour, width=2.5)
    return picture.close(xlabel=view.xlabel, ylabel=view.ylabel, title=view.title)


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
    return _curves(
        check,
        "the residual",
        "residual (in predictive standard deviations)",
        (STRONG,),
        check["residual_value"].values,
        check["witness"].values[None],
        check["witness_band"].transpose("bound", ...).values[:, None],
    )


def _along(check: xr.Dataset, covariate: str) -> _View:
    chosen = check.sel(covariate=covariate)
    chosen = chosen.isel(position=np.isfinite(chosen["covariate_value"].values))
    return _curves(
        check,
        covariate,
        f"{covariate} (blue, grey, red: at low, middle, high residuals)",
        _LEVEL_COLOURS,
        chosen["covariate_value"].values,
        chosen["covariate_witness"].transpose("level", "position").values,
        chosen["covariate_witness_band"].transpose("bound", "level", "position").values,
    )


def _curves(
    check: xr.Dataset,
    what: str,
    xlabel: str,
    colours: tuple[str, ...],
    places: np.ndarray,
    lines: np.ndarray,
    bands: np.ndarray,
) -> _View:
    """Show lines, and one band around those of all of them."""
    band = np.stack([bands[0].min(axis=0), bands[1].max(axis=0)])
    title = _title(check, what, places, lines, bands)
    ylabel = "witness (above 0: larger expected)"
    return _View(places, lines, colours, xlabel, ylabel, title, band)


def _observations(check: xr.Dataset, name: str) -> _View:
    values = check[contribution_name(name)].values.reshape(-1)
    worst = int(np.nanargmax(values))
    return _View(
        np.arange(values.size, dtype=float),
        values[None],
        (STRONG,),
        f"observation of {name}",
        "contribution to the discrepancy",
        f"Observation {worst} adds most to the discrepancy",
    )


def _title(
    check: xr.Dataset, what: str, places: np.ndarray, lines: np.ndarray, bands: np.ndarray
) -> str:
    """Say where the witness is largest outside its band, if the model is rejected."""
    outside = np.where((lines > bands[1]) | (lines < bands[0]), np.abs(lines), 0.0)
    if not rejects(check) or not outside.any():
        return f"Along {what}: no more than data replicated from the model may show"
    line, place = np.unravel_index(int(np.argmax(outside)), lines.shape)
    expected = "larger" if lines[line, place] > 0 else "smaller"
    return f"Most where {what} is {places[place]:.4g}: the model expects {expected} values there"


def _exceedance(view: _View) -> float:
    """Return how high the witness is, in heights of its band."""
    if view.band is None:
        return 0.0
    return float(np.abs(view.lines).max() / np.abs(view.band).max())
