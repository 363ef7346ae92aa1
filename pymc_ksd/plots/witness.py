"""The picture of where a model fails: the witness function, or single observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion, contribution_name
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, STRONG, Backend, Picture, one_variable

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal[
    "marked", "witness", "band", "zero", "observations", "legend", "ticks", "xlabel", "ylabel",
    "title",
]  # fmt: skip
#: What lines show along a covariate, and how they look to all readers.
_LEVELS = (
    ("at low residuals", {"color": "#0072B2", "linestyle": "C1"}),
    ("at middle ones", {"color": NEUTRAL, "linestyle": "C0"}),
    ("at high ones", {"color": "#D55E00", "linestyle": "C2"}),
)
_SINGLE = (("witness of the data", {"color": STRONG}),)


@dataclass(frozen=True)
class _View:
    """What is drawn: lines over places with a band, or dots without."""

    places: np.ndarray
    lines: np.ndarray
    styles: tuple[tuple[str, dict[str, str]], ...]
    xlabel: str
    ylabel: str
    title: str
    band: np.ndarray | None = None
    labels: tuple[str, ...] = ()
    is_marked: bool = False


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
    """Plot what the discrepancy finds between data and model, along any covariate.

    For outcomes of one dimension the line is the function that the discrepancy has found between
    data and model: where it is above zero the model expects larger values than there are, where it
    is below zero smaller ones. Along a covariate there are three lines, for low, middle and high
    residuals: the quantiles 10, 50 and 90 % of those nearby. For outcomes of several dimensions the
    contributions of single observations are shown.

    Of data replicated from the model, 95 % stay in the band from end to end, along this covariate.
    Whether the model is rejected is for all comparisons together to say: along the covariate that
    speaks loudest the same stretches are marked as by :func:`plot_ksd_ppc`, and none unless the
    check rejects.

    Parameters
    ----------
    check : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_ppc` returned.
    covariate : str, optional
        Show the witness along this covariate, one of ``check["covariate"]``, or over the residuals
        with ``"residual"``. By default the one that speaks loudest.
    variable : str, optional
        Which observed variable, by default the one with the smallest p-value.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"marked"`` (shaded stretches),
        ``"witness"`` (lines), ``"band"``, ``"zero"`` (the line at zero), ``"observations"`` (dots),
        ``"legend"``, ``"ticks"`` (names of groups), ``"xlabel"``, ``"ylabel"``, ``"title"``.
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
    if view.is_marked:
        picture.draw_marks("marked", check)
    entries: list[tuple[str, dict[str, Any]]] = []
    if view.band is not None:
        picture.band("band", view.places, *view.band, color=PALE, alpha=0.45)
        entries.append(("95 % of replicated data", {"color": PALE, "width": 9.0}))
    zero = xr.Dataset({name: 0.0})
    picture.draw("zero", "hline", zero, color=NEUTRAL, width=1.0, linestyle=DASHED)
    for index, (line, (told, style)) in enumerate(zip(view.lines, view.styles, strict=True)):
        if view.band is None:
            label = f"observations_{index}"
            picture.dots("observations", view.places, line, label=label, size=20, **style)
        else:
            label = f"witness_{index}"
            picture.line("witness", view.places, line, label=label, width=2.5, **style)
            entries.append((told, {**style, "width": 2.5}))
    if view.labels:
        picture.name_ticks("ticks", view.places, view.labels)
    if entries:
        picture.legend("legend", entries + (picture.mark_entries(check) if view.is_marked else []))
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
        along = str(check["picture_along"].item()) if "picture_along" in check else ""
        # Along a covariate in one of several groups, too.
        spoken = (one for one in views if f"{along} in ".startswith(f"{one} in "))
        covariate = next(spoken, "residual")
    if covariate not in views:
        raise ValueError(f"`covariate` must be one of {', '.join(views)}, got {covariate!r}.")
    return views[covariate]


def _over_residuals(check: xr.Dataset) -> _View:
    along = str(check["picture_along"].item()) if "picture_along" in check else ""
    view = _curves(
        check,
        "residual, in predictive standard deviations",
        _SINGLE,
        check["residual_value"].values,
        check["witness"].values[None],
        check["witness_band"].transpose("bound", ...).values[:, None],
    )
    return replace(view, is_marked=along.startswith("residual of "))


def _along(check: xr.Dataset, covariate: str) -> _View:
    chosen = check.sel(covariate=covariate)
    chosen = chosen.isel(position=np.isfinite(chosen["covariate_value"].values))
    view = _curves(
        check,
        covariate,
        _LEVELS,
        chosen["covariate_value"].values,
        chosen["covariate_witness"].transpose("level", "position").values,
        chosen["covariate_witness_band"].transpose("bound", "level", "position").values,
    )
    if "picture_along" not in check or str(check["picture_along"].item()) != covariate:
        return view
    if str(check["picture_kind"].item()) == "covariate":
        return replace(view, is_marked=True)
    # Groups stand side by side under their names, as in the picture of the data.
    labels = tuple(label for label in check["picture_label"].values.tolist() if label)
    if len(labels) != len(view.places):
        return view
    return replace(view, places=np.arange(len(labels)), labels=labels, is_marked=True)


def _curves(
    check: xr.Dataset,
    xlabel: str,
    styles: tuple[tuple[str, dict[str, str]], ...],
    places: np.ndarray,
    lines: np.ndarray,
    bands: np.ndarray,
) -> _View:
    """Show lines, and one band around those of all of them."""
    band = np.stack([bands[0].min(axis=0), bands[1].max(axis=0)])
    ylabel = "witness (above 0: larger expected)"
    return _View(places, lines, styles, xlabel, ylabel, conclusion(check), band)


def _observations(check: xr.Dataset, name: str) -> _View:
    values = check[contribution_name(name)].values.reshape(-1)
    worst = int(np.nanargmax(values))
    return _View(
        np.arange(values.size, dtype=float),
        values[None],
        _SINGLE,
        f"observation of {name}",
        "contribution to the discrepancy",
        f"Observation {worst} adds most to the discrepancy",
    )
