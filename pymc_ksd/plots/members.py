"""The picture of a panel: how far each member exceeds what it comes to by chance."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import conclusion, in_words
from pymc_ksd.plots.picture import DASHED, NEUTRAL, PALE, Backend, Picture, accent, as_dataset

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal["excess", "stem", "critical_value", "zero", "labels", "legend", "xlabel", "title"]


def plot_ksd_members(
    result: xr.Dataset | xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the standardized statistic of each kernel of a test, and their joint critical value.

    Members are in the unit of the joined test: standard deviations of their own replicates, whose
    skewness is taken out, times what the member counts. The one that reaches furthest decides, and
    says whether the error is of small or of large scale, in the bulk or in a few draws, or in one
    parameter.

    Parameters
    ----------
    result : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_test` returned for several kernels, as it does by default.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"excess"`` (dots), ``"stem"``
        (lines from zero to them), ``"critical_value"`` and ``"zero"`` (vertical lines),
        ``"labels"``, ``"legend"``, ``"xlabel"``, ``"title"``.
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
    >>> data = np.random.default_rng(0).laplace(size=100)
    >>> result = pymc_ksd.ksd_test(score, data, random_seed=0)
    >>> pc = pymc_ksd.plot_ksd_members(result, backend="none")
    """
    result = as_dataset(result)
    if "member_excess" not in result:
        raise ValueError(
            "`result` must be a dataset from ksd_test with several kernels; it has no variable "
            "'member_excess'."
        )
    excess = result["member_excess"].values
    heights = np.arange(len(excess))[::-1].astype(float)
    ends = [-0.6, len(excess) - 0.4]
    data, size = xr.Dataset({"excess": ("row", excess)}), (800, 190 + 34 * len(excess))
    picture = Picture.open(data, size, Visual, visuals, plot_collection, backend, pc_kwargs)
    picture.line("zero", [0.0, 0.0], ends, color=NEUTRAL, width=1.0)
    # One line with gaps, a piece for each member.
    gaps = np.full_like(excess, np.nan)
    stems = np.stack([np.zeros_like(excess), excess, gaps], axis=1).ravel()
    picture.line("stem", stems, np.repeat(heights, 3), color=PALE, width=3.0)
    picture.dots("excess", excess, heights, size=60, color=accent(result), marker="C0")
    critical, style = float(result["critical_value"]), {"color": NEUTRAL, "linestyle": DASHED}
    if np.isfinite(critical):
        picture.line("critical_value", [critical, critical], ends, width=1.5, **style)
        level = f"critical value of all together ({float(result.attrs['alpha']):g})"
        picture.legend("legend", [(level, style)])
    _name_rows(picture, result, heights)
    return picture.close(xlabel="standardized excess over replicates", title=conclusion(result))


def _name_rows(picture: Picture, result: xr.Dataset, heights: np.ndarray) -> None:
    """Write the members' names and p-values beside their rows."""
    functions = import_module(f"arviz_plots.backend.{picture.collection.backend}")
    functions.ylim((-0.6, len(heights) - 0.4), picture.axes)
    if (chosen := picture.options["labels"]) is not None:
        rows = zip(result["member"].values, result["member_p_value"].values, strict=True)
        texts = [picture.plain(f"{name} ({in_words(p_value)})") for name, p_value in rows]
        functions.yticks(list(heights), texts, picture.axes, **chosen)
