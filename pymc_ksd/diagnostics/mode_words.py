"""Modes in words: where they are, what they hold, and what a test of draws found."""

from __future__ import annotations

import numpy as np
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.stats.local_modes import Modes

#: Coordinates that say where a mode is, and the part of the largest distance they must have.
_NAMED, _FAR = 2, 0.5


def in_words(target: Target, modes: Modes) -> list[str]:
    """Say where each mode is, by the parameters in which it is furthest from the highest other."""
    values = target.constrained(modes.locations)
    sds = np.sqrt((modes.roots**2).sum(axis=2)) * modes.scales
    found = []
    for mode in range(modes.number):
        other = 0 if mode else modes.number - 1
        between = modes.locations[mode] - modes.locations[other]
        distances = np.abs(between) / np.minimum(sds[mode], sds[other])
        names = []
        for column in np.argsort(-distances, kind="stable")[:_NAMED]:
            if distances[column] >= _FAR * distances.max():
                variable, index = _element(target, int(column), values, mode, other)
                own = values[variable.name]
                value = _rounded(own[(mode, *index)], own[(other, *index)])
                names.append(f"{variable.element(index)} = {value:g}")
        found.append(", ".join(dict.fromkeys(names)))
    return found


def _rounded(value: float, other: float) -> float:
    """Round a number to two digits of what it differs by from another, or of its own."""
    size = abs(value - other) or abs(value)
    if not size > 0:
        return 0.0
    # Adding zero takes the sign from minus zero.
    return round(float(value), 1 - int(np.floor(np.log10(size)))) + 0.0


def _element(
    target: Target, column: int, values: dict[str, np.ndarray], mode: int, other: int
) -> tuple[Variable, tuple[int, ...]]:
    """Return the element of a variable that an unconstrained coordinate belongs to.

    Where it belongs to no single one, the element in which two modes differ most.
    """
    variable = target.variable_of(column)
    start = sum(v.unconstrained_size for v in target.variables[: target.variables.index(variable)])
    place = column - start
    if not variable.elementwise:
        own = values[variable.name]
        place = int(np.abs(own[mode] - own[other]).argmax())
    return variable, tuple(int(i) for i in np.unravel_index(place, variable.shape))


def named(result: xr.Dataset, mode: int) -> str:
    """Name a mode by its number and place."""
    return sentences.mode_name(mode, str(result["place"].values[mode]))


def about_mode(result: xr.Dataset, mode: int) -> str:
    """Say what a mode holds of the posterior and, where there are draws, of these."""
    whole = "posterior" if result.attrs.get("target") == "posterior" else "density"
    held, place = float(result["share_of_posterior"].values[mode]), result["place"].values[mode]
    has_draws = "share_of_draws" in result
    drawn = float(result["share_of_draws"].values[mode]) if has_draws else None
    return sentences.about_mode(mode, str(place), held, drawn, whole)


def worst_mode(result: xr.Dataset) -> int:
    """Return the mode that matters most: one that was missed, else the least likely."""
    p_values, shares = result["mode_p_value"].values, result["share_of_draws"].values
    rejected = p_values <= float(result.attrs["alpha"])
    missed = np.flatnonzero(rejected & (shares == 0))
    if missed.size:
        return int(missed[np.nanargmax(np.nan_to_num(result["share_of_posterior"].values[missed]))])
    # Of two modes the test is the same: the smaller one tells more.
    least = np.flatnonzero(p_values == p_values.min())
    return int(least[-1])


def conclusion_of_modes(result: xr.Dataset) -> str:
    """Say in one sentence what was found about modes and draws."""
    number, status = result.sizes["mode"], str(result.attrs["status"])
    mode = ""
    if number > 1 and status in ("unknown", "rejected"):
        mode = about_mode(result, 1 if status == "unknown" else worst_mode(result))
    p_value = float(result["p_value"]) if "p_value" in result else np.nan
    alpha, reason = float(result.attrs.get("alpha", np.nan)), str(result.attrs.get("reason", ""))
    return sentences.conclusion_of_modes(status, number, alpha, p_value, reason, mode)
