"""The picture of a comparison of samplers: what draws are worth, and which are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.plots.picture import ACCEPTED, NEUTRAL, PALE, REJECTED, STRONG, Backend, Picture

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["loss", "n", "ess_ksd", "labels", "legend", "xlabel", "title"]
#: How draws of a status look.
_COLOURS = {"passed": ACCEPTED, "cannot tell": STRONG, "rejected": REJECTED}
#: What the picture must have to be drawn.
_NEEDED = ("status", "ess_ksd", "n", "bias_mean", "bias_mean_of", "bias_sd", "bias_sd_of")


def plot_ksd_compare(
    table: pd.DataFrame,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot what the draws of each sampler are worth in exact ones, the best sampler on top.

    The colour says whether draws passed, are rejected, or cannot be told to be right. Names of
    rejected ones are followed by the largest error of a mean or standard deviation.

    Parameters
    ----------
    table : pandas.DataFrame
        What :func:`pymc_ksd.ksd_compare` returned.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"ess_ksd"`` (dots), ``"n"`` (a
        mark at the number of draws), ``"loss"`` (lines between the two), ``"labels"``,
        ``"legend"``, ``"xlabel"``, ``"title"``.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        The figure, its axes and all that was drawn, to be changed or saved.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> import pymc_ksd
    >>> score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    >>> rng = np.random.default_rng(0)
    >>> draws = {
    ...     name: xr.Dataset({"x": (("chain", "draw"), rng.normal(mean, 1, size=(4, 100)))})
    ...     for name, mean in {"right": 0.0, "wrong": 0.5}.items()
    ... }
    >>> table = pymc_ksd.ksd_compare(score, draws, random_seed=0)
    >>> pc = pymc_ksd.plot_ksd_compare(table, backend="none")
    """
    missing = [name for name in _NEEDED if name not in getattr(table, "columns", ())]
    if missing:
        raise ValueError(
            "`table` must be a DataFrame from ksd_compare; it has no column(s) "
            f"{', '.join(map(repr, missing))}."
        )
    worth, n = (table[name].to_numpy(dtype=float) for name in ("ess_ksd", "n"))
    heights = np.arange(len(table))[::-1].astype(float)
    known = np.isfinite(worth)
    # Its name is that of the picture; labels are not drawn of what is not a number.
    data, size = xr.Dataset({"ess_ksd": ("row", heights)}), (800, 190 + 46 * len(table))
    picture = Picture.open(data, size, Visual, visuals, plot_collection, backend, pc_kwargs)
    picture.make_logarithmic("x")
    # One line with gaps, a piece for each sampler.
    pieces = np.stack([worth, n, np.full_like(n, np.nan)], axis=1)[known].ravel()
    picture.line("loss", pieces, np.repeat(heights[known], 3), color=PALE, width=3.0)
    picture.dots("n", n[known], heights[known], size=90, color=NEUTRAL, marker="|")
    entries: list[tuple[str, Mapping[str, Any]]] = []
    for status, colour in _COLOURS.items():
        rows = known & (table["status"] == status).to_numpy()
        if rows.any():
            label = f"ess_ksd_{status.replace(' ', '_')}"
            style: dict[str, Any] = {"size": 90, "color": colour, "marker": "C0"}
            picture.dots("ess_ksd", worth[rows], heights[rows], label=label, **style)
            entries.append((status, {"color": colour, "width": 3.0}))
    entries.append(("what is lost of the draws", {"color": PALE, "width": 3.0}))
    _frame(picture, table, heights, np.concatenate([worth[known], n[known], [10.0]]))
    picture.legend("legend", entries)
    return picture.close(
        xlabel="exact draws that would be as far from the posterior (ess_ksd)", title=_title(table)
    )


def _frame(picture: Picture, table: pd.DataFrame, heights: np.ndarray, shown: np.ndarray) -> None:
    """Name the rows, and make room around what is drawn."""
    functions = import_module(f"arviz_plots.backend.{picture.collection.backend}")
    functions.ylim((-0.6, len(heights) - 0.4), picture.axes)
    low, high = max(shown.min(), 0.1) / 1.5, shown.max() * 1.5
    if picture.collection.backend == "plotly":
        low, high = np.log10(low), np.log10(high)  # it takes limits of a logarithmic axis so
    functions.xlim((float(low), float(high)), picture.axes)
    if (chosen := picture.options["labels"]) is not None:
        texts = [picture.plain(_label(str(name), row)) for name, row in table.iterrows()]
        functions.yticks(list(heights), texts, picture.axes, **chosen)


def _label(name: str, row: pd.Series) -> str:
    """Say which sampler it is, and what is most wrong with its draws where they are rejected."""
    if row["status"] not in _COLOURS:
        return f"{name} ({row['status']})"
    if row["status"] != "rejected":
        return name
    sizes = np.abs([row["bias_mean"], row["bias_sd"]]).astype(float)
    if np.isnan(sizes).all():
        return name
    what = ("mean", "sd")[int(np.nanargmax(sizes))]
    size, parameter = float(row[f"bias_{what}"]), row[f"bias_{what}_of"]
    if np.isinf(size):
        return f"{name} ({what} of {parameter} far off)"
    if what == "mean":
        return f"{name} (mean of {parameter} {size:+.2g} sd)"
    return f"{name} (sd of {parameter} {100 * size:+.0f} %)"


def _title(table: pd.DataFrame) -> str:
    """Say which sampler is best, and how many are wrong."""
    statuses = table["status"].tolist()
    first = f"{table.index[0]}: {statuses[0]}"
    if statuses[0] == "passed":
        worth = min(float(table["ess_ksd"].iloc[0]), float(table["n"].iloc[0]))
        first = f"{table.index[0]} is worth {worth:,.0f} exact draws"
    wrong = statuses.count("rejected")
    return f"{first}; {wrong} of {len(statuses)} rejected" if wrong else first
