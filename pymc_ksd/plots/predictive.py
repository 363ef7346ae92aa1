"""The picture of a predictive check: the data, what the model expects, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.marks import along
from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.plots.picture import NEUTRAL, PALE, STRONG, Backend, Picture, one_variable

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Visual = Literal[
    "marked", "band", "median", "observations", "observed", "named", "legend", "ticks", "xlabel",
    "ylabel", "title",
]  # fmt: skip
#: Half the width of the line at a group's median, and the width of its interval in dots.
_HALF, _THICK = 0.3, 9.0


def plot_ksd_ppc(
    check: xr.Dataset | xr.DataTree,
    *,
    variable: str | None = None,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    visuals: Mapping[Visual, Mapping[str, Any] | bool] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the data beside what the fitted model expects, and mark where they disagree.

    Outcomes are shown along the covariate that speaks loudest: an input, a parameter such as the
    fitted mean, time, or groups; of vectors the element that is furthest off. Where no covariate
    speaks, but the distribution itself is wrong, the picture has the values of the outcome (of the
    residual, where every observation has a distribution of its own) and how many observations have
    them, of vectors also the elements. Of zeros and ones the share of ones nearby is shown, of
    categories without an order the share of the one that is furthest off.

    Something is marked if and only if the check rejects: where the observations nearby add more to
    the discrepancy than they do anywhere in 95 % of the data replicated from the model, or, if they
    do so nowhere, where they add most. Colours say what the data are there, and the observations
    that contribute most are named.

    Parameters
    ----------
    check : xarray.Dataset or DataTree
        What :func:`pymc_ksd.ksd_ppc` returned.
    variable : str, optional
        Which observed variable, by default the one with the smallest p-value.
    plot_collection : PlotCollection, optional
        Draw into an existing collection.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Plotting backend, by default that of arviz-plots.
    visuals : mapping, optional
        Options for each element, or ``False`` to leave it out: ``"marked"`` (shaded stretches),
        ``"band"`` and ``"median"`` (of replicated data), ``"observations"`` (dots), ``"observed"``
        (shares of ones, numbers of observations, or totals), ``"named"``, ``"legend"``, ``"ticks"``
        (names of groups), ``"xlabel"``, ``"ylabel"``, ``"title"``.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        The figure, its axes and all that was drawn, to be changed or saved.
    """
    check = one_variable(check, variable)
    if "picture_kind" not in check:
        raise ValueError(
            "`check` must come from this version of ksd_ppc: it has no variable 'picture_kind'."
        )
    name = str(check["variable"].item())
    places = check["picture_at"].values
    data = xr.Dataset({name: ("picture_place", places)})
    picture = Picture.open(data, (800, 550), Visual, visuals, plot_collection, backend, pc_kwargs)
    picture.draw_marks("marked", check)
    entries = _draw_expected(picture, check) + _draw_observed(picture, check)
    picture.legend("legend", entries + picture.mark_entries(check))
    outcome = str(check["picture_outcome"].item())
    if _is_share(check) and not outcome.startswith("share of "):
        outcome = f"{outcome}, and its share of ones"
    return picture.close(xlabel=along(check), ylabel=outcome, title=conclusion(check))


def _draw_expected(picture: Picture, check: xr.Dataset) -> list[tuple[str, dict[str, Any]]]:
    """Draw what replicated data are, and return how the legend explains it."""
    known = np.isfinite(check["picture_expected"].values).all(axis=1)
    places = check["picture_at"].values[known]
    low, middle, high = check["picture_expected"].values[known].T
    labels = check["picture_label"].values[known].tolist()
    if any(labels):
        picture.line("band", _ends(places, places), _ends(low, high), color=PALE, width=_THICK)
        ends = _ends(places - _HALF, places + _HALF)
        picture.line("median", ends, _ends(middle, middle), color=NEUTRAL, width=2.0)
        is_values = str(check["picture_kind"].item()) == "values"
        picture.name_ticks(
            "ticks", places, [_short(one) for one in labels] if is_values else labels
        )
    else:
        picture.band("band", places, low, high, color=PALE, alpha=0.45)
        picture.line("median", places, middle, color=NEUTRAL, width=2.0)
    return [
        ("95 % of replicated data", {"color": PALE, "width": _THICK}),
        ("their median", {"color": NEUTRAL, "width": 2.0}),
    ]


def _short(values: str) -> str:
    """Return what values are called below a picture: "16 or more" has no room there."""
    number, _, rest = values.partition(" or ")
    return {"more": f"≥{number}", "less": f"≤{number}"}.get(rest, values)


def _draw_observed(picture: Picture, check: xr.Dataset) -> list[tuple[str, dict[str, Any]]]:
    """Draw observations and what they come to, and return how the legend explains it."""
    entries = []
    x, y = check["picture_x"].values, check["picture_y"].values
    seen = np.isfinite(x) & np.isfinite(y)
    if seen.any():
        pale = 0.25 if _is_share(check) else 0.6
        style: dict[str, Any] = {"color": STRONG, "alpha": pale}
        picture.dots("observations", x[seen], y[seen], size=18, **style)
        entries.append(("observations", {"color": STRONG, "marker": "dot"}))
    observed = check["picture_observed"].values
    known = np.isfinite(observed)
    if known.any():
        places = check["picture_at"].values[known]
        if not any(check["picture_label"].values.tolist()):
            picture.line("observed", places, observed[known], color=STRONG, width=1.5)
        picture.dots(
            "observed", places, observed[known], label="observed_dots", size=40, color=STRONG
        )
        word = "observed share" if _is_share(check) else "observed"
        entries.append((word, {"color": STRONG, "marker": "dot"}))
    names, x, y = (check[f"picture_name{axis}"].values for axis in ("", "_x", "_y"))
    if np.isfinite(x).any():
        picture.dots("named", x, y, label="named_dots", size=45, color="black")
        here = " here" if str(check["picture_within"].item()) else ""
        entries.append((f"contribute most{here}", {"color": "black", "marker": "dot"}))
    for index in np.flatnonzero(np.isfinite(x)).tolist():
        picture.name_point("named", str(names[index]), x[index], y[index], label=f"named_{index}")
    return entries


def _is_share(check: xr.Dataset) -> bool:
    """Whether outcomes are zeros and ones, of which shares are shown."""
    has_dots = bool(np.isfinite(check["picture_x"].values).any())
    return has_dots and bool(np.isfinite(check["picture_observed"].values).any())


def _ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return where lines begin and end, with gaps between them."""
    return np.stack([first, last, np.full_like(first, np.nan)], axis=1).ravel()
