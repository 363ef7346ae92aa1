"""What all plots share: colours, the argument `visuals`, and the figure's size and backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

__all__ = [
    "ACCEPTED",
    "CHAIN",
    "NEUTRAL",
    "REJECTED",
    "as_dataset",
    "collection_options",
    "visual_options",
]

REJECTED = "#c1272d"
ACCEPTED = "#1b7837"
NEUTRAL = "#444444"
CHAIN = "#9fb6cd"


def as_dataset(result: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """Return a result as a Dataset, also when it comes back as a group of inference data."""
    return result.to_dataset() if isinstance(result, xr.DataTree) else result


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
