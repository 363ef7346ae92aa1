"""What all plots share: colours, the argument `visuals`, and the figure's size and backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

__all__ = [
    "ACCEPTED",
    "CHAIN",
    "NEUTRAL",
    "REJECTED",
    "as_dataset",
    "collection_options",
    "marker_size",
    "one_variable",
    "plain",
    "visual_options",
]

REJECTED = "#c1272d"
ACCEPTED = "#1b7837"
NEUTRAL = "#444444"
CHAIN = "#9fb6cd"


def as_dataset(result: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """Return a result as a Dataset, also when it comes back as a group of inference data."""
    return result.to_dataset() if isinstance(result, xr.DataTree) else result


def one_variable(check: xr.Dataset | xr.DataTree, variable: str | None) -> xr.Dataset:
    """Return a predictive check of one observed variable, by default the one that fits worst."""
    check = as_dataset(check)
    if "observed" not in check or "replicated" not in check or "variable" not in check.coords:
        raise ValueError(
            "`check` must be a dataset from ksd_ppc; it has no variables 'observed' and "
            "'replicated'."
        )
    names = [str(name) for name in check["variable"].values.reshape(-1)]
    if variable is not None and variable not in names:
        raise ValueError(f"`variable` must be one of {', '.join(names)}, got {variable!r}.")
    if "variable" not in check.dims:
        return check
    worst = names[int(np.argmin(check["p_value"].values))]
    return check.sel(variable=variable or worst)


def plain(plot_collection: Any, text: str) -> str:
    """Return text that the backend shows as it is: matplotlib reads dollars as mathematics."""
    return text.replace("$", r"\$") if plot_collection.backend == "matplotlib" else text


def marker_size(plot_collection: Any, area: float) -> float:
    """Return the size of a marker in the backend's own unit: bokeh takes widths, others areas."""
    return float(np.sqrt(area)) if plot_collection.backend == "bokeh" else area


def visual_options(visuals: Mapping[Any, Any] | None, known: Sequence[str]) -> dict[str, Any]:
    """Return the options of every visual, None for those that are switched off."""
    given: dict[Any, Any] = dict(visuals or {})
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(
            f"`visuals` must have keys among {', '.join(map(repr, known))}, got "
            f"{', '.join(map(repr, unknown))}."
        )
    options: dict[str, Any] = {}
    for key in known:
        value = given.get(key, {})
        options[key] = None if value is False else {} if value is True else dict(value)
    return options


def collection_options(
    pc_kwargs: Mapping[str, Any], backend: str | None, size: tuple[int, int]
) -> dict[str, Any]:
    """Return arguments for a PlotCollection, with a backend and a size in dots filled in."""
    options = dict(pc_kwargs)
    if backend is not None:
        options["backend"] = backend
    figure = {"figsize": size, "figsize_units": "dots", **options.get("figure_kwargs", {})}
    return {**options, "figure_kwargs": figure}
